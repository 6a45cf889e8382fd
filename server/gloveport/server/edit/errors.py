"""Failures of the edit room.

Purpose: one class for every refusal to change bytes, with the code of the error table and its data.
Invariant: an `EditError` is raised before any new bytes are handed out; the caller still holds the old ones.
Must never: carry file content other than the short candidate snippets meant for display.
"""

from gloveport.protocol.errors import GloveportError


class EditError(GloveportError):
    """An edit that cannot be made exactly; `data` may hold `path` and `candidates` (line and text each)."""

    @property
    def advice(self) -> str:
        """What happened, what to do next, and the places that may have been meant."""
        candidates = self.data.get("candidates")
        if not isinstance(candidates, list) or not candidates:
            return super().advice
        places = "".join(f"\n  line {each['line']}: {each['text']}" for each in candidates)
        return f"{super().advice} Places that may be meant:{places}"
