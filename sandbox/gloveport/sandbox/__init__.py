"""Where the agent's programs run: a contract, its backends, and the runner beside or inside the jail.

Purpose: run a program under limits and return evidence of its outcome.
Invariant: a backend claims only what the contract's suite has shown; what does not hold is declared.
Must never: decide permission.
"""
