"""The wire dialect: what a client and the daemon say to each other over JSON-RPC.

Purpose: parameters, results and notifications of every method, and the one table of methods.
Invariant: camelCase outside, snake_case inside; absolute paths; times are UTC microseconds.
Must never: be stored (that is the journal's dialect) or be read by code inside a sandbox.
"""
