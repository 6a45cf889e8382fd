"""The journal dialect: what is stored and read again by later versions.

Purpose: the envelope, the event bodies and the permanent upcasters.
Invariant: what one version wrote, every later version reads; writing forbids unknown fields, reading tolerates them.
Must never: serve the wire or the jail; carry a default taken from a clock or from randomness.
"""
