"""The command line at a terminal: questions that can be left, answered elsewhere and joined; widths and styles."""

import json
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.kit.command_line import RUN_S, STEPS, Cli, running_command_line
from tests.kit.require import require_bubblewrap

SCRIPT = [
    {"when": {"user_contains": "clear both", "turn": 0}, "calls": [
        {"name": "http_request", "arguments": {"url": "http://a.example/one", "method": "DELETE"}},
        {"name": "http_request", "arguments": {"url": "http://a.example/two", "method": "DELETE"}}]},
    {"when": {"user_contains": "settings", "turn": 0}, "calls": [
        {"name": "write_file", "arguments": {"path": "conftest.py", "content": "first = 1\n"}},
        {"name": "write_file", "arguments": {"path": "package.json", "content": "{}\n"}}]},
    {"when": {"user_contains": "ask on", "turn": 0}, "text": "First words. ", "calls": [
        {"name": "run_command", "arguments": {"argv": ["./say", "one two"]}}]},
    {"when": {"user_contains": "ask on", "turn": 1}, "calls": [
        {"name": "run_command", "arguments": {"argv": ["./say", "three"]}}]},
    {"when": {"user_contains": "ask", "turn": 0}, "text": "First words. ", "calls": [
        {"name": "run_command", "arguments": {"argv": ["./say", "one two"]}}]},
    {"when": {"user_contains": "slow"}, "text": "Slow words come one by one.", "chunk_chars": 5,
     "wait_after_chunks": 2, "wait_for_file": "{gate}"},
    *STEPS,
]  # fmt: skip


@pytest.fixture(scope="module")
def gate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file the model waits for."""
    return tmp_path_factory.mktemp("gate") / "open"


@pytest.fixture(scope="module")
def cli(gate: Path) -> Iterator[Cli]:
    """One daemon for the commands of this module."""
    with running_command_line(json.loads(json.dumps(SCRIPT).replace("{gate}", str(gate)))) as running:
        yield running


def test_ctrl_c_at_a_card_ends_it_and_the_turn(cli: Cli, root: Path) -> None:
    """One Ctrl-C: no second key is needed, the turn is stopped, exit code 4; nothing waits afterwards."""
    with cli.at_terminal("run", "ask", "--trust", "trusted", cwd=root) as shell:
        shell.wait_for("answer: ")
        shell.type("\x03")
        shell.wait_for("stopped")
        assert shell.end() == 4
    assert "Nothing waits" in cli("approve", cwd=root).stdout


def test_ctrl_c_at_the_question_of_trust_leaves(cli: Cli, root: Path) -> None:
    """Exit code 130 at once, and nothing was begun."""
    with cli.at_terminal("run", "ask", cwd=root) as shell:
        shell.wait_for("answer [1]: ")
        shell.type("\x03")
        shell.wait_for("stopped")
        assert shell.end() == 130
    assert "not chosen" in cli("trust", cwd=root).stdout
    assert "no session" in cli("show", cwd=root, code=1).stderr


@pytest.mark.parametrize(("folder", "words"), [("/", "whole system"), ("/etc", "machine's own"), ("/no", "no folder")])
def test_a_folder_that_is_no_project_is_refused_before_its_trust_is_asked_about(
    cli: Cli, root: Path, folder: str, words: str
) -> None:
    """Nothing is asked that no answer helps."""
    with cli.at_terminal("run", "hello", "-C", folder, cwd=root) as shell:
        shell.wait_for(words)
        assert shell.end() == 1
    assert "How far do you trust" not in shell.text


@pytest.mark.parametrize("answer", ["r", "trusted", "3", ""])
def test_the_question_of_trust_takes_words(cli: Cli, root: Path, answer: str) -> None:
    """Numbers, words and their first letters; what was chosen is kept and not asked again."""
    level = {"r": "restricted", "3": "untrusted", "": "restricted"}.get(answer, answer)
    with cli.at_terminal("run", "hello", cwd=root) as shell:
        shell.wait_for("answer [1]: ")
        shell.type("perhaps\n")
        shell.wait_for("answer [1]: ")
        shell.type(f"{answer}\n")
        assert shell.end() == 0
    assert ("no program runs" in shell.text) is (level == "untrusted"), "no sandbox is named that is not used"
    assert cli("trust", cwd=root).stdout.strip().endswith(f": {level}")


def test_end_of_input_at_a_card_leaves_it_waiting(cli: Cli, root: Path) -> None:
    """Ctrl-D is no answer: exit code 5, and the card still waits."""
    with cli.at_terminal("run", "ask", "--trust", "trusted", cwd=root) as shell:
        shell.wait_for("answer: ")
        shell.type("\x04")
        assert shell.end() == 5
    assert "one two" in cli("approve", cwd=root, code=5).stdout
    cli("cancel", cwd=root)


def test_a_card_answered_elsewhere_ends_the_question(cli: Cli, root: Path) -> None:
    """The stream goes on by itself, and says why the question is gone; at `run` and at `approve`."""
    with cli.at_terminal("run", "ask", "--trust", "trusted", cwd=root) as shell:
        shell.wait_for("answer: ")
        with cli.at_terminal("approve", cwd=root) as second:
            second.wait_for("answer: ")
            assert "allowed" in cli("approve", "--how", "once", cwd=root).stdout
            second.wait_for("answered elsewhere")
            assert second.end() == 0
        shell.wait_for("answered elsewhere")
        shell.wait_for("one two")
        shell.wait_for("Done.")
        assert shell.end() == 0


def test_a_turn_stopped_elsewhere_ends_the_question(cli: Cli, root: Path) -> None:
    """The prompt does not outlive its turn."""
    with cli.at_terminal("run", "ask", "--trust", "trusted", cwd=root) as shell:
        shell.wait_for("answer: ")
        assert "stopped" in cli("cancel", cwd=root).stdout
        shell.wait_for("stopped")
        assert shell.end() == 4
        assert "answered elsewhere" not in shell.text


def test_an_answer_goes_to_the_card(cli: Cli, root: Path) -> None:
    """A wrong word is told and asked again; yes runs it; the model's first words stand before the question."""
    with cli.at_terminal("run", "ask", "--trust", "trusted", cwd=root) as shell:
        shell.wait_for("› ask")
        shell.wait_for("First words.")
        shell.wait_for("answer: ")
        shell.type("what\n")
        shell.wait_for("or n")
        shell.wait_for("answer: ")
        shell.type("y\n")
        shell.wait_for("(in process)")
        assert shell.end() == 0
        assert "answered elsewhere" not in shell.text
        assert "gloveport accept" not in shell.text  # nothing is proposed, so there is nothing to accept
        assert "gloveport resume" in shell.text


