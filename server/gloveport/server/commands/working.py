"""The handlers of whoever works in a session: its turns, questions, changes, snapshots and rules.

Purpose: what `port` loads when the first such request comes.
Invariant: each method that `port` names as one of work has its handler here, and no other has.
Must never: be loaded by a daemon at rest.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from gloveport.server.commands import (
    approval,
    change,
    data,
    devcontainer,
    documents,
    hunks,
    policy,
    restoring,
    tool,
    turn,
    undoing,
)
from gloveport.server.commands.handler import Change, Read

READS: Final[Mapping[str, Read]] = MappingProxyType(
    {
        "approval/list": approval.listed,
        "grant/list": approval.grants,
        "change/list": change.listed,
        "change/hunks": hunks.hunks,
        "change/preview": change.preview,
        "change/document": documents.document,
        "snapshot/list": restoring.listed,
        "snapshot/preview": restoring.preview,
        "tool/why": tool.why,
        "sandbox/devcontainer": devcontainer.show,
        "policy/show": policy.show,
        "policy/explain": policy.explained,
    }
)
CHANGES: Final[Mapping[str, Change]] = MappingProxyType(
    {
        "session/delete": data.delete,
        "session/erase": data.erase,
        "session/rules": policy.give_session,
        "turn/start": turn.start,
        "turn/queue": turn.queue,
        "turn/steer": turn.steer,
        "turn/interrupt": turn.interrupt,
        "turn/edit": turn.edit,
        "turn/unqueue": turn.unqueue,
        "turn/cancel": turn.cancel,
        "approval/resolve": approval.resolve,
        "grant/revoke": approval.revoke,
        "tool/settle": tool.settle,
        "change/accept": change.accept,
        "change/reject": change.reject,
        "change/undo": undoing.undo,
        "change/redo": undoing.redo,
        "snapshot/restore": restoring.restore,
    }
)
