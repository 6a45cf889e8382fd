"""Which deletion and which creation are one rename.

Purpose: pair paths that are gone with paths that are new: as told, else by names that some file system takes for one,
else by equal content, else by like lines.
Invariant: each path is in at most one pair; the same trees give the same pairs; the work is bounded.
Must never: pair empty files by their content, a path with one below it, or two files of different kinds.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple

from gloveport.protocol.ids import Sha256
from gloveport.server.edit.lines import Encoding, sniff_form, split_lines
from gloveport.server.edit.names import fold_path

LIKENESS_MIN: Final = 0.5
"""Share of the larger file's bytes that lie in lines which both have."""
LIKENESS_PAIRS_MAX: Final = 1_024
"""With more pairs to look at, only equal content makes a rename."""
LIKENESS_BYTES_MAX: Final = 1 << 18
"""Files larger than this are renamed by equal content alone."""
_EMPTY: Final = Sha256("e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855")


class Mark(NamedTuple):
    """What is compared of a path: file or link, and the hash of its content."""

    kind: str
    digest: Sha256


Marks = Mapping[str, Mark]
Like = Callable[[Sha256, Sha256], float]


def find_renames(base: Marks, result: Marks, explicit: Mapping[str, str], like: Like) -> dict[str, str]:
    """Old names by new ones. `explicit` holds what a tool said it moved; `like` is `likeness`, of two hashes."""
    gone = {path: mark for path, mark in base.items() if path not in result}
    made = {path: mark for path, mark in result.items() if path not in base}
    pairs: dict[str, str] = {}
    if not gone or not made:
        return pairs

    def take(new: str, old: str) -> None:
        if new in made and old in gone and made[new].kind == gone[old].kind and _apart(new, old):
            pairs[new] = old
            del made[new], gone[old]

    for new in sorted(explicit):
        take(new, explicit[new])
    for new, old in _one_name(gone, made):
        take(new, old)
    for _, new, old in sorted(_equal(gone, made)):
        take(new, old)
    for _, _, new, old in sorted(_alike(gone, made, like)):
        take(new, old)
    return pairs


def likeness(old: bytes, new: bytes) -> float:
    """Share of the larger text's bytes that lie in lines which both have; 0 where one is no text, or too large."""
    small, large = sorted((len(old), len(new)))
    # No more bytes can lie in common lines than the smaller text has.
    if large > LIKENESS_BYTES_MAX or small < large * LIKENESS_MIN:
        return 0.0
    if Encoding.BINARY in (sniff_form(old).encoding, sniff_form(new).encoding):
        return 0.0
    common = Counter(split_lines(old)) & Counter(split_lines(new))
    return sum(len(line) * count for line, count in common.items()) / max(large, 1)


def _apart(one: str, two: str) -> bool:
    """False when one path lies below the other: such a pair cannot be decided on as one."""
    return not (one.startswith(f"{two}/") or two.startswith(f"{one}/"))


def _distance(new: str, old: str) -> tuple[int, int]:
    """How unlike two paths are: another last part first, then the number of parts from the end that are the same."""
    one, two = new.split("/")[::-1], old.split("/")[::-1]
    same = next((at for at, (first, second) in enumerate(zip(one, two, strict=False)) if first != second), len(one))
    return (int(same == 0), -same)


def _one_name(gone: Marks, made: Marks) -> list[tuple[str, str]]:
    by_fold = {fold_path(old): old for old in sorted(gone)}
    return [(new, by_fold[fold]) for new in sorted(made) if (fold := fold_path(new)) in by_fold]


def _equal(gone: Marks, made: Marks) -> Iterable[tuple[tuple[int, int], str, str]]:
    by_mark: dict[Mark, list[str]] = {}
    for path, mark in gone.items():
        by_mark.setdefault(mark, []).append(path)
    for new, mark in made.items():
        if mark.digest != _EMPTY:
            yield from ((_distance(new, old), new, old) for old in by_mark.get(mark, ())[:LIKENESS_PAIRS_MAX])


def _alike(gone: Marks, made: Marks, like: Like) -> Iterable[tuple[float, tuple[int, int], str, str]]:
    olds, news = ([path for path, mark in side.items() if mark.kind == "file"] for side in (gone, made))
    if len(olds) * len(news) > LIKENESS_PAIRS_MAX:
        return
    for new in news:
        for old in olds:
            share = like(gone[old].digest, made[new].digest)
            if share >= LIKENESS_MIN:
                yield -share, _distance(new, old), new, old
