"""send_email: one message, after the user saw all of it.

Purpose: render a message with files of the worktree, and let a hand of its own take it to the user's own server.
Invariant: what is sent is what the card showed; it goes to all recipients or none; where nobody knows whether it went,
the outcome is unknown and it is not sent again.
Must never: let the model choose the server or the sender, or send what is known to be a secret.
"""

import hashlib
import mimetypes
import posixpath
from dataclasses import replace
from typing import Annotated, Any, Final

from pydantic import Field

from gloveport.protocol.errors import ErrorCode
from gloveport.protocol.journal.events.base import LabelRecord
from gloveport.protocol.journal.events.tool import EffectRecord, FileFingerprint
from gloveport.sandbox.contract import ResultKind
from gloveport.server.edit.render import visible
from gloveport.server.hands.request import start_of
from gloveport.server.tools.contract import Arguments, Found, Performed, Shown, ToolContext, ToolError, ToolPlan, effect
from gloveport.server.tools.files import RelativePath, kept_reads, touched
from gloveport.server.tools.handwork import (
    Worked,
    account_words,
    failed,
    good,
    judge_end,
    once,
    refuse_size,
    show_nothing,
)

HAND: Final = "email"
RECIPIENTS_MAX: Final = 20
ATTACHMENTS_MAX: Final = 10
SUBJECT_CHARACTERS_MAX: Final = 300
BODY_CHARACTERS_MAX: Final = 32 * 1024
ANSWER_S: Final = 10.0
DIGEST_CHARACTERS_SHOWN: Final = 12
UNKNOWN_TEXT: Final = "Whether the message was taken is unknown; it was not sent again."
NEVER_STARTED: Final = "never started"

Recipient = Annotated[str, Field(max_length=254, pattern=r"^[A-Za-z0-9._+-]{1,64}@[A-Za-z0-9.-]{1,189}$")]


class SendEmailArguments(Arguments):
    """Arguments of send_email."""

    to: list[Recipient] = Field(min_length=1, max_length=RECIPIENTS_MAX, description="Plain addresses")
    subject: Annotated[str, Field(max_length=SUBJECT_CHARACTERS_MAX, pattern=r"^[^\r\n]*$")]
    body: str = Field(max_length=BODY_CHARACTERS_MAX, description="Plain text")
    attachments: list[RelativePath] = Field(default_factory=list, max_length=ATTACHMENTS_MAX)


class SendEmail:
    """send_email"""

    name = "send_email"
    description = (
        "Send one e-mail in plain text, with files of the workspace, by the user's own account; the user is asked "
        "first and sees the whole message. It cannot be taken back."
    )
    arguments = SendEmailArguments

    async def plan(self, arguments: SendEmailArguments, context: ToolContext) -> ToolPlan:
        """Sends a message by one server."""
        mail = context.hands.mail()
        context.hands.refuse_places((mail.account.place,))
        effects: list[EffectRecord] = [effect("message", one) for one in dict.fromkeys(arguments.to)]
        effects.append(effect("network", mail.account.place))
        digests = []
        for path in arguments.attachments:
            real = await context.workspace.resolve(path)
            effects += (*touched("read", path, real), *await kept_reads(real, context))
            digests.append((real, hashlib.sha256(await context.workspace.read(path, at=real)).hexdigest()))
        await _render(arguments, mail.sender, context)
        head = await _head_lines(arguments, mail.sender, context)
        return ToolPlan(
            title=visible(f"Send an e-mail to {', '.join(arguments.to)}"[:200]),
            effects=tuple(dict.fromkeys(effects)),
            recovery="probeable",
            stop_class="opaque",
            executor=f"sandbox:{context.hands.name}",
            label=context.label,
            file_digests=tuple(digests),
            fingerprint=tuple(FileFingerprint(path=real, base_hash=one, result_hash=one) for real, one in digests),
            reversible=False,
            sends="\n".join([*head, "", arguments.body]),
            shown=Shown(head, arguments.body, is_scanned=True),
        )

    async def perform(self, arguments: SendEmailArguments, context: ToolContext) -> Performed:
        """Send it, once."""
        mail = context.hands.mail()
        if not context.was_judged("network", mail.account.place):
            raise ToolError(ErrorCode.CHANGE_CONFLICT, "the mail server was changed since the call was planned")
        message = await _render(arguments, mail.sender, context, context.fingerprint)
        asked = {
            **account_words(mail.account),
            "sender": mail.sender,
            "recipients": list(dict.fromkeys(arguments.to)),
            "timeout_s": ANSWER_S,
        }
        started = replace(start_of("mail", asked, message), account=mail.account)
        return _end(await once(HAND, started, context), arguments, mail.account.place, context)

    async def reconcile(self, arguments: Any, started: tuple[FileFingerprint, ...], context: ToolContext) -> Found:
        """Look for the run by its name."""
        return await context.hands.look(context.call_id)

    async def attach(
        self, arguments: SendEmailArguments, started: tuple[FileFingerprint, ...], context: ToolContext
    ) -> Performed:
        """Wait for the run that is there; its way out ended with the last daemon."""
        result = await context.hands.attach(context.call_id, show_nothing)
        return _end(judge_end(HAND, result), arguments, context.hands.mail().account.place, context)


