"""LSP framing and JSON-RPC for every client: editors, the command line, tests.

Purpose: one connection's life from its first byte to its last.
Invariant: pygls and lsprotocol are imported here only, and only once a client speaks of text documents.
Must never: reach into the engine except through `SessionPort`.
"""
