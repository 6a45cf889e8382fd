"""Words for a turn that runs: typed where it is followed, or sent from another terminal."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.kit.command_line import Cli, running_command_line

GATE = {"chunk_chars": 6, "wait_after_chunks": 1}
SCRIPT = [
    {"when": {"user_contains": "corrects the task"}, "text": "Corrected."},
    {"when": {"user_contains": "another task"}, "text": "Another one."},
    {"when": {"user_contains": "afterwards"}, "text": "And then that."},
    {"when": {"user_contains": "slow"}, "text": "Begun, and never ended.", **GATE, "wait_for_file": "{never}"},
    {"when": {"user_contains": "short"}, "text": "Begun, and ended.", **GATE, "wait_for_file": "{gate}"},
]


@pytest.fixture(scope="module")
def gates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the files lie that the model waits for."""
    return tmp_path_factory.mktemp("gates")


@pytest.fixture(scope="module")
def cli(gates: Path) -> Iterator[Cli]:
    """One daemon for the commands of this module."""
    script = json.dumps(SCRIPT).replace("{never}", str(gates / "never")).replace("{gate}", str(gates / "gate"))
    with running_command_line(json.loads(script)) as running:
        yield running


def test_a_typed_correction_reaches_the_turn(cli: Cli, root: Path) -> None:
    """A line, Enter for steer: it is shown how it was read and what it stops; the turn goes on and ends well."""
    with cli.at_terminal("run", "slow", "--trust", "trusted", cwd=root) as shell:
        shell.wait_for("Begun")
        shell.type("no, only the API\n")
        shell.wait_for("steer (Enter), queue (q), interrupt (i)")
        shell.type("\n")
        shell.wait_for("steer: correct (it begins with “no”)")
        shell.wait_for("The answer is stopped; its text is kept. The turn goes on with your message.")
        shell.wait_for("Corrected.")
        assert shell.end() == 0
    shown = cli("show", cwd=root).stdout
    places = [shown.index(words) for words in ("» steer: correct", "› no, only the API", "Corrected.")]
    assert places == sorted(places), "the message stands where the model got it"


def test_what_is_queued_or_dropped_while_typing(cli: Cli, root: Path, gates: Path) -> None:
    """x sends nothing; q waits for the end, and the command follows on to the queued turn; a wrong word asks again."""
    (gates / "gate").unlink(missing_ok=True)
    with cli.at_terminal("run", "short", "--trust", "trusted", cwd=root) as shell:
        shell.wait_for("Begun")
        shell.type("never mind\n")
        shell.wait_for("interrupt (i)")
        shell.type("perhaps\n")
        shell.wait_for("press Enter alone, or type q, i or x")
        shell.wait_for("interrupt (i)")
        shell.type("x\n")
        shell.wait_for("not sent")
        shell.type("afterwards\n")
        shell.wait_for("interrupt (i)")
        shell.type("q\n")
        shell.wait_for("queued, number 1")
        (gates / "gate").touch()
        shell.wait_for("ended.")
        shell.wait_for("And then that.")
        assert shell.end() == 0
    assert "never mind" not in cli("show", cwd=root).stdout


@pytest.mark.parametrize("ends", ["by itself", "ctrl-c"])
def test_words_without_a_verb_are_given_back(cli: Cli, root: Path, gates: Path, ends: str) -> None:
    """When the turn ends before the verb was chosen, the words are shown as not sent, and nothing is asked any more."""
    (gates / "gate").unlink(missing_ok=True)
    with cli.at_terminal("run", "short", "--trust", "trusted", cwd=root) as shell:
        shell.wait_for("Begun")
        shell.type("one more thing\n")
        shell.wait_for("interrupt (i)")
        if ends == "ctrl-c":
            shell.type("\x03")
        else:
            (gates / "gate").touch()
        shell.wait_for("not sent: one more thing")
        assert shell.end() == (4 if ends == "ctrl-c" else 0)
        assert "interrupt (i)" not in shell.text.partition("not sent: one more thing")[2]


def test_the_end_names_the_turn_that_goes_on(cli: Cli, root: Path) -> None:
    """Interrupted from another terminal: the command ends with its turn and says how to follow the next."""
    with cli.at_terminal("run", "slow", "--trust", "trusted", cwd=root) as shell:
        shell.wait_for("Begun")
        cli("interrupt", "a slow one", cwd=root)
        shell.wait_for("gloveport resume follows the turn that runs now")
        assert shell.end() == 4
    cli("cancel", cwd=root)
    told = cli("resume", cwd=root, code=4).stdout
    assert "no turn runs now" in told, "the last turn's own end and code, whoever ended it"
    assert "› a slow one" in told
    assert "■ stopped" in told


def test_a_turn_that_ended_meanwhile_is_shown_with_its_end(cli: Cli, root: Path, gates: Path) -> None:
    """`resume` after the end: the turn once more, its exit code, and nothing is sent."""
    (gates / "gate").touch()
    cli("run", "short", "--trust", "trusted", cwd=root)
    told = cli("resume", cwd=root).stdout
    assert "Begun, and ended." in told
    lines = cli("resume", "--json", cwd=root).stdout.splitlines()
    assert (json.loads(lines[-1])["result"], json.loads(lines[-1])["exitCode"]) == ("completed", 0)


