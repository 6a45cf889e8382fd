"""What is taken of a folder's devcontainer.json: the image, and nothing else.

Purpose: read the one field that a sandbox may use, and name everything that is left aside.
Invariant: the file is untrusted: it chooses nothing by itself; its image is a question to the user, with registry and
digest as far as it names them.
Must never: run, mount, install, forward or set anything that the file asks for, or take a value from its environment.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from gloveport.protocol.errors import ErrorCode
from gloveport.sandbox.contract import SandboxError

FILE_BYTES_MAX: Final = 256 * 1024
DEFAULT_REGISTRY: Final = "docker.io"
DEFAULT_TAG: Final = "latest"
NAMES_SHOWN_MAX: Final = 64
_HINT: Final = "Mend the file, or name an image in your settings ([engine] image)."
_TOKENS = re.compile(r'"(?:[^"\\]|\\.)*"|//[^\n]*|/\*.*?\*/', re.DOTALL)
_TRAILING = re.compile(r'("(?:[^"\\]|\\.)*")|,(?=\s*[}\]])', re.DOTALL)
_REFERENCE = re.compile(
    r"(?:(?P<registry>(?:localhost|[a-z0-9-]+(?:\.[a-z0-9-]+)+|[a-z0-9-]+(?=:\d))(?::\d{1,5})?)/)?"
    r"(?P<path>[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*(?:/[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*)*)"
    r"(?::(?P<tag>[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}))?(?:@(?P<digest>sha256:[0-9a-f]{64}))?"
)


@dataclass(frozen=True, slots=True)
class ImageAsked:
    """An image that a folder asks for. `digest` is empty where the name may mean another image tomorrow."""

    registry: str
    path: str
    tag: str
    digest: str

    @property
    def reference(self) -> str:
        """The whole name, nothing left to a default."""
        return f"{self.registry}/{self.path}" + (f"@{self.digest}" if self.digest else f":{self.tag}")

    @property
    def question(self) -> str:
        """What the user is asked."""
        words = f"The folder asks for the image {self.path} of the registry {self.registry}"
        if self.digest:
            return f"{words}, by its digest {self.digest}. Use it?"
        return f"{words}, as {self.tag!r} and without a digest: what that name means can change. Use it?"


@dataclass(frozen=True, slots=True)
class DevContainer:
    """The image asked for, None without one, and the names of everything that is ignored, sorted."""

    image: ImageAsked | None
    ignored: tuple[str, ...]

    @property
    def words(self) -> str:
        """What is said of the file."""
        lines = [self.image.question if self.image is not None else "The folder's devcontainer.json names no image."]
        if self.ignored:
            shown = ", ".join(self.ignored[:NAMES_SHOWN_MAX])
            more = len(self.ignored) - NAMES_SHOWN_MAX
            lines.append(f"Ignored: {shown}" + (f" and {more} more." if more > 0 else "."))
        return "\n".join(lines)


def read_devcontainer(raw: bytes) -> DevContainer:
    """Read the file's bytes (JSON with comments). Raises `SandboxError` (SANDBOX_REFUSED) for what cannot be read."""
    if len(raw) > FILE_BYTES_MAX:
        raise _wrong(f"it is larger than {FILE_BYTES_MAX} bytes")
    try:
        body = json.loads(_strip(raw.decode("utf-8")))
    except (UnicodeDecodeError, ValueError, RecursionError) as error:
        raise _wrong("it is not JSON") from error
    if not isinstance(body, dict):
        raise _wrong("it holds no object")
    return DevContainer(_image(body), tuple(sorted(_show(name) for name in body if name != "image")))


def _image(body: Mapping[str, object]) -> ImageAsked | None:
    value = body.get("image")
    if value is None:
        return None
    found = _REFERENCE.fullmatch(value) if isinstance(value, str) and len(value) <= 512 else None
    if found is None:
        raise _wrong("its image is no name of an image")
    registry, path = found["registry"] or DEFAULT_REGISTRY, found["path"]
    if registry == DEFAULT_REGISTRY and "/" not in path:
        path = f"library/{path}"
    return ImageAsked(registry, path, found["tag"] or DEFAULT_TAG, found["digest"] or "")


def _strip(text: str) -> str:
    """Comments and trailing commas away, texts as they are."""
    plain = _TOKENS.sub(lambda found: found[0] if found[0].startswith('"') else " ", text)
    return _TRAILING.sub(lambda found: found[1] or "", plain)


def _show(name: str) -> str:
    """A name for a person: what is not printable is shown as an escape."""
    return name[:80].encode("unicode_escape").decode("ascii") if not name.isprintable() else name[:80]


def _wrong(words: str) -> SandboxError:
    return SandboxError(ErrorCode.SANDBOX_REFUSED, f"devcontainer.json is not used: {words}.", hint=_HINT)
