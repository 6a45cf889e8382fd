"""A grant: what was allowed, to whom, for how long, bound to what.

Purpose: the stored value, with its JSON form for the workspace stream.
Invariant: a stored grant that can't be read completely is no grant.
Must never: travel with a fork, an import or a restored backup.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from gloveport.protocol.ids import ApprovalId, GrantId, SessionId, Sha256, TurnId, WorkspaceId
from gloveport.server.policy.capability import Capability, Scope, capability_from_plain
from gloveport.server.policy.labels import Integrity


@dataclass(frozen=True, slots=True)
class Bound:
    """What must be the same at the time of use. None asks for nothing.

    `request`: digest of the one call (see `request_digest`). `files`: (path, SHA-256) of files the call named.
    `strength_min` and `network` are those of the sandbox shown, `integrity_max` the worst word that had been read.
    """

    request: Sha256 | None = None
    files: tuple[tuple[str, Sha256], ...] | None = None
    cwd: str | None = None
    environment: tuple[tuple[str, str], ...] = ()
    strength_min: int = 0
    network: bool = False
    integrity_max: Integrity = Integrity.USER

    def to_plain(self) -> dict[str, object]:
        """JSON form with every field by its name."""
        return {
            "request": self.request,
            "files": None if self.files is None else [list(one) for one in self.files],
            "cwd": self.cwd,
            "environment": [list(one) for one in self.environment],
            "strength_min": self.strength_min,
            "network": self.network,
            "integrity_max": int(self.integrity_max),
        }


@dataclass(frozen=True, slots=True)
class Grant:
    """One capability granted. Times are UTC microseconds; None in `uses_left` means any number of uses."""

    grant_id: GrantId
    capability: Capability
    scope: Scope
    workspace_id: WorkspaceId
    session_id: SessionId
    agent: str
    issued_at: int
    issued_from: ApprovalId
    bound: Bound
    expires_at: int | None = None
    uses_left: int | None = None
    turn_id: TurnId | None = None
    goal_revision: int | None = None
    revoked_at: int | None = None
    trust_generation: int = 0

    def used(self, times: int) -> "Grant":
        """The grant after so many uses."""
        if self.uses_left is None:
            return self
        return replace(self, uses_left=max(0, self.uses_left - times))

    def to_plain(self) -> dict[str, object]:
        """JSON form with every field by its name."""
        return {
            "grant_id": self.grant_id,
            "capability": self.capability.to_plain(),
            "scope": str(self.scope),
            "workspace_id": self.workspace_id,
            "session_id": self.session_id,
            "agent": self.agent,
            "issued_at": self.issued_at,
            "issued_from": self.issued_from,
            "bound": self.bound.to_plain(),
            "expires_at": self.expires_at,
            "uses_left": self.uses_left,
            "turn_id": self.turn_id,
            "goal_revision": self.goal_revision,
            "revoked_at": self.revoked_at,
            "trust_generation": self.trust_generation,
        }


def grant_from_plain(plain: object) -> Grant | None:
    """Reads the JSON form; None for anything that is not completely one."""
    try:
        return _grant(_mapping(plain))
    except (KeyError, TypeError, ValueError):
        return None


def _grant(plain: Mapping[str, object]) -> Grant:
    return Grant(
        grant_id=GrantId(_text(plain["grant_id"])),
        capability=capability_from_plain(_mapping(plain["capability"])),
        scope=Scope(_text(plain["scope"])),
        workspace_id=WorkspaceId(_text(plain["workspace_id"])),
        session_id=SessionId(_text(plain["session_id"])),
        agent=_text(plain["agent"]),
        issued_at=_number(plain["issued_at"]),
        issued_from=ApprovalId(_text(plain["issued_from"])),
        bound=bound_from_plain(_mapping(plain["bound"])),
        expires_at=_number_or_none(plain["expires_at"]),
        uses_left=_number_or_none(plain["uses_left"]),
        turn_id=None if plain["turn_id"] is None else TurnId(_text(plain["turn_id"])),
        goal_revision=_number_or_none(plain["goal_revision"]),
        revoked_at=_number_or_none(plain["revoked_at"]),
        trust_generation=_number(plain["trust_generation"]),
    )


def bound_from_plain(plain: Mapping[str, object]) -> Bound:
    """Reads the JSON form; raises ValueError, KeyError or TypeError when it is not one."""
    digest, files, cwd, network = plain["request"], plain["files"], plain["cwd"], plain["network"]
    if not isinstance(network, bool):
        raise TypeError("network is true or false")
    pairs = None if files is None else tuple((path, Sha256(sha)) for path, sha in _pairs(files))
    return Bound(
        request=None if digest is None else Sha256(_text(digest)),
        files=pairs,
        cwd=None if cwd is None else _text(cwd),
        environment=_pairs(plain["environment"]),
        strength_min=_number(plain["strength_min"]),
        network=network,
        integrity_max=Integrity(_number(plain["integrity_max"])),
    )


def _pairs(value: object) -> tuple[tuple[str, str], ...]:
    if not isinstance(value, list | tuple):
        raise TypeError("a list of pairs is expected here")
    return tuple((_text(one), _string(two)) for one, two in value)


def _mapping(value: object) -> Mapping[str, object]:
    if not isinstance(value, Mapping):
        raise TypeError("an object is expected here")
    return value


def _text(value: object) -> str:
    if not isinstance(value, str) or not value:
        raise TypeError("a string is expected here")
    return value


def _string(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError("a string is expected here")
    return value


def _number_or_none(value: object) -> int | None:
    return None if value is None else _number(value)


def _number(value: object) -> int:
    if type(value) is not int:
        raise TypeError("a whole number is expected here")
    return value
