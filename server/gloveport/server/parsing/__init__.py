"""Outside parsers, each turned into data of ours.

Purpose: the doors of parsers whose trees others judge.
Invariant: a parser decides nothing; what it can't read is handed over as broken.
Must never: run, evaluate or expand what it reads.
"""
