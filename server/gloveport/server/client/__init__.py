"""The Python client library.

Purpose: find, start and talk to the daemon from another process: `paths`, `launch`, `stdio`, `connect`, `follow`.
Invariant: imports the protocol only; `paths`, `private`, `launch` and `stdio` need nothing but the standard library.
Must never: import a room of the daemon, or send a key before the socket's owner is known.
"""
