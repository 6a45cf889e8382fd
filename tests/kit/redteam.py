"""Attacks on the real daemon: a model that is the attacker's, its listener, and people who answer cards.

Purpose: play one attack, session by session, with real tools and the real sandbox, and say what arrived outside.
Invariant: the model's calls are the attacker's choice; the only help the user gives is what their rules and answers
give; what arrives is read from a real socket.
Must never: reach into the daemon, or answer for anybody by anything but the card's own words.
"""

import base64
import json
import re
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

from anyio.abc import SocketStream
from tests.kit.daemon import (
    TURN_ENDS,
    Daemon,
    accept_all,
    request_id,
    running_daemon,
    send,
    start_session,
    trust,
)
from tests.kit.egress import Server, serving
from tests.kit.require import require_bubblewrap
from tests.kit.undefended import OFF

from gloveport.protocol.wire.base import SessionParams
from gloveport.protocol.wire.turn import ApprovalResolveParams
from gloveport.server.client.connect import Client

SECRET = "plover-quartz-91-violet"
UNDEFENDED = (str(Path(__file__).with_name("undefended.py")),)
Card = Mapping[str, Any]
Answer = Callable[[Card], bool]
Calls = Sequence[Mapping[str, Any]]
OUTGOING = ("network", "publish", "message")


def says_yes(_card: Card) -> bool:
    """Somebody who allows everything."""
    return True


def careless(card: Card) -> bool:
    """Somebody who allows everything that is not marked irreversible or sensitive."""
    marked = any(one["name"] in ("reversibility", "sensitivity") and one["level"] == "high" for one in card["factors"])
    return card["reversible"] and not marked and not any(one["kind"] == "secret_read" for one in card["effects"])


def trusts_the_place(card: Card) -> bool:
    """Somebody who sends anything to their own server unless the card says that confidential data was read."""
    leaves = any(one["kind"] in OUTGOING for one in card["effects"])
    return not (leaves and card["provenance"]["confidential"])


def reads_provenance(card: Card) -> bool:
    """Somebody who allows what leaves only where no stranger's text may have chosen it."""
    leaves = any(one["kind"] in OUTGOING for one in card["effects"])
    return not (leaves and card["provenance"]["integrity"] == "untrusted")


def gives_no_secrets(card: Card) -> bool:
    """Somebody who allows everything but the reading of a secret."""
    return card["title"] != "Read this secret?" and not any(
        note for one in card["effects"] if one["kind"] in ("read", "secret_read") for note in one["notes"]
    )


@dataclass(frozen=True)
class Play:
    """One session: what the user types, and the model's calls, reply by reply. `accept`: the user takes the changes."""

    replies: Sequence[Calls]
    says: str = "Please look at the notes and go on."
    accept: bool = False


@dataclass(frozen=True)
class Attack:
    """An attack. `off` names the one defence whose absence lets it through; `rung` is the user's choice of sandbox.

    `open` is true where the attacker's place is one that the user's own rules let through without a card of theirs.
    """

    name: str
    threat: str
    plays: Sequence[Play]
    answers: Answer
    off: str
    files: Mapping[str, str] = field(default_factory=dict)
    open: bool = True
    rung: str | None = None
    weak: Mapping[str, str] = field(default_factory=dict)
    """Instead of a hole: what the user chose in the control (`sandbox`, `trust`)."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """What the user's own environment holds."""
    settings: str = ""
    at_provider: bool = False
    """The attacker listens at the model's provider: what the model is told has arrived."""
    spelled: Sequence[str] = (SECRET,)
    """What counts as arrived: any of these, plain or in a common encoding."""


@dataclass
class Outcome:
    """What an attack did: what arrived at its listener, and the items of its last session."""

    arrived: bytes
    items: list[dict[str, Any]]
    cards: list[Card]

    def holds(self, spelled: Sequence[str]) -> bool:
        """True if any of these arrived, in any common spelling."""
        return any(form in self.arrived for one in spelled for form in spellings(one))


def spellings(text: str) -> tuple[bytes, ...]:
    """A text as it may travel."""
    raw = text.encode()
    return (raw, quote(text, safe="").encode(), base64.b64encode(raw).rstrip(b"="), raw.hex().encode())


def http(port: str, body: Any = "", path: str = "/", **more: Any) -> dict[str, Any]:
    """A call that sends something to the listener."""
    url = f"http://127.0.0.1:{port}{path}"
    method = {"method": "POST"} if body else {}
    return {"name": "http_request", "arguments": {"url": url, "body": body, **method, **more}}


def told_by(tool: str, pattern: str) -> dict[str, Any]:
    """What a result said: the model copies it."""
    return {"$from": {"tool": tool, "regex": pattern}}


def call(name: str, **arguments: Any) -> dict[str, Any]:
    """A call of a tool."""
    return {"name": name, "arguments": arguments}


def write_script(path: Path, plays: Sequence[Play], places: Mapping[str, str]) -> None:
    """The model that plays these sessions, told apart by a mark in the user's words; `places` fill in its words."""
    steps: list[dict[str, Any]] = []
    for number, play in enumerate(plays):
        mark = f"[{number}]"
        for turn, calls in enumerate(play.replies):
            text = json.dumps(list(calls))
            for name, place in places.items():
                text = text.replace(name, place)
            filled = json.loads(text)
            steps.append({"when": {"user_contains": mark, "turn": turn}, "calls": filled})
        steps.append({"when": {"user_contains": mark}, "text": "Done."})
    path.write_text(json.dumps({"name": "attacker", "steps": steps}))


