"""Commands: one handler for each wire method that is not about a connection.

Purpose: turn a client's request into inputs of the engine, and read answers from its states.
Invariant: a request with a known id is answered again, never done again.
Must never: decide what the kernel decides, or write anywhere but through the engine.
"""
