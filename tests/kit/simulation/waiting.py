"""What must hold of the user's messages in every log, checked without the fold.

Purpose: the part of the monitor that follows each message from where it waits to its one end.
Invariant: each message id is waiting, delivered or returned, never two of them and never none.
"""

from dataclasses import dataclass, field

from tests.kit.simulation.rules import hold

from gloveport.protocol.journal import events as ev

QUEUED_MAX = 20
STEERED_MAX = 20
REVISING = ("correct", "replace")


@dataclass
class Messages:
    """Where every message is. `interrupting` is the one that begins the next turn."""

    queue: dict[str, str] = field(default_factory=dict)
    steering: dict[str, ev.SteeringDecided] = field(default_factory=dict)
    ended: dict[str, str] = field(default_factory=dict)
    to_revise: str | None = None
    interrupting: str | None = None

    def queued(self, body: ev.UserMessageQueued, *, in_turn: bool) -> None:
        """A message waits behind the turn."""
        hold(body.message_id not in {*self.queue, *self.steering, *self.ended}, "message queued once", body.message_id)
        hold(in_turn, "queue only behind a turn", body.message_id)
        self.queue[body.message_id] = body.text
        hold(len(self.queue) <= QUEUED_MAX, "the queue is bounded", sorted(self.queue))

    def edited(self, body: ev.UserMessageEdited) -> None:
        """A waiting message has another text."""
        if body.message_id in self.queue:
            self.queue[body.message_id] = body.text
            return
        steered = self.steering.get(body.message_id)
        hold(steered is not None, "only what waits is edited", body.message_id)
        assert steered is not None
        acted_on = steered.kind in REVISING and steered.next_turn_id is None
        hold(not acted_on, "what is acted on is not edited", body.message_id)
        self.steering[body.message_id] = steered.model_copy(update={"text": body.text})

    def unqueued(self, body: ev.UserMessageUnqueued) -> None:
        """A message goes back."""
        steered = self.steering.pop(body.message_id, None)
        text = steered.text if steered is not None else self.queue.pop(body.message_id, None)
        hold(text == body.text, "returned text is the queued text", body.message_id)
        if body.message_id == self.interrupting:
            self.interrupting = None
        self.ended[body.message_id] = "returned"

    def decided(self, body: ev.SteeringDecided) -> None:
        """A message waits for the turn."""
        queued = self.queue.pop(body.message_id, None)
        hold((queued is not None) == (body.queue == "left"), "the record says where it was", body.message_id)
        hold(queued in (None, body.text), "steered text is the queued text", body.message_id)
        hold(body.message_id not in {*self.steering, *self.ended}, "message steered once", body.message_id)
        hold((body.verb == "interrupt") == (body.next_turn_id is not None), "verb and turn agree", body.message_id)
        self.steering[body.message_id] = body
        hold(len(self.steering) <= STEERED_MAX, "what waits for a turn is bounded", sorted(self.steering))
        if body.next_turn_id is not None:
            self.interrupting = body.message_id
        elif body.kind in REVISING:
            self.to_revise = body.message_id

    def revised(self, body: ev.GoalRevised) -> None:
        """The goal changes inside a turn for the message that was just decided, and for no other."""
        hold(self.to_revise == body.message_id, "a goal is revised for its message", body.message_id)
        self.to_revise = None

    def delivered(self, body: ev.UserMessageAdded) -> None:
        """A message reaches the model."""
        hold(body.message_id not in self.ended, "message delivered once", body.message_id)
        steered = self.steering.pop(body.message_id, None)
        text = steered.text if steered is not None else self.queue.pop(body.message_id, body.text)
        hold(text == body.text, "delivered text is the text that waited", body.message_id)
        if body.message_id == self.interrupting:
            self.interrupting = None
        self.ended[body.message_id] = "delivered"

    def erased(self, message_id: str) -> None:
        """All that was known of a message was erased."""
        self.queue.pop(message_id, None)
        self.steering.pop(message_id, None)
        if message_id == self.interrupting:
            self.interrupting = None
        self.ended.setdefault(message_id, "erased")

    def settled(self, where: str) -> None:
        """Nothing that was said to a turn is left behind."""
        hold(not self.steering, "what was said is in the next request", f"{where}: {sorted(self.steering)}")
        hold(self.to_revise is None, "a goal is revised for its message", self.to_revise)
