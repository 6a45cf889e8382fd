"""The supervisor: runs beside the jail and outlives the daemon.

Purpose: start one command under its limits, keep its output and its end in the run folder.
Invariant: standard library and the jail dialect only; one single-threaded process per run.
Must never: trust a word from inside the jail, or leave a process of the run alive.
"""
