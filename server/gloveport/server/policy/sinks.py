"""Where data can go, as data: which word each place accepts, and who reads what arrives there.

Purpose: one table of sinks, and the one question that is asked of each: may data under this label flow there?
Invariant: an unknown place accepts nothing that anybody but the user said; a place that many share is public whatever
the readers say.
Must never: name a tool, or let a release or a grant lower a label.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum, unique
from types import MappingProxyType
from typing import Final

from gloveport.server.policy.effects import EffectKind
from gloveport.server.policy.labels import Integrity, Label


@unique
class SinkName(StrEnum):
    """Kinds of place that data can flow to."""

    http = "http"
    publish = "publish"
    message = "message"
    memory = "memory"
    configure = "configure"
    tool_server = "tool_server"
    child = "child"
    provider = "provider"
    remote_host = "remote_host"
    panel_link = "panel_link"


@dataclass(frozen=True, slots=True)
class Sink:
    """One kind of place. `integrity_max` is the worst word that may choose what goes there without being asked about.

    `reader` is a form for the name of who reads there (`{}` is the target: a host, a provider).
    """

    name: SinkName
    integrity_max: Integrity
    reader: str
    words: str


SINKS: Final[Mapping[SinkName, Sink]] = MappingProxyType(
    {
        sink.name: sink
        for sink in (
            Sink(SinkName.http, Integrity.USER, "{}", "a server; also a request that only asks tells it something"),
            Sink(SinkName.publish, Integrity.USER, "{}", "a place where others read: a push, a package, a deployment"),
            Sink(SinkName.message, Integrity.USER, "{}", "somebody's inbox"),
            Sink(SinkName.memory, Integrity.USER, "memory", "later sessions"),
            Sink(SinkName.configure, Integrity.USER, "configuration", "what decides how the agent is confined"),
            Sink(SinkName.tool_server, Integrity.USER, "tool:{}", "a server of tools that is not ours"),
            Sink(SinkName.child, Integrity.UNTRUSTED, "model:{}", "an agent below this one; it has this one's label"),
            Sink(SinkName.provider, Integrity.UNTRUSTED, "model:{}", "the provider of the model"),
            Sink(SinkName.remote_host, Integrity.UNTRUSTED, "sandbox:{}", "the machine on which a sandbox runs"),
            Sink(SinkName.panel_link, Integrity.USER, "{}", "a link or an image that a panel would load"),
        )
    }
)

EFFECT_SINKS: Final[Mapping[EffectKind, SinkName]] = MappingProxyType(
    {
        EffectKind.network: SinkName.http,
        EffectKind.publish: SinkName.publish,
        EffectKind.message: SinkName.message,
        EffectKind.memory_write: SinkName.memory,
        EffectKind.configure: SinkName.configure,
    }
)
"""Effects by which data goes somewhere; every other effect stays in the worktree and its jail."""

SHARED_HOSTS: Final = (
    "github.com", "githubusercontent.com", "gitlab.com", "bitbucket.org", "amazonaws.com", "googleapis.com",
    "azure.com", "windows.net", "cloudfront.net", "npmjs.org", "crates.io", "docker.io", "pastebin.com",
    "slack.com", "discord.com", "telegram.org", "notion.so", "vercel.app", "netlify.app", "workers.dev",
    "herokuapp.com", "blob.core.windows.net", "huggingface.co",
)  # fmt: skip
"""Hosts with many tenants: whoever names one says nothing of who reads there. The list is not whole and cannot be."""


def provider_reader(provider: str) -> str:
    """The name under which a model's provider stands among readers."""
    return SINKS[SinkName.provider].reader.format(provider)


def is_shared_host(host: str) -> bool:
    """True for a host, or one below it, that many strangers write and read at."""
    return any(host == name or host.endswith(f".{name}") for name in SHARED_HOSTS)


def reader_of(sink: Sink, target: str) -> str:
    """Who reads at this place."""
    return sink.reader.format(target)


def accepts_word(label: Label, sink: Sink) -> bool:
    """True if what stands behind this label may choose what goes to the sink."""
    return label.integrity <= sink.integrity_max


def accepts_data(label: Label, sink: Sink, target: str, *, own_account: bool = False) -> bool:
    """True if the place is among the readers. `own_account`: what goes there is bound to a credential of the user's."""
    if label.readers is None:
        return True
    if sink.reader == "{}" and is_shared_host(target) and not own_account:
        return False
    return label.readable_by(reader_of(sink, target))
