"""The user's settings: what is taken, what is refused and how it is said."""

import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from tests.kit.require import require

from gloveport.protocol.errors import ErrorCode, GloveportError
from gloveport.sandbox.backends.docker_choice import EngineChoice
from gloveport.server.app.live_settings import check_rungs
from gloveport.server.app.resources import ModelShelf
from gloveport.server.settings import SETTINGS_BYTES_MAX, ModelPrice, load_settings

MODEL = '[[models]]\nprovider = "openai"\nmodel = "m"\n'


def write(home: Path, text: str | bytes) -> Path:
    """The settings file of a home."""
    (home / "config.toml").write_bytes(text if isinstance(text, bytes) else text.encode())
    return home


def test_without_a_file_there_is_the_script_and_nothing_is_trusted(tmp_path: Path) -> None:
    """The defaults."""
    settings = load_settings(tmp_path, {})
    assert [choice.name for choice in settings.models] == ["scripted/demo"]
    assert settings.default_trust == "unset"
    assert set(settings.sandbox.values()) == {"bubblewrap"}


def test_keys_come_from_the_environment_and_are_not_shown(tmp_path: Path) -> None:
    """A provider's own variable, or one of ours; the key is in no text of the settings."""
    own = load_settings(tmp_path, {"OPENAI_API_KEY": "sk-first", "ANTHROPIC_API_KEY": ""})
    assert [choice.name for choice in own.models] == ["openai/gpt-5", "scripted/demo"]
    named = write(tmp_path, MODEL + 'key_env = "GLOVEPORT_MINE"\nbase_url = "http://127.0.0.1:1/v1"\n')
    settings = load_settings(named, {"GLOVEPORT_MINE": "sk-second", "OPENAI_API_KEY": "sk-first"})
    assert [choice.name for choice in settings.models] == ["openai/m", "scripted/demo"]
    key = settings.models[0].key
    assert key is not None
    assert key.reveal() == "sk-second"
    assert [[one.key_env for one in found.models] for found in (own, settings)] == [
        ["OPENAI_API_KEY", ""],
        ["GLOVEPORT_MINE", ""],
    ]
    assert "sk-" not in repr(settings) + str(settings)


def test_the_default_model_comes_first(tmp_path: Path) -> None:
    """Found by either name alone; a model that is not there is told with those that are."""
    both = MODEL + '[[models]]\nprovider = "anthropic"\nmodel = "n"\n'
    settings = load_settings(write(tmp_path, f'default_model = "anthropic/n"\n{both}'), {})
    assert settings.find(None, None).name == "anthropic/n"
    assert settings.find("openai", None).name == settings.find(None, "m").name == "openai/m"
    with pytest.raises(GloveportError) as caught:
        settings.find("openai", "n")
    assert caught.value.code is ErrorCode.MODEL_UNKNOWN
    assert "openai/m" in caught.value.message


def test_a_model_has_the_price_that_the_user_writes(tmp_path: Path) -> None:
    """Exactly as written, whole or with a point; without a price of its own the list's counts."""
    prices = "input_usd = 0.1\noutput_usd = 2\ncached_usd = 0.000000001\n"
    first, second, _ = load_settings(write(tmp_path, MODEL + prices + MODEL.replace('"m"', '"n"')), {}).models
    assert first.price == ModelPrice(100_000_000, 2_000_000_000, 1)
    assert second.price is None


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("input_usd = 1", "needs input_usd and output_usd"),
        ("input_usd = 1\noutput_usd = -1", "US dollars for a million tokens"),
        ("input_usd = 1\noutput_usd = true", "US dollars for a million tokens"),
        ('input_usd = "1"\noutput_usd = 1', "US dollars for a million tokens"),
        ("input_usd = 1\noutput_usd = nan", "US dollars for a million tokens"),
        ("input_usd = 1\noutput_usd = inf", "US dollars for a million tokens"),
    ],
)
def test_a_price_that_is_none_is_told(tmp_path: Path, line: str, told: str) -> None:
    """A part of one, a text, less than nothing."""
    with pytest.raises(GloveportError, match=told):
        load_settings(write(tmp_path, MODEL + line), {})


def test_the_container_engine_is_the_users_choice(tmp_path: Path) -> None:
    assert load_settings(tmp_path, {}).engine == EngineChoice(warm=2)
    chosen = write(tmp_path, '[engine]\nhost = "unix:///e.sock"\nimage = "mine"\nwarm = 0\n')
    assert load_settings(chosen, {}).engine == EngineChoice("unix:///e.sock", "mine", warm=0)
    for wrong in ("warm = -1", "warm = 1.5", "warm = true", "image = 3", 'socket = "x"'):
        with pytest.raises(GloveportError) as caught:
            load_settings(write(tmp_path, f"[engine]\n{wrong}\n"), {})
        assert "engine" in caught.value.message


def test_files_of_a_remote_machine_may_be_named_from_the_home_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "me"))
    chosen = write(tmp_path, '[remote-tls]\nhost = "build.example"\nca = "~/tls/ca.pem"\nkey = "~/tls/key.pem"\n')
    remote = load_settings(chosen, {}).remotes["remote-tls"]
    assert (remote.ca, remote.key) == (f"{tmp_path}/me/tls/ca.pem", f"{tmp_path}/me/tls/key.pem")


