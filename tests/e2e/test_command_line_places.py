"""Which session a command means, and the choices of the user: folders, trust, models, reasons and words."""

import json
import re
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.kit.command_line import SPENT, STEPS, TEXT, Cli, lines_of, run_json, running_command_line

from gloveport.protocol.errors import ERRORS, ErrorCode
from gloveport.protocol.wire.methods import METHODS
from gloveport.server.cli import hints
from gloveport.server.cli.root import DECIDE, DEVELOPERS, LOOK, SET_UP, WORK
from gloveport.server.cli.trusting import workspace_around

RUN = "Run " + shlex.join(["python3", "-c", "print('hello from a program')"])
"""As its card has the words."""
PLAYED: list[dict[str, Any]] = [
    {"when": {"user_contains": "break", "turn": 0}, "calls": [
        {"name": "run_command", "arguments": {"argv": ["sh", "-c", "echo all is well; exit 3"]}}]},
    *STEPS,
]  # fmt: skip


def folder_of(parent: Path, name: str) -> Path:
    """A folder with one file."""
    folder = parent / name
    (folder / "inner").mkdir(parents=True)
    (folder / "a.txt").write_text(TEXT)
    return folder


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A folder with one file."""
    return folder_of(tmp_path, "project")


def test_the_newest_session_elsewhere_is_left_alone(cli: Cli, tmp_path: Path) -> None:
    """Without a name every command takes the newest session whose folder holds the current one, and where there is
    none it writes nothing and names those elsewhere."""
    mine, other, empty = (folder_of(tmp_path, name) for name in ("mine", "other", "empty"))
    run_json(cli, mine, "edit")
    newer = run_json(cli, other, "edit")[-1]["sessionId"]
    cli("diff", cwd=mine)
    cli("diff", cwd=other)
    assert f"accepted: a.txt, b.txt in {mine}" in cli("accept", cwd=mine / "inner").stdout
    assert not (other / "b.txt").exists()
    for words in (("diff",), ("accept",), ("reject",), ("undo",), ("why",), ("show",), ("resume",), ("approve",),
                  ("export",), ("cancel",)):  # fmt: skip
        told = cli(*words, cwd=empty, code=1).stderr
        assert f"there is no session of {empty}" in told
        assert newer[-6:] in told
        assert str(other) in told
    assert f"accepted: a.txt, b.txt in {other}" in cli("accept", "-C", "../other", cwd=empty).stdout
    assert f"undone: a.txt, b.txt in {mine}" in cli("undo", "--root", str(mine / "inner"), cwd=empty).stdout
    assert f"undone: a.txt, b.txt in {other}" in cli("undo", "--session", newer[-6:], cwd=empty).stdout


def test_a_session_of_a_folder_above_takes_over_nothing(cli: Cli, tmp_path: Path) -> None:
    """The session of this very folder comes before a newer one of its parent; one of another folder is told."""
    mine, beside = folder_of(tmp_path, "mine"), folder_of(tmp_path, "beside")
    older = run_json(cli, mine, "edit")[-1]["sessionId"]
    newer = run_json(cli, tmp_path, "hello")[-1]["sessionId"]
    shown = cli("diff", cwd=mine)
    assert "+second" in shown.stdout
    assert shown.stderr == ""
    assert older in cli("export", cwd=mine).stdout
    assert f"{older[-6:]} of {mine}" in cli("diff", cwd=mine / "inner").stderr
    told = cli("diff", cwd=beside)
    assert "Nothing is proposed." in told.stderr
    assert f"session {newer[-6:]} of {tmp_path}" in told.stderr


def test_a_run_below_a_workspace_is_of_that_workspace(cli: Cli, root: Path) -> None:
    """As every other command takes it; told, with the way to the other choice; a repository below is another one."""
    run_json(cli, root, "hello")

    def begun(*words: str, cwd: Path) -> tuple[str, str]:
        told = cli("run", "hello", "--json", *words, cwd=cwd)
        name = lines_of(told)[-1]["sessionId"][-6:]
        followed = cli("resume", name, cwd=root).stdout  # begins with the session's folder
        return "".join(followed.split("no turn")[0].split()).rsplit("·", 1)[-1], told.stderr

    deep = root / "inner/deep"
    deep.mkdir()
    found, told = begun(cwd=deep)
    assert found == str(root)
    assert f"in the workspace {root}" in " ".join(told.split())
    assert "-C ." in told
    found, told = begun("-C", ".", cwd=deep)
    assert (found, "in the workspace" in told) == (str(deep), False)
    assert begun(cwd=deep)[0] == str(deep)  # known by itself from now on
    assert begun(cwd=root)[0] == str(root)
    other = root / "vendor/other"
    (other / ".git").mkdir(parents=True)
    (other / "src").mkdir()
    for place in (other / "src", other):
        found, told = begun(cwd=place)
        assert (found, "in the workspace" in told) == (str(place), False)


def test_a_refused_folder_is_not_trusted_and_a_trust_can_be_forgotten(cli: Cli, root: Path) -> None:
    """By no option; a folder that is no workspace takes in none below it; what is forgotten is as if never said."""
    assert "not a project" in cli("run", "hello", "--trust", "restricted", cwd=Path("/"), code=1).stderr
    assert "/: not chosen" in cli("trust", cwd=Path("/")).stdout
    assert f"{root}: restricted" in cli("trust", "restricted", cwd=root).stdout
    assert f"{root}: restricted" in cli("trust", cwd=root / "inner").stdout
    assert f"{root}: not chosen" in cli("trust", "--forget", cwd=root / "inner").stdout
    inner = cli("trust", cwd=root / "inner")
    assert (f"{root / 'inner'}: not chosen" in inner.stdout, inner.stderr) == (True, "")
    assert "not both" in cli("trust", "restricted", "--forget", cwd=root, code=2).stderr


def test_the_whole_system_and_the_home_folder_are_no_workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever was said of them earlier; the control: another folder above is one."""
    below = tmp_path / "home" / "project"
    below.mkdir(parents=True)
    known = frozenset({"/", str(tmp_path / "home")})
    assert workspace_around(below, known) == tmp_path / "home"
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert workspace_around(below, known) == below
    monkeypatch.setenv("HOME", str(tmp_path / "elsewhere"))
    assert workspace_around(below, frozenset("/")) == below


