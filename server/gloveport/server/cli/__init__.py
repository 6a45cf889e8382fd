"""The command line: one file per command.

Purpose: turn arguments into calls of the client and results into what people read.
Invariant: what a command can do, any client can do over the wire.
Must never: reach past the client into the server's rooms.
"""
