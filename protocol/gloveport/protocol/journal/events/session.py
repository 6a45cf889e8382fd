"""Facts about a session and what its user said.

Purpose: creation, names, choices, messages and goals.
Invariant: `goal_revision` only grows; a message id is delivered at most once.
Must never: hold a provider key or a file's content.
"""

from typing import ClassVar

from gloveport.protocol.journal.events.base import EventBody, LabelRecord, TurnBody


class SessionCreated(EventBody):
    """A session began on a workspace; `root` is the absolute path as the user named it."""

    session_id: str
    workspace_id: str
    root: str
    title: str
    trust_level: str
    sandbox: str
    provider: str
    model: str
    model_label: str


class SessionRenamed(EventBody):
    """The user gave the session another title."""

    title: str


class SandboxChosen(EventBody):
    """The sandbox in force for this session's trust level changed; `statement` is what the user was told.

    `image` is the id of the image that its containers show; empty where they show the sandbox's own.
    """

    version: ClassVar[int] = 2

    sandbox: str
    trust_level: str
    statement: str
    image: str


class UserMessageAdded(TurnBody):
    """A typed message of the user was delivered to the turn."""

    message_id: str
    text: str
    label: LabelRecord


class UserMessageQueued(EventBody):
    """A message waits for the running turn to end; `turn_id` is the id its own turn will have."""

    message_id: str
    turn_id: str
    text: str


class UserMessageUnqueued(EventBody):
    """A waiting message left the queue without being delivered; its text goes back to the user."""

    message_id: str
    text: str
    reason: str


class GoalRevised(EventBody):
    """The goal changed; everything born under an earlier revision is late from here on."""

    goal_revision: int
    message_id: str
