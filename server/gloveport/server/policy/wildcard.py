"""Wildcards over names and paths.

Purpose: `*` and `?` within one component, `**` over whole components.
Invariant: time is bounded by the product of both lengths, whatever the pattern.
Must never: hand a pattern to a backtracking regular expression.
"""

from collections.abc import Sequence


def name_matches(pattern: str, name: str) -> bool:
    """True if the whole `name` matches; `*` is any run of characters, `?` one character."""
    if "?" not in pattern:
        return _stars_match(pattern.split("*"), name)
    at, seen, star, mark = 0, 0, -1, 0
    while seen < len(name):
        if at < len(pattern) and pattern[at] == "*":
            star, mark, at = at, seen, at + 1
        elif at < len(pattern) and pattern[at] in ("?", name[seen]):
            at, seen = at + 1, seen + 1
        elif star >= 0:
            mark += 1
            at, seen = star + 1, mark
        else:
            return False
    return all(rest == "*" for rest in pattern[at:])


def _stars_match(pieces: list[str], name: str) -> bool:
    """True if the pieces lie in the name in this order, the first at its start and the last at its end."""
    if len(pieces) == 1:
        return name == pieces[0]
    first, *middle, last = pieces
    if len(name) < len(first) + len(last) or not (name.startswith(first) and name.endswith(last)):
        return False
    at, end = len(first), len(name) - len(last)
    for piece in middle:
        found = name.find(piece, at, end)
        if found < 0:
            return False
        at = found + len(piece)
    return True


def path_matches(pattern: Sequence[str], parts: Sequence[str]) -> bool:
    """True if the components match the pattern's; a component `**` stands for any number of components."""
    reachable = {0}
    for piece in pattern:
        if piece == "**":
            reachable = set(range(min(reachable), len(parts) + 1)) if reachable else set()
        else:
            reachable = {at + 1 for at in reachable if at < len(parts) and name_matches(piece, parts[at])}
    return len(parts) in reachable
