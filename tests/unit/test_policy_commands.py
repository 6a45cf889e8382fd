"""What commands are known to do: programs, what they may start, what is derived, which beginning may be offered."""

import pytest

from gloveport.server.policy.command_table import CODE_MODULES, COMMANDS, LOADER_VARIABLES, PREFIXES, SHELLS, WRAPPERS
from gloveport.server.policy.commands import (
    ARGV_CHARS_MAX,
    SECRETS_MAX,
    VIEW_WORDS_MAX,
    VIEWS_MAX,
    asks_each_time,
    command_matches,
    derived_effects,
    is_empty,
    is_oversized,
    is_plain_name,
    loader_variable,
    offered_prefix,
    program_of,
    run_effect,
    views,
)
from gloveport.server.policy.effects import Effect, EffectKind


@pytest.mark.parametrize(
    ("word", "program"),
    [
        ("git", "git"),
        ("/usr/bin/Git", "git"),
        ("C:\\x\\GIT.EXE", "git"),
        (" git ", "git"),
        ("python3.11", "python3"),
        ("python3.11.4", "python3"),
        ("python3.13t", "python3"),
        ("/usr/bin/python3.11d", "python3"),
        ("python3.13td", "python3"),
        ("python3", "python3"),
        ("node-18.2", "node"),
        ("node18.2.1", "node"),
        ("a-1", "a-1"),
        ("x.exe.exe", "x.exe"),
        ("", ""),
        ("/", ""),
    ],
)
def test_the_program_of_a_command(word: str, program: str) -> None:
    assert program_of((word, "x")) == program
    assert program_of(()) == ""
    assert is_empty((word,)) is (not word.strip())


def test_a_command_is_as_long_as_its_words_and_what_parts_them() -> None:
    assert not is_oversized(("a" * (ARGV_CHARS_MAX - 3), "b"))
    assert is_oversized(("a" * (ARGV_CHARS_MAX - 2), "b"))
    assert derived_effects(("rm", "a" * ARGV_CHARS_MAX)) == ()
    assert is_empty(())


@pytest.mark.parametrize(
    ("argv", "why"),
    [
        (("bash",), "bash runs whatever text it is given"),
        (("/bin/SH", "x"), "sh runs whatever text it is given"),
        (("bash5",), "bash5 runs whatever text it is given"),
        (("env", "x"), "env can start other programs named in its arguments"),
        (("ld-linux-armhf.so.3",), "ld-linux-armhf.so.3 can start other programs named in its arguments"),
        (("python",), "python is given code, or an option that may carry code"),
        (("python3.11", "-c", "x"), "python3 is given code, or an option that may carry code"),
        (("python", "a.py", "-c"), None),
        (("python", "-u", "a.py"), None),
        (("python", "-u"), None),
        (("python", "-X", "a.py"), "python is given code, or an option that may carry code"),
        (("python", "-u", "-c", "x"), "python is given code, or an option that may carry code"),
        (("python", "-m", "pytest"), None),
        (("python", "-B", "-m", "mypy", "-c"), None),
        (("python", "-m"), "python is given code, or an option that may carry code"),
        (("python", "-m", "pdb", "a.py"), "python is given code, or an option that may carry code"),
        (("python", "-m", "pytest", "pdb"), None),
        (("python", "-m", "pdb"), "python is given code, or an option that may carry code"),
        (("node", "--test"), None),
        (("node", "-e", "x"), "node is given code, or an option that may carry code"),
        (("node", "-m", "x"), "node is given code, or an option that may carry code"),
        (("ruby", "-v"), "ruby is given code, or an option that may carry code"),
        (("ruby", "a.rb"), None),
        (("make",), None),
        (("ls", "bash"), None),
        ((), None),
    ],
)
def test_why_a_command_is_asked_about_each_time(argv: tuple[str, ...], why: str | None) -> None:
    assert asks_each_time(argv) == why


def test_every_shell_wrapper_and_module_of_code_is_asked_about() -> None:
    for program in SHELLS | WRAPPERS:
        assert asks_each_time((f"/x/{program.upper()}", "a"))
    for module in CODE_MODULES:
        assert asks_each_time(("python3", "-m", module))
    for pattern in LOADER_VARIABLES:
        name = pattern.replace("*", "x")
        assert loader_variable(["A", name.lower(), "PATH"]) == name.lower()
    assert loader_variable(["A", "XPATH", "PATHX"]) is None
    assert loader_variable([]) is None


def test_views_are_the_command_then_every_place_where_another_may_begin() -> None:
    assert views(("make", "rm", "x")) == (("make", "rm", "x"),)
    assert views(("env", "A=1", "rm")) == (("env", "A=1", "rm"), ("A=1", "rm"), ("rm",), ("A", "1"), ("1",))
    assert views(("sh", "-c", "a;b")) == (("sh", "-c", "a;b"), ("-c", "a;b"), ("a;b",), ("a", "b"), ("b",))
    long = views(("env", *("w",) * (2 * VIEWS_MAX)))
    assert len(long) == VIEWS_MAX
    assert len(long[0]) == 2 * VIEWS_MAX + 1
    assert {len(one) for one in long[1:]} == {VIEW_WORDS_MAX}
    text = views(("sh", " ".join(["w"] * 200)))
    assert [len(one) for one in text[2:5]] == [VIEW_WORDS_MAX] * 3
    assert len(text) == 202


