"""The safe set of the shell: programs that only look, on a worktree that they cannot change."""

from pathlib import Path

import pytest
from tests.kit.hands import hand_table

from gloveport.protocol.errors import GloveportError
from gloveport.server.tools.contract import RunRequest
from gloveport.server.tools.handwork import show_nothing
from gloveport.server.tools.safe_command import check_safe

FILES = {"a.txt": b"one\ntwo\n", "sub/b.txt": b"two\n", ".env": b"KEY=hidden-value\n"}


async def test_looking_sees_the_workspace_and_keeps_secrets(tmp_path: Path) -> None:
    async with hand_table(tmp_path, FILES) as table:
        found = await table.use("look_with", argv=["grep", "-rn", "two", "."])
        assert found.outcome == "ok", found
        assert {"./a.txt:2:two", "./sub/b.txt:1:two"} <= set(found.text.splitlines())
        kept = await table.use("look_with", argv=["grep", "-r", "hidden", "."])
        assert "hidden-value" not in kept.text
        named = await table.use("look_with", argv=["cat", ".env"])
        assert "hidden-value" in named.text
        assert table.planned is not None
        assert ("read", ".env") in [(one.kind, one.target) for one in table.planned.effects], "so it is asked about"


async def test_looking_through_a_large_workspace_is_no_program_gone_wrong(tmp_path: Path) -> None:
    """The faster the machine, the more files a second: that alone ends nothing."""
    files = {f"folder{number // 100}/{number}.txt": b"word\n" for number in range(3_000)}
    async with hand_table(tmp_path, files) as table:
        done = await table.use("look_with", argv=["grep", "-rlm1", "word", "."])
    assert done.outcome == "ok", done
    assert "breaker" not in done.evidence


@pytest.mark.parametrize(
    "argv",
    [
        ["rm", "a.txt"], ["sh", "-c", "ls"], ["/bin/ls"], ["find", ".", "-delete"],
        ["find", ".", "-exec", "rm", "{}", ";"],
        ["sort", "-oa.txt", "a.txt"], ["sort", "-uo", "a.txt"], ["sort", "--out=a.txt", "a.txt"],
        ["sort", "--compress-prog=sh", "a.txt"], ["file", "-C", "-m", "x"], ["cat", "/etc/passwd"], ["ls", "../.."],
        ["uniq", "a.txt", "sub/b.txt"],
    ],
    ids=" ".join,
)  # fmt: skip
async def test_what_is_not_of_the_safe_set_is_refused(argv: list[str]) -> None:
    with pytest.raises(GloveportError):
        check_safe(tuple(argv))


async def test_even_a_program_that_would_write_cannot(tmp_path: Path) -> None:
    """The jail holds it, not the list of options alone."""
    async with hand_table(tmp_path, FILES) as table:
        request = RunRequest("t1.x", ("/bin/rm", "a.txt"), 3.0, tool_kind="small", hand="shell")
        done = await table.hands.run(request, show_nothing)
        assert done.exit_code != 0
        assert await table.read("a.txt") == b"one\ntwo\n"
