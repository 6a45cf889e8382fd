"""Workbook, statistics, picture, mail: through the whole daemon, each by a hand of its own; one that crashes is retried
alone."""

import io
import json
import os
import signal
from pathlib import Path
from typing import Any

import anyio
import openpyxl
from tests.kit.daemon import Daemon, run_turn, running_daemon, send, start_session, trust
from tests.kit.hands import find_hand
from tests.kit.mail_server import PASSWORD, USER, mail_server
from tests.kit.require import require_bubblewrap

SUMS = """
import collections, csv, json
sums = collections.Counter()
for row in csv.DictReader(open("sales.csv")):
    sums[row["region"]] += float(row["amount"])
print("LABELS", json.dumps(sorted(sums)))
print("NORTH", sums["north"], "SOUTH", sums["south"])
"""


def workbook() -> bytes:
    """Sales by region."""
    book = openpyxl.Workbook()
    sheet: Any = book.active
    for row in (["region", "amount"], ["north", 3], ["south", 4.5], ["north", 1]):
        sheet.append(row)
    out = io.BytesIO()
    book.save(out)
    return out.getvalue()


def steps() -> list[dict[str, Any]]:
    """A model that goes from the workbook to the mail; numbers come from the hands before."""
    figure = {"$from": {"tool": "run_python", "regex": "NORTH ([0-9.]+) SOUTH"}}
    wanted = [
        {"name": "read_document", "arguments": {"path": "sales.xlsx", "save_as": "sales.csv"}},
        {"name": "run_python", "arguments": {"code": SUMS, "inputs": ["sales.csv"]}},
        {"name": "plot", "arguments": {"path": "sales.png", "labels": ["north", "south"], "title": "Sales",
                                       "series": [{"name": "amount", "values": [4.0, 4.5]}]}},
        {"name": "send_email", "arguments": {"to": ["boss@example.org"], "subject": "Sales", "body": figure,
                                             "attachments": ["sales.png"]}},
    ]  # fmt: skip
    return [{"when": {"turn": turn}, "calls": [one]} for turn, one in enumerate(wanted)] + [{"text": "Sent."}]


async def crash_the_plot_once(daemon: Daemon) -> None:
    """SIGKILL the first plot hand, as soon as it is there."""
    assert daemon.process is not None
    while (pid := find_hand("drawing", daemon.process.pid)) is None:
        await anyio.sleep(0.01)
    os.kill(pid, signal.SIGKILL)


async def test_from_the_workbook_to_the_mail(tmp_path: Path) -> None:
    require_bubblewrap()
    root, script = tmp_path / "root", tmp_path / "script.json"
    root.mkdir()
    (root / "sales.xlsx").write_bytes(workbook())
    script.write_text(json.dumps({"name": "pipeline", "steps": steps()}))
    async with mail_server() as server:
        with running_daemon(started=False) as daemon:
            place = f"127.0.0.1:{server.port}"
            daemon.write_settings(
                f'[[models]]\nprovider = "scripted"\nmodel = "test"\nscript = "{script}"\n'
                f'[network]\nplaces = ["{place} loopback"]\n'
                f'[mail]\nplace = "{place}"\nfrom = "me@example.org"\nuser = "{USER}"\n'
                'password_env = "MAIL"\ntls = "none"\n'
            )
            daemon.start(MAIL=PASSWORD)
            async with daemon.client() as client, anyio.create_task_group() as tasks:
                await trust(client, root)
                session = await start_session(client, root, provider="scripted", model="test")
                tasks.start_soon(crash_the_plot_once, daemon)
                await send(client, session.session_id, "mail the sales by region to boss@example.org")
                assert await run_turn(client, session.session_id) == "completed"
                follow = client.follow(session.session_id)
                await anext(follow)
                items = follow.view.items()
            holding = [
                path.name
                for path in daemon.home.rglob("*")
                if path.is_file() and path.name != "config.toml" and PASSWORD.encode() in path.read_bytes()
            ]
    tools = [item["fields"] for item in items if item["kind"] == "tool"]
    assert [(one["tool"], one["state"]) for one in tools] == [
        ("read_document", "ok"), ("run_python", "ok"), ("plot", "ok"), ("send_email", "ok"),
    ], tools  # fmt: skip
    retried = [one["tool"] for one in tools if "it crashed once and was started a second time" in one["result"]]
    assert retried == ["plot"]
    (message,) = server.messages
    assert server.sessions == 1
    text, picture = message.iter_parts()
    assert text.get_content().strip() == "4.0"
    assert picture.get_content().startswith(b"\x89PNG")
    cards = [item["fields"]["card"] for item in items if item["kind"] == "approval"]
    assert len(cards) == 2, "the code and the mail are asked about"
    assert any("Attached: sales.png" in effect["words"] for effect in cards[-1]["effects"])
    assert "boss@example.org" in cards[-1]["destinations"]
    assert holding == []