def test_one_word_answers_what_is_asked_about_together(cli: Cli, root: Path) -> None:
    """Both files are shown whole before the first answer; one word allows both, and each is written."""
    with cli.at_terminal("run", "write the settings", "--trust", "trusted", cwd=root) as shell:
        shell.wait_for("2 of one kind are asked about together; or type all (allows each once)")
        shell.wait_for("answer to 1 of 2: ")
        assert shell.text.index("+first = 1") < shell.text.index("package.json") < shell.text.index("answer to 1 of 2")
        shell.type("all\n")
        assert shell.end() == 0
    assert cli("transcript", cwd=root).stdout.count("→ allowed (once)") == 2
    assert "Nothing waits" in cli("approve", cwd=root).stdout


def test_one_word_never_answers_what_needs_an_answer_each(cli: Cli, root: Path) -> None:
    """What cannot be taken back is a question of its own each time."""
    require_bubblewrap()
    with cli.at_terminal("run", "clear both", "--trust", "restricted", cwd=root) as shell:
        shell.wait_for("asked about together; each is answered by itself")
        shell.wait_for("answer to 1 of 2: ")
        shell.type("all\n")
        shell.wait_for("type 1, or n")
        shell.type("\x03")
        assert shell.end() == 4


def test_parts_are_answered_one_by_one_where_that_is_wanted(cli: Cli, root: Path) -> None:
    with cli.at_terminal("run", "write the settings", "--trust", "trusted", cwd=root) as shell:
        shell.wait_for("answer to 1 of 2: ")
        shell.type("n\n")
        shell.wait_for("answer to 2 of 2: ")
        shell.type("1\n")
        assert shell.end() == 0
    calls = cli("transcript", cwd=root).stdout
    assert "→ denied" in calls
    assert "→ allowed (once)" in calls


def test_approve_says_what_to_do_next(cli: Cli, root: Path) -> None:
    """Where nobody follows the turn, a yes is followed by the command that shows the rest."""
    cli("run", "ask", "--trust", "trusted", cwd=root, code=5)
    with cli.at_terminal("approve", cwd=root) as shell:
        shell.wait_for("answer: ")
        shell.type("1\n")
        shell.wait_for("now: gloveport resume")
        assert shell.end() == 0


def test_joining_a_turn_shows_what_it_said_so_far(cli: Cli, root: Path, gate: Path) -> None:
    """resume begins with the turn's message and its words so far, then streams; each once. `run` misses none either."""
    with cli.at_terminal("run", "slow", "--trust", "trusted", cwd=root) as first:
        first.wait_for("Slow words")
        with cli.at_terminal("resume", cwd=root) as second:
            second.wait_for("› slow")
            second.wait_for("Slow words")
            gate.write_text("")
            for shell in (first, second):
                shell.wait_for("come one by one.")
                assert shell.end() == 0
                assert shell.text.count("Slow words come one by one.") == 1
    gate.unlink()


