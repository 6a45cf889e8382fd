"""A folder's devcontainer.json as a question: the image alone, asked with registry and digest, of trusted folders."""

import json
import os
from collections.abc import Iterator

import pytest
from tests.kit.room import Home, Kit, new_home, new_id

from gloveport.protocol.errors import ErrorCode
from gloveport.protocol.journal.events import SandboxChosen
from gloveport.protocol.wire.base import SessionParams
from gloveport.protocol.wire.place import DevContainerResult, SandboxChooseParams, SandboxInfo
from gloveport.server.workspace.asked import DEVCONTAINER_PATHS

DIGEST = "sha256:" + "ab" * 32
IMAGE = f"registry.example.org/team/app@{DIGEST}"
PINNED = "sha256:" + "cd" * 32


@pytest.fixture
def home() -> Iterator[Home]:
    """An empty home."""
    with new_home() as made:
        yield made


def ask(home: Home, image: str = IMAGE, path: str = DEVCONTAINER_PATHS[0], **more: object) -> None:
    """The folder's file."""
    (home.root / path).parent.mkdir(exist_ok=True)
    (home.root / path).write_text("// made for the team\n" + json.dumps({"image": image, **more}))


async def look(kit: Kit, session: str) -> DevContainerResult:
    """What the user is told."""
    told = await kit.call("sandbox/devcontainer", SessionParams(session_id=session))
    assert isinstance(told, DevContainerResult)
    return told


def choice(session: str, image: str) -> SandboxChooseParams:
    """The user's answer."""
    return SandboxChooseParams(client_request_id=new_id("r"), session_id=session, sandbox="memory", image=image)


@pytest.mark.parametrize("path", DEVCONTAINER_PATHS)
async def test_the_image_is_a_question_and_all_else_is_named_as_ignored(home: Home, path: str) -> None:
    ask(home, path=path, mounts=["/:/host"], postCreateCommand="sh x", privileged=True)
    home.ladder.images[IMAGE] = PINNED
    async with home.room() as kit:
        told = await look(kit, await kit.begin())
    assert told.path == path
    assert told.image is not None
    assert (told.image.registry, told.image.name, told.image.digest) == ("registry.example.org", "team/app", DIGEST)
    assert told.image.sandboxes == ("memory",)
    assert told.ignored == ("mounts", "postCreateCommand", "privileged")
    assert all(word in told.words for word in ("registry.example.org", DIGEST, "postCreateCommand"))
    assert told.in_use == ""


@pytest.mark.parametrize("level", ["untrusted", None])
async def test_the_file_of_an_untrusted_folder_is_not_read(home: Home, level: None) -> None:
    ask(home)
    home.ladder.images[IMAGE] = PINNED
    async with home.room() as kit:
        session = await kit.begin(level)
        told = await look(kit, session)
        assert (told.path, told.image) == ("", None)
        assert "not read" in told.words
        assert (await kit.refused("sandbox/choose", choice(session, IMAGE))).code is ErrorCode.SANDBOX_REFUSED


async def test_the_answer_is_pinned_by_the_images_bytes_and_recorded(home: Home) -> None:
    ask(home)
    home.ladder.images[IMAGE] = PINNED
    async with home.room() as kit:
        session = await kit.begin()
        given = await kit.call("sandbox/choose", choice(session, IMAGE))
        assert isinstance(given, SandboxInfo)
        assert kit.actor(session).state.image == PINNED
        assert (await look(kit, session)).in_use == PINNED
        (told,) = [event for event in await kit.events(session) if event["type"] == "SandboxChosen"]
        assert told["payload"]["image"] == PINNED
        assert IMAGE in told["payload"]["statement"]
        await kit.call("sandbox/choose", choice(session, ""))
        assert kit.actor(session).state.image == ""
    assert SandboxChosen.version == 2


@pytest.mark.parametrize("now", ["registry.example.org/team/app:latest", "registry.example.org/other", None])
async def test_an_answer_to_another_question_is_refused(home: Home, now: str | None) -> None:
    """The file was changed between the question and the answer, or the answer was never asked for."""
    ask(home)
    home.ladder.images[IMAGE] = PINNED
    async with home.room() as kit:
        session = await kit.begin()
        if now is None:
            (home.root / DEVCONTAINER_PATHS[0]).unlink()
        else:
            ask(home, now)
        refused = await kit.refused("sandbox/choose", choice(session, IMAGE))
        assert refused.code is ErrorCode.SANDBOX_REFUSED
        assert kit.actor(session).state.image == ""


async def test_an_image_that_is_not_here_is_not_fetched(home: Home) -> None:
    ask(home)
    async with home.room() as kit:
        session = await kit.begin()
        told = await look(kit, session)
        assert told.image is not None
        assert told.image.sandboxes == ()
        refused = await kit.refused("sandbox/choose", choice(session, IMAGE))
    assert refused.code is ErrorCode.SANDBOX_UNAVAILABLE
    assert IMAGE in refused.hint


async def test_an_image_ends_with_the_trust_it_was_chosen_under(home: Home) -> None:
    ask(home)
    home.ladder.images[IMAGE] = PINNED
    async with home.room() as kit:
        session = await kit.begin()
        await kit.call("sandbox/choose", choice(session, IMAGE))
        await kit.trust("untrusted")
        assert kit.actor(session).state.image == ""


@pytest.mark.parametrize("kind", ["link", "folder link", "pipe", "large", "not JSON"])
async def test_what_is_no_plain_file_is_not_read(home: Home, kind: str) -> None:
    """Read by the daemon from a folder that holds what anybody put there."""
    path = home.root / DEVCONTAINER_PATHS[0]
    secret = home.root.parent / "elsewhere"
    secret.mkdir()
    (secret / path.name).write_text(json.dumps({"image": "secret/image"}))
    if kind == "folder link":
        path.parent.symlink_to(secret)
    else:
        path.parent.mkdir()
        match kind:
            case "link":
                path.symlink_to(secret / path.name)
            case "pipe":
                os.mkfifo(path)
            case "large":
                path.write_bytes(b" " * (256 * 1024 + 1))
            case _:
                path.write_text("{")
    async with home.room() as kit:
        session = await kit.begin()
        told = await look(kit, session)
        assert (told.path, told.image) == ("", None)
        assert told.words
        assert "secret" not in told.words
        assert (await kit.refused("sandbox/choose", choice(session, "secret/image"))).code