def test_sessions_of_a_relative_folder(cli: Cli, root: Path) -> None:
    """`--root .` and `-C ..` mean the folder they name."""
    name = run_json(cli, root, "hello")[-1]["sessionId"][-6:]
    assert name in cli("sessions", "--root", ".", cwd=root).stdout
    assert name in cli("sessions", "-C", "..", cwd=root / "inner").stdout
    assert name not in cli("sessions", "--root", ".", cwd=root / "inner").stdout


def test_approve_finds_the_session_that_waits(cli: Cli, root: Path) -> None:
    """An older session of the folder waits: it is found, named, answered, and the way on names it."""
    older = run_json(cli, root, "run", code=5)[-1]["sessionId"]
    run_json(cli, root, "hello")
    told = cli("approve", "--how", "once", cwd=root / "inner").stdout
    assert f"session {older[-6:]}" in told
    assert f"now: gloveport resume {older[-6:]}" in told


def test_trust_is_shown_and_set(cli: Cli, root: Path) -> None:
    """Not chosen, chosen, chosen anew; a wrong word is refused; where nothing was chosen a run says so once."""
    assert "not chosen" in cli("trust", cwd=root).stdout
    told = cli("run", "hello", cwd=root)
    assert told.stderr.count("trust not chosen; use --trust restricted") == 1
    assert "trust not chosen" in cli("run", "hello", "--json", cwd=root).stderr
    assert f"{root}: restricted" in cli("trust", "restricted", cwd=root).stdout
    assert f"{root}: trusted" in cli("trust", "trusted", "-C", str(root)).stdout
    assert "full" in cli("trust", "full", cwd=root, code=2).stderr
    assert "trust not chosen" not in cli("run", "hello", cwd=root).stderr


def test_trust_below_a_workspace_is_that_of_the_workspace(cli: Cli, root: Path) -> None:
    """As `run` takes it, and named; `-C .` means the folder alone."""
    cli("trust", "restricted", cwd=root)
    told = cli("trust", cwd=root / "inner")
    assert f"{root}: restricted" in told.stdout
    assert f"in the workspace {root}" in told.stderr
    assert "not chosen" in cli("trust", "-C", ".", cwd=root / "inner").stdout
    cli("trust", "trusted", cwd=root / "inner")
    assert f"{root}: trusted" in cli("trust", cwd=root).stdout


