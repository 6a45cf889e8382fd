"""What the HTTP hand brings back is a stranger's word, whatever a server or a hand that was taken over says."""

import base64
import dataclasses
import json
from pathlib import Path
from typing import Any

from tests.kit.hands import SECRET, Table, hand_table

from gloveport.server.hands.request import Started
from gloveport.server.tools.contract import OWN_LABEL, Performed, parse
from gloveport.server.tools.handwork import request_of, show_nothing
from gloveport.server.tools.registry import builtin_toolbox

STEERING = "\x1b[2J\x1b]0;title\x07\x1b]52;c;aGk=\x07"


async def told(table: Table, number: int, said: str) -> Performed:
    """What the tool makes of a run of its hand that said this: a real one, found again by its name."""
    context = dataclasses.replace(table.context, call_id=f"t1.h{number}")
    started = Started(
        ("-c", "import sys; sys.stdout.write(sys.stdin.read())"), (), said.encode("utf-8", "surrogatepass")
    )
    await table.hands.run(dataclasses.replace(request_of("execution", started, context)), show_nothing)
    tool = builtin_toolbox().find("http_request")
    return await tool.attach(parse(tool.arguments, '{"url": "https://a.example/"}'), (), context)


def answer(**changes: Any) -> str:
    """An answer of the hand."""
    plain = {"status": 200, "reason": "OK", "headers": [], "body": base64.b64encode(b"hello").decode(), "is_cut": False}
    return json.dumps({**plain, **changes})


async def test_c14_a_head_steers_no_terminal_tells_no_secret_and_no_answer_is_none(tmp_path: Path) -> None:
    headers = [["Content-Type", f"text/{STEERING}plain\nX: y {SECRET}"], ["Set-Cookie", "a=b"]]
    async with hand_table(tmp_path, {}) as table:
        plain = await told(table, 1, answer(reason=f"OK{STEERING}{SECRET}\nServer: x", headers=headers))
        strange = (
            "", "[1]", answer(status="x"), answer(status=1e999), answer(status=10**400), answer(body="?"),
            answer(headers=5), json.dumps({"error": "\ud800" + STEERING}), '{"rows": [' + "[]," * 1_100_000 + "1]}",
        )  # fmt: skip
        broken = [await told(table, number, said) for number, said in enumerate(strange, 2)]
    assert plain.outcome == "ok", plain
    assert plain.text.splitlines()[0].startswith("HTTP 200 OK")
    assert plain.text.splitlines()[1].startswith("Content-Type: text/plain X: y"), plain
    assert "hello" in plain.text
    assert "Set-Cookie" not in plain.text
    assert SECRET not in plain.text
    for done in (plain, *broken):
        assert not set(done.text) & {"\x1b", "\x07"}, done.text
        done.text.encode()
    for done in broken:
        assert (done.outcome, done.text.startswith("No answer: ")) == ("failed", True), done
    assert plain.label != OWN_LABEL
