"""sandbox/devcontainer, and the image of sandbox/choose: what a folder's devcontainer.json asks for.

Purpose: the question to the user (registry, name, digest, what is ignored), and the check of the answer.
Invariant: an image is used only where the user named exactly what the file asks for now; it is pinned by the id of its
bytes, and none is fetched.
Must never: read the file of a folder that nobody trusts, or take anything but the image from it.
"""

from pathlib import Path

import anyio.to_thread

from gloveport.protocol.errors import ErrorCode, GloveportError
from gloveport.protocol.wire.base import SessionParams
from gloveport.protocol.wire.place import DevContainerResult, ImageInfo
from gloveport.sandbox.backends.devcontainer import FILE_BYTES_MAX, DevContainer, read_devcontainer
from gloveport.server.commands.house import House
from gloveport.server.commands.session import RUNNING_LEVELS
from gloveport.server.session.state import SessionState
from gloveport.server.transports.port import Caller
from gloveport.server.workspace.asked import read_devcontainer_file

_UNTRUSTED = "The folder's devcontainer.json is not read: nobody said that the folder is trusted."
_NONE = "The folder has no devcontainer.json."
_MAY_CHANGE = "the folder asks for another image now, or for none"


async def show(house: House, params: SessionParams, caller: Caller) -> DevContainerResult:
    """What the session's folder asks for, as a question; nothing is changed by asking."""
    state = (await house.sessions.open(params.session_id)).state
    if state.trust_level not in RUNNING_LEVELS:
        return _nothing(_UNTRUSTED, state)
    try:
        found = await _read(state)
    except GloveportError as error:
        return _nothing(error.message, state)
    if found is None:
        return _nothing(_NONE, state)
    path, asked = found
    image = None
    if asked.image is not None:
        reference = asked.image.reference
        image = ImageInfo(
            registry=asked.image.registry,
            name=asked.image.path,
            tag=asked.image.tag,
            digest=asked.image.digest,
            reference=reference,
            question=asked.image.question,
            sandboxes=tuple([name for name in house.rungs.names if await house.rungs.find_image(name, reference)]),
        )
    return DevContainerResult(path=path, image=image, ignored=asked.ignored, words=asked.words, in_use=state.image)


def _nothing(words: str, state: SessionState) -> DevContainerResult:
    return DevContainerResult(path="", image=None, ignored=(), words=words, in_use=state.image)


async def pin_image(house: House, state: SessionState, sandbox: str, reference: str) -> str:
    """The id of the image that the user agreed to. Raises GloveportError where the file asks for another one now."""
    if state.trust_level not in RUNNING_LEVELS:
        raise GloveportError(ErrorCode.SANDBOX_REFUSED, _UNTRUSTED, hint="Trust the folder first.")
    found = await _read(state)
    asked = None if found is None else found[1].image
    if asked is None or asked.reference != reference:
        raise GloveportError(ErrorCode.SANDBOX_REFUSED, _MAY_CHANGE, hint="Look at sandbox/devcontainer again.")
    image = await house.rungs.find_image(sandbox, reference)
    if not image:
        words = f"{sandbox} has no image {reference}, and none is fetched"
        raise GloveportError(ErrorCode.SANDBOX_UNAVAILABLE, words, hint=f"Pull it yourself: docker pull {reference}")
    return image


async def _read(state: SessionState) -> tuple[str, DevContainer] | None:
    found = await anyio.to_thread.run_sync(read_devcontainer_file, Path(state.root), FILE_BYTES_MAX)
    return None if found is None else (found[0], read_devcontainer(found[1]))
