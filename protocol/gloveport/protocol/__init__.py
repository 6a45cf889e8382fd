"""Shapes whose reader we do not control: another process, another time, another trust level.

Purpose: three dialects, `wire` (client and daemon), `journal` (what is stored), `jail` (daemon and sandbox runner).
Invariant: no class serves two dialects; each has its own version.
Must never: do IO, know a clock, or import a room of the house.
"""
