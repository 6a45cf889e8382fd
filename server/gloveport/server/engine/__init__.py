"""The engine: performs what the machine decides.

Purpose: one actor per session takes inputs, appends what the machine decided, and performs effects after that.
Invariant: intent is on disk before its effect begins; an outcome comes back as an input and nothing else.
Must never: hold a business rule; those live in the kernel rooms.
"""