async def _render(
    arguments: SendEmailArguments,
    sender: str,
    context: ToolContext,
    judged: tuple[FileFingerprint, ...] | None = None,
) -> bytes:
    """The message's bytes. Raises ToolError where it holds a secret, is too large, or a file changed since `judged`."""
    from email.headerregistry import Address  # these cost a part of every start, and few sessions send mail
    from email.message import EmailMessage
    from email.policy import SMTP

    message = EmailMessage(policy=SMTP)
    message["From"] = Address(addr_spec=sender)
    message["To"] = [Address(addr_spec=one) for one in dict.fromkeys(arguments.to)]
    message["Subject"] = arguments.subject
    message["Message-ID"] = f"<{hashlib.sha256(context.call_id.encode()).hexdigest()[:32]}@gloveport.invalid>"
    message.set_content(arguments.body)
    plain = [arguments.subject.encode(), arguments.body.encode()]
    for at, path in enumerate(arguments.attachments):
        real = await context.workspace.resolve(path)
        data = await context.workspace.read(path, at=real)
        mark = None if judged is None else judged[at]
        if mark is not None and (mark.path, mark.base_hash) != (real, hashlib.sha256(data).hexdigest()):
            raise ToolError(ErrorCode.CHANGE_CONFLICT, f"{path} changed since the message was shown")
        kind, _, subkind = (mimetypes.guess_type(path)[0] or "application/octet-stream").partition("/")
        message.add_attachment(data, maintype=kind, subtype=subkind, filename=posixpath.basename(path))
        plain.append(data)
    if any(context.redact(one) != one for one in plain):
        words = "the message holds what is known to be a secret, and would send it out"
        raise ToolError(ErrorCode.POLICY_DENIED, words, hint="Leave the secret out.")
    data = message.as_bytes()
    refuse_size(len(data), HAND, "the message", "Attach less.")
    return data


async def _head_lines(arguments: SendEmailArguments, sender: str, context: ToolContext) -> tuple[str, ...]:
    """What leaves before the text: the head, and what is attached."""
    lines = [f"From: {sender}", f"To: {', '.join(dict.fromkeys(arguments.to))}", f"Subject: {arguments.subject}"]
    for path in arguments.attachments:
        data = await context.workspace.read(path)
        digest = hashlib.sha256(data).hexdigest()[:DIGEST_CHARACTERS_SHOWN]
        lines.append(f"Attached: {path} ({len(data)} bytes, sha256 {digest})")
    return tuple(lines)


def _end(done: Worked, arguments: SendEmailArguments, place: str, context: ToolContext) -> Performed:
    stranger = LabelRecord(integrity=2, readers=None, provenance=(f"smtp:{place}",))
    nothing = failed(done, context)
    if nothing is None:
        return good(done, f"Sent to {', '.join(dict.fromkeys(arguments.to))}.", context.label)
    never = done.result.kind is ResultKind.FAILED and NEVER_STARTED in done.result.evidence
    if (done.told is None and not never) or (done.told or {}).get("unknown") is True:
        return replace(nothing, outcome="unknown", text=f"{UNKNOWN_TEXT} {nothing.text}", label=stranger)
    return replace(nothing, text=f"Nothing was sent. {nothing.text}", label=stranger)
