"""What is watched while a hand works, and what each finding leads to, as tables.

Purpose: thresholds per hand and levels of failure, in one place that reads like data.
Invariant: a hand without a row of its own has its tool kind's.
Must never: act; supervisors and the engine do, by these tables.
"""
