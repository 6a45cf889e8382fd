"""A session as a fold over its events.

Purpose: frozen state, the fold, and the views projected from the same events.
Invariant: the state after a log is a function of the log alone.
Must never: do IO, know time or randomness, or await.
"""
