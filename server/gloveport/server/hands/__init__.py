"""Hands: small programs of ours that each do one thing in a jail of their own.

Purpose: the table of hands, what each needs of this machine, and the programs that run inside.
Invariant: a hand sees its input, its own program and its libraries; what it says is one object of JSON.
Must never: parse, draw, compute or speak to the network in the daemon.
"""
