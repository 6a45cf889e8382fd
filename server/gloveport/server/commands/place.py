"""workspace/*, sandbox/*, model/*, audit/*, daemon/*: the places work happens in.

Purpose: the handlers of choices and of what the daemon says of itself.
Invariant: a choice is written with the words that told its difference.
Must never: fall back to another sandbox than the chosen one.
"""

import itertools

import anyio.to_thread

from gloveport.protocol.errors import ErrorCode, GloveportError
from gloveport.protocol.journal.events import EventBody, ModelSelected, SandboxChosen
from gloveport.protocol.wire.base import Empty
from gloveport.protocol.wire.methods import PROTOCOL_VERSION
from gloveport.protocol.wire.place import (
    AuditExportParams,
    AuditExportResult,
    AuditVerifyResult,
    DaemonStatusResult,
    ModelChooseParams,
    ModelInfo,
    ModelListResult,
    SandboxChooseParams,
    SandboxDoctorParams,
    SandboxDoctorResult,
    SandboxInfo,
    SandboxListResult,
    WorkspaceInfo,
    WorkspaceListResult,
    WorkspaceShowParams,
    WorkspaceTrustParams,
)
from gloveport.server.audit.ocsf import ocsf_event
from gloveport.server.audit.reading import PROVES
from gloveport.server.commands.budget import chosen_rates, limits_with
from gloveport.server.commands.data import data_info
from gloveport.server.commands.devcontainer import pin_image
from gloveport.server.commands.house import House
from gloveport.server.commands.once import Once
from gloveport.server.commands.session import check_strength, check_works, checked_root
from gloveport.server.commands.trust import UNTOLD_APART, adopt_trust
from gloveport.server.session.state import SessionState
from gloveport.server.settings import TRUST_LEVELS, UNSET, ModelChoice
from gloveport.server.transports.port import Caller
from gloveport.server.workspace.identity import folder_identity, has_generation


async def workspaces(house: House, params: Empty, caller: Caller) -> WorkspaceListResult:
    """The folders with a level of their own."""
    return WorkspaceListResult(
        workspaces=tuple(
            WorkspaceInfo(workspace_id=known.workspace_id, root=known.root, trust_level=known.level)
            for known in house.trust.known()
        )
    )


async def workspace(house: House, params: WorkspaceShowParams, caller: Caller) -> WorkspaceInfo:
    """How far a folder is trusted: `unset` where nothing was said. Raises what keeps a session from beginning in it."""
    root = checked_root(params.root)
    house.check_fit(root)
    workspace_id = folder_identity(root)
    return WorkspaceInfo(workspace_id=workspace_id, root=str(root), trust_level=house.trust.level(workspace_id))


async def trust(house: House, params: WorkspaceTrustParams, caller: Caller, once: Once) -> WorkspaceInfo:
    """Say how far a folder is trusted, or forget it; its sessions take the level over, with the sandbox set for it.

    A folder that no session begins in is given no level: one that it had from before is forgotten like any other.
    """
    root = checked_root(params.root)
    if params.trust_level != UNSET:
        house.check_fit(root)
    workspace_id = folder_identity(root)
    words = "" if has_generation(workspace_id) or params.trust_level == UNSET else UNTOLD_APART
    info = WorkspaceInfo(workspace_id=workspace_id, root=str(root), trust_level=params.trust_level, words=words)
    names = {workspace_id, *house.trust.names_before(workspace_id, root)}
    by = caller.client_name or "client"
    await house.trust.give(workspace_id, str(root), params.trust_level, by, once.request(info))
    for actor in house.sessions.all_loaded():
        if actor.state.workspace_id in names:
            await adopt_trust(actor, house.trust, house.settings())
    return info


def _check_rung(house: House, name: str) -> None:
    if name not in house.rungs.names:
        known = ", ".join(house.rungs.names)
        raise GloveportError(ErrorCode.SANDBOX_UNAVAILABLE, f"there is no sandbox {name[:100]!r}; there are: {known}")


async def sandboxes(house: House, params: Empty, caller: Caller) -> SandboxListResult:
    """All rungs, as real trials found them."""
    return SandboxListResult(sandboxes=tuple([await house.rungs.describe(name) for name in house.rungs.names]))