def test_a_session_has_one_name_in_every_command(cli: Cli, root: Path) -> None:
    """The words it began with, as `sessions` shows them, beside its id; not the name of its folder."""
    name = run_json(cli, root, "hello zebra")[-1]["sessionId"][-6:]
    assert "hello zebra" in cli("sessions", "-C", ".", cwd=root).stdout
    assert f"session {name} · hello zebra" in cli("resume", name, cwd=root).stdout
    assert f"session {name} · hello zebra" in cli("why", "-s", name, cwd=root).stdout
    assert cli("show", name, cwd=root).stdout.startswith("hello zebra · ")
    assert "hello zebra" in cli("search", "zebra", "-C", ".", cwd=root).stdout.splitlines()[0]
    assert f"{name} 'hello zebra'" in cli("thaw", name, cwd=root, code=1).stderr
    assert f"{name} 'hello zebra'" in cli("delete", name, cwd=root, code=5).stderr


def test_models_are_listed_and_chosen(cli: Cli, root: Path) -> None:
    """The first is used; another one for a session; an unknown one is answered with the command that lists them."""
    listed = cli("models").stdout.splitlines()
    assert listed[0].startswith("scripted/test: ")
    assert listed[0].endswith("(used where none is named)")
    assert any(line.startswith(f"{SPENT}: ") for line in listed)
    assert any(line.startswith("scripted/demo: ") and "only where it is named" in line for line in listed)
    run_json(cli, root, "hello")
    assert f"uses {SPENT}" in cli("models", "use", SPENT, cwd=root).stdout
    failed = cli("resume", "-m", "again", cwd=root, code=3)
    assert "resume -m" in failed.stdout
    assert "See gloveport models" in cli("models", "use", "none/none", cwd=root, code=2).stderr
    assert "provider/model" in cli("models", "use", "none", cwd=root, code=2).stderr


def test_why_says_what_would_help(cli: Cli, root: Path) -> None:
    """A call that its trust level forbids: the level that would allow it; one that failed: its output and a way on."""
    shown = cli("run", "run", "--trust", "untrusted", "--approve", "once", cwd=root).stdout
    assert f"⊘ {RUN}: Not allowed: " in shown
    assert "gloveport why" in shown
    assert "Choose another way" not in shown
    assert ".." not in shown.replace("...", "")
    told = cli("why", cwd=root).stdout
    assert "kernel:rung" in told
    assert "gloveport trust restricted" in told
    shown = cli("run", "break", "--trust", "trusted", "--approve", "once", cwd=root).stdout
    assert "exit code 3" in shown
    assert "s: all is well" not in shown
    told = cli("why", cwd=root).stdout
    assert "│ all is well" in told
    assert "gloveport resume" in told


def test_a_denied_call_is_named_by_what_it_would_have_done(cli: Cli, root: Path) -> None:
    """Its title, one stop at most, and no accept where nothing is proposed."""
    shown = cli("run", "run", "--trust", "trusted", "--approve", "never", cwd=root).stdout
    assert f"⊘ {RUN}: Refused by an answer that was given before" in shown
    assert "nobody was asked" in " ".join(shown.split())
    assert "The user said no" not in shown
    assert ".." not in shown.replace("...", "")
    assert "A call" not in shown
    assert "gloveport accept" not in shown
    assert RUN in cli("show", cwd=root).stdout


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("run", "hello", "there"), "quote the task: gloveport run 'hello there'"),
        (("run", " \n"), "the task is empty"),
        (("resume", "-m", " "), "the message is empty"),
    ],
)
def test_a_task_is_one_text(cli: Cli, root: Path, words: tuple[str, ...], said: str) -> None:
    """Wrong usage, and nothing was begun."""
    assert said in cli(*words, cwd=root, code=2).stderr
    assert "no session of" in cli("show", cwd=root, code=1).stderr


def test_version_and_status(cli: Cli) -> None:
    """The version alone; the daemon's times as people read them."""
    assert re.fullmatch(r"gloveport \d+\.\d+\.\d+\n", cli("--version").stdout)
    told = cli("daemon", "status").stdout
    assert re.search(r"^write-ahead log takes: [\d.]+ (bytes?|[KM]iB)$", told, re.MULTILINE)
    assert re.search(r"^reserve for a full disk: (kept|spent)$", told, re.MULTILINE)
    shown = cli("--help").stdout
    assert all(f"─ {panel} ─" in shown for panel in (WORK, DECIDE, LOOK, SET_UP, DEVELOPERS))
    assert "─ Commands ─" not in shown, "every command stands in a group"
    assert re.search(r"^started: \d{4}-\d\d-\d\d \d\d:\d\d \(\d+ \w+ ago\)$", told, re.MULTILINE)


