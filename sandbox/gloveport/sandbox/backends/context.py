"""The part of a security context that every rung shares.

Purpose: name the limits in force and what holds each, for the audit.
Invariant: JSON-ready; says "kernel" only where a kernel counter holds the limit for the whole tree.
Must never: hold a value of the environment, which may be secret.
"""

from collections.abc import Mapping

from gloveport.sandbox.profile import Limits, Profile


def describe_limits(profile: Profile, groups: int | None) -> Mapping[str, object]:
    """`label`, `tool_kind`, `limits` by name and `held_by`."""
    limits = profile.limits
    holder = "supervisor" if groups is None else f"kernel (control groups {groups})"
    return {
        "label": profile.label,
        "tool_kind": profile.tool_kind,
        "working_dir": profile.working_dir,
        "egress": list(profile.egress),
        "limits": {name: getattr(limits, name) for name in Limits.__slots__},
        "held_by": {"memory": holder, "processes": holder, "wall": "supervisor", "output": "supervisor"},
    }
