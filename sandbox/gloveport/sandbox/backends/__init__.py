"""The rungs: `memory` (a real fake), `process`, `bubblewrap`.

Purpose: each turns a profile into a lease or refuses it with the reason.
Invariant: one contract suite runs against every backend and tests each claim it makes.
Must never: decide permission, or be chosen silently in place of another.
"""
