"""Pack an image of the hands from the Debian packages that are installed here; no registry, no network.

Purpose: `python scripts/image.py | docker import - gloveport/python` gives what sandbox/images/Dockerfile gives.
Invariant: only files of the named packages and of what they depend on; no setuid bit; nothing of the barred programs.
Must never: read outside what the package manager lists, but for the bundle of authorities.
"""

import io
import os
import re
import stat
import subprocess
import sys
import tarfile
from collections.abc import Iterable, Iterator
from typing import Final

PACKAGES: Final = ("python3", "coreutils", "dash", "base-files", "ca-certificates", "netbase")
BARRED_PACKAGES: Final = frozenset(
    {"bash", "curl", "wget", "gcc", "perl", "perl-base", "dpkg", "apt", "debconf", "tar"}
)
BARRED_PROGRAMS: Final = re.compile(
    r"/s?bin/(bash|rbash|curl|wget|gcc|cc|c\+\+|g\+\+|perl|python3-config|openssl)(-.*)?$"
)
LEFT_OUT: Final = re.compile(r"/usr/share/(doc|man|locale|info|lintian|bug|doc-base|pixmaps|applications)(/|$)")
AUTHORITIES: Final = "/etc/ssl/certs"
PLACES: Final = ("proc", "sys", "dev", "tmp", "run", "var", "home")


def main() -> None:
    """Write the image's tar to standard output."""
    if sys.stdout.isatty():
        sys.exit(f"Send it to an engine: python {sys.argv[0]} | docker import - gloveport/python")
    packages = find_closure(PACKAGES)
    with tarfile.open(fileobj=sys.stdout.buffer, mode="w|") as archive:
        pack(archive, list_files(packages))
    print(f"{len(packages)} packages", file=sys.stderr)


def find_closure(wanted: Iterable[str]) -> list[str]:
    """The packages and everything installed here that they depend on."""
    told = _ask("dpkg-query", "-W", "-f=${Package}\t${Provides}\t${Pre-Depends}, ${Depends}\n")
    depends: dict[str, list[str]] = {}
    for line in told.splitlines():
        name, provides, needs = line.split("\t")
        depends[name] = _names(needs)
        for other in _names(provides):
            depends.setdefault(other, [name])
    found: set[str] = set()
    left = list(wanted)
    while left:
        name = left.pop()
        if name in depends and name not in found and name not in BARRED_PACKAGES:
            found.add(name)
            left += depends[name]
    return sorted(found)


def list_files(packages: Iterable[str]) -> Iterator[str]:
    """Every path of the packages, where it really lies on a machine with one /usr, and the authorities."""
    seen = {""}
    for package in packages:
        for path in _ask("dpkg-query", "-L", package, may_fail=True).splitlines():
            real = os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))
            if real not in seen and _is_wanted(real):
                seen.add(real)
                yield real
    yield from (path for entry in os.scandir(AUTHORITIES) if (path := entry.path) not in seen)


def _is_wanted(path: str) -> bool:
    if LEFT_OUT.match(path) or BARRED_PROGRAMS.search(path):
        return False
    try:
        mode = os.lstat(path).st_mode
    except OSError:
        return False
    return stat.S_ISREG(mode) or stat.S_ISDIR(mode) or stat.S_ISLNK(mode)


def pack(archive: tarfile.TarFile, paths: Iterable[str]) -> None:
    """Add folders, files and links, owned by root, without setuid; devices and sockets are left out."""
    made = set()
    for name in PLACES:
        archive.addfile(_folder(name, 0o1777 if name == "tmp" else 0o755))
        made.add(name)
    for link in ("bin", "sbin", "lib", "lib64"):
        if os.path.islink(f"/{link}") and link != "sbin":
            entry = tarfile.TarInfo(link)
            entry.type, entry.linkname = tarfile.SYMTYPE, os.readlink(f"/{link}")
            archive.addfile(entry)
            made.add(link)
    archive.addfile(_folder("sbin", 0o755))  # an engine puts its init there
    made.add("sbin")
    for path in sorted(paths):
        entry = archive.gettarinfo(path, path.lstrip("/"))
        if entry.name in made:
            continue
        made.add(entry.name)
        _clean(entry)
        if entry.isreg():
            with open(path, "rb") as file:
                archive.addfile(entry, file)
        else:
            archive.addfile(entry)
    for name, text in (("etc/passwd", "user:x:65534:65534::/tmp:/bin/sh\n"), ("etc/group", "user:x:65534:\n")):
        entry = _clean(tarfile.TarInfo(name))
        entry.size, entry.mode = len(text), 0o444
        archive.addfile(entry, io.BytesIO(text.encode()))


def _clean(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    if entry.islnk():
        entry.type, entry.size = tarfile.REGTYPE, os.stat("/" + entry.name).st_size
    entry.uid = entry.gid = entry.mtime = 0
    entry.uname = entry.gname = ""
    entry.mode &= 0o1777
    return entry


def _folder(name: str, mode: int) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.type, entry.mode = tarfile.DIRTYPE, mode
    return entry


def _names(field: str) -> list[str]:
    """Package names of a dependency field; of alternatives all, for only installed ones are taken."""
    return [name for part in re.split(r"[,|]", field) if (name := re.sub(r"[\s(:].*", "", part.strip()))]


def _ask(*argv: str, may_fail: bool = False) -> str:
    done = subprocess.run(argv, check=not may_fail, capture_output=True, text=True)
    return done.stdout


if __name__ == "__main__":
    main()
