"""What the proof lets the daemon do: short jobs over every type of effect.

Purpose: the project of the user, the scripted model and the acts of a user, for each job; pure data.
Invariant: every job ends in the same files whatever was interrupted and asked for again; a command leaves its token
    with the witness before anything else.
Must never: depend on time or chance.

A message is `NAME try N`; its steps of the script name both, so that what is asked again after an explained
interruption has tokens of its own.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, Literal

TRIES_MAX: Final = 12
STEERED: Final = "-steered"
QUEUED: Final = "-queued"
WITNESS: Final = "witness"
"""The witness is an append file outside the daemon's home: no process has to live to keep what was seen."""
PROGRAM: Final = """\
# token, witness, gate: say to the witness that this ran, then wait until the gate is there
printf '%s\\n' "$1" >> "$2"
echo "began $1"
while [ ! -e "$3" ]; do sleep 0.02; done
echo "ended $1"
"""
LEAK: Final = """\
# token, witness, gate: the same, and say a text that stands in no file, so often that the output is kept as a body
printf '%s\\n' "$1" >> "$2"
echo "began $1"
while [ ! -e "$3" ]; do sleep 0.02; done
said=$(printf 'tok-%s-%s' 93Q7xyzzy erased)
yes "$said and other words in a line that is long enough" | head -n 2000
echo "ended $1"
"""
SECRET: Final = "tok-93Q7xyzzy-erased"
"""What is erased: it is typed, printed, and said by the model."""
RULED: Final = "ruled.txt"
RULES: Final = f"""\
version = 1
[[rule]]
id = "own.ask"
effects = ["write"]
paths = ["{RULED}"]
verdict = "ask"
justification = "Only with a word of mine."
match = [{{ effect = "write", target = "{RULED}" }}]
"""
"""Rules of a session, given while its turn runs."""
FILES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "program.sh": PROGRAM,
        "leak.sh": LEAK,
        "read.txt": "what is read\n",
        "mod.txt": "a\nb\nc\n",
        "gone.txt": "goes\n",
        "test_it.py": "def test_it():\n    open('{witness}', 'a').write('tested\\n')\n",
    }
)

Step = dict[str, Any]
Ending = Literal["completed", "cancelled", "failed"]


@dataclass(frozen=True, slots=True)
class Say:
    """A message whose turn is followed to `ends`; `stop` presses stop once the view shows this text.

    `steered` are the replies after a word in between, `queued` those to a message that waits for the end; both are
    said while the command of this message runs, and with `ruled` the session is given `RULES` then; with `lost` the
    run's supervisor is killed, so that nobody knows what became of the call. `beside` is typed behind the message.
    """

    name: str
    replies: tuple[Step, ...]
    ends: Ending = "completed"
    stop: str = ""
    deny: bool = False
    steered: tuple[Step, ...] = ()
    queued: tuple[Step, ...] = ()
    ruled: bool = False
    lost: bool = False
    beside: str = ""


@dataclass(frozen=True, slots=True)
class Decide:
    """Accept or reject these paths; undo names none and turns back the last decision."""

    name: str
    action: Literal["accept", "reject", "undo"]
    paths: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Erase:
    """Take `SECRET` out of the record; once it is answered, no file of the daemon's holds it."""

    name: str


Act = Say | Decide | Erase


@dataclass(frozen=True, slots=True)
class Job:
    """A session's work: acts in order, and what the user's folder holds in the end (null: the file is gone)."""

    name: str
    acts: tuple[Act, ...]
    changes: Mapping[str, str | None] = field(default_factory=lambda: MappingProxyType({}))

    def files(self, witness: Path) -> dict[str, str]:
        """The user's files at the end."""
        files = {**FILES, **self.changes}
        return {path: text.replace("{witness}", str(witness)) for path, text in files.items() if text is not None}


def call(tool: str, **arguments: Any) -> Step:
    """One call of the model."""
    return {"name": tool, "arguments": arguments}


def run(token: str, program: str = "program.sh") -> Step:
    """A command that tells the witness its token."""
    return call("run_command", argv=["sh", program, token, "{witness}", "{gate}"])


_TEXT: Final = "Some words that come in pieces, so that an answer can break in the middle."

