"""The dialect between a sandbox backend and the supervisor that runs beside the jail.

Purpose: shapes of the run folder's files, readable by another version of the daemon after a crash.
Invariant: standard library only, so that a supervisor starts in milliseconds; every body carries its version.
Must never: import pydantic, touch the disk, or be shared with the wire or journal dialects.
"""
