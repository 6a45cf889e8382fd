"""A session's events as lines of a terminal.

Purpose: print each change of the view once, as it comes.
Invariant: what is printed was in the journal before; a repeated event prints nothing new.
Must never: keep more than marks of what was printed.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from rich.cells import cell_len
from rich.console import Console
from rich.control import Control
from rich.segment import ControlType

from gloveport.protocol.text import counted
from gloveport.protocol.wire.session import WireEvent
from gloveport.server.cli.hints import advice
from gloveport.server.cli.link import plain, print_words
from gloveport.server.cli.phrases import (
    call_title,
    change_words,
    counts_of_tests,
    egress_words,
    reason_of,
    retry_words,
    stopped,
)

_STATES: Final = MappingProxyType(
    {
        "ok": ("✓", "green"),
        "failed": ("✗", "red"),
        "timeout": ("✗", "red"),
        "oom": ("✗", "red"),
        "killed": ("✗", "red"),
        "policy": ("✗", "red"),
        "denied": ("⊘", "yellow"),
        "invalid": ("⊘", "yellow"),
        "cancelled": ("■", "yellow"),
        "lost": ("?", "magenta"),
        "unknown": ("?", "magenta"),
    }
)
_HOLDS: Final = MappingProxyType(
    {
        "before": "as it was before",
        "after": "as it was decided",
        "other": "changed meanwhile, nothing of this",
        "suspect": "changed since it was written; look at it",
    }
)
_VERBS: Final = MappingProxyType(
    {"accept": "accepted", "reject": "rejected", "undo": "undone", "redo": "redone", "restore": "restored"}
)
FAILURES_SHOWN_MAX: Final = 20


class Feed:
    """Prints events; `show_output` shows what running programs print."""

    def __init__(self, console: Console, *, show_output: bool = True) -> None:
        self._console = console
        self._show_output = show_output
        self._streamed: set[str] = set()
        self._open_line = False
        self._titles: dict[str, str] = {}
        self._question = ""
        self._asked_words = ""
        self._asks = False
        """Whether the open line is the question's."""
        self.input_tokens = 0
        self.output_tokens = 0

    def take(self, event: WireEvent) -> None:
        """Print what an event changed."""
        for op in event.ops:
            if op["op"] == "append":
                self._append(op)
            elif op["op"] == "upsert":
                self._upsert(event.type, op["item"], op["fields"])

        if self._question and not self._open_line:
            self.ask(self._question)

    def line(self, text: str, style: str = "", indent: str = "") -> None:
        """Print words on a line of their own, or of more where the terminal is narrower."""
        self._close_line()
        print_words(self._console, text, style, indent)

    def verbatim(self, text: str, style: str = "") -> None:
        """Print a line that is copied, run or compared: the terminal alone breaks it."""
        self._close_line()
        self._console.print(plain(text, style))

    def ask(self, words: str) -> None:
        """Show a question that stays open: what is printed meanwhile comes before it, and it is shown again.

        A terminal shows it once at any time: it is taken away before anything else is printed.
        """
        self._close_line()
        self._question = self._asked_words = words
        self._console.print(plain(words), end="")
        self._open_line = self._asks = True

    def asked(self, *, typed: bool) -> None:
        """The question is over; `typed` when the person has ended its line."""
        self._question = ""
        if typed and self._asks:
            self._open_line = self._asks = False
        else:
            self._close_line()

    def leave(self) -> None:
        """Leave the terminal at the beginning of a line."""
        self._close_line()

    def _close_line(self) -> None:
        if not self._open_line:
            return
        if self._asks and self._console.is_terminal and not self._console.is_dumb_terminal:
            rows_above = (cell_len(self._asked_words) - 1) // self._console.width
            above = ((ControlType.CURSOR_UP, 1), (ControlType.ERASE_IN_LINE, 2)) * rows_above
            self._console.control(Control(ControlType.CARRIAGE_RETURN, (ControlType.ERASE_IN_LINE, 2), *above))
        else:
            self._console.print()
        self._open_line = self._asks = False

    def _append(self, op: Mapping[str, Any]) -> None:
        is_answer = op["item"].startswith("answer/")
        if not is_answer and not self._show_output:
            return
        self._streamed.add(op["item"])
        if self._asks:
            self._close_line()
        self._console.print(plain(op["text"], "" if is_answer else "dim"), end="")
        self._open_line = not op["text"].endswith("\n")

    def _upsert(self, type_name: str, item: str, fields: Mapping[str, Any]) -> None:
        printer = {
            "ToolCallProposed": self._tool_proposed,
            "ToolExecutionStarted": self._tool_started,
            "ToolExecutionFinished": self._tool_finished,
            "TestRunFinished": self._tests,
            "EgressRecorded": self._egress,
            "ModelResponseReceived": self._answer,
            "ModelStreamInterrupted": self._interrupted,
            "RetryScheduled": self._retry,
            "ContextCompacted": self._compacted,
            "UsageRecorded": self._usage,
            "ChangeProposed": self._change,
            "ChangeApplied": self._applied,
            "ChangeRefused": self._refused,
            "ChangeUnsettled": self._unsettled,
            "EditsTaken": self._edits,
            "TurnFailed": self._turn_failed,
            "TurnCancelled": self._turn_cancelled,
            "RecoverySummarised": self._recovered,
            "OutcomeTold": self._said,
            "TextErased": self._erased,
            "SessionFrozen": self._frozen,
            "SessionThawed": self._thawed,
            "PlanUpdated": self._plan,
            "UserMessageAdded": self._message,
            "UserMessageQueued": self._queued,
            "UserMessageUnqueued": self._returned,
            "SteeringDecided": self._steered,
            "ToolStopRequested": self._tool_stopping,
            "ResultSuperseded": self._late,
        }.get(type_name)
        if printer is not None:
            printer(item, fields)

    def _message(self, _item: str, fields: Mapping[str, Any]) -> None:
        self.line(f"› {fields['text']}", "bold")

    def _queued(self, _item: str, fields: Mapping[str, Any]) -> None:
        self.line(f"… queued: {fields['text']}", "dim")

    def _returned(self, _item: str, fields: Mapping[str, Any]) -> None:
        self.line(f"↩ not sent ({fields['reason']}): {fields['text']}", "yellow")

    def _steered(self, item: str, fields: Mapping[str, Any]) -> None:
        if item.startswith("steering/"):
            read = fields["rule"] or "as you chose"
            self.line(f"» {fields['verb']}: {fields['steeringKind']} ({read})", "cyan")
            self.line(f"  {fields['words']}", "dim")

    def _tool_stopping(self, _item: str, fields: Mapping[str, Any]) -> None:
        if fields["stopping"] != "stopped":
            self.line(f"■ {fields['stopWords']}", "yellow")

    def _late(self, item: str, _fields: Mapping[str, Any]) -> None:
        self.line(
            f"  late result of the task before; kept, nothing follows from it: {self._titles.get(item, '')}", "dim"
        )

    def _tool_proposed(self, item: str, fields: Mapping[str, Any]) -> None:
        self._titles[item] = call_title(str(fields["tool"]), str(fields["arguments"]))

    def _tool_started(self, item: str, fields: Mapping[str, Any]) -> None:
        self._titles[item] = str(fields["title"])
        where = str(fields["executor"]).removeprefix("sandbox:")
        if where != "daemon":
            self.line(f"▸ {fields['title']} (in {where})", "cyan")

    def _tool_finished(self, item: str, fields: Mapping[str, Any]) -> None:
        mark, style = _STATES.get(str(fields["state"]), ("·", ""))
        took = fields.get("durationUs")
        seconds = f" {took / 1e6:.1f} s" if isinstance(took, int) else ""
        reason = "" if fields["state"] == "ok" else reason_of(fields)
        words = f": {reason}" if reason else ""
        self.line(f"{mark} {self._titles.get(item, 'A call')}{seconds}{words}", style)
        if reason.startswith("Not allowed"):
            self.line("  what would help: gloveport why")

    def _tests(self, _item: str, fields: Mapping[str, Any]) -> None:
        self.line(f"  {counts_of_tests(fields)}", "bold")
        bad = [case for case in fields["cases"] if case["status"] in ("failed", "error")]
        for case in bad[:FAILURES_SHOWN_MAX]:
            self.line(f"  ✗ {case['name']}", "red")

    def _egress(self, _item: str, fields: Mapping[str, Any]) -> None:
        for place in fields["egress"]:
            self.line(f"⇄ {egress_words(place)}", "dim" if place["allowed"] else "yellow")

    def _answer(self, item: str, fields: Mapping[str, Any]) -> None:
        if item not in self._streamed and fields["text"]:
            self.verbatim(str(fields["text"]))
        self._close_line()

    def _interrupted(self, item: str, fields: Mapping[str, Any]) -> None:
        if item in self._streamed:  # of an answer that never began, the retry or the turn's end says why
            self.line(f"[the answer broke off: {stopped(fields['reason'])}]", "yellow")

    def _retry(self, _item: str, fields: Mapping[str, Any]) -> None:
        self.line(f"↻ {retry_words(fields['retry'])}", "yellow")

    def _compacted(self, item: str, fields: Mapping[str, Any]) -> None:
        if item.startswith("compaction/"):
            counts = counted(int(fields["results"]), "long output")
            self.line(f"↻ the conversation was too long for the model: {counts} shortened for it", "yellow")

    def _usage(self, _item: str, fields: Mapping[str, Any]) -> None:
        self.input_tokens += int(fields["inputTokens"] or 0)
        self.output_tokens += int(fields["outputTokens"] or 0)

    def _change(self, _item: str, fields: Mapping[str, Any]) -> None:
        words = change_words(fields["changeKind"], fields["path"], fields.get("renamedFrom"))
        self.line(f"± {words} ({counted(len(fields['hunks']), 'hunk')})", "blue")

    def _applied(self, _item: str, fields: Mapping[str, Any]) -> None:
        verb = _VERBS.get(fields["action"], fields["action"])
        self.line(f"✓ {verb}: {', '.join(fields['paths'])}", "green")

    def _refused(self, _item: str, fields: Mapping[str, Any]) -> None:
        self.line(f"✗ nothing was written: {fields['message']}", "red")

    def _edits(self, _item: str, fields: Mapping[str, Any]) -> None:
        self.line(f"! {fields['text']}", "yellow")

    def _unsettled(self, _item: str, fields: Mapping[str, Any]) -> None:
        self.line(f"? {fields['message']}", "bold red")
        for path, holds in sorted(fields["states"].items()):
            self.line(f"  {path}: {_HOLDS.get(holds, holds)}")

    def _turn_failed(self, _item: str, fields: Mapping[str, Any]) -> None:
        self.line(f"✗ {fields['message']}", "bold red")
        self.line(f"  {advice(str(fields['code']), str(fields['hint']))}")

    def _turn_cancelled(self, _item: str, _fields: Mapping[str, Any]) -> None:
        self.line("■ stopped", "yellow")

    def _recovered(self, _item: str, fields: Mapping[str, Any]) -> None:
        self.line(f"↺ {fields['text']}", "magenta")

    def _said(self, item: str, fields: Mapping[str, Any]) -> None:
        words = "treat it as done" if fields["said"] == "done" else "it did not take effect"
        self.line(f"? {self._titles.get(item, 'A call')}: {words} (said by {fields['saidBy']})", "magenta")

    def _erased(self, _item: str, fields: Mapping[str, Any]) -> None:
        counts = f"{counted(fields['events'], 'event')} and {counted(fields['outputs'], 'output')}"
        self.line(f"[a text was erased from {counts}, by {fields['by']}]", "yellow")

    def _frozen(self, item: str, fields: Mapping[str, Any]) -> None:
        if item.startswith("freeze/"):
            self.line(f"⛔ This session is frozen. {fields['words']}", "bold red")
            self.line(f"  {fields['evidence']}")
            self.line("  what it did: gloveport why; to let it work again: gloveport thaw")

    def _thawed(self, item: str, fields: Mapping[str, Any]) -> None:
        if item.startswith("freeze/"):
            self.line(f"⛔ the session may work again (by {fields['by']})", "yellow")

    def _plan(self, _item: str, fields: Mapping[str, Any]) -> None:
        marks = {"done": "✓", "running": "▸", "pending": "○", "dropped": "✗", "superseded": "✗"}
        for step in fields["items"]:
            self.line(f"  {marks[step['state']]} {step['title']}", "dim")
