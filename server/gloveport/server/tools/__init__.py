"""The model's hands: one file per tool.

Purpose: schema, declared effects, recovery capability and performance of each tool.
Invariant: a tool declares everything it will do from its arguments before it runs.
Must never: ask policy, write to the journal, or run a program outside a sandbox lease.
"""