def test_cancel_without_an_id_stops_no_other_session(cli: Cli, root: Path) -> None:
    """Two run: it lists them and stops none; each by its id; then one is left and needs no id."""
    with cli.at_terminal("run", "slow one", "--trust", "trusted", cwd=root) as first:
        first.wait_for("Begun")
        with cli.at_terminal("run", "slow two", cwd=root) as second:
            second.wait_for("Begun")
            told = cli("cancel", cwd=root, code=1).stderr
            assert "2 sessions of this folder have a running turn" in told
            names = {line.split()[-1]: line.split()[0] for line in told.splitlines() if " slow " in line}
            assert "stopped" in cli("cancel", names["two"], cwd=root).stdout
            assert second.end() == 4
        assert "Nothing runs" in cli("cancel", names["two"], cwd=root).stdout
        assert "stopped" in cli("cancel", cwd=root).stdout
        assert first.end() == 4
    assert "Nothing runs" in cli("cancel", cwd=root).stdout


def test_a_typed_interruption_ends_the_turn_and_follows_the_next(cli: Cli, root: Path) -> None:
    """i: the turn is stopped, the next begins with the words, its end is the command's end."""
    with cli.at_terminal("run", "slow", "--trust", "trusted", cwd=root) as shell:
        shell.wait_for("Begun")
        shell.type("another task\n")
        shell.wait_for("interrupt (i)")
        shell.type("i\n")
        shell.wait_for("A new turn begins with it.")
        shell.wait_for("■ stopped")
        shell.wait_for("Another one.")
        assert shell.end() == 0


def test_the_verbs_as_commands(cli: Cli, root: Path) -> None:
    """From another terminal: queue, list, edit, take back, steer as told, interrupt; each says what it did."""
    with cli.at_terminal("run", "slow", "--trust", "trusted", cwd=root) as shell:
        shell.wait_for("Begun")
        assert "queued, number 1" in cli("queue", "afterwards", cwd=root).stdout
        assert "queued, number 2" in cli("queue", "then this", cwd=root).stdout
        assert "gloveport queue --edit ID" in cli("queue", cwd=root).stderr
        first, second = (line.split()[0] for line in cli("queue", cwd=root).stdout.splitlines())
        assert "changed" in cli("queue", "and afterwards", "--edit", first, cwd=root).stdout
        assert "taken back" in cli("queue", "--drop", second, cwd=root).stdout
        assert cli("queue", cwd=root).stdout.split()[1:] == ["and", "afterwards"]
        assert "names 0 of the messages" in cli("queue", "--drop", second, cwd=root, code=1).stderr
        told = cli("steer", "and a test", "--as", "supplement", cwd=root).stdout
        assert "supplement (as you chose)" in told
        assert "nothing is stopped" in told
        shell.wait_for("supplement (as you chose)")
        assert "A new turn begins with it." in cli("interrupt", "another task", cwd=root).stdout
        shell.wait_for("not sent (the turn was stopped): and a test")
        assert shell.end() == 4
    shown, told = cli("show", cwd=root).stdout, cli("transcript", cwd=root).stdout
    assert "› another task" in shown
    assert "› and a test [returned]" in shown
    assert "» steer: supplement. [Gloveport: It arrives" in shown
    assert "You, to the running turn (supplement): and a test\n\n[Gloveport: It arrives" in told


def test_there_is_nobody_to_steer(cli: Cli, root: Path) -> None:
    """Without a running turn the words say what to do; empty words and unknown kinds are usage errors."""
    cli("run", "afterwards", "--trust", "trusted", cwd=root)
    for verb in ("steer", "interrupt"):
        refused = cli(verb, "x", cwd=root, code=1).stderr
        assert "no turn runs" in refused
        assert "gloveport resume -m" in refused
        cli(verb, " ", cwd=root, code=2)
    cli("steer", "x", "--as", "louder", cwd=root, code=2)
    cli("queue", "--edit", "a", cwd=root, code=2)
    assert "Nothing waits." in cli("queue", cwd=root).stdout


def test_a_stop_tells_which_queued_messages_were_not_sent(cli: Cli, root: Path) -> None:
    """By id and first words, at the stop and in the queue's list afterwards; one that was taken back is not named."""
    with cli.at_terminal("run", "slow", "--trust", "trusted", cwd=root) as shell:
        shell.wait_for("Begun")
        for words in ("first one", "second one", "third one"):
            cli("queue", words, cwd=root)
        names = dict(line.split("  ")[::-1] for line in cli("queue", cwd=root).stdout.splitlines())
        cli("queue", "--drop", names["third one"], cwd=root)
        told = cli("cancel", cwd=root).stdout
        assert shell.end() == 4
    later = cli("queue", cwd=root).stdout
    for shown in (told, later):
        for words in ("first one", "second one"):
            assert f"not sent, as the turn was stopped: {names[words]}  {words}\n" in shown
        assert "third one" not in shown
