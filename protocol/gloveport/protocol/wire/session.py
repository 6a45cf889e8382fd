"""Messages about sessions, their streams and their views.

Purpose: start, list, show, subscribe, page, export.
Invariant: a cursor is opaque to clients; cursors move only at batch ends.
Must never: carry an event that is not in the journal.
"""

from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints

from gloveport.protocol.money import NANO_USD_MAX
from gloveport.protocol.wire.base import (
    PAGE_MAX,
    Mutation,
    Name,
    Page,
    Path,
    SessionMutation,
    SessionParams,
    WireModel,
)

WINDOW_BYTES_DEFAULT = 1 << 20
WINDOW_BYTES_MIN = 1 << 12
WINDOW_BYTES_MAX = 1 << 26
SEARCH_TEXT_LENGTH_MAX = 200
SEARCH_FOUND_MAX = 100


class SessionStartParams(Mutation):
    """Begin a session on the folder `root`."""

    root: Path
    title: str = ""
    provider: str | None = None
    model: str | None = None
    sandbox: str | None = None


class SessionInfo(WireModel):
    """One row of the list of sessions.

    `provider` and `model` name what `model_label` describes; they are empty where the session is not loaded.
    """

    session_id: str
    workspace_id: str
    root: str
    title: str
    phase: str
    model_label: str
    sandbox: str
    trust_level: str
    updated_at: int
    provider: str = ""
    model: str = ""


class SessionListParams(Page):
    """List sessions, newest first; `root` narrows to one workspace."""

    root: Path | None = None


class SessionListResult(WireModel):
    """A page of sessions; `next_offset` is null at the end."""

    sessions: tuple[SessionInfo, ...]
    next_offset: int | None


class SessionSearchParams(WireModel):
    """Sessions with every word of `text` in the title or in one message, newest first; `root`: of one workspace."""

    text: Annotated[str, StringConstraints(min_length=1, max_length=SEARCH_TEXT_LENGTH_MAX)]
    root: Path | None = None
    limit: int = Field(default=20, ge=1, le=SEARCH_FOUND_MAX)


class SearchHit(WireModel):
    """A message or answer in which the words are: its item, and one redacted line of it around them."""

    item_id: str
    at: int
    who: Literal["you", "agent"]
    words: str


class FoundSession(WireModel):
    """A session that was found; `messages` of it hold the words, `hits` are the newest of these."""

    session: SessionInfo
    title_fits: bool
    messages: int
    hits: tuple[SearchHit, ...]


class SessionSearchResult(WireModel):
    """What was found in the `looked` newest sessions; not `complete`: older or damaged ones are left."""

    found: tuple[FoundSession, ...]
    looked: int
    complete: bool


class QueuedMessage(WireModel):
    """A message that waits for the turn to end."""

    message_id: str
    text: str


class SessionDetail(WireModel):
    """Everything about one session that is not its view. `turn_tokens`: what the running turn has used, or
    the newest one while none runs; `next_tokens`: what the next request is expected to take at least, null where the
    newest one was not counted; `limit_reached`: the newest turn ended at a limit. `uncounted_tokens` (and
    `turn_uncounted_tokens`) is the part of them that no provider counted: about what requests used that broke off.

    Money is whole billionths of a US dollar, counted while a limit of it is set: `next_nano_usd` is what has to be left
    for the next request to be made, null without a limit or without a price; `unseen_nano_usd` is the part of
    `session_nano_usd` of requests that gave no count: the most they may have cost.
    """

    info: SessionInfo
    turn_id: str | None
    goal_revision: int
    queue: tuple[QueuedMessage, ...]
    pending_approvals: tuple[str, ...]
    pending_changes: tuple[str, ...]
    read_only: bool
    cursor: str
    input_tokens: int
    output_tokens: int
    mode: Literal["agent", "plan"] = "agent"
    turn_tokens: int = 0
    turn_tokens_max: int | None = None
    turn_uncounted_tokens: int = 0
    uncounted_tokens: int = 0
    session_tokens_max: int | None = None
    next_tokens: int | None = 0
    limit_reached: bool = False
    turn_nano_usd: int = 0
    turn_nano_usd_max: int | None = None
    session_nano_usd: int = 0
    session_nano_usd_max: int | None = None
    next_nano_usd: int | None = None
    unseen_nano_usd: int = 0


class SessionThawParams(SessionMutation):
    """Let a frozen session work again. `typed`: the last six characters of its id, as the user typed them."""

    typed: Name


class SessionRenameParams(SessionMutation):
    """Give the session another title."""

    title: Name


class MoneyLimits(WireModel):
    """The most that a turn and the session may cost, in billionths of a US dollar; null = no limit."""

    turn_nano_usd: int | None = Field(default=None, ge=1, le=NANO_USD_MAX)
    session_nano_usd: int | None = Field(default=None, ge=1, le=NANO_USD_MAX)


