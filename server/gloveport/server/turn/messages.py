"""What the user types: begin, queue, steer, interrupt, edit, take back, stop.

Purpose: the transitions of messages. Three verbs while a turn runs: *queue* waits for the turn's end; *steer* reaches
    the turn itself; *interrupt* stops the turn and begins the next one.
Invariant: what a message does to the work under way is decided once, written down in words, and done in that step.
Must never: drop a message, or start anything for a goal that was changed.

What a steered message does, by its kind:

| kind | answer under way | not begun, cards | running calls | goal | plan | delivered |
|---|---|---|---|---|---|---|
| supplement | goes on | stay | go on | kept | kept | when the calls of the answer have ended |
| ask | goes on | stay | go on | kept | kept | likewise; words from the state answer at once |
| correct | cancelled, text kept | withdrawn | end by stop class | revised | kept | as soon as they end |
| replace | cancelled, text kept | withdrawn | end by stop class | revised | superseded | likewise |
"""

from typing import Final, Literal

from gloveport.protocol.errors import ErrorCode
from gloveport.protocol.journal import events as ev
from gloveport.protocol.journal.events.steering import SteeringKind
from gloveport.protocol.text import counted
from gloveport.server.session.state import CallStage, SessionState, Steered, Turn
from gloveport.server.turn import calls, flow
from gloveport.server.turn import inputs as inp
from gloveport.server.turn.bounds import budget_refusal
from gloveport.server.turn.delivery import return_steering
from gloveport.server.turn.draft import Draft, TurnError
from gloveport.server.turn.effects import StopModel
from gloveport.server.turn.standing import standing_words
from gloveport.server.turn.steering import read_message
from gloveport.server.turn.stopping import manner_of, stop_running, stop_words

QUEUE_MESSAGES_MAX: Final = 20
STEERED_MESSAGES_MAX: Final = 20
OPEN_STEPS: Final = ("pending", "running")
REVISED_TEXT: Final = "Not run: the user changed the task before it began."
_BUSY_HINT: Final = "Queue the message, steer the turn with it, or stop the turn."
_EDITED_TOO_LATE: Final = (
    "Only a message that still waits can be edited or taken back. What was done for a delivered one stays, and no file "
    "is changed by an edit. Send what you mean as a new message; to take an accepted change back, undo it."
)


def send(draft: Draft, message: inp.SendMessage) -> None:
    """Begin a turn, or let the message wait for the end of the one that runs."""
    if draft.state.turn is None:
        if refusal := budget_refusal(draft.state):
            raise TurnError(*refusal)
        flow.begin_turn(draft, message.message_id, message.turn_id, message.text)
        return
    if not message.queue:
        raise TurnError(ErrorCode.TURN_BUSY, "a turn is running in this session", hint=_BUSY_HINT)
    if len(draft.state.queue) >= QUEUE_MESSAGES_MAX:
        raise TurnError(ErrorCode.TURN_BUSY, f"the queue holds {QUEUE_MESSAGES_MAX} messages already")
    draft.emit(ev.UserMessageQueued(message_id=message.message_id, turn_id=message.turn_id, text=message.text))


def _waiting_text(draft: Draft, message_id: str) -> str:
    """The text of a message that can still be edited or taken back. Raises TurnError."""
    for queued in draft.state.queue:
        if queued.message_id == message_id:
            return queued.text
    for waiting in draft.state.steering:
        if waiting.message_id == message_id and (not waiting.is_acted_on or waiting.next_turn_id is not None):
            return waiting.text
    raise TurnError(ErrorCode.TURN_MISMATCH, "this message does not wait any more", hint=_EDITED_TOO_LATE)


def unqueue(draft: Draft, message: inp.UnqueueMessage) -> None:
    """Take a waiting message back."""
    text = _waiting_text(draft, message.message_id)
    draft.emit(ev.UserMessageUnqueued(message_id=message.message_id, text=text, reason="taken back"))


def edit(draft: Draft, message: inp.EditMessage) -> None:
    """Give a waiting message another text; a delivered one is history and is not edited."""
    if _waiting_text(draft, message.message_id) != message.text:
        draft.emit(ev.UserMessageEdited(message_id=message.message_id, text=message.text))


def cancel(draft: Draft, given: inp.CancelTurn) -> None:
    """Stop the running turn: nothing starts from here on, and nothing follows it."""
    turn = draft.state.turn
    if turn is None or (given.turn_id is not None and given.turn_id != turn.turn_id):
        raise TurnError(ErrorCode.TURN_MISMATCH, "the turn to be stopped is not running")
    if turn.cancelled_by is None:
        calls.stop_turn(draft, given.by)
    else:
        return_steering(draft, flow.STOPPED_REASON)


def _expected_turn(draft: Draft, expected: str) -> Turn:
    turn = draft.state.turn
    if turn is None or turn.turn_id != expected:
        raise TurnError(ErrorCode.TURN_MISMATCH, "the turn this was meant for is not running any more")
    if turn.cancelled_by is not None:
        raise TurnError(ErrorCode.TURN_MISMATCH, "the turn this was meant for is being stopped")
    return turn


