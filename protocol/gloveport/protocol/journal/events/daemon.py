"""Facts of the streams `daemon` and `workspace/<id>`.

Purpose: starts of the daemon; trust in a workspace.
Invariant: trust is given by the user alone and bound to the workspace's identity.
Must never: be derived from anything inside the workspace.
"""

from gloveport.protocol.journal.events.base import EventBody


class DaemonStarted(EventBody):
    """A daemon took the lease; `boot_id` tells a restart of the machine from one of the daemon."""

    pid: int
    program_version: str
    boot_id: str
    generation: int


class WorkspaceTrusted(EventBody):
    """The user chose how far this workspace's content is trusted: trusted, restricted or untrusted;
    `unset`: what was said before is forgotten."""

    workspace_id: str
    root: str
    trust_level: str
    by: str
