"""What would be decided about a command, without running it.

Purpose: plan and judge a command as a call of the model would be, and hand the whole decision out.
Invariant: the same plan, facts, rules and rights as for a call; nothing is written and nothing is started.
Must never: use a right up.
"""

import hashlib
import json
from typing import Final

from gloveport.server.engine.actor import Actor, Running
from gloveport.server.engine.judging import decision_on
from gloveport.server.engine.tool_run import lay_out
from gloveport.server.engine.understanding import understand_plan
from gloveport.server.policy.decide import Decision
from gloveport.server.policy.shell.understood import Understood
from gloveport.server.session.state import Call

TOOL: Final = "run_command"


async def explain_command(actor: Actor, argv: tuple[str, ...]) -> tuple[Decision, Understood | None]:
    """The decision on this command in the session as it stands. Raises GloveportError where it can't be planned."""
    arguments = json.dumps({"argv": list(argv)})
    call = Call(
        call_id="explained",
        provider_call_id="",
        tool=TOOL,
        arguments_json=arguments,
        arguments_digest=hashlib.sha256(arguments.encode()).hexdigest(),
        goal_revision=actor.state.goal_revision,
        label=actor.state.label,
    )
    bench = await lay_out(actor, call, Running())
    plan = await bench.tool.plan(bench.arguments, bench.context)
    known = await understand_plan(plan, bench.hands, actor.workspace)
    return await decision_on(actor, call, plan, bench.hands, known), known
