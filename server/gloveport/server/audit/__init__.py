"""The audit room: who did what, when, decided how and under which limits, one JSON line per action.

Purpose: evidence for people and for `gloveport audit verify`, in a chain of its own.
Invariant: a line that was answered is on disk, and the checkpoint covers it.
Must never: be read for a decision, or be reachable from a sandbox.
"""