class SessionBudgetParams(SessionMutation):
    """Set the most tokens of a turn and of the session, both at once; null = no limit. With `money` both limits of
    money are set at once, too, by the prices of today; without it they stay as they are."""

    turn_tokens: int | None = Field(default=None, ge=1)
    session_tokens: int | None = Field(default=None, ge=1)
    money: MoneyLimits | None = None


class SessionModeParams(SessionMutation):
    """Let the session work (`agent`), or look and say what it would do (`plan`), from the next call on."""

    mode: Literal["agent", "plan"]


class ViewItem(WireModel):
    """An item of the view as the reducer holds it."""

    id: str
    kind: str
    fields: dict[str, Any]


class SessionDeleteParams(SessionMutation):
    """Delete a session: its log, its bodies, its copy of the folder. The folder itself is not touched.

    Proposals that wait for a decision go with it; `even_undecided` says that this is known.
    """

    even_undecided: bool = False


class SessionDeleteResult(WireModel):
    """What was deleted."""

    events: int


ERASED_CHARS_MIN = 6
ERASED_CHARS_MAX = 4096


class SessionEraseParams(SessionMutation):
    """Take a text out of a session's record for good. `typed`: the last six characters of its id, as typed."""

    text: Annotated[str, StringConstraints(min_length=ERASED_CHARS_MIN, max_length=ERASED_CHARS_MAX)]
    typed: Name


class SessionEraseResult(WireModel):
    """How many events and outputs held the text and are erased; `stays` names what is not, in words."""

    events: int
    outputs: int
    stays: tuple[str, ...]


class ViewSnapshot(WireModel):
    """The newest items of the view, from the start of a page on; older ones are paged with session/item/list."""

    items: tuple[ViewItem, ...]
    items_before: int


class SubscribeParams(SessionParams):
    """Follow the session's events after a cursor; `window_bytes` bounds what is sent before an ack.

    `newest_only`: hold the newest items of the view alone; what events do to older ones is left out, until the client
    widens. After a cursor, those are the items from index `items_from` (the start of a page) on.
    """

    after: str | None = None
    newest_only: bool = False
    items_from: int = Field(default=0, ge=0)
    window_bytes: int = Field(default=WINDOW_BYTES_DEFAULT, ge=WINDOW_BYTES_MIN, le=WINDOW_BYTES_MAX)


class SubscribeResult(WireModel):
    """`replay`: events follow from the cursor on. `snapshot`: begin anew from the snapshot. `seq` is the cursor's."""

    subscription_id: str
    mode: Literal["replay", "snapshot"]
    cursor: str
    seq: int = Field(ge=0)
    snapshot: ViewSnapshot | None = None


class SubscriptionParams(WireModel):
    """A method about one subscription."""

    subscription_id: Name


class WidenParams(SubscriptionParams):
    """Hold older items too: from now on events tell of the items from index `items_from` on. Then page those items."""

    items_from: int = Field(ge=0)


class AckParams(SubscriptionParams):
    """Everything up to `seq` was taken in; the window opens again."""

    seq: int = Field(ge=0)


class ItemListParams(SessionParams):
    """Older items of the view: `limit` items before the index `before`."""

    before: int = Field(ge=0)
    limit: int = Field(default=100, ge=1, le=PAGE_MAX)


class ItemListResult(WireModel):
    """A page of items and how many lie before it."""

    items: tuple[ViewItem, ...]
    items_before: int


class WireEvent(WireModel):
    """One event for a client: where it stands, and what it does to the view."""

    stream: str
    epoch: int
    seq: int
    at: int
    type: str
    ops: tuple[dict[str, Any], ...]


class SessionEvents(WireModel):
    """A batch of events. `after` and `last` are cursors; `durable` is the last cursor a power loss keeps.

    `view_digest` is that of the items from index `items_from` on. `resync`: the last of what was sent is no longer in
    the log (a damaged end was set aside); the subscription is over, subscribe without a cursor to begin anew.
    `ended`: the session itself is gone, with the reason in words; the subscription is over, and nothing can be asked
    about the session any more.
    """

    subscription_id: str
    after: str
    last: str
    durable: str | None
    events: tuple[WireEvent, ...]
    caught_up: bool | None = None
    view_digest: str | None = None
    items_from: int | None = None
    resync: bool | None = None
    ended: str | None = None


class SessionExportParams(SessionParams):
    """Events as stored, redacted unless asked otherwise, `limit` from `after_seq` on."""

    after_seq: int = Field(default=0, ge=0)
    limit: int = Field(default=PAGE_MAX, ge=1, le=PAGE_MAX)
    redacted: bool = True


class SessionExportResult(WireModel):
    """One JSON object per event; `next_seq` is null at the end."""

    events: tuple[dict[str, Any], ...]
    next_seq: int | None
