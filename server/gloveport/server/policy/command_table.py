"""What programs are known to do, as data for `commands.py`.

Purpose: name the programs that run other programs, and the commands that install, publish, delete or reach out.
Invariant: the table only ever makes an answer stricter; a program that is missing here is still asked about.
Must never: hold logic, or be the reason why something is allowed (except `PREFIXES`, which only shapes an offer).
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from gloveport.server.policy.effects import EffectKind


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


def _listed(text: str) -> tuple[str, ...]:
    return tuple(" ".join(item.split()) for item in text.split(",") if item.strip())


SHELLS: Final = frozenset(
    _words("""
    sh bash dash zsh ksh mksh fish csh tcsh ash rbash busybox toybox pwsh powershell cmd nu elvish xonsh
    """)
)
"""Programs whose arguments are a program text."""

WRAPPERS: Final = frozenset(
    _words("""
    env sudo doas su runuser pkexec timeout nice ionice nohup setsid stdbuf time xargs parallel watch exec eval
    command builtin chroot unshare nsenter setpriv setarch strace ltrace gdb lldb script unbuffer expect flock
    taskset chrt firejail bwrap systemd-run at batch crontab screen tmux dbus-run-session xvfb-run faketime fakeroot
    proot catchsegv ld.so ld-linux.so.2 ld-linux-x86-64.so.2 rlwrap entr direnv mise asdf nix nix-shell docker
    podman kubectl-exec ssh find fd rg awk gawk mawk nawk sed ed ex vi vim nvim emacs less more man tar zip rsync m4
    make-kpkg tclsh wish
    """)
)
"""Programs that start other programs named in their arguments or options."""

INTERPRETERS: Final = frozenset(
    _words("""
    python python2 python3 pypy pypy3 node nodejs deno bun ruby perl php lua luajit rscript julia osascript guile
    scala groovy java jshell swift erl elixir iex irb ghci racket tsx ts-node
    """)
)
"""Programs that run a script; with options that carry code they are asked about each time."""

PLAIN_OPTIONS: Final[Mapping[str, frozenset[str]]] = MappingProxyType(
    {
        "python": frozenset(_words("-m -u -B -I -s -E -P -O -OO -V -VV --version")),
        "node": frozenset(_words("--test --version -v")),
    }
)
"""Options before the script that carry no code; any other option is taken to carry some."""

CODE_MODULES: Final = frozenset(_words("timeit pdb code runpy cProfile profile trace http.server pip ensurepip venv"))
"""Python modules that run code from their arguments, listen, or install."""

LOADER_VARIABLES: Final = _words("""
    LD_* DYLD_* PATH PYTHON* NODE_* PERL* RUBY* JAVA_TOOL_OPTIONS _JAVA_OPTIONS GIT_* PAGER *_PAGER LESS* EDITOR
    VISUAL BROWSER SHELL BASH_* ENV IFS PS4 PROMPT_COMMAND ZDOTDIR RIPGREP_CONFIG_PATH MAKEFLAGS CARGO_* RUSTC*
    GOFLAGS NPM_CONFIG_* PIP_* UV_* *_PROXY SSL_CERT_* REQUESTS_CA_BUNDLE CURL_* SSH_* HOME XDG_* TMPDIR PYTEST_*
""")
"""Variables that choose what is loaded, run or believed; setting one is asked about each time."""

_INSTALL = _listed("""
    pip install, pip download, pip wheel, pipx install, pipx run, uv add, uv sync, uv pip, uv tool, uv run, uvx,
    poetry install, poetry add, poetry update, pdm install, pdm add, conda install, mamba install, npm install, npm
    i, npm ci, npm add, npm update, npm exec, npx, yarn install, yarn add, yarn dlx, yarn up, pnpm install, pnpm i,
    pnpm add, pnpm dlx, bunx, bun install, bun add, cargo install, cargo add, cargo update, go install, go get, gem
    install, bundle install, bundle update, composer install, composer require, apt install, apt-get install, apk
    add, dnf install, yum install, pacman -S, brew install, snap install, flatpak install, corepack, python -m pip,
    python -m ensurepip, rustup, nvm, easy_install, dpkg, rpm
""")

_PUBLISH = _listed("""
    git push, git send-email, npm publish, npm unpublish, npm deprecate, npm dist-tag, yarn publish, yarn npm, pnpm
    publish, bun publish, cargo publish, cargo yank, twine, poetry publish, uv publish, hatch publish, flit publish,
    pdm publish, gem push, gem yank, docker push, docker login, podman push, helm install, helm upgrade, helm push,
    helm uninstall, kubectl, oc apply, terraform apply, terraform destroy, tofu apply, tofu destroy, pulumi,
    ansible, ansible-playbook, aws, gcloud, gsutil, az, doctl, flyctl, fly, heroku, vercel, netlify, firebase,
    serverless, sls, wrangler, cdk, sam, eb, gh, glab, hub, vsce, ovsx, argocd, skopeo, crane, goreleaser,
    semantic-release, lerna publish, jf, svn commit, hg push, jj git
""")

_DELETE = _listed("""
    rm, rmdir, unlink, shred, srm, trash, git clean, find -delete, dd, mkfs, truncate, wipefs, docker system, git
    worktree, dropdb
""")

_GIT_HISTORY = _listed("""
    git rebase, git reset, git filter-branch, git filter-repo, git reflog, git gc, git prune, git update-ref, git
    replace, git branch -D, git branch -d, git branch -f, git branch --delete, git branch --force, git branch -M,
    git tag -d, git tag -f, git tag --delete, git commit --amend, git stash drop, git stash clear, git checkout
    --orphan, git symbolic-ref, git fast-import, git push --force, git push -f, git push --force-with-lease, git
    push --mirror, git push --delete, bfg, hg strip, jj abandon, git checkout -B, git switch -C, git pack-refs, git
    notes
""")

_NETWORK = _listed("""
    curl, wget, nc, ncat, netcat, socat, telnet, ssh, scp, sftp, rsync, ftp, lftp, ping, dig, host, nslookup, drill,
    traceroute, tracepath, whois, openssl, http, https, xh, aria2c, git clone, git fetch, git pull, git ls-remote,
    git remote, git submodule, rclone, psql, mysql, redis-cli, mongosh, nmap, ngrok, cloudflared, websocat, docker
    pull, getent, python -m http.server
""")

_MESSAGE = _listed("""
    mail, mailx, sendmail, mutt, msmtp, swaks, slack, wall, write
""")

COMMANDS: Final[tuple[tuple[EffectKind, str], ...]] = (
    *((EffectKind.install, text) for text in _INSTALL),
    *((EffectKind.publish, text) for text in _PUBLISH),
    *((EffectKind.delete, text) for text in _DELETE),
    *((EffectKind.git_history, text) for text in _GIT_HISTORY),
    *((EffectKind.network, text) for text in _NETWORK),
    *((EffectKind.message, text) for text in _MESSAGE),
)
"""Known commands: program, then a sub-command or an option that must be there."""

PREFIXES: Final[tuple[tuple[str, ...], ...]] = tuple(
    _words(text)
    for text in _listed("""
    pytest, python -m pytest, python3 -m pytest, mypy, ruff check, ruff format, black, isort, flake8, cargo test,
    cargo build, cargo check, cargo clippy, cargo fmt, go test, go build, go vet, npm test, tsc, eslint, prettier,
    ls, cat, head, tail, wc, file, stat, git status, git log, git diff, git show, git blame
    """)
)
"""The only commands offered with further names behind them; everything else is offered exactly as it is."""