def _text_of(draft: Draft, message_id: str, text: str | None) -> str:
    """The text that was sent along, or that of the queued message which is meant. Raises TurnError."""
    if len(draft.state.steering) >= STEERED_MESSAGES_MAX:
        words = f"{STEERED_MESSAGES_MAX} messages wait for the turn already"
        raise TurnError(ErrorCode.TURN_BUSY, words, hint="Wait until they are delivered, or take one back.")
    if text is not None:
        return text
    found = next((queued.text for queued in draft.state.queue if queued.message_id == message_id), None)
    if found is None:
        raise TurnError(ErrorCode.TURN_MISMATCH, "this message does not wait in the queue")
    return found


def steer(draft: Draft, given: inp.SteerMessage) -> None:
    """Say something to the running turn."""
    turn = _expected_turn(draft, given.expected_turn_id)
    text = _text_of(draft, given.message_id, given.text)
    reading = read_message(text)
    kind = given.kind or reading.kind
    rule = "" if given.kind is not None else reading.rule
    draft.emit(_decision(draft, Steered(given.message_id, text, kind), rule, given.by))
    if kind == "correct" or kind == "replace":
        _revise(draft, given.message_id, kind, turn)


def _revise(draft: Draft, message_id: str, kind: SteeringKind, before: Turn) -> None:
    draft.emit(ev.GoalRevised(goal_revision=draft.state.goal_revision + 1, message_id=message_id))
    if kind == "replace":
        _supersede_plan(draft)
    if before.request is not None:
        draft.need(StopModel(before.request.request_id))
    calls.withdraw_unstarted(draft, REVISED_TEXT, decision="superseded", by="steering")
    stop_running(draft)
    if draft.turn.request is None and not draft.turn.is_held:
        flow.advance(draft)


def interrupt(draft: Draft, given: inp.InterruptMessage) -> None:
    """Stop the running turn and begin the next one with this message; the queue stays behind it."""
    _expected_turn(draft, given.expected_turn_id)
    text = _text_of(draft, given.message_id, given.text)
    steered = Steered(given.message_id, text, "replace", given.turn_id)
    draft.emit(_decision(draft, steered, "", given.by))
    _supersede_plan(draft)
    calls.stop_turn(draft, given.by)


def _supersede_plan(draft: Draft) -> None:
    turn, items = draft.turn, draft.state.plan
    if _has_open_steps(draft.state):
        marked = (i.model_copy(update={"state": "superseded"}) if i.state in OPEN_STEPS else i for i in items)
        draft.emit(ev.PlanUpdated(turn_id=turn.turn_id, goal_revision=turn.goal_revision, items=tuple(marked)))


def _has_open_steps(state: SessionState) -> bool:
    return any(item.state in OPEN_STEPS for item in state.plan)


def _decision(draft: Draft, steered: Steered, rule: str, by: str) -> ev.SteeringDecided:
    turn, state = draft.turn, draft.state
    cancels = steered.is_acted_on
    under_way: Literal["kept", "cancelled"] = "cancelled" if cancels else "kept"
    marked: Literal["kept", "superseded"] = "superseded" if steered.kind == "replace" else "kept"
    return ev.SteeringDecided(
        turn_id=turn.turn_id,
        goal_revision=turn.goal_revision,
        message_id=steered.message_id,
        verb="steer" if steered.next_turn_id is None else "interrupt",
        kind=steered.kind,
        chosen_by="rule" if rule else "user",
        rule=rule,
        text=steered.text,
        stream="none" if turn.request is None else under_way,
        calls=_fates(turn, cancels=cancels),
        plan=marked if _has_open_steps(state) else "none",
        queue="left" if any(queued.message_id == steered.message_id for queued in state.queue) else "kept",
        delivery="boundary" if steered.next_turn_id is None else "next turn",
        next_turn_id=steered.next_turn_id,
        words=_words(draft, steered),
        by=by,
    )


def _fates(turn: Turn, *, cancels: bool) -> tuple[ev.CallFate, ...]:
    fates = []
    for call in turn.calls:
        if call.stage is CallStage.FINISHED:
            continue
        early = manner_of(call) if call.stage is CallStage.RUNNING else "withdrawn"
        fates.append(ev.CallFate(call_id=call.call_id, fate=early if cancels else "goes on"))
    return tuple(fates)


def _words(draft: Draft, steered: Steered) -> str:
    """What happens now, for the user."""
    turn = draft.turn
    if steered.kind == "ask":
        return f"{standing_words(draft.state)} The model is asked when what is under way has ended; nothing is stopped."
    if steered.kind == "supplement":
        return "It arrives when what is under way has ended; nothing is stopped."
    words = ["The answer is stopped; its text is kept."] if turn.request is not None else []
    words += (
        ["The model is asked when its pause is over."] if turn.retry is not None and not steered.next_turn_id else []
    )
    unbegun = [call for call in turn.calls if call.stage in (CallStage.PROPOSED, CallStage.WAITING)]
    words += [f"Withdrawn before it began: {counted(len(unbegun), 'call')}."] if unbegun else []
    words += [f"{stop_words(call)}." for call in turn.calls if call.stage is CallStage.RUNNING]
    then = "The turn goes on with your message." if steered.next_turn_id is None else "A new turn begins with it."
    return " ".join([*words, then])
