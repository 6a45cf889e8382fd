"""Command lines that hide something are never started unasked, nor with a right that lasts; ordinary ones often are."""

import pytest
from tests.kit.policy_cases import MACHINE, PROCESS, command, context, judge, understood, with_user_rules
from tests.kit.shell import Nasty, nasty, ordinary

from gloveport.server.parsing.bash import parse_bash
from gloveport.server.policy.card import build_card
from gloveport.server.policy.rung import TrustLevel
from gloveport.server.policy.shell.looks import _grammar, looks, wrappers
from gloveport.server.policy.shell.tree import SHELL_CHARS_MAX, SHELL_DEPTH_MAX, SHELL_NODES_MAX
from gloveport.server.policy.shell.understood import Inside, understand, with_places

UNASKED_SHARE_MIN = 0.45
"""Of the ordinary command lines, how many need no question at least (`python -m tests.kit.shell` prints the figure)."""


@pytest.mark.parametrize("case", nasty(), ids=lambda case: case.name)
def test_b01_b02_b03_b05_b07_a_nasty_line_never_runs_unasked(case: Nasty) -> None:
    """In any sandbox and at any level of trust; what is asked about is asked about each time where text is run."""
    for sandbox in (PROCESS, MACHINE):
        for level in TrustLevel:
            assert judge(command(*case.argv, sandbox=sandbox), trust_level=level).verdict != "allow"
    call = command(*case.argv)
    decision = judge(call)
    if case.text is not None and decision.verdict == "ask":
        card = build_card(call, decision, context())
        assert [option["scope"] for option in card["options"]] == ["once"]


def test_the_sets_are_large_and_most_ordinary_lines_only_look() -> None:
    """The figure that is stated, held from below."""
    assert len(nasty()) >= 200
    assert len(ordinary()) >= 200
    unasked = [line for line in ordinary() if judge(command("bash", "-c", line)).verdict == "allow"]
    assert len(unasked) >= UNASKED_SHARE_MIN * len(ordinary())


@pytest.mark.parametrize(
    "text",
    ["git status", "ls -la | head -5", "cd src && grep -rn 'import' . | wc -l", "ls 2>/dev/null; pwd"],
)
def test_without_the_systems_own_programs_nothing_is_taken_for_granted(text: str) -> None:
    """B03: each control: program, path or tree that is not known makes the same line one that is asked about."""
    argv = ("bash", "-c", text)
    known = understand(argv, parse_bash, Inside("/project", "/tmp"))
    places = {name: f"/usr/bin/{name}" for name in known.programs}
    leads = {effect.target: effect.target for effect in known.effects}
    assert judge(command(*argv)).verdict == "allow"
    assert not with_places(known, places, dict(leads)).doubts
    for name in known.programs:
        assert with_places(known, {**places, name: f"./{name}"}, dict(leads)).doubts
        assert with_places(known, {one: at for one, at in places.items() if one != name}, dict(leads)).doubts
    for path in leads:
        assert with_places(known, places, {**leads, path: None}).doubts
    assert understand(argv, lambda _text: None).doubts
    assert judge(command(*argv, understood=None)).verdict == "ask"


def test_where_a_path_leads_is_judged_too() -> None:
    """B12: a link to a secret is reading the secret; one out of the workspace is a doubt."""
    known = understand(("cat", "notes"), parse_bash)
    places = {"cat": "/usr/bin/cat"}
    assert judge(command("cat", "notes", understood=with_places(known, places, {"notes": "notes"}))).verdict == "allow"
    assert judge(command("cat", "notes", understood=with_places(known, places, {"notes": ".env"}))).verdict == "ask"
    assert with_places(known, places, {"notes": None}).doubts