@pytest.mark.parametrize(
    ("pattern", "argv", "same"),
    [
        (("rm",), ("rm", "x"), True),
        (("rm",), ("/bin/rm",), True),
        (("rm",), ("rmdir",), False),
        (("python",), ("python3.11",), True),
        (("python3",), ("python", "x"), False),
        (("",), ("", "x"), False),
        ((), ("rm",), False),
        (("rm",), (), False),
        (("git", "push"), ("git", "push"), True),
        (("git", "push"), ("git", "-C", "d", "push"), True),
        (("git", "push"), ("git", "log", "push"), False),
        (("git", "push"), ("git",), False),
        (("git", "push", "-f"), ("git", "push", "o", "-f"), True),
        (("git", "push", "-f"), ("git", "-f", "push"), False),
        (("git", "-f", "push"), ("git", "push", "-f"), True),
        (("find", "-delete"), ("find", ".", "-delete"), True),
        (("find", "-delete"), ("find", "."), False),
        (("npm", "dist", "tag"), ("npm", "dist", "x", "tag"), True),
        (("npm", "dist", "tag"), ("npm", "tag", "dist"), False),
        (("npm", "a", "a"), ("npm", "a"), False),
        (("npm", "a", "a"), ("npm", "a", "a"), True),
    ],
)
def test_a_command_is_known_by_its_words(pattern: tuple[str, ...], argv: tuple[str, ...], same: bool) -> None:
    assert command_matches(pattern, argv) is same


@pytest.mark.parametrize(("kind", "text"), COMMANDS, ids=lambda value: str(value))
def test_every_known_command_is_derived_bare_and_behind_a_wrapper(kind: EffectKind, text: str) -> None:
    words = tuple(text.split())
    for argv in (words, ("env", *words), ("sh", "-c", f"x; {text}")):
        assert kind in {one.kind for one in derived_effects((*argv, "zz"))}
    assert all(one.fact("from") for one in derived_effects(words) if one.kind is not EffectKind.secret_read)


def test_derived_effects_whole() -> None:
    push = ("git", "push", "--force", "https://Git.Example/x")
    text = "git push --force https://Git.Example/x"
    assert derived_effects(push) == (
        Effect(EffectKind.publish, text, (("from", "git push"),)),
        Effect(EffectKind.git_history, text, (("from", "git push --force"),)),
    )
    assert derived_effects(("curl", "http://U@H.example/")) == (
        Effect(EffectKind.network, "h.example:80", (("from", "curl"),)),
    )
    for argv, target in (
        (("curl", "ftp://h.x"), "h.x:21"), (("curl", "git://h.x"), "h.x:9418"), (("curl", "ws://h.x"), "h.x:443"),
        (("curl", "SSH://h.x:2"), "h.x:2"), (("curl", "h.x"), "curl h.x"), (("ssh", "ssh://h.x"), "h.x:22"),
    ):  # fmt: skip
        assert [one.target for one in derived_effects(argv)] == [target]
    assert run_effect(("a b", "c")) == Effect(EffectKind.execute, "'a b' c", (("from", "argv"),))
    assert derived_effects(("make",)) == ()


def test_secrets_that_a_command_names() -> None:
    """Also in shell text; not options, devices or the program itself; so many and no more."""

    def named(*argv: str) -> list[str]:
        return [one.target for one in derived_effects(argv) if one.kind is EffectKind.secret_read]

    assert named("cat", "b/.env", "a.py", "a/.env") == ["a/.env", "b/.env"]
    assert named("x", "--file=.env") == [".env"]
    assert named("sh", "-c", "cat '.env';ls") == [".env"]
    assert named(".env", "x") == []
    assert named("x", "-.env", "/dev/.env") == []
    many = named("cat", *(f"{at:03}/.env" for at in range(SECRETS_MAX + 9)))
    assert many == [f"{at:03}/.env" for at in range(SECRETS_MAX)]
    assert derived_effects(("x", ".env")) == (Effect(EffectKind.secret_read, ".env"),)


@pytest.mark.parametrize(
    ("argv", "prefix"),
    [
        (("pytest",), ("pytest",)),
        (("pytest", "a"), ("pytest",)),
        (("pytest", "-q", "a"), ("pytest", "-q")),
        (("pytest", "a", "-q", "b"), ("pytest", "a", "-q")),
        (("pytest", "a", "/x", "b"), ("pytest", "a", "/x")),
        (("python", "-m", "pytest", "a"), ("python", "-m", "pytest")),
        (("python", "-m"), None),
        (("git", "log", "x"), ("git", "log")),
        (("git", "push"), None),
        (("make",), None),
        (("/usr/bin/pytest",), None),
        (("",), None),
        ((), None),
    ],
)
def test_the_beginning_that_may_be_offered(argv: tuple[str, ...], prefix: tuple[str, ...] | None) -> None:
    assert offered_prefix(argv) == prefix


def test_every_beginning_is_offered_with_names_behind_it() -> None:
    for known in PREFIXES:
        assert offered_prefix((*known, "a.py")) == known


@pytest.mark.parametrize("word", ["", "-x", "+x", "@x", "~x", "a=b", "../x", "/x", "a\nb", "C:x"])
def test_what_is_no_plain_name(word: str) -> None:
    assert not is_plain_name(word)
    assert is_plain_name("a/b.py::test[x-y+z@]")
