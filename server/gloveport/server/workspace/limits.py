"""Named limits of the workspace room.

Purpose: one place that says how much is read, listed, searched and kept.
Invariant: a limit that was reached is told to the caller by name; nothing is cut in silence.
Must never: depend on the workspace's own content.
"""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class WorkspaceLimits:
    """How large a workspace may be.

    Above `files_max` or `total_bytes_max` the snapshot is refused (`limit.reached`); a single file above
    `file_bytes_max`, and folders deeper than `depth_max`, are left out and told in `not_covered`. Of more than
    `proposals_max` differences the rest is named and not proposed. `content_folders` have a name of installed
    dependencies and are content all the same, since they are in the history.
    """

    files_max: int = 200_000
    total_bytes_max: int = 2 << 30
    file_bytes_max: int = 32 << 20
    depth_max: int = 100
    not_covered_max: int = 1_000
    proposals_max: int = 10_000
    content_folders: frozenset[str] = frozenset()


DEFAULT_LIMITS: Final = WorkspaceLimits()
LIST_MAX: Final = 10_000
SEARCH_MATCHES_MAX: Final = 1_000
SEARCH_LINE_BYTES_MAX: Final = 400
SEARCH_FILE_BYTES_MAX: Final = 4 << 20
SEARCH_TOTAL_BYTES_MAX: Final = 512 << 20
SEARCH_PATTERN_CHARS_MAX: Final = 1_000
PREVIEW_BYTES_MAX: Final = 1 << 20
"""Above this size a side of a preview is not given as text; the unified diff still is."""
