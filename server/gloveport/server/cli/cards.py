"""Approval cards in a terminal.

Purpose: show a card whole, ask, and send the answer with the digest of what was shown.
Invariant: no answer is sent that a person (or the command's own option) did not give.
Must never: shorten a command.
"""

import shlex
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, Literal

import typer

from gloveport.protocol.errors import ErrorCode, GloveportError
from gloveport.protocol.text import counted
from gloveport.protocol.wire.base import SessionParams
from gloveport.protocol.wire.turn import ApprovalInfo, ApprovalResolveParams
from gloveport.server.cli.feed import Feed
from gloveport.server.cli.link import request_id
from gloveport.server.cli.prompt import read_line
from gloveport.server.client.connect import Client

Approve = Literal["ask", "never", "once", "turn", "session", "workspace"]
APPROVE: Final[tuple[Approve, ...]] = ("ask", "never", "once", "turn", "session", "workspace")
Choice = int | Literal["no", "unanswered", "all", "none"]
_SCOPES: Final = ("once", "turn", "session", "workspace")
_STYLES: Final = MappingProxyType({"+": "green", "-": "red"})
SENT: Final = " (sending "
"""Behind this the words of an effect say in one line what leaves; it is shown whole by itself."""
ELSEWHERE: Final = "  answered elsewhere"


def checked_approve(given: str, option: str = "--approve") -> Approve:
    """The manner named by this option of the command. Raises typer.BadParameter."""
    found: Approve | None = next((one for one in APPROVE if one == given), None)
    if found is None:
        raise typer.BadParameter(f"{given!r} is not one of {', '.join(APPROVE)}", param_hint=option)
    return found


def gone_words(state: str) -> str:
    """Why a question that was open needs no answer any more."""
    return {"expired": "  nobody answered in time", "withdrawn": "  not needed any more"}.get(state, ELSEWHERE)


def show_card(feed: Feed, card: Mapping[str, Any]) -> None:
    """Print everything a person must see."""
    _head(feed, card)
    for line in card.get("diff", ()):
        feed.verbatim(f"  {line}", _STYLES.get(line[:1], "dim"))
    sends = card["sends"]
    for effect in card["effects"]:
        notes = "".join(f" ({note})" for note in effect["notes"])
        if notes or not _is_the_command(effect, card):
            words = effect["words"] if sends is None else effect["words"].partition(SENT)[0]
            feed.line(f"  · {words}{notes}")
    if sends is not None:
        _show_sent(feed, sends)
    for one in card["unknown_effects"]:
        feed.line(f"  · something nobody knows: {one}")
    if card["sandbox"] is not None:
        place = card["sandbox"]
        weak = f" ({place['needed_words']} is asked for)" if place["strength"] < place["strength_needed"] else ""
        feed.line(f"  in {place['name']}{weak}")
    released = () if card["release"] is None else (card["release"]["words"],)
    for note in (*released, *card["notes"]):
        feed.line(f"  ! {note}", "yellow")
    feed.line(f"  risk {card['risk']}: {card['reason']}")
    sentences = [card["options"][option]["sentence"] for option in short_options(card)]
    common = common_end(sentences)
    for number, sentence in enumerate(sentences, start=1):
        feed.line(f"  [{number}] allow: {sentence.removesuffix(common)}", indent="      ")
    feed.line("  [n] no")
    if common:
        feed.line(f"  each of them{common.removeprefix(',')}", "dim")


def show_compact(feed: Feed, card: Mapping[str, Any]) -> None:
    """What is asked, in few lines, where the command itself was told the answer beforehand."""
    _head(feed, card)
    where = "" if card["sandbox"] is None else f" in {card['sandbox']['name']}"
    feed.line(f"  risk {card['risk']}{where}: {card['reason']}")


def _show_sent(feed: Feed, sends: Mapping[str, Any]) -> None:
    """What leaves, whole: each line behind a mark, so that none of it can be taken for a line of the card."""
    for line in sends["head"]:
        feed.verbatim(f"    > {line}")
    for line in sends["lines"] if sends["bytes"] else ():
        feed.verbatim(f"    | {''.join(run['text'] for run in line)}")
    if sends["hidden_characters"]:
        feed.line(f"  {counted(sends['hidden_characters'], 'hidden character')} shown escaped", "red")
    if sends["scan"] is not None:
        feed.line("  secrets: none found; a scan can miss one", "dim")


