"""Programs that run inside a hand's jail; nothing here is imported by the daemon.

Purpose: one module for each kind of work, started by `frame` with one request.
Invariant: the standard library and the hand's own library are all that is imported.
Must never: be imported by the daemon.
"""
