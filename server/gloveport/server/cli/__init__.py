"""The command line: one file per group of commands.

Purpose: a client like any other, for a terminal.
Invariant: everything goes over the wire; whatever is printed is made safe for a terminal first.
Must never: import a room of the daemon, except to start it or to read a log that no daemon owns.
"""