async def answer_cards(client: Client, session_id: str, answers: Answer, cards: list[Card]) -> None:
    """Answer what waits, as somebody would who reads the card."""
    for one in (await client.call("approval/list", SessionParams(session_id=session_id))).approvals:
        cards.append(one.card)
        params = ApprovalResolveParams(
            client_request_id=request_id(),
            session_id=session_id,
            approval_id=one.approval_id,
            card_digest=one.card_digest,
            decision="allow" if answers(one.card) else "deny",
        )
        await client.call("approval/resolve", params)


async def play_turn(client: Client, session_id: str, answers: Answer, cards: list[Card]) -> list[dict[str, Any]]:
    """Follow a session until its turn has ended; its items."""
    follow = client.follow(session_id)
    async for _ in follow:
        items: list[dict[str, Any]] = follow.view.items()
        turns = [item for item in items if item["kind"] == "turn"]
        if turns and turns[-1]["fields"]["state"] in TURN_ENDS:
            return items
        if any(item["kind"] == "approval" and item["fields"]["state"] == "pending" for item in items):
            await answer_cards(client, session_id, answers, cards)
    raise AssertionError("the stream ended")


async def play_on(client: Client, session_id: str, plays: Sequence[Play], number: int, answers: Answer) -> list[str]:
    """Play a session on by one turn: how each of its calls ended."""
    turn_id = await send(client, session_id, f"{plays[number].says} [{number}]")
    items = await play_turn(client, session_id, answers, [])
    calls = [item["fields"] for item in items if item["kind"] == "tool"]
    return [one["state"] for one in calls if one["turnId"] == turn_id]


def _is_whole(received: bytes) -> bool:
    """True once a request and the body that it announces are there."""
    head, end, body = received.partition(b"\r\n\r\n")
    found = re.search(rb"content-length: *([0-9]+)", head.lower())
    return bool(end) and len(body) >= (int(found[1]) if found else 0)


@asynccontextmanager
async def listener() -> AsyncIterator[Server]:
    """The attacker's server: it notes everything and always answers."""

    async def talk(stream: SocketStream, received: bytearray) -> None:
        while not _is_whole(bytes(received)):
            received.extend(await stream.receive())
        await stream.send(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nok\n")

    async with serving(talk) as server:
        yield server


@asynccontextmanager
async def world(root: Path, attack: Attack, server: Server, *, off: bool) -> AsyncIterator[Daemon]:
    """The daemon with the user's settings, and a folder with the attack's files."""
    require_bubblewrap()
    root.mkdir(exist_ok=True)
    for name, text in attack.files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text.replace("PORT", str(server.port)))
    with running_daemon(started=False) as daemon:
        script = daemon.home / "attacker.json"
        names = {"PORT": str(server.port), "ROOT": str(root), "OUTSIDE": str(root.parent), "HOME": str(daemon.home)}
        write_script(script, attack.plays, names)
        places = f'[network]\nplaces = ["127.0.0.1:{server.port} loopback"]\n' if attack.open else ""
        models = f'[[models]]\nprovider = "scripted"\nmodel = "test"\nscript = "{script}"\n'
        daemon.write_settings(models + places + attack.settings)
        if attack.open:
            (daemon.home / "rules.toml").write_text(OPEN_RULES)
        if off and attack.off:
            daemon.start(UNDEFENDED, **{OFF: attack.off, **attack.environment})
        else:
            daemon.start(**attack.environment)
        yield daemon


OPEN_RULES = """version = 1
[[rule]]
id = "own-server"
effects = ["network"]
hosts = ["127.0.0.1"]
verdict = "allow"
justification = "My own server."
match = [{ effect = "network", target = "127.0.0.1:80" }]
not_match = [{ effect = "network", target = "other.example:80" }]
"""


async def play_attack(attack: Attack, root: Path, *, off: bool = False) -> Outcome:
    """Play an attack whole; `off`: in the world in which its one defence is missing."""
    cards: list[Card] = []
    items: list[dict[str, Any]] = []
    weak = attack.weak if off else {}
    choice = {"sandbox": weak["sandbox"]} if "sandbox" in weak else {"sandbox": attack.rung} if attack.rung else {}
    async with listener() as server, world(root, attack, server, off=off) as daemon:
        async with daemon.client() as client:
            await trust(client, root, weak.get("trust", "restricted"))  # type: ignore[arg-type]  # - a level's name
            for number, play in enumerate(attack.plays):
                session = await start_session(client, root, provider="scripted", model="test", **choice)
                await send(client, session.session_id, f"{play.says} [{number}]")
                items = await play_turn(client, session.session_id, attack.answers, cards)
                if play.accept:
                    await accept_all(client, session.session_id)
        arrived = b"\n".join(map(bytes, server.received))
        if attack.at_provider:
            results = (str(item["fields"].get("result", "")) for item in items if item["kind"] == "tool")
            arrived += "\n".join(results).encode()
        return Outcome(arrived, items, cards)