def test_a_run_as_json_begins_with_the_session(cli: Cli, root: Path) -> None:
    """The first line is the session's first event, four times in a row; after `resume` it is the turn's first."""
    for _ in range(4):
        lines = run_json(cli, root, "edit")
        assert lines[0]["seq"] == 1
    again = lines_of(cli("resume", "-m", "more", "--json", cwd=root))
    assert [op["fields"].get("text") for op in again[0]["ops"]] == ["more"]
    assert [line["seq"] for line in again[:-1]] == list(range(again[0]["seq"], again[-2]["seq"] + 1))
    told = "".join(op["text"] for line in again[:-1] for op in line["ops"] if op["op"] == "append")
    assert told == "Done."
    assert json.dumps(again[-1])


def test_hints_name_commands_of_this_program(cli: Cli, root: Path) -> None:
    """What a client would be told to call is a command here; every command that a hint names exists."""
    done = subprocess.run(cli.command("--help"), env=cli.environment, capture_output=True, text=True, check=True)
    commands = set(re.findall(r"^\W*([a-z]+) ", done.stdout, re.MULTILINE))
    told = [hints.advice(code.value, ERRORS[code].hint) for code in ErrorCode]
    rules = (*hints.RULE_HINTS, "kernel:rung")
    told += [hints.hint_for_call(f"deny [{rule}]", "denied", "untrusted") for rule in rules]
    told += hints.OUTCOME_HINTS.values()
    for words in told:
        assert not any(method in words for method in METHODS), words
        for found in re.findall(r"gloveport (?!to )([a-z]+)", words):
            assert found in commands, words


def test_a_folder_that_is_not_there_is_not_shown_as_one_nobody_spoke_of(cli: Cli, root: Path) -> None:
    """`trust -C /nope` names the folder and fails, whether it shows or sets."""
    gone = root / "nope"
    for words in (("trust",), ("trust", "trusted")):
        told = cli(*words, "-C", str(gone), cwd=root, code=1)
        assert (str(gone) in told.stderr, told.stdout) == (True, "")


def test_explain_tells_of_no_card_where_there_is_none(cli: Cli, root: Path) -> None:
    """Nothing waits for an answer while somebody only asks what would be decided."""
    run_json(cli, root, "hello")
    told = cli("policy", "explain", "--", "make", "it", cwd=root).stdout
    assert "Answer the card" not in told


def test_the_doctor_names_no_machine_that_is_not_set_up_and_tells_each_way_out_once(cli: Cli, root: Path) -> None:
    """Of a sandbox elsewhere without a machine nothing was seen; the same advice is not told line by line."""
    far = cli("doctor", "--sandbox", "remote-ssh", cwd=root, code=1).stdout
    assert ("No machine is named" in far, "As far as was seen" in far) == (True, False)
    near = cli("doctor", "--sandbox", "process", cwd=root).stdout
    assert near.count("Choose a stronger sandbox where this matters") == 1


def test_settings_that_cannot_be_read_are_told_in_a_sentence() -> None:
    """The daemon that does not begin leaves a line in its log; the command tells its words alone."""
    with running_command_line(STEPS) as broken:
        broken.stop_daemon()
        (broken.daemon.home / "config.toml").write_text("x = [")
        told = broken("models", cwd=broken.daemon.home, code=6).stderr
    assert "config.toml: Invalid value" in told
    assert re.search(r"\d\d:\d\d:\d\d|ERROR", told) is None


def test_words_of_small_commands(cli: Cli, root: Path) -> None:
    """`trust` names its own argument, `show` takes -s, and `policy explain` says each thing once."""
    told = cli("trust", "bogus", cwd=root, code=2).stderr
    assert ("--trust" in told, "'bogus' is not one of" in told, "LEVEL" in told) == (False, True, True)
    name = run_json(cli, root, "hello")[-1]["sessionId"][-6:]
    assert cli("show", "-s", name, cwd=root.parent).stdout == cli("show", name, cwd=root).stdout
    cli("show", name, "-s", name, cwd=root, code=2)
    words = "cat a.txt; cat a.txt; cat a.txt; curl x.example; curl x.example"
    lines = cli("policy", "explain", "--", "sh", "-c", words, cwd=root).stdout.splitlines()
    assert len(lines) == len(set(lines))
