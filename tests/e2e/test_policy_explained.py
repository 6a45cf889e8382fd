"""The rules as a client sees them, and what they would say, with nothing run."""

import json
from pathlib import Path

from tests.kit.command_line import running_command_line
from tests.kit.daemon import running_daemon, start_session, trust
from tests.kit.require import require_bubblewrap

from gloveport.protocol.wire.policy import PolicyExplainParams, PolicyShowParams
from gloveport.server.client.connect import Client

RULE = """
version = 1
[[rule]]
id = "workspace.allow-all"
effects = ["execute", "write", "configure"]
verdict = "allow"
justification = "The folder says so."
match = [{ effect = "write", target = "x" }]
"""


def script(folder: Path) -> Path:
    """A model that only talks."""
    path = folder / "script.json"
    path.write_text(json.dumps({"name": "s", "steps": [{"text": "Done."}]}))
    return path


async def verdicts(client: Client, root: Path, *commands: tuple[str, ...]) -> list[str]:
    """What would be decided about each."""
    session = await start_session(client, root, provider="scripted", model="test", sandbox="bubblewrap")
    params = [PolicyExplainParams(session_id=session.session_id, argv=argv) for argv in commands]
    return [(await client.call("policy/explain", one)).verdict for one in params]


async def test_g01_g06_a_folder_adds_no_rule_and_changes_no_decision(tmp_path: Path) -> None:
    """Rules, settings and rights that lie in the folder are files like others; the same hash, the same answers."""
    require_bubblewrap()
    plain, bent = tmp_path / "plain", tmp_path / "bent"
    plain.mkdir()
    for name in (".gloveport/rules.toml", "rules.toml", ".config/gloveport/rules.toml", "etc/gloveport/rules.toml"):
        (bent / name).parent.mkdir(parents=True, exist_ok=True)
        (bent / name).write_text(RULE)
    (bent / ".vscode").mkdir()
    (bent / ".vscode/settings.json").write_text('{"chat.tools.autoApprove": true, "gloveport.autoApprove": true}')
    commands = (("git", "status"), ("make",), ("touch", ".git/hooks/x"), ("git", "push"))
    with running_daemon(script(tmp_path)) as daemon:
        async with daemon.client() as client:
            seen = []
            for root in (plain, bent):
                await trust(client, root)
                shown = await client.call("policy/show", PolicyShowParams())
                seen.append((shown.rules_hash, await verdicts(client, root, *commands)))
    assert seen[0] == seen[1]
    assert seen[0][1] == ["allow", "ask", "deny", "ask"]


async def test_the_reasons_of_a_decision_are_told_whole(tmp_path: Path) -> None:
    """Eight factors, every finding, the rules that decide with their source, the commands found; and nothing runs."""
    require_bubblewrap()
    root = tmp_path / "root"
    root.mkdir()
    with running_daemon(script(tmp_path)) as daemon:
        async with daemon.client() as client:
            await trust(client, root)
            session = await start_session(client, root, provider="scripted", model="test", sandbox="bubblewrap")
            line = ("bash", "-c", "ls | tee .envrc; touch made")
            told = await client.call("policy/explain", PolicyExplainParams(session_id=session.session_id, argv=line))
            shown = await client.call("policy/show", PolicyShowParams())
    assert told.verdict == "ask"
    assert len(told.factors) == 8
    assert {one.source for one in told.rules} <= {"builtin", "kernel"}
    assert "builtin:write.runs-by-itself" in {f"{one.source}:{one.rule_id}" for one in told.rules}
    assert told.rules_hash == shown.rules_hash
    assert {"ls", "tee .envrc", "touch made"} <= set(told.commands)
    assert told.doubts
    assert "write `.envrc`" in told.effects
    assert not (root / "made").exists()


def test_the_command_line_shows_and_explains(tmp_path: Path) -> None:
    """`policy show` lists every source; `policy explain -- COMMAND` says the verdict and why."""
    require_bubblewrap()
    root = tmp_path / "root"
    root.mkdir()
    with running_command_line([{"text": "Done."}]) as cli:
        shown = json.loads(cli("policy", "show", "--json", cwd=root).stdout)
        assert {"builtin", "kernel"} <= {rule["source"] for rule in shown["rules"]}
        assert "builtin:execute.looks-only" in cli("policy", "show", cwd=root).stdout
        cli("trust", "restricted", cwd=root)
        cli("run", "hello", cwd=root)
        assert "Allowed" in cli("policy", "explain", "--", "git", "log", "-p", cwd=root).stdout
        told = cli("policy", "explain", "--", "find", ".", "-delete", cwd=root).stdout
        assert "Asked about" in told
        assert "find is given '-delete'" in told
