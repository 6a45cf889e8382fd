"""A folder's devcontainer.json is untrusted: its image is a question, all the rest is named and left aside."""

import json
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gloveport.protocol.errors import ErrorCode
from gloveport.sandbox.backends.devcontainer import FILE_BYTES_MAX, ImageAsked, read_devcontainer
from gloveport.sandbox.contract import SandboxError

DIGEST = "sha256:" + "ab" * 32


@pytest.mark.parametrize(
    ("image", "registry", "path", "tag", "digest"),
    [
        ("python", "docker.io", "library/python", "latest", ""),
        ("python:3.11-slim", "docker.io", "library/python", "3.11-slim", ""),
        ("team/app:1", "docker.io", "team/app", "1", ""),
        ("registry.example.org:5000/team/app", "registry.example.org:5000", "team/app", "latest", ""),
        ("localhost/app", "localhost", "app", "latest", ""),
        ("builder:5000/app", "builder:5000", "app", "latest", ""),
        (f"mcr.example.com/dev/py:1@{DIGEST}", "mcr.example.com", "dev/py", "1", DIGEST),
    ],
)
def test_an_image_is_asked_with_its_registry_and_digest(
    image: str, registry: str, path: str, tag: str, digest: str
) -> None:
    found = read_devcontainer(json.dumps({"image": image}).encode())
    assert found.image == ImageAsked(registry, path, tag, digest)
    assert registry in found.words
    assert path in found.words
    assert ("can change" in found.words) == (not digest)
    assert found.image.reference.endswith(digest or f":{tag}")


def test_everything_else_is_named_and_ignored() -> None:
    """Mounts, run arguments, commands, features, users: each is a way in."""
    asked = ("runArgs", "mounts", "postCreateCommand", "initializeCommand", "features", "remoteUser", "build",
             "containerEnv", "forwardPorts", "privileged", "capAdd", "dockerComposeFile", "workspaceMount")  # fmt: skip
    found = read_devcontainer(json.dumps({"image": "python", **dict.fromkeys(asked, "x")}).encode())
    assert set(found.ignored) == set(asked)
    assert all(name in found.words for name in asked)


def test_comments_and_trailing_commas_are_read_and_texts_left_alone() -> None:
    raw = b'{ // a comment\n "image": "python", /* another, */ "name": "a // no comment, }",\n "x": [1, 2,],\n}'
    found = read_devcontainer(raw)
    assert found.image is not None
    assert found.image.path == "library/python"
    assert found.ignored == ("name", "x")


@pytest.mark.parametrize(
    "raw",
    [
        b"", b"[]", b"\xff", b'{"image": 3}', b'{"image": "UPPER/case"}', b'{"image": "a b"}', b'{"image": "../etc"}',
        b'{"image": "--privileged"}', b'{"image": "python@sha256:12"}', b'{"image": "${localEnv:X}"}',
        b'{"image": "python\\n--rm"}', b"{" * 100_000, b'{"image": "python"}' + b" " * FILE_BYTES_MAX,
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_refused_with_words(raw: bytes) -> None:
    with pytest.raises(SandboxError) as caught:
        read_devcontainer(raw)
    assert caught.value.code is ErrorCode.SANDBOX_REFUSED
    assert "devcontainer.json" in caught.value.message
    assert caught.value.hint


@given(st.binary(max_size=200) | st.text(max_size=200).map(str.encode))
def test_any_bytes_are_read_or_refused(raw: bytes) -> None:
    with suppress(SandboxError):
        read_devcontainer(raw)


@given(st.text(max_size=60))
def test_any_image_is_a_plain_name_or_refused(image: str) -> None:
    try:
        found = read_devcontainer(json.dumps({"image": image}).encode()).image
    except SandboxError:
        return
    assert found is not None
    assert not found.reference.startswith("-")
    assert all(char.isascii() and (char.isalnum() or char in "._-/:@") for char in found.reference)


def test_names_that_hide_something_are_shown() -> None:
    assert read_devcontainer(b'{"a\\u202eb": 1}').ignored == ("a\\u202eb",)
