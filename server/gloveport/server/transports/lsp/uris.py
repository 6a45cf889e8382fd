"""One normal form of the many spellings of a document's address.

Purpose: tell whether two URIs mean one document, and which path a `file` URI means.
Invariant: percent-encoding, the case of scheme, host and drive letter make no difference; Unicode forms do, as on disk.
Must never: touch the disk, resolve links, or be sent to a client (it is answered in its own spelling).
"""

import os
import re
from typing import Final
from urllib.parse import quote_from_bytes, unquote_to_bytes

_FORM: Final = re.compile(
    r"(?P<scheme>[A-Za-z][A-Za-z0-9+.\-]*):(?://(?P<host>[^/?#]*))?(?P<path>[^?#]*)(?P<rest>.*)", re.S
)
_DRIVE: Final = re.compile(rb"/([A-Za-z]):(?=/|$)")
_PATH_SAFE: Final = "/:!$&'()*+,;=@~-._"


def normal_uri(uri: str) -> str:
    """The form under which a document is known inside; text that is no URI stands for itself."""
    found = _FORM.fullmatch(uri)
    if found is None:
        return uri
    scheme = found["scheme"].lower()
    host = unquote_to_bytes(found["host"] or "").lower()
    if scheme == "file" and host == b"localhost":
        host = b""
    path = _DRIVE.sub(lambda drive: b"/" + drive[1].lower() + b":", unquote_to_bytes(found["path"]), count=1)
    authority = "" if found["host"] is None and scheme != "file" else "//" + quote_from_bytes(host, safe="+:@.-_~")
    return f"{scheme}:{authority}{quote_from_bytes(path, safe=_PATH_SAFE)}{found['rest']}"


def uri_path(uri: str) -> str | None:
    """The path a `file` URI means (`c:/x` for a drive, `//host/share/x` for a share); None for other schemes."""
    found = _FORM.fullmatch(normal_uri(uri))
    if found is None or found["scheme"] != "file":
        return None
    path = os.fsdecode(unquote_to_bytes(found["path"]))
    if found["host"]:
        return f"//{os.fsdecode(unquote_to_bytes(found['host']))}{path}"
    return path[1:] if _DRIVE.match(os.fsencode(path)) else path


def file_uri(path: str) -> str:
    """The URI of an absolute path, in normal form."""
    raw = os.fsencode(path)
    if raw.startswith(b"//"):
        return normal_uri("file:" + quote_from_bytes(raw, safe=_PATH_SAFE))
    return normal_uri("file://" + quote_from_bytes(raw if raw.startswith(b"/") else b"/" + raw, safe=_PATH_SAFE))