def test_how_long_and_how_much_is_kept(tmp_path: Path) -> None:
    """Without a word of the user's everything is, and told beyond a size; limits are taken as they are said."""
    kept = load_settings(tmp_path, {}).retention
    assert (kept.days, kept.bytes_max, kept.told_bytes) == (None, None, 5_000_000_000)
    text = "[retention]\ndays = 30\ngigabytes = 1.5\ntell_gigabytes = 1\n"
    kept = load_settings(write(tmp_path, text), {}).retention
    assert (kept.days, kept.bytes_max, kept.told_bytes) == (30, 1_500_000_000, 1_000_000_000)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("retention = 3\n", "retention"),
        ("[retention]\ndays = 0\n", "above zero"),
        ("[retention]\ndays = true\n", "above zero"),
        ('[retention]\ngigabytes = "1"\n', "above zero"),
        ("[retention]\nhours = 1\n", "retention.hours"),
        ("colour = 1\n", "colour"),
        ("models = 1\n", "models"),
        ("models = [1]\n", "models"),
        ('[[models]]\nprovider = "openai"\n', "model"),
        (MODEL + "extra = 1\n", "extra"),
        (MODEL + "base_url = 1\n", "text"),
        ('default_trust = "full"\n', "default_trust"),
        ('default_model = "a/b"\n', "a/b"),
        ("sandbox = 1\n", "sandbox"),
        ("[sandbox]\ntrusted = 1\n", "sandbox"),
        ('[sandbox]\neverything = "process"\n', "everything"),
        ('[sandbox]\nrestricted = "process"\n', "it can be gvisor, bubblewrap, docker, remote-ssh, remote-tls"),
        ('[sandbox]\nuntrusted = "bubblewrap"\n', "it can be gvisor, remote-ssh, remote-tls"),
        ("a = \n", "config.toml"),
        (b"\xff\xfe", "config.toml"),
        (b"#" * (SETTINGS_BYTES_MAX + 1), "larger"),
        (MODEL * 65, "64"),
    ],
)
def test_wrong_settings_say_where_and_what(tmp_path: Path, text: str | bytes, words: str) -> None:
    """One typed error with the file's name; nothing is guessed."""
    with pytest.raises(GloveportError) as caught:
        load_settings(write(tmp_path, text), {})
    assert caught.value.code is ErrorCode.INVALID_PARAMS
    assert words in caught.value.message
    assert str(tmp_path / "config.toml") in caught.value.message
    assert caught.value.hint


def test_a_sandbox_that_there_is_not_is_told_at_the_start(tmp_path: Path) -> None:
    """And not when a session is opened."""
    check_rungs(load_settings(tmp_path, {}))
    settings = load_settings(write(tmp_path, '[sandbox]\ntrusted = "castle"\n'), {})
    with pytest.raises(GloveportError) as caught:
        check_rungs(settings)
    assert "castle" in caught.value.message
    assert "bubblewrap" in caught.value.message


def test_a_settings_file_that_cannot_be_read(tmp_path: Path) -> None:
    """A folder in its place."""
    (tmp_path / "config.toml").mkdir()
    with pytest.raises(GloveportError):
        load_settings(tmp_path, {})


def test_machines_of_the_remote_sandboxes_are_read(tmp_path: Path) -> None:
    text = '[remote-ssh]\nhost = "build.example"\nuser = "me"\nport = 2222\naway_s = 30\n[remote-tls]\nca = "/ca.pem"\n'
    (tmp_path / "config.toml").write_text(text)
    remotes = load_settings(tmp_path, {}).remotes
    assert (remotes["remote-ssh"].place, remotes["remote-ssh"].port, remotes["remote-ssh"].away_s) == (
        "me@build.example", 2222, 30.0,
    )  # fmt: skip
    assert remotes["remote-tls"].ca == "/ca.pem"
    assert load_settings(tmp_path / "none", {}).remotes == {}


@pytest.mark.parametrize(
    "text", ["remote-ssh = 1", "[remote-ssh]\nca = 'x'", "[remote-tls]\nuser = 'x'", "[remote-ssh]\nport = 70000",
             "[remote-ssh]\nport = true", "[remote-ssh]\nhost = 3", "[remote-tls]\naway_s = 1"],
)  # fmt: skip
def test_a_wrong_machine_is_told(tmp_path: Path, text: str) -> None:
    (tmp_path / "config.toml").write_text(text)
    with pytest.raises(GloveportError) as caught:
        load_settings(tmp_path, {})
    assert "remote-" in caught.value.message


def test_a_script_may_be_named_from_the_home_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the files of a remote machine."""
    monkeypatch.setenv("HOME", "/home/me")
    text = '[[models]]\nprovider = "scripted"\nmodel = "mine"\nscript = "~/one.json"\n'
    assert load_settings(write(tmp_path, text), {}).models[0].script == Path("/home/me/one.json")


def test_a_model_that_cannot_run_says_what_would_mend_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its own key is not set, or the library of its provider is not there; a local one that needs no key is usable."""
    mine = '[[models]]\nprovider = "openai"\nmodel = "mine"\nbase_url = "http://127.0.0.1:9/v1"\n'
    keyed = mine.replace("mine", "keyed") + 'key_env = "MY_KEY"\n'
    keyless = '[[models]]\nprovider = "anthropic"\nmodel = "far"\n'
    settings = load_settings(write(tmp_path, mine + keyed + keyless), {})
    shelf = ModelShelf(lambda: settings, lambda: 0)
    monkeypatch.setitem(sys.modules, "openai", None)  # as where it is not installed
    assert "MY_KEY is not set. Set it, then: gloveport daemon stop" in shelf.label("openai", "keyed")
    assert "library is not installed. Install gloveport with [models]" in shelf.label("openai", "mine")
    assert "needs a key. Set a valid key" in shelf.label("anthropic", "far")
    monkeypatch.undo()
    require(find_spec("openai") is not None, "openai is not installed")
    assert "not usable" not in shelf.label("openai", "mine")
