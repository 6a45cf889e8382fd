"""The hands' image: made offline, holds what it needs and nothing that helps an intruder; no image is ever fetched.

Purpose: the rung with an image of one's own in place of the machine's programs.
"""

from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
import pytest_asyncio
from tests.kit.engines import hands_image
from tests.kit.sandboxes import PROJECT, Rig, open_rig

from gloveport.sandbox.contract import ResultKind, SandboxError

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.engine]
IMAGE_PYTHON = "/usr/bin/python3"
BARRED = ("bash", "curl", "wget", "gcc", "cc", "perl", "apt", "dpkg", "openssl", "su", "mount", "sudo")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def rig() -> AsyncIterator[Rig]:
    async with open_rig("docker", image=hands_image()) as rig:
        yield rig


async def run_python(rig: Rig, source: str) -> str:
    """What a program says on the image's own Python."""
    lease = await rig.lease()
    result = await (await rig.start_raw(lease, (IMAGE_PYTHON, "-I", "-c", source))).result()
    await lease.release()
    assert result.kind is ResultKind.OK, (result.evidence, result.output)
    return result.output.decode().strip()


async def test_the_image_holds_python_and_nothing_that_fetches_or_compiles(rig: Rig) -> None:
    source = f"import shutil; print([name for name in {BARRED!r} if shutil.which(name)])"
    assert await run_python(rig, source) == "[]"
    source = (
        "import os, stat; print([path for folder, _, names in os.walk('/usr') for name in names"
        " if stat.S_ISREG(m := os.lstat(path := os.path.join(folder, name)).st_mode) and m & 0o6000])"
    )
    assert await run_python(rig, source) == "[]"


async def test_it_has_authorities_and_the_project_at_its_own_path(rig: Rig) -> None:
    source = "import os, ssl; print(len(ssl.create_default_context().get_ca_certs()) > 50, os.getcwd())"
    assert await run_python(rig, source) == f"True {PROJECT}"


async def test_an_image_that_is_not_there_is_told_and_not_fetched(rig: Rig) -> None:
    assert rig.engine is not None
    rig.engine = replace(rig.engine, image="no/such-image")
    other = rig.open()
    found = await other.probe()
    assert not found.ok
    assert "none is fetched" in found.reason
    assert "scripts/image.py" in found.fix
    await other.close()


async def test_a_profile_may_name_an_image_and_only_a_rung_with_images_takes_it() -> None:
    """The engine's programs in place of the machine's, by the id of the image's bytes; another one is refused."""
    reference = hands_image()
    source = "import os; print(os.path.exists('/usr/sbin/dockerd'), os.path.exists('/usr/bin/python3'))"
    for rung in ("docker", "bubblewrap"):
        async with open_rig(rung) as rig:
            image = await rig.backend.find_image(reference)
            assert (image != "") == (rung == "docker")
            assert await rig.backend.find_image("no/such-image") == ""
            for wanted in ("no/such-image", image or "some"):
                if wanted == image:
                    lease = await rig.lease(image=image)
                    assert lease.security_context["image"] == image
                    result = await (await rig.start_raw(lease, (IMAGE_PYTHON, "-I", "-c", source))).result()
                    await lease.release()
                    assert result.output == b"False True\n"
                else:
                    with pytest.raises(SandboxError):
                        await rig.lease(image=wanted)