@pytest.mark.parametrize(
    ("argv", "path", "rule"),
    [
        (("bash", "-c", "git show > .git/hooks/pre-commit"), ".git/hooks/pre-commit", "write.never"),
        (("bash", "-c", "ls | tee vendor/sub/.git/config"), "vendor/sub/.git/config", "write.never"),
        (("cp", "x", ".gloveport/rules.toml"), ".gloveport/rules.toml", "write.never"),
        (("cp", "-rZ", "x", ".git/hooks"), ".git/hooks/x", "write.never"),
        (("mv", "x", ".GIT/hooks/y"), ".GIT/hooks/y", "write.never"),
        (("rm", "-rf", ".git"), ".git", "write.never"),
        (("touch", "../x"), "../x", "write.outside"),
        (("mkdir", "-p", ".vscode"), ".vscode", "write.runs-by-itself"),
        (("bash", "-c", "cd sub && ls > .envrc"), "sub/.envrc", "write.runs-by-itself"),
        (("bash", "-c", "cat > AGENTS.md <<'X'\nhi\nX"), "AGENTS.md", "write.runs-by-itself"),
        (("ln", "-s", "evil", "conftest.py"), "conftest.py", "write.runs-by-itself"),
        (("chmod", "+x", ".husky/pre-commit"), ".husky/pre-commit", "write.runs-by-itself"),
        (("tee", "AGE\u200bNTS.md"), "AGE\u200bNTS.md", "write.runs-by-itself"),
        (tuple("cp -t .git/hooks evil".split()), ".git/hooks/evil", "write.never"),
        (tuple("cp -vt.git/hooks evil".split()), ".git/hooks/evil", "write.never"),
        (tuple("cp --target-directory=.git/hooks evil".split()), ".git/hooks/evil", "write.never"),
        (tuple("mv --target .git/hooks evil".split()), ".git/hooks/evil", "write.never"),
        (tuple("ln -st .git/hooks ../evil".split()), ".git/hooks/evil", "write.never"),
        (tuple("install -m 755 -t .git/hooks evil".split()), ".git/hooks/evil", "write.never"),
        (tuple("install -d .git/hooks a".split()), ".git/hooks", "write.never"),
        (tuple("/bin/cp evil .git/hooks".split()), ".git/hooks/evil", "write.never"),
        (tuple("busybox cp evil .git/hooks".split()), ".git/hooks/evil", "write.never"),
        (tuple("rsync -a evil .git/hooks/".split()), ".git/hooks/evil", "write.never"),
        (tuple("scp host:evil .git/hooks".split()), ".git/hooks", "write.never"),
        (tuple("dd if=evil of=.git/config".split()), ".git/config", "write.never"),
        (tuple("sort -uo .git/config a".split()), ".git/config", "write.never"),
        (tuple("sort a --out=.git/config".split()), ".git/config", "write.never"),
        (tuple("sed -i s/a/b/ .git/config".split()), ".git/config", "write.never"),
        (tuple("sed -ni.bak -e p .git/config".split()), ".git/config", "write.never"),
        (tuple("sed --in-place p .git/config".split()), ".git/config", "write.never"),
        (tuple("perl -pi -e s/a/b/ .git/config".split()), ".git/config", "write.never"),
        (tuple("curl -sSLo .git/config http://host".split()), ".git/config", "write.never"),
        (tuple("wget -P .git http://host".split()), ".git", "write.never"),
        (tuple("unzip -q a.zip -d .git/hooks".split()), ".git/hooks", "write.never"),
        (tuple("patch .git/config".split()), ".git/config", "write.never"),
        (tuple("tar -xf a.tar -C .git -C hooks".split()), ".git/hooks", "write.never"),
        (tuple("tar xfC a.tar .git/hooks".split()), ".git/hooks", "write.never"),
        (tuple("bsdtar --extract --dir .git -f a".split()), ".git", "write.never"),
        (tuple("tar czf .git/config a".split()), ".git/config", "write.never"),
        (tuple("git diff --output=.git/config".split()), ".git/config", "write.never"),
        (tuple("chmod -x .git/hooks/a".split()), ".git/hooks/a", "write.never"),
        (tuple("chmod --reference=a .git/hooks/a".split()), ".git/hooks/a", "write.never"),
        (tuple("chown --from a b .git/hooks/a".split()), ".git/hooks/a", "write.never"),
        (tuple("sponge .git/config".split()), ".git/config", "write.never"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_b05_b14_every_way_of_writing_meets_the_same_rules(argv: tuple[str, ...], path: str, rule: str) -> None:
    """A redirect, a copy and a move are judged like the edit tool's write, also when the file is not there."""
    decision = judge(command(*argv))
    assert path in {effect.target for effect in decision.effects}
    assert f"builtin:{rule}" in {finding.rule_id for finding in decision.findings}
    assert decision.verdict == ("deny" if rule in ("write.never", "write.outside") else "ask")


@pytest.mark.parametrize(
    ("line", "writes", "deletes"),
    [
        ("cp -t a b c", {"a", "a/b", "a/c"}, set()),
        ("cp a=b c", {"c", "c/a=b"}, set()),
        ("cp - c", {"c", "c/-"}, set()),
        ("cp a -- -b c", {"c", "c/a", "c/-b"}, set()),
        ("cp -t a -t b x", {"b", "b/x"}, set()),
        ("scp host:evil a", {"a"}, set()),
        ("scp a b c", {"c", "c/a", "c/b"}, set()),
        ("sed -iexyz p f", {"f"}, set()),
        ("sed -nie p f", {"f"}, set()),
        ("scp d/h:x a", {"a", "a/h:x"}, set()),
        ("tar -xf a -C aX -C b/ -C c -C /d", {"aX", "aX/b", "aX/b/c", "/d"}, set()),
        ("mv -t a b", {"a", "a/b"}, {"b"}),
        ("install -m 755 -t a b", {"a", "a/b"}, set()),
        ("scp a host:.git/b", set(), set()),
        ("tar -czf - -C .git .", set(), set()),
        ("tar -tf a.tar -C .git", set(), set()),
        ("tar -tf a.tar --exclude x", set(), set()),
        ("sed -n p .git/config", set(), set()),
        ("sed -i -f a.sed b", {"b"}, set()),
        ("sort -to a", set(), set()),
        ("curl -HoX .git", set(), set()),
        ("git log -C --output=a", {"a"}, set()),
        ("touch -r .git/config a", {"a"}, set()),
        ("mkdir -m 700 -p a", {"a"}, set()),
        ("truncate -s 0 a", {"a"}, set()),
        ("chmod -R 755 a", {"a"}, set()),
    ],
)
def test_b14_the_card_names_what_is_written_and_no_other_word(line: str, writes: set[str], deletes: set[str]) -> None:
    """An option that takes the target, or another word, is read as its program reads it."""
    found = understood(tuple(line.split()))
    assert {effect.target for effect in found.effects if effect.kind == "write"} == writes
    assert {effect.target for effect in found.effects if effect.kind == "delete"} == deletes


def test_b03_an_option_that_makes_a_command_a_look_stands_before_its_words() -> None:
    """Behind the first operand many programs take it for a word of its own, and do more than look."""
    for words, grammar in looks().items():
        for option in grammar.wanted:
            assert not understood((*words, "a", option)).only_looks, words
            assert not understood((*words, "a", "b", option)).only_looks, words
        if not grammar.permutes and grammar.operands != "find":
            for flag in grammar.flags - {"-#"}:
                assert not understood((*words, "a", flag)).only_looks, words
    assert understood(("git", "config", "--get", "a.b", "pattern")).only_looks
    assert understood(("unzip", "-q", "-l", "a.zip")).only_looks
    assert understood(("grep", "-n", "a", "b", "-i")).only_looks


def test_the_words_of_find_begin_where_they_are_no_paths() -> None:
    """An option, a `!` or a bracket: each ends the list of folders that are looked through."""
    for words in ("-name x", "! -name x", "( -name x )", "-type f"):
        known = understood(("find", "a", "b", *words.split()))
        assert known.only_looks, words
        assert [effect.key for effect in known.effects] == ["read:a", "read:b"], words


def test_an_option_that_must_be_there_may_take_a_value() -> None:
    grammar = _grammar("!-a=n !-b -c --d?", "*one")
    assert (grammar.wanted, dict(grammar.valued)) == ({"-a", "-b"}, {"-a": "n"})
    assert (grammar.flags, set(grammar.optional)) == ({"-b", "-c"}, {"--d"})
    assert (grammar.operands, grammar.permutes) == ("one", True)


@pytest.mark.parametrize("program", ["md5sum", "sha1sum", "sha256sum", "sha512sum", "b2sum"])
def test_no_sum_is_taken_of_files_that_a_file_names(program: str) -> None:
    """What a list names is read too, and nobody looked at it."""
    assert understood((program, "list")).only_looks
    assert not understood((program, "-c", "list")).only_looks
    assert not understood((program, "--check", "list")).only_looks


def test_b03_git_is_asked_about_behind_a_command_that_may_choose_what_it_runs() -> None:
    """Also where that command is known to look; before it, or without it, git looks."""
    for text in ("git config --get a.b; git status", "git --no-pager config --list && ls && timeout 5 git log"):
        assert not understood(("bash", "-c", text)).only_looks, text
    for text in ("git status; git config --get a.b", "git log config; git status", "git config --get a.b; ls"):
        assert understood(("bash", "-c", text)).only_looks, text


def test_b02_what_is_literal_by_its_quotes_is_not_asked_about() -> None:
    """A command in single quotes is text."""
    assert judge(command("bash", "-c", "echo '$(touch PWN)'")).verdict == "allow"
    assert judge(command("bash", "-c", 'echo "$(touch PWN)"')).verdict == "ask"


@pytest.mark.parametrize("mark", ["'E'", "E", '"E"'])
@pytest.mark.parametrize("line", [" E", "\tE", "E ", "E\t", "  E  "])
def test_b02_a_text_that_is_handed_over_ends_where_its_mark_stands_alone(mark: str, line: str) -> None:
    """A parser that takes a mark with blanks around it for the end sees text where the shell sees commands."""
    text = f"cat <<{mark}\n{line}\nls <<'F'\nE\ntouch PWN\nF\n"
    assert "where a text that is handed over ends can't be told" in understood(("bash", "-c", text)).doubts
    assert judge(command("bash", "-c", text)).verdict == "ask"
    for plain in (f"cat <<{mark}\nhi\nE\nls", f"cat <<{mark}\nE", f"cat <<{mark}\n\nE\n", f"cat <<{mark}\nhi\nE\n\n"):
        assert judge(command("bash", "-c", plain)).verdict == "allow", plain


def test_b01_each_command_meets_the_rules_by_itself() -> None:
    """A rule of the user's finds its program in every place of a line, however it is spelled, and no other word."""
    rules = with_user_rules(
        """
        version = 1
        [[rule]]
        id = "no-grep"
        effects = ["execute"]
        argv = [["grep"]]
        verdict = "deny"
        justification = "No grep."
        match = [{ effect = "execute", argv = ["grep", "x"] }]
        not_match = [{ effect = "execute", argv = ["ls", "grep"] }]
        """
    )
    for text in ("ls | grep x", "g'r'ep x a", "cd src && timeout 5 grep x a", "ls; grep x", "$(id); grep x"):
        assert judge(command("bash", "-c", text), rules=rules).verdict == "deny", text
    assert judge(command("bash", "-c", "cat grep | wc -l"), rules=rules).verdict == "allow"


def test_limits_of_a_text_are_doubts() -> None:
    """Longer, deeper or wider than the limits: asked about, with the same words each time."""
    assert understood(("bash", "-c", "echo " + "a" * (SHELL_CHARS_MAX - 5))).only_looks
    assert not understood(("bash", "-c", "echo " + "a" * SHELL_CHARS_MAX)).only_looks
    assert not understood(("bash", "-c", "! " * SHELL_DEPTH_MAX + "ls")).only_looks
    assert not understood(("bash", "-c", "ls;" * (SHELL_NODES_MAX // 3))).only_looks


def test_a_wrapper_is_taken_off_so_often_and_no_oftener() -> None:
    """Behind a few wrappers the command is seen; behind more it is not, and asked about."""
    assert understood(("timeout", "5", "nice", "nohup", "ls")).only_looks
    assert not understood((*("nice",) * 5, "ls")).only_looks


def test_no_program_is_both_understood_and_a_wrapper_that_hides_its_command() -> None:
    """The tables name no program twice with two meanings, but `command` and `env` alone."""
    programs = {words[0] for words in looks()}
    assert programs & set(wrappers()) == {"command", "env"}
    assert not programs & {"sudo", "xargs", "bash", "sh", "less", "man", "vim", "make", "yarn", "cargo", "mvn"}


def test_the_tables_are_read_as_they_say() -> None:
    """Each form of an option in a line, and lines that go on; read anew, not as they were remembered."""
    table = looks.__wrapped__()
    sort, log, unzip = table[("sort",)], table[("git", "log")], table[("unzip",)]
    assert ("-r" in sort.flags, "-k" in sort.flags, "--stable" in sort.flags) == (True, False, True)
    assert (sort.valued["-k"], sort.valued["--field-separator"], table[("grep",)].valued["-f"]) == ("t", "t", "p")
    assert log.valued["-n"] == "n"
    assert ("--stat" in log.optional, "--stat" in log.flags, "-#" in log.flags) == (True, False, True)
    assert (sort.permutes, sort.operands, unzip.permutes) == (True, "paths", False)
    assert (unzip.wanted, unzip.operands, sort.wanted) == ({"-l", "-v", "-Z1"}, "one", frozenset())
    assert {"-l", "-q"} <= unzip.flags
    assert wrappers.__wrapped__()["timeout"].operands == "1args"
    assert not {option for grammar in table.values() for option in grammar.flags if option.endswith(("?", "=t"))}


@pytest.mark.parametrize(
    ("text", "programs"),
    [
        ("echo a", []),
        ("command echo a", []),
        ("nice echo a", ["nice", "echo"]),
        ("nice command echo a", ["nice", "command", "echo"]),
        ("exec echo a", ["echo"]),
        ("exec command -v a", ["command"]),
        ("'time' ls", ["time", "ls"]),
        ("builtin echo a", ["builtin", "echo"]),
    ],
)
def test_what_a_program_starts_is_looked_for_even_where_the_shell_has_it_inside(text: str, programs: list[str]) -> None:
    """A folder of the workspace on the search path may hold another `echo`; `builtin` is no word of every shell."""
    assert understand(("bash", "-c", text), parse_bash).programs == ("bash", *programs)
