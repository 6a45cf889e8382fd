"""The machine: what happens next.

Purpose: decide events and effects from a state and one input, without touching the world.
Invariant: `step` is a pure function; the whole agent loop can be run without IO.
Must never: perform an effect, read a clock or await.
"""
