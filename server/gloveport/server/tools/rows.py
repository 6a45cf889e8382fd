"""Tables as a model sees them.

Purpose: the rows or the text that a hand answers, as lines.
Invariant: cells keep their kinds: each row is one list of JSON; what was left out or guessed stands before them.
Must never: trust an answer's shape: whatever is wrong in it raises.
"""

import json
from collections.abc import Mapping
from typing import Any

from gloveport.server.hands.request import whole


def rows_text(told: Mapping[str, Any]) -> str:
    """Lines of an answer. Raises KeyError, TypeError, ValueError or RecursionError where it is none."""
    notes = [f"[{note}]" for note in map(str, told.get("notes", ()))]
    if "text" in told:
        total = told.get("total_rows")
        return "\n".join([*([] if total is None else [f"{whole(total)} pages"]), *notes, str(told["text"])])
    rows = [json.dumps(list(row), ensure_ascii=False) for row in told["rows"]]
    first, total = whole(told["first_row"]), told["total_rows"]
    many = "" if total is None else f" of {whole(total)}"
    words = f"rows {first} to {first + len(rows) - 1}{many}" if rows else f"no rows{many}"
    tables = [str(name) for name in told.get("tables", ())]
    sheets = [f"sheets: {', '.join(tables)}"] if len(tables) > 1 else []
    return "\n".join([f"{told['table']}: {words}", *sheets, *notes, *rows])
