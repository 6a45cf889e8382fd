"""The extension as it is packed: which files, how large, and that its page in VS Code is not empty."""

import json
import re
import struct
import subprocess
import zipfile
from pathlib import Path
from xml.etree import ElementTree

import pytest
from tests.kit.require import NODE_PACKAGES, require, require_node

CLIENT = NODE_PACKAGES.parent
SIZE_MAX = 256 * 1024  # it is 140 KiB; a package that was bundled by mistake is more
ICON_PX_MIN = 128
NAMES = {
    "extension.vsixmanifest",
    "[Content_Types].xml",
    *(
        f"extension/{name}"
        for name in (
            *("package.json", "README.md", "CHANGELOG.md", "LICENSE.txt"),
            *(f"dist/{name}" for name in ("extension.cjs", "panel.js", "report.js", "THIRD-PARTY.txt")),
            *(f"media/{name}.svg" for name in ("conflict", "gloveport", "history", "hunk", "shield")),
            *("media/icon.png", "media/panel.css", "media/report.css"),
            *(f"media/walkthrough/{name}.md" for name in ("answer", "ask", "model", "program", "review")),
        )
    ),
}


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The extension, packed as `make vsix` packs it, beside the tree."""
    require_node()
    require((NODE_PACKAGES / "esbuild").is_dir(), "the client's packages are missing (make client)")
    folder = tmp_path_factory.mktemp("vsix")
    target = folder / "gloveport.vsix"
    for command in (["scripts/bundle.mjs", folder / "dist"], ["scripts/package.mjs", folder / "dist", target]):
        subprocess.run(["node", *map(str, command)], cwd=CLIENT, check=True, timeout=60)
    return target


def test_what_is_packed_is_what_it_needs(packed: Path) -> None:
    """Each file by its name: no tests, no source maps, no sources, no pictures of ours; small."""
    with zipfile.ZipFile(packed) as archive:
        names = archive.namelist()
        assert sorted(names) == sorted(NAMES)
        for name in names:
            assert b"sourceMappingURL" not in archive.read(name), name
    assert packed.stat().st_size < SIZE_MAX


def test_the_page_of_the_extension_says_what_it_is_and_how_to_get_the_program(packed: Path) -> None:
    """Page, history, icon and licence lie where the manifest says; the page tells program, setting and a key."""
    with zipfile.ZipFile(packed) as archive:
        manifest = ElementTree.fromstring(archive.read("extension.vsixmanifest"))  # of our own making
        space = {"v": "http://schemas.microsoft.com/developer/vsx-schema/2011"}
        assets = {
            one.attrib["Type"].rpartition("Services.")[2]: one.attrib["Path"]
            for one in manifest.iterfind(".//v:Asset", space)
        }
        assert {"Content.Details", "Content.Changelog", "Content.License", "Icons.Default"} <= assets.keys()
        assert set(assets.values()) <= set(archive.namelist())
        package = json.loads(archive.read("extension/package.json"))
        icon = archive.read(f"extension/{package['icon']}")
        page = archive.read(assets["Content.Details"]).decode()
        history = archive.read(assets["Content.Changelog"]).decode()
        licences = archive.read("extension/dist/THIRD-PARTY.txt").decode()
    assert package["license"] == "Apache-2.0"
    assert len(package["description"]) > len(package["displayName"])
    assert icon.startswith(b"\x89PNG")
    assert min(struct.unpack(">II", icon[16:24])) >= ICON_PX_MIN
    assert all(words in page for words in ("pip install", "`gloveport.command`", "gloveport doctor", "Alt+G"))
    assert history.startswith("# Changelog")
    assert "markdown-it" in licences
    assert "vscode-jsonrpc" in licences
    assert not re.search(r"scripts|devDependencies", " ".join(package))
