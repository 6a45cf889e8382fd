"""From settings to a provider: what is wrong is said before anything is sent, and no library is loaded early."""

import subprocess
import sys
from pathlib import Path

import pytest

from gloveport.protocol.errors import ErrorCode
from gloveport.server.models.contract import ErrorClass, ModelError
from gloveport.server.models.registry import PROVIDER_NAMES, ModelSettings, provider_from_settings
from gloveport.server.secrets.value import Secret

ROOT = Path(__file__).resolve().parents[2]
PATHS = [str(ROOT / name) for name in ("protocol", "sandbox", "server")]
KEY = Secret("sk-test-0123456789")


def now_us() -> int:
    """A clock that stands."""
    return 0


@pytest.mark.parametrize(
    ("settings", "code", "words"),
    [
        (ModelSettings("nobody", "m"), ErrorCode.MODEL_UNKNOWN, "there are: scripted, openai, anthropic"),
        (ModelSettings("openai"), ErrorCode.MODEL_UNKNOWN, "name a model"),
        (ModelSettings("openai", "m"), ErrorCode.MODEL_AUTH, "needs a key"),
        (ModelSettings("anthropic", "m"), ErrorCode.MODEL_AUTH, "needs a key"),
        (ModelSettings("scripted"), ErrorCode.MODEL_UNKNOWN, "name the script"),
        (ModelSettings("scripted", script_path=Path("/nowhere/x.json")), ErrorCode.MODEL_UNKNOWN, "cannot be read"),
        *[
            (ModelSettings("openai", "m", base_url=url, api_key=KEY), ErrorCode.MODEL_UNKNOWN, "base URL")
            for url in (
                "ftp://host.example/v1",
                "host.example/v1",
                "http://",
                "http://user:pw@host.example/v1",
                "http://host.example/v1?key=x",
                "http://host.example:99999/v1",
                "http://[::1/v1",
                "file:///etc/passwd",
            )
        ],
    ],
)
def test_wrong_settings_are_told(settings: ModelSettings, code: ErrorCode, words: str) -> None:
    with pytest.raises(ModelError) as caught:
        provider_from_settings(settings, now_us)
    assert caught.value.code is code
    assert words in caught.value.message
    assert caught.value.error_class in (ErrorClass.CONFIG, ErrorClass.AUTH)


def test_a_server_of_ones_own_needs_no_key() -> None:
    provider = provider_from_settings(ModelSettings("openai", "m", base_url="http://127.0.0.1:9/v1"), now_us)
    assert "127.0.0.1:9" in provider.label


def test_every_name_has_a_provider(tmp_path: Path) -> None:
    (tmp_path / "s.json").write_text('{"name": "s", "steps": []}')
    for name in PROVIDER_NAMES:
        settings = ModelSettings(name, "m", api_key=KEY, script_path=tmp_path / "s.json")
        assert provider_from_settings(settings, now_us).name == name


def run(program: str) -> subprocess.CompletedProcess[str]:
    """A program in an interpreter of its own."""
    head = f"import sys; sys.path[:0] = {PATHS!r}\n"
    return subprocess.run(
        [sys.executable, "-c", head + program], capture_output=True, text=True, timeout=60, check=False
    )


def test_no_library_is_loaded_before_the_first_request() -> None:
    done = run(
        "from gloveport.server.models.registry import *\n"
        "from gloveport.server.secrets.value import Secret\n"
        "for name in ('openai', 'anthropic'):\n"
        "    provider_from_settings(ModelSettings(name, 'm', api_key=Secret('k' * 20)), lambda: 0)\n"
        "print(sorted({'openai', 'anthropic', 'httpx2', 'httpx'} & set(sys.modules)))\n"
    )
    assert done.stdout == "[]\n", done.stderr


@pytest.mark.parametrize("name", ["openai", "anthropic"])
def test_a_missing_library_is_told_with_what_to_do(name: str) -> None:
    done = run(
        "import asyncio\n"
        f"sys.modules[{name!r}] = None\n"
        "from gloveport.server.models.registry import *\n"
        "from gloveport.server.models.contract import *\n"
        f"provider = provider_from_settings(ModelSettings({name!r}, 'm', base_url='http://127.0.0.1:9'), lambda: 0)\n"
        "async def main():\n"
        "    try:\n"
        "        async with provider.stream(ModelRequest('m', (UserText('x'),))) as parts:\n"
        "            async for part in parts: pass\n"
        "    except ModelError as err:\n"
        "        print(err.error_class, err.message, err.hint)\n"
        "asyncio.run(main())\n"
    )
    assert done.stdout.startswith("config "), done.stderr
    assert name in done.stdout
    assert "Install gloveport with [models]" in done.stdout
