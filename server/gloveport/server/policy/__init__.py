"""What may be done, and who has to be asked.

Purpose: pure decisions over declared effects: rules, risk, labels, grants, cards.
Invariant: the strictest rule wins, and what is unknown is asked or denied.
Must never: touch a disk, a clock, a random source or an event loop; take a rule from the workspace.
"""
