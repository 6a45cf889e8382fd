"""Programs in a jail have a repository of the session's own: git agrees with it, the user's is left alone."""

import os
import random
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.kit.history.repository import NEUTRAL
from tests.kit.require import require, require_bubblewrap
from tests.kit.sandboxes import open_rig
from tests.kit.workspaces import make_tree, propose, read_tree, whole

from gloveport.sandbox.backends.bubblewrap import BubblewrapSandbox
from gloveport.sandbox.contract import Command, Result, ResultKind
from gloveport.sandbox.profile import Access, Limits, Mount, Profile
from gloveport.server.engine.hands import bounds_of, own_repository
from gloveport.server.tools.programs import repository_words
from gloveport.server.workspace.facade import SessionWorkspace
from gloveport.server.workspace.repository import PLACE, POINTER, LentRepository, runs_nothing

FILES = {
    ".gitattributes": b"* text=auto eol=lf\n*.py filter=theirs ident diff=theirs\n*.txt working-tree-encoding=UTF-16\n",
    ".gitignore": b"made/\n",
    "a/b/deep.py": b"$Id$ one\n",
    "a/b.py": b"",
    "a.py": b"two\n",
    "crlf.txt": b"one\r\ntwo\r\n",
    "empty/.gitkeep": b"",
    "name with blank ä.bin": bytes(range(256)) * 300,
    "run.sh": b"#!/bin/sh\n",
    ".env": b"TOKEN=secret\n",
    "copy of it": b"TOKEN=secret\n",
}
CANARY = "#!/bin/sh\ntouch {}\n"


def keeps(path: str) -> bool:
    """Like the rules: names like `.env`, and what git keeps."""
    return path in (".env", ".git")


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that a jail can be shown."""
    with tempfile.TemporaryDirectory(prefix="gp-", dir="/tmp") as path:
        yield Path(path)


async def begun(folder: Path, *, boot_id: str = "") -> SessionWorkspace:
    """A session in the user's repository."""
    require(shutil.which("git") is not None, "git is not installed")
    root = make_tree(folder / "root", FILES)
    (root / "run.sh").chmod(0o755)
    (root / "link").symlink_to("a.py")
    git(root, "init", "--quiet", "--initial-branch=feature/one")
    git(root, "config", "filter.theirs.clean", f"touch {folder}/ran; cat")
    git(root, "config", "user.name", "somebody")
    (root / ".git/hooks/post-commit").write_text(CANARY.format(folder / "ran"))
    (root / ".git/hooks/post-commit").chmod(0o755)
    return await SessionWorkspace.create(root, folder / "s", boot_id=boot_id)


def git(cwd: Path, *words: str) -> bytes:
    """What git says on this machine."""
    environment = {**NEUTRAL, "GIT_CEILING_DIRECTORIES": str(cwd.parent)}
    return subprocess.run(
        ["git", "-c", "safe.directory=*", *words], cwd=cwd, env=environment, check=True, capture_output=True, timeout=60
    ).stdout


def by_git(workspace: SessionWorkspace, repository: str, *words: str) -> bytes:
    """What git says of worktree and repository."""
    return git(workspace.worktree, f"--git-dir={repository}", f"--work-tree={workspace.worktree}", *words)


async def test_git_finds_the_base_and_what_the_agent_changed(folder: Path) -> None:
    """Sound by git's own check; clean without a look into a file; no conversion of anybody's; nothing kept."""
    workspace = await begun(folder)
    try:
        await workspace.write("a.py", b"changed before it was made\n")
        repository = (await workspace.repository(keeps)).folder
        (workspace.worktree / ".git").unlink()  # its place exists in jails alone
        assert by_git(workspace, repository, "fsck", "--strict", "--full") == b""
        assert by_git(workspace, repository, "diff-files", "--name-only") == b"a.py\n"
        assert by_git(workspace, repository, "status", "--porcelain") == b" M a.py\n"
        assert by_git(workspace, repository, "branch", "--show-current") == b"feature/one\n"
        listed = by_git(workspace, repository, "ls-tree", "-r", "-z", "--name-only", "HEAD").decode().split("\0")
        assert set(listed[:-1]) == ({*FILES} | {"link"}) - {".env", "copy of it"}
        for path in set(FILES) - {".env", "copy of it"}:
            assert by_git(workspace, repository, "cat-file", "blob", f"HEAD:{path}") == FILES[path], path
        everything = by_git(workspace, repository, "cat-file", "--batch-all-objects", "--batch")
        assert b"secret" not in everything
        assert b"somebody" not in everything + (Path(repository) / "config").read_bytes()
        assert by_git(workspace, repository, "remote") == b""
        assert not (folder / "ran").exists()
    finally:
        workspace.close()


