"""The file reader for PDF.

Purpose: the text of a document's pages; nothing in it is drawn, run or followed.
Invariant: pages are read one by one, and how many there are is told.
Must never: be imported by the daemon.
"""

import io
from typing import Any

import pypdf

from gloveport.server.hands.inside.frame import Answer, InputFault, serve
from gloveport.server.hands.inside.tables import TEXT_CHARACTERS_MAX, text_answer


def read(asked: dict[str, Any], data: bytes) -> Answer:
    """The text of the asked pages (`first_row` and `rows` count pages)."""
    document = pypdf.PdfReader(io.BytesIO(data), strict=False)
    if document.is_encrypted and not document.decrypt(""):
        raise InputFault("it is encrypted and asks for a password")
    total, first = len(document.pages), int(asked["first_row"])
    parts: list[str] = []
    size = 0
    for number in range(first, min(total, first + int(asked["rows"]) - 1) + 1):
        text = document.pages[number - 1].extract_text()
        parts.append(f"[page {number} of {total}]\n{text}")
        size += len(text)
        if size > TEXT_CHARACTERS_MAX:
            break
    notes = (
        [] if any(part.rpartition("]\n")[2].strip() for part in parts) else ["its pages hold no text, only pictures"]
    )
    return {**text_answer("\n\n".join(parts), notes), "total_rows": total}


def main() -> None:
    """Read the pages."""
    serve(read)
