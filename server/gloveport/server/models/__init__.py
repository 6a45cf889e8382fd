"""Model providers: each adapter speaks to one provider and yields parts of the contract.

Purpose: turn one request into a stream of parts, whoever answers.
Invariant: an adapter sends exactly the request it was given, once, to the address it was given.
Must never: know history, policy or another provider; retry; read the environment.
"""