async def test_it_is_never_a_change_and_leaves_the_users_alone(folder: Path) -> None:
    """Neither the gitfile nor what lies behind it is content; the user's own repository stays byte for byte."""
    workspace = await begun(folder)
    try:
        before = read_tree(workspace.root)
        repository = Path((await workspace.repository(keeps)).folder)
        assert (workspace.worktree / ".git").read_bytes() == POINTER
        assert await workspace.proposals() == ()
        assert await workspace.withheld(keeps) == {".env", "copy of it"}
        (repository / "hooks/pre-commit").write_text(CANARY.format(folder / "ran"))
        assert await workspace.proposals() == ()
        await workspace.write("a.py", b"2\n")
        await workspace.apply(await workspace.plan_accept(whole(*(await propose(workspace)).values())))
        assert read_tree(workspace.root) == before | {"a.py": (before["a.py"][0], b"2\n")}
    finally:
        workspace.close()


async def test_what_becomes_kept_is_not_in_it_any_more(folder: Path) -> None:
    """A rule of today decides, not that of the day on which it was made."""
    workspace = await begun(folder)
    try:
        repository = (await workspace.repository(lambda path: path == ".git")).folder
        assert b"secret" in by_git(workspace, repository, "cat-file", "--batch-all-objects", "--batch")
        assert (await workspace.repository(keeps)).folder == repository
        assert b"secret" not in by_git(workspace, repository, "cat-file", "--batch-all-objects", "--batch")
    finally:
        workspace.close()


async def test_a_folder_without_git_gets_none_and_what_a_program_made_stays(folder: Path) -> None:
    """No repository of the user's: none of ours. A program's own `.git` is not replaced."""
    root = make_tree(folder / "plain", {"a.txt": b"1\n"})
    workspace = await SessionWorkspace.create(root, folder / "p")
    try:
        assert (await workspace.repository(keeps)).folder == ""
        assert not (workspace.worktree / ".git").exists()
    finally:
        workspace.close()
    workspace = await begun(folder)
    try:
        git(workspace.worktree, "init", "--quiet")
        assert (await workspace.repository(keeps)).folder == ""
        assert (workspace.worktree / ".git/HEAD").exists()
    finally:
        workspace.close()


async def test_where_it_cannot_be_made_a_program_runs_without(folder: Path) -> None:
    """The user's folder is away: none, and no failure; a file in the way goes."""
    workspace = await begun(folder)
    try:
        workspace.root.rename(folder / "away")
        lent = await workspace.repository(keeps)
        assert lent.folder == ""
        assert repository_words(lent, ("git", "log")).startswith("\n[git finds no repository here: ")
        assert repository_words(lent, ("make",)) == ""
        (folder / "away").rename(workspace.root)
        (workspace.session_dir / "repository").write_bytes(b"in the way")
        assert (await workspace.repository(keeps)).folder != ""
    finally:
        workspace.close()


async def test_one_that_is_closed_or_deep_is_made_anew(folder: Path) -> None:
    """What a program did to it is no reason to go without, and nothing of it is left beside the new one."""
    workspace = await begun(folder)
    try:
        repository = Path((await workspace.repository(lambda path: path == ".git")).folder)
        (repository / "objects/own").mkdir()
        (repository / "objects/own/file").write_bytes(b"x")
        (repository / "objects/own").chmod(0)
        (repository / "objects").chmod(0)
        lent = await workspace.repository(keeps)  # another rule, so it is made anew
        assert (lent.folder, lent.writable, lent.words) == (str(repository), True, "")
        assert not (repository / "objects/own").exists()
        assert by_git(workspace, lent.folder, "fsck", "--strict", "--full") == b""
    finally:
        workspace.close()


