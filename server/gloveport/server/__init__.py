"""The daemon: rooms of the house, composed in `app`.

Purpose: hold the rooms; the floors between them are enforced by import contracts.
Invariant: the kernel rooms (`session`, `turn`, `policy`, `edit`) know no clock, disk, network or randomness.
Must never: do work on import.
"""
