"""Active probes of a rung's claims on the user's own machine.

Purpose: show what holds here and what does not, with evidence and a fix for each.
Invariant: the code that looks from inside is our own; what it reports is judged outside, against canaries there.
Must never: take anything from an image or a workspace, or leave something behind.
"""
