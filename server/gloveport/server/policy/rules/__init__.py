"""Rules as data: their shape, how they are read from text, and the set in force.

Purpose: a rule can be read, listed and explained without reading code.
Invariant: a rule whose own examples do not hold is never in force.
Must never: open a file; the shell hands in the text and names where it came from.
"""