def test_joining_a_turn_that_waits_asks_its_card(cli: Cli, root: Path) -> None:
    """A card that was answered before is not asked again; the one that waits is asked after what led to it."""
    cli("run", "ask on", "--trust", "trusted", cwd=root, code=5)
    cli("approve", "--how", "once", cwd=root)
    with cli.at_terminal("resume", cwd=root) as shell:
        shell.wait_for("First words.")
        shell.wait_for("one two")
        shell.wait_for("$ ./say three")
        shell.wait_for("answer: ")
        shell.type("y\n")
        shell.wait_for("Done.")
        assert shell.end() == 0
        assert shell.text.count("answer: ") == 1


def test_cancel_from_outside(cli: Cli, root: Path) -> None:
    """`gloveport cancel` stops the turn that another terminal follows."""
    with cli.at_terminal("run", "wait", "--trust", "trusted", cwd=root) as shell:
        shell.wait_for("I begin")
        assert "stopped" in cli("cancel", cwd=root).stdout
        shell.wait_for("stopped")
        assert shell.end() == 4
    assert "Nothing runs" in cli("cancel", cwd=root).stdout


def test_cards_fit_the_terminal_and_say_a_thing_once(cli: Cli, root: Path) -> None:
    """Prose is broken at the width; a clause that all options share stands once; the card's notes are shown."""
    with cli.at_terminal("run", "ask", "--trust", "trusted", cwd=root, columns=60) as shell:
        shell.wait_for("answer: ")
        shell.type("n\n")
        assert shell.end() == 0
    card = re.sub("\x1b\\[[0-9;]*m", "", shell.text.partition("? Run")[2].partition("answer:")[0])
    assert card.count("as strong as this one") == 1
    assert "leaves the network open" in " ".join(card.split())
    assert "guards against accidents only" in " ".join(card.split())
    assert all(len(line) <= 60 for line in card.splitlines() if "$" not in line)
    assert "⊘ Run ./say 'one two'" in re.sub("\x1b\\[[0-9;]*m", "", shell.text)


def test_no_color_means_no_style(cli: Cli, root: Path) -> None:
    """NO_COLOR: neither colours nor bold nor dim; without it there are some."""
    for names, styled in (({}, True), ({"NO_COLOR": "1"}, False)):
        with cli.at_terminal("run", "hello", "--trust", "trusted", cwd=root, **names) as shell:
            assert shell.end() == 0
            assert ("\x1b[" in shell.text) is styled
        with cli.at_terminal("--help", cwd=root, **names) as shell:
            assert shell.end() == 0
            assert ("\x1b[" in shell.text) is styled
            whole = " ".join(re.sub("\x1b\\[[0-9;]*m|│", "", shell.text).split())
            assert "Your folder is not touched." in whole, "no command's words are cut"


def test_a_narrow_terminal_lists_sessions_by_ids_that_commands_take(cli: Cli, root: Path) -> None:
    """40 columns: no line is longer, and the id shown is enough for other commands."""
    cli("run", "hello", "--trust", "trusted", cwd=root)
    with cli.at_terminal("sessions", "-C", ".", cwd=root, columns=40) as shell:
        assert shell.end() == 0
    lines = re.sub("\x1b\\[[0-9;]*m", "", shell.text).splitlines()
    assert all(len(line) <= 40 for line in lines)
    assert str(root) in "".join(line.strip() for line in lines)
    assert "hello" in cli("show", lines[0].split()[0]).stdout


def test_the_demo_says_that_it_answers_by_itself(tmp_path: Path, cli: Cli) -> None:
    """It plays the scripted model although the user's settings name another one first, and says so; how to answer
    oneself stands before it begins."""
    with cli.at_terminal("demo", "--folder", str(tmp_path / "demo"), cwd=tmp_path) as shell:
        code = shell.end()
    assert code == 0, shell.text
    told = shell.text.partition("you were not asked")[0]
    assert "DEMO_ARGS=--ask" in told
    assert "accepts the change, for you" in " ".join(told.split())
    assert "OPENAI_API_KEY and ANTHROPIC_API_KEY are not set" in told
    assert "Green." in shell.text


def test_a_second_ctrl_c_leaves(cli: Cli, root: Path, tmp_path: Path) -> None:
    """When the daemon does not answer the stop, the second one ends the command all the same."""
    with cli.at_terminal("run", "wait", "--trust", "trusted", cwd=root) as shell:
        shell.wait_for("I begin")
        assert cli.daemon.process is not None
        cli.daemon.process.send_signal(signal.SIGSTOP)
        try:
            shell.type("\x03")
            shell.wait_for("stopping")
            shell.type("\x03")
            assert shell.process.wait(timeout=RUN_S) == 130
        finally:
            cli.daemon.process.send_signal(signal.SIGCONT)
    cli("cancel", cwd=root)
