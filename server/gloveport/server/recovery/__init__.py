"""Recovery: what a restart finds, and what it does about it.

Purpose: look at executions whose end was not recorded, and bring findings back as inputs.
Invariant: nothing is run again that cannot be proven not to have happened.
Must never: guess; `unknown` is an answer.
"""