async def test_too_large_a_folder_has_none_and_that_is_told(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Above the limit git finds nothing, and whoever asks it is told why."""
    monkeypatch.setattr("gloveport.server.workspace.repository.CONTENT_BYTES_MAX", 1 << 10)
    workspace = await begun(folder)
    try:
        lent = await workspace.repository(keeps)
        assert lent.folder == ""
        assert "is larger than" in repository_words(lent, ("sh", "-c", "git log"))
        assert repository_words(lent, ("make",)) == ""
        assert not (workspace.worktree / ".git").exists()
    finally:
        workspace.close()


@pytest.mark.parametrize("limit", ["REPOSITORY_BYTES_MAX", "REPOSITORY_FILES_MAX"])
async def test_one_that_grew_too_large_is_read_and_grows_no_more(
    folder: Path, monkeypatch: pytest.MonkeyPatch, limit: str
) -> None:
    """In the jail git still shows everything that was committed; a further commit fails, and each run is told."""
    require_bubblewrap()
    workspace = await begun(folder)
    try:
        before = await workspace.repository(keeps)
        assert (before.writable, repository_words(before, ("git", "log"))) == (True, "")
        async with open_rig("bubblewrap") as rig:
            assert isinstance(rig.backend, BubblewrapSandbox)
            first = await run(
                workspace, rig.backend, before, "echo 2 > a.py; git commit -qam second; git log --oneline"
            )
            assert first.output.count(b"\n") == 2, first.output
            monkeypatch.setattr(f"gloveport.server.workspace.repository.{limit}", 5)
            after = await workspace.repository(keeps)
            assert (after.folder, after.writable) == (before.folder, False)
            assert "grown to more than" in repository_words(after, ("make",))
            second = await run(workspace, rig.backend, after, "git log --oneline; echo 3 > a.py; git commit -qam 3")
            assert b"second" in second.output
            assert second.exit_code != 0
            assert b"ead-only file system" in second.output
    finally:
        workspace.close()


@pytest.mark.parametrize("mib", [8, 1024])
async def test_a_run_that_fills_it_is_ended_within_the_run(
    folder: Path, monkeypatch: pytest.MonkeyPatch, mib: int
) -> None:
    """Though it ignores being asked to end, and in words that say why; with room enough it does what it likes."""
    require_bubblewrap()
    monkeypatch.setattr("gloveport.server.engine.hands.REPOSITORY_BYTES_MAX", mib << 20)
    fill = f"head -c 1048576 /dev/urandom > {PLACE}/objects/deep/er/$n; sleep 0.1"
    script = f"trap '' TERM; mkdir -p {PLACE}/objects/deep/er; for n in $(seq 50); do {fill}; done; echo all"
    workspace = await begun(folder)
    try:
        lent = await workspace.repository(keeps)
        async with open_rig("bubblewrap") as rig:
            assert isinstance(rig.backend, BubblewrapSandbox)
            ended = await run(workspace, rig.backend, lent, script)
        made = len(list((Path(lent.folder) / "objects/deep/er").iterdir()))
        if mib == 8:
            assert (ended.kind, b"all" in ended.output) == (ResultKind.KILLED, False)
            assert "the session's own git repository has grown to more than 8 MiB" in ended.evidence
            assert 8 <= made < 50
        else:
            assert (ended.kind, made) == (ResultKind.OK, 50)
    finally:
        workspace.close()


async def test_it_lasts_one_boot(folder: Path) -> None:
    """After the machine went down nobody knows what of it is whole."""
    workspace = await begun(folder, boot_id="one")
    repository = Path((await workspace.repository(keeps)).folder)
    (repository / "HEAD").write_bytes(b"")
    workspace.close()
    again = await SessionWorkspace.open(workspace.session_dir, boot_id="two")
    try:
        await again.mend({})
        assert not repository.exists()
        assert (await again.repository(keeps)).folder == str(repository)
        assert by_git(again, str(repository), "rev-list", "--count", "HEAD") == b"1\n"
    finally:
        again.close()


@pytest.mark.parametrize(
    "head",
    [b"", b"ref: refs/heads/../../x\n", b"ref: refs/heads/a..b\n", b"ref: refs/heads/.invalid\n", b"0" * 40 + b"\n",
     b"ref: refs/heads/x.lock\n", b"ref: refs/heads/a//b\n", b"ref: refs/heads/a\nmore", b"\xff" * 5000],
)  # fmt: skip
async def test_no_name_of_a_branch_leads_away(folder: Path, head: bytes) -> None:
    """What is no plain name of a branch becomes `main`."""
    workspace = await begun(folder)
    try:
        (workspace.root / ".git/HEAD").write_bytes(head)
        repository = (await workspace.repository(keeps)).folder
        assert by_git(workspace, repository, "branch", "--show-current") == b"main\n"
    finally:
        workspace.close()


@pytest.mark.parametrize("seed", range(6))
async def test_any_tree_has_the_name_that_git_gives_it(folder: Path, seed: int) -> None:
    """Names that sort differently as files and as folders, equal folders, long names."""
    chance = random.Random(seed)
    parts = ["a", "a.b", "a-b", "a0", "ab", "b" * 200, "ü", "A", "z z"]
    files = {
        "/".join(chance.choices(parts, k=chance.randint(1, 4))): chance.randbytes(chance.randint(0, 40))
        for _ in range(40)
    }
    files = {path: data for path, data in files.items() if not any(other.startswith(f"{path}/") for other in files)}
    files["long/" + "/".join(["n" * 250] * 14)] = b"x"
    root = make_tree(folder / "root", files)
    git(root, "init", "--quiet")
    workspace = await SessionWorkspace.create(root, folder / "s")
    try:
        repository = (await workspace.repository(lambda _: False)).folder
        git(root, "add", "-A")
        assert by_git(workspace, repository, "rev-parse", "HEAD^{tree}") == git(root, "write-tree")
        assert by_git(workspace, repository, "write-tree") == git(root, "write-tree")
    finally:
        workspace.close()


async def run(workspace: SessionWorkspace, backend: BubblewrapSandbox, lent: LentRepository, script: str) -> Result:
    """One command, with what a session shows it."""
    root = str(workspace.root)
    mounts = (Mount(str(workspace.worktree), root, Access.READ_WRITE), *own_repository(lent))
    profile = Profile("repository", "build", mounts, root, Limits(wall_s=30.0), bounds=bounds_of(lent))
    name = f"run-{os.urandom(6).hex()}"
    lease = await backend.prepare(profile, name)
    try:
        execution = await lease.start(Command(("sh", "-ec", script), name))
        return await execution.result()
    finally:
        await lease.release()


async def test_a_hook_that_a_program_plants_runs_in_the_jail_alone(folder: Path) -> None:
    """Git works inside as ever, hooks included (the control); on the host the worktree leads git nowhere."""
    require_bubblewrap()
    async with open_rig("bubblewrap") as rig:
        assert isinstance(rig.backend, BubblewrapSandbox)
        workspace = await begun(folder)
        try:
            repository = await workspace.repository(keeps)
            plant = (
                f"printf '{CANARY.format('ran-here')}' > {PLACE}/hooks/post-commit; chmod +x {PLACE}/hooks/post-commit"
            )
            first = await run(workspace, rig.backend, repository, f"git status --porcelain; {plant}; echo 2 > a.py")
            assert (first.exit_code, first.output) == (0, b"")
            second = await run(workspace, rig.backend, repository, "git diff --stat; git commit -qam 2; ls ran-here")
            assert second.exit_code == 0, second.output
            assert b" a.py | 2 +-\n" in second.output
            assert second.output.endswith(b"ran-here\n")
            (workspace.worktree / "ran-here").unlink()
            for words in (["status"], ["commit", "-qam", "3"], ["diff"]):
                with pytest.raises(subprocess.CalledProcessError) as failed:
                    git(workspace.worktree, *words)
                assert b"not a git repository" in failed.value.stderr
            assert not (workspace.worktree / "ran-here").exists()
            assert set(await propose(workspace)) == {"a.py"}
        finally:
            workspace.close()


def _plant(name: str, data: bytes) -> Callable[[Path], None]:
    def planted(repository: Path) -> None:
        (repository / name).parent.mkdir(exist_ok=True)
        with (repository / name).open("ab") as file:
            file.write(data)

    return planted


@pytest.mark.parametrize(
    "plant",
    [
        _plant("hooks/post-index-change", CANARY.encode()),
        _plant("config", b"[core]\n\tfsmonitor = id\n"),
        _plant("config.worktree", b"[core]\n\tfsmonitor = id\n"),
        _plant("commondir", b"/elsewhere\n"),
        _plant("modules/config", b"x"),
        _plant("index", b"\0\0\xe0\0"),
        _plant("sharedindex.0", b"x"),
    ],
    ids=["hook", "config", "config.worktree", "commondir", "modules", "gitlink", "sharedindex"],
)
async def test_what_a_program_put_into_the_repository_ends_its_being_plain(
    folder: Path, plant: Callable[[Path], None]
) -> None:
    """As it was made git runs nothing of it; with any of these it would, and is asked about."""
    workspace = await begun(folder)
    repository = (await workspace.repository(keeps)).folder
    assert runs_nothing(workspace.session_dir, workspace.worktree)
    plant(Path(repository))
    assert not runs_nothing(workspace.session_dir, workspace.worktree)
    workspace.close()


def test_a_folder_that_looks_like_a_repository_is_none(tmp_path: Path) -> None:
    """Without one of the session's own, git takes a folder with HEAD, objects and refs for one and obeys its config."""
    (tmp_path / "worktree").mkdir()
    assert runs_nothing(tmp_path, tmp_path / "worktree")
    (tmp_path / "worktree/HEAD").write_text("ref: refs/heads/main\n")
    assert not runs_nothing(tmp_path, tmp_path / "worktree")
