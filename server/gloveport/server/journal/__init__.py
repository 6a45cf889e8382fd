"""The journal room: the append-only log, its index, the blob store and the lease of the data directory.

Purpose: the only source of truth, and the only door to SQLite.
Invariant: one writer connection, which also checkpoints; nothing is acknowledged before its own commit.
Must never: interpret an event.
"""
