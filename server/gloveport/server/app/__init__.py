"""The composition root: everything is wired here and nowhere else.

Purpose: open the rooms in order, hand each what it may touch, and start the daemon.
Invariant: no other room imports this one.
Must never: hold logic.
"""