def _head(feed: Feed, card: Mapping[str, Any]) -> None:
    feed.line(f"? {card['title']}", "bold yellow")
    if card["summary"] and not _repeats(card):
        feed.line(f"  {card['summary']}")
    if card["command"] is not None:
        feed.verbatim(f"  $ {card['command']['text']}", "bold")
        if card["command"]["hidden_characters"]:
            feed.line(f"  {card['command']['hidden_characters']} hidden characters are shown escaped", "red")


def _repeats(card: Mapping[str, Any]) -> bool:
    """Whether the summary says nothing but the command that follows it."""
    command = card["command"]
    return command is not None and card["summary"] in (f"Run {how(command['words'])}" for how in (shlex.join, " ".join))


def _is_the_command(effect: Mapping[str, Any], card: Mapping[str, Any]) -> bool:
    command = card["command"]
    return (
        effect["kind"] == "execute"
        and command is not None
        and effect["target"] in (command["text"], " ".join(command["words"]))
    )


def common_end(sentences: Sequence[str]) -> str:
    """The clauses, each with its comma, that all of several sentences end with."""
    if len(sentences) < 2:
        return ""
    clauses = [sentence.split(", ") for sentence in sentences]
    same = 0
    while all(len(each) > same + 1 for each in clauses) and len({each[-same - 1] for each in clauses}) == 1:
        same += 1
    return "".join(f", {clause}" for clause in clauses[0][len(clauses[0]) - same :])


def short_options(card: Mapping[str, Any]) -> tuple[int, ...]:
    """The first option of each scope: what a terminal offers. Clients with more room show all."""
    scopes = [option["scope"] for option in card["options"]]
    return tuple(scopes.index(scope) for scope in dict.fromkeys(scopes))


def option_of(card: Mapping[str, Any], scope: str) -> int | None:
    """The first option of a scope, or of the next narrower one where the card does not offer it; never a wider one."""
    scopes = [option["scope"] for option in card["options"]]
    allowed = _SCOPES[: _SCOPES.index(scope) + 1]
    return next((scopes.index(one) for one in reversed(allowed) if one in scopes), None)


def offered_option(card: Mapping[str, Any], scope: str) -> int:
    """The first option of exactly this scope. Raises GloveportError, with what is offered, where there is none."""
    scopes = [option["scope"] for option in card["options"]]
    if scope not in scopes:
        offered = ", ".join(dict.fromkeys(scopes))
        words = f"this card offers no answer for {scope!r}; nothing was answered"
        raise GloveportError(ErrorCode.TOO_WIDE, words, hint=f"It offers: {offered}. Say --how with one of these.")
    return scopes.index(scope)


async def answer(
    client: Client, session_id: str, shown: ApprovalInfo, option: int | None, *, unasked: bool = False
) -> bool:
    """Send an answer: the option's index, or None for no. False when the card was answered elsewhere meanwhile.

    `unasked`: it was given beforehand, by an option of the command.
    """
    params = ApprovalResolveParams(
        client_request_id=request_id(),
        session_id=session_id,
        approval_id=shown.approval_id,
        card_digest=shown.card_digest,
        decision="deny" if option is None else "allow",
        option=option or 0,
        unasked=unasked,
    )
    try:
        await client.call("approval/resolve", params)
    except GloveportError as error:
        if error.code not in (ErrorCode.APPROVAL_UNKNOWN, ErrorCode.SUPERSEDED):
            raise
        return False
    return True


async def waiting(client: Client, session_id: str) -> tuple[ApprovalInfo, ...]:
    """The cards that wait."""
    return (await client.call("approval/list", SessionParams(session_id=session_id))).approvals


async def choose(feed: Feed, card: Mapping[str, Any], for_all: bool = False) -> Choice:
    """Take the answer to a card that was shown from the terminal: an option's index, no, or none at all.

    `for_all`: one word may also answer all cards that stand together with it.
    """
    options = short_options(card)
    row = card.get("together")
    asked = "  answer: " if row is None else f"  answer to {row['at']} of {row['of']}: "
    while True:
        feed.ask(asked)
        typed: str | None = None
        try:
            typed = await read_line()
        finally:
            feed.asked(typed=typed is not None)
        if typed is None:
            return "unanswered"
        word = typed.lower()
        if word in ("n", "no"):
            return "no"
        if for_all and word in ("all", "none"):
            return "all" if word == "all" else "none"
        if word in ("y", "yes"):
            word = "1"
        if word.isdecimal() and 1 <= int(word) <= len(options):
            return options[int(word) - 1]
        feed.line(f"  type {'1' if len(options) == 1 else f'a number from 1 to {len(options)}'}, or n")