async def choose_sandbox(house: House, params: SandboxChooseParams, caller: Caller, once: Once) -> SandboxInfo:
    """Use another rung from the next call on."""
    _check_rung(house, params.sandbox)
    actor = await house.sessions.open(params.session_id)
    described = await house.rungs.describe(params.sandbox)
    image = await pin_image(house, actor.state, params.sandbox, params.image) if params.image else ""

    def facts(state: SessionState) -> tuple[EventBody, ...]:
        if state.turn is not None:
            raise GloveportError(
                ErrorCode.TURN_BUSY, "the sandbox is changed between turns", hint="Stop the turn first."
            )
        check_strength(described, state.trust_level)
        check_works(described)
        words = f"{described.statement} In the image {params.image} ({image})." if image else described.statement
        chosen = SandboxChosen(sandbox=params.sandbox, trust_level=state.trust_level, statement=words, image=image)
        return (chosen,)

    await actor.record(facts, once.request(described))
    return described


async def doctor(house: House, params: SandboxDoctorParams, caller: Caller) -> SandboxDoctorResult:
    """Probe a rung's claims."""
    _check_rung(house, params.sandbox)
    return await house.rungs.doctor(params.sandbox)


def _model(house: House, choice: ModelChoice) -> ModelInfo:
    label = house.model_label(choice.provider, choice.model)
    return ModelInfo(provider=choice.provider, model=choice.model, label=label, key_env=choice.key_env)


async def models(house: House, params: Empty, caller: Caller) -> ModelListResult:
    """The models that are set up."""
    return ModelListResult(
        models=tuple(_model(house, choice) for choice in house.settings().models),
        settings_path=str(house.facts.settings_path),
    )


async def choose_model(house: House, params: ModelChooseParams, caller: Caller, once: Once) -> ModelInfo:
    """Use another model from the next request on."""
    actor = await house.sessions.open(params.session_id)
    choice = house.settings().find(params.provider, params.model)
    info = _model(house, choice)
    body = ModelSelected(provider=choice.provider, model=choice.model, model_label=info.label)
    rates = await chosen_rates(house, actor.state, (choice.provider, choice.model))
    by = caller.client_name or "client"
    await actor.record(lambda state: (body, *limits_with(state, rates, by)), once.request(info))
    return info


async def verify_audit(house: House, params: Empty, caller: Caller) -> AuditVerifyResult:
    """Follow the audit chain."""
    report = await house.audit.verify()
    words = report.reason or f"{report.lines} lines follow from one another and agree with the checkpoint. {PROVES}"
    if report.findings:
        words += f"; lines {', '.join(map(str, report.findings))} tell of damage found earlier"
    if report.losses:
        words += f"; {', '.join(report.losses)}"
    return AuditVerifyResult(
        ok=report.ok,
        lines=report.lines,
        first_bad_line=report.broken_line,
        words=words,
        path=str(house.facts.audit_path),
    )


async def export_audit(house: House, params: AuditExportParams, caller: Caller) -> AuditExportResult:
    """Audit lines as objects."""

    def read() -> list[dict[str, object]]:
        return list(itertools.islice(house.audit.export(after_seq=params.after_line), params.limit + 1))

    lines = await anyio.to_thread.run_sync(read)
    shown = lines[: params.limit]
    if params.format == "ocsf":
        shown = [ocsf_event(line) for line in shown]
    return AuditExportResult(
        lines=tuple(shown), next_line=params.after_line + len(shown) if len(lines) > params.limit else None
    )


async def status(house: House, params: Empty, caller: Caller) -> DaemonStatusResult:
    """Who serves here."""
    facts = house.facts
    return DaemonStatusResult(
        pid=facts.pid,
        program_version=facts.program_version,
        protocol_version=PROTOCOL_VERSION,
        generation=facts.generation,
        started_at=facts.started_at,
        clients=house.clients(),
        running_turns=house.sessions.running_turns,
        data_dir=str(facts.data_dir),
        journal_path=str(facts.journal_path),
        audit_path=str(facts.audit_path),
        data=await data_info(house),
        sandboxes_told=await _tell_broken(house),
    )


async def _tell_broken(house: House) -> tuple[str, ...]:
    """Each sandbox of the settings that does not work here: what it was to be used for, why, and what to do."""
    chosen: dict[str, list[str]] = {}
    for level in TRUST_LEVELS:
        chosen.setdefault(house.settings().sandbox[level], []).append(level)
    faults = await house.rungs.faults(chosen.keys())
    return tuple(
        f"Programs of {' or '.join(levels)} folders are to run in {name}, which does not work here: {faults[name]} "
        f"Nothing of them runs till then. See gloveport doctor --sandbox {name}."
        for name, levels in chosen.items()
        if name in faults
    )


async def stop(house: House, params: Empty, caller: Caller) -> Empty:
    """End the daemon; running programs go on under their supervisors and are found again."""
    house.stop()
    return Empty()