READS: Final = Job(
    "reads",
    (
        Say(
            "look",
            (
                {"text": _TEXT, "calls": [call("read_file", path="read.txt"), call("list_files", pattern="*")]},
                {
                    "text": "A plan.",
                    "calls": [
                        call("search", pattern="read"),
                        call("update_plan", items=[{"text": "look", "status": "done"}]),
                    ],
                },
                {"text": "Looked."},
            ),
        ),
    ),
)
EDITS: Final = Job(
    "edits",
    (
        Say(
            "edit",
            (
                {
                    "text": "Writing.",
                    "calls": [
                        call("write_file", path="new.txt", content="made\n"),
                        call("write_file", path="mod.txt", content="a\nB\nc\n"),
                        call("delete_file", path="gone.txt"),
                    ],
                },
                {"text": "Written."},
            ),
        ),
        Decide("first", "accept", ("mod.txt",)),
        Decide("second", "reject", ("gone.txt",)),
        Decide("third", "undo"),
        Decide("fourth", "undo"),
        Decide("fifth", "accept", ("mod.txt", "new.txt")),
    ),
    MappingProxyType({"mod.txt": "a\nB\nc\n", "new.txt": "made\n"}),
)
RUNS: Final = Job(
    "runs",
    (
        Say("run", ({"text": "Running.", "calls": [run("{try}-one"), run("{try}-one")]}, {"text": "Ran."})),
        Say(
            "stopped",
            ({"text": "Running on.", "calls": [run("{try}-long")]}, {"text": "Not reached."}),
            ends="cancelled",
            stop="began",
        ),
    ),
)
STOPS: Final = Job(
    "stops",
    (
        Say(
            "streamed",
            ({"text": _TEXT, "chunk_chars": 20, "wait_for_file": "never", "wait_after_chunks": 2},),
            ends="cancelled",
            stop="Some words",
        ),
        Say("denied", ({"text": "May I?", "calls": [run("{try}-denied")]}, {"text": "As you say."}), deny=True),
        Say("after", ({"text": "Good."},)),
    ),
)
STEERS: Final = Job(
    "steers",
    (
        Say(
            "steer",
            ({"text": "Running.", "calls": [run("{try}-one")]}, {"text": "Not reached."}),
            steered=(
                {"text": "As you say.", "calls": [call("write_file", path="more.txt", content="more\n")]},
                {"text": "Done."},
            ),
            queued=({"text": "And this."},),
        ),
    ),
)
TESTS: Final = Job("tests", (Say("tests", ({"text": "Testing.", "calls": [call("run_tests")]}, {"text": "Tested."})),))
ERASES: Final = Job(
    "erases",
    (
        Say(
            "leak",
            (
                {"text": "Running.", "calls": [run("{try}-one", "leak.sh"), call("read_file", path="read.txt")]},
                {"text": f"It said {SECRET}, as you did.", "chunk_chars": 5},
            ),
            beside=f"Use {SECRET} for it.",
        ),
        Erase("erase"),
        Say("on", ({"text": "It goes on.", "calls": [run("{try}-one")]}, {"text": "Done."})),
        Erase("again"),
    ),
)
RULED_JOB: Final = Job(
    "rules",
    (
        Say(
            "rule",
            (
                {"text": "Running.", "calls": [run("{try}-one")]},
                {"text": "And this.", "calls": [call("write_file", path=RULED, content="ruled\n")]},
                {"text": "Done."},
            ),
            ruled=True,
        ),
    ),
)
SETTLES: Final = Job(
    "settles",
    (
        Say(
            "lose",
            ({"text": "Running.", "calls": [run("{try}-one")]}, {"text": "Who knows."}),
            ends="failed",
            lost=True,
        ),
        Say("after", ({"text": "Good."},)),
    ),
)
JOBS: Final[tuple[Job, ...]] = (READS, EDITS, RUNS, STOPS, STEERS, TESTS, ERASES, RULED_JOB, SETTLES)


def job_named(name: str) -> Job:
    """The job of a name."""
    return next(job for job in JOBS if job.name == name)


def message_of(act: Say, attempt: int, word: str = "") -> str:
    """What the user types; `word` names what is said while the turn runs."""
    return f"{act.name}{word} try {attempt}."


def script_of(job: Job, witness: Path, gates: Path) -> dict[str, Any]:
    """The scripted model of a job. A gate bears the name of its message."""
    steps: list[Step] = []
    for act in job.acts:
        if isinstance(act, Say):
            for attempt in range(1, TRIES_MAX + 1):
                words = {"{try}": f"{act.name}-{attempt}", "{witness}": str(witness)}
                words["{gate}"] = str(gates / f"{act.name}-{attempt}")
                for word, replies in (("", act.replies), (STEERED, act.steered), (QUEUED, act.queued)):
                    steps += [
                        {
                            "when": {"user_contains": message_of(act, attempt, word), "turn": turn},
                            **_filled(reply, words),
                        }
                        for turn, reply in enumerate(replies)
                    ]
    return {"name": "proof", "steps": steps}


def _filled(reply: Step, words: Mapping[str, str]) -> Step:
    text = json.dumps(reply)
    for name, value in words.items():
        text = text.replace(name, value)
    filled: Step = json.loads(text)
    return filled


def make_project(root: Path, witness: Path) -> None:
    """The user's folder before anything."""
    root.mkdir(parents=True)
    for path, text in FILES.items():
        (root / path).write_text(text.replace("{witness}", str(witness)))
