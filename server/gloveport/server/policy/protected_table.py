"""The names that need care: never written, running by themselves, or holding secrets.

Purpose: versioned data for `protected.py`; every group says in words why it is here.
Invariant: patterns are written folded (lower case); they hold at any depth, in nested repositories too, and whether
or not the file exists.
Must never: hold logic; a change of this table raises `TABLE_VERSION`.
"""

from dataclasses import dataclass
from enum import StrEnum, unique
from typing import Final

TABLE_VERSION = 4


@unique
class PathClass(StrEnum):
    """What a path may be, beside ordinary."""

    ordinary = "ordinary"
    outside = "outside"
    never = "never"
    runs_by_itself = "runs_by_itself"
    sensitive = "sensitive"


def _names(text: str) -> tuple[str, ...]:
    return tuple(item.strip() for item in text.split(",") if item.strip())


@dataclass(frozen=True, slots=True)
class Group:
    """Names of one class. `folders` match any component, `files` the last one, `paths` a run of components."""

    cls: PathClass
    words: str
    folders: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()


_NEVER = PathClass.never
_RUNS = PathClass.runs_by_itself
_SECRET = PathClass.sensitive

GROUPS: Final[tuple[Group, ...]] = (
    Group(
        _NEVER,
        "it is a repository's own store, whose settings and hooks run programs",
        folders=_names(".git"),
    ),
    Group(
        _NEVER,
        "it is named like a configuration of this product",
        folders=_names(".gloveport"),
        paths=_names(".config/gloveport, .local/state/gloveport, .local/share/gloveport"),
    ),
    Group(
        _RUNS,
        "hooks run when git, or another version control system, is used",
        folders=_names(".githooks, .husky, .hg, .svn, .jj, .bzr"),
        files=_names("""
            .gitattributes, .gitmodules, .gitconfig, .hgrc, .pre-commit-config.y*ml, .pre-commit-hooks.y*ml,
            lefthook.y*ml, lefthook-local.y*ml, .lefthook.y*ml, .overcommit.yml, .huskyrc*, .lintstagedrc*,
            lefthook*.toml, lefthook*.json, simple-git-hooks.*, .simple-git-hooks.*, lint-staged.config.*,
            captainhook.json, commitlint.config.*, .commitlintrc*, .czrc
        """),
    ),
    Group(
        _RUNS,
        "it is run by a build service on the next push",
        folders=_names("""
            .github, .gitlab, .circleci, .buildkite, .forgejo, .gitea, .woodpecker, .teamcity, .semaphore, .tekton,
            .harness, .zuul.d, .azure-pipelines, .pipelines
        """),
        files=_names("""
            .gitlab-ci.y*ml, .travis.y*ml, azure-pipelines*.y*ml, jenkinsfile*, bitbucket-pipelines.y*ml,
            .drone.y*ml, appveyor.y*ml, .appveyor.y*ml, .woodpecker.y*ml, cloudbuild.y*ml, buildspec.y*ml,
            .cirrus.y*ml, renovate.json*, .renovaterc*, bitrise.y*ml, codemagic.y*ml, netlify.toml, vercel.json,
            fly.toml, render.y*ml, serverless.y*ml, wercker.y*ml, .mergify.y*ml, zuul.y*ml, .zuul.y*ml,
            release.config.*, .releaserc*
        """),
    ),
    Group(
        _RUNS,
        "it is run or read by a shell or tool manager on entering the folder or at log-in",
        folders=_names(".mise, .direnv"),
        files=_names("""
            .envrc, .bashrc, .bash_profile, .bash_login, .bash_logout, .bash_aliases, .profile, .zshrc, .zshenv,
            .zprofile, .zlogin, .cshrc, .tcshrc, .kshrc, config.fish, .inputrc, .curlrc, _curlrc, .wgetrc,
            .tool-versions, .mise.toml, mise.toml, .mise.local.toml, .autoenv, .autoenv.zsh, .xprofile, .xinitrc,
            crontab, *.desktop, *.service, .python-version, .ruby-version, .node-version, .nvmrc, .java-version,
            .sdkmanrc, .tmux.conf, .screenrc, .psqlrc, .sqliterc, .mongorc.js, .mongoshrc.js, .ghci, .ocamlinit,
            .rprofile, .renviron, .octaverc, startup.jl, .pryrc, .byebugrc, .latexmkrc, latexmkrc, ansible.cfg,
            .ansible.cfg, *.timer
        """),
        paths=_names(".config/fish, .config/autostart"),
    ),
    Group(
        _RUNS,
        "Python runs or obeys it whenever anything in the folder is run, tested or installed",
        files=_names("""
            *.pth, conftest.py, sitecustomize.py, usercustomize.py, setup.py, setup.cfg, pyproject.toml, tox.ini,
            noxfile.py, pytest.ini, .pytest.ini, pyvenv.cfg, pip.conf, pip.ini, uv.toml, .pdbrc, .pythonstartup,
            pipfile, manifest.in, .coveragerc, conf.py, mkdocs.y*ml, tasks.py, ipython_config.py, jupyter_*config.py,
            jupyter_*config.json, .condarc, .isort.cfg, .ycm_extra_conf.py
        """),
    ),
    Group(
        _RUNS,
        "a build tool or task runner runs what it says, by its name alone",
        files=_names("""
            makefile, makefile.*, gnumakefile, bsdmakefile, *.mk, justfile, .justfile, *.just, taskfile.y*ml,
            taskfile.dist.y*ml, rakefile, rakefile.rb, *.rake, sconstruct, sconscript, cmakelists.txt, *.cmake,
            cmakepresets.json, cmakeuserpresets.json, meson.build, meson.options, configure, configure.ac,
            dockerfile, dockerfile.*, *.dockerfile, containerfile, docker-compose*.y*ml, compose.y*ml, compose.*.y*ml,
            docker-bake.*, procfile, vagrantfile, earthfile, tiltfile, skaffold.y*ml, gulpfile.*, gruntfile.*,
            dodo.py, fabfile.py, pavement.py, wscript, build.xml, build.sbt, build.zig, build.bazel,
            build, workspace, workspace.bazel, magefile.go, bakefile, hatch.toml, pdm.toml,
            hatch_build.py, *.bzl, buck, .buckconfig, pants.toml, dune, dune-project, *.opam, *.cabal, cabal.project*,
            stack.y*ml, setup.hs, project.clj, deps.edn, build.boot, rebar.config*, xmake.lua, premake*.lua, tupfile*,
            *.pro, *.vcxproj, *.csproj, *.fsproj, *.vbproj, *.props, *.targets, *.sln, nuget.config, global.json,
            package.swift, *.podspec, podfile*, cartfile*, fastfile, *.nimble, shard.y*ml, *.rockspec, gradlew*, mvnw*,
            *.gradle, *.gradle.kts, .terraformrc, terragrunt.hcl, pulumi.y*ml
        """),
    ),
    Group(
        _RUNS,
        "package scripts and dependency lists run on installation",
        folders=_names(".yarn, .cargo, .mvn, .bundle"),
        files=_names("""
            package.json, package-lock.json, npm-shrinkwrap.json, yarn.lock, pnpm-lock.yaml, bun.lock*,
            pnpm-workspace.yaml, .npmrc, .yarnrc*, .pnpmfile.*js, .pnp.*js, bunfig.toml, poetry.lock, uv.lock,
            pdm.lock, pylock*.toml, pipfile.lock, requirements*.txt, constraints*.txt, environment.y*ml, cargo.toml,
            cargo.lock, build.rs, rust-toolchain*, go.mod, go.sum, go.work, gemfile*, *.gemspec, .rspec, .irbrc,
            composer.json, composer.lock, mix.exs, mix.lock, gradle-wrapper.*, gradle.properties, settings.gradle*,
            build.gradle*, pom.xml, .bazelrc, module.bazel, flake.nix, flake.lock, deno.json*, deno.lock
        """),
    ),
    Group(
        _RUNS,
        "an editor or its tasks obey it on opening the folder",
        folders=_names("""
            .vscode, .idea, .devcontainer, .fleet, .zed, .vs, .nvim, .vim, .sublime-project, .helix, .theia, .run,
            .settings, .storybook
        """),
        files=_names("""
            .devcontainer.json, *.code-workspace, *.sublime-project, .exrc, .nvimrc, .nvim.lua, .vimrc, .gvimrc,
            .dir-locals*.el, .projectile, .gdbinit, .lldbinit, .helix, *.csproj.user, directory.build.*, .project,
            .classpath, .gitpod.y*ml, .replit, .kakrc, .lvimrc, .vimrc.local, .local.vimrc, omnisharp.json
        """),
    ),
    Group(
        _RUNS,
        "a compiler, linter, formatter or test runner loads code or plugins it names",
        files=_names("""
            tsconfig*.json, jsconfig*.json, .eslintrc*, eslint.config.*, .pylintrc, pylintrc, ruff.toml, .ruff.toml,
            mypy.ini, .mypy.ini, .flake8, .prettierrc*, prettier.config.*, .stylelintrc*, stylelint.config.*,
            vite.config.*, vitest.config.*, vitest.workspace.*, jest.config.*, webpack.config.*, rollup.config.*,
            babel.config.*, .babelrc*, postcss.config.*, tailwind.config.*, next.config.*, playwright.config.*,
            .mocharc*, ava.config.*, karma.conf.*, .swcrc, turbo.json, nx.json, .rubocop.yml, .clangd,
            rspack.config.*, esbuild.config.*, tsup.config.*, svelte.config.*, astro.config.*, nuxt.config.*,
            vue.config.*, angular.json, craco.config.*, metro.config.*, cypress.config.*, wdio.conf.*, knexfile.*,
            drizzle.config.*, gatsby-*.js, gatsby-*.ts, biome.json*, dprint.json, nodemon.json, jest.setup.*,
            vitest.setup.*, .rubocop*.y*ml, .standard.yml, .credo.exs, .formatter.exs, .luacheckrc, .luarc*,
            .perltidyrc, .perlcriticrc, .ansible-lint*, .golangci.*, .bandit, .sqlfluff, .vale.ini, phpstan.neon*,
            phpunit.xml*, psalm.xml*, .php-cs-fixer*, rector.php, detekt.y*ml, .swiftlint.y*ml, .clang-tidy, .ccls,
            compile_commands.json, compile_flags.txt, .ripgreprc
        """),
    ),
    Group(
        _RUNS,
        "agents and assistants read it as instructions or start servers it names",
        folders=_names("""
            .claude, .codex, .cursor, .gemini, .windsurf, .aider, .roo, .kiro, .continue, .junie, .amazonq, .augment,
            .trae, .goose, .opencode, .crush, .qwen, .agents, .openhands, .kilocode, .clinerules, .mcp
        """),
        files=_names("""
            agents.md, agents.override.md, agent.md, claude.md, claude.local.md, gemini.md, copilot-instructions.md,
            .cursorrules, .windsurfrules, .clinerules, .roorules, .goosehints, .mcp.json, mcp.json, mcp.toml,
            .aider.conf.y*ml, llms.txt, skill.md, codex.md, qwen.md, warp.md, opencode.json*, crush.json, .rules,
            .airules, .roomodes, .kilocodemodes, .augment-guidelines
        """),
    ),
    Group(
        _SECRET,
        "it usually holds secrets of the environment",
        folders=_names(".secrets"),
        files=_names("""
            .env, .env.*, *.env, .envrc, secrets.y*ml, secrets.json, secrets.toml, secrets.env, secret.y*ml,
            secret.json, *.secret, *.secrets, .secrets, *.tfvars, *.tfvars.json, *.tfstate, *.tfstate.backup,
            local.settings.json, appsettings.production.json
        """),
    ),
    Group(
        _SECRET,
        "it is a private key or a key store",
        folders=_names(".ssh, .gnupg, .age, .password-store"),
        files=_names("""
            *.pem, *.key, *.p12, *.pfx, *.jks, *.keystore, *.kdbx, *.kdb, *.ppk, *.gpg, *.age, *.ovpn, id_rsa*,
            id_dsa*, id_ecdsa*, id_ed25519*, known_hosts, authorized_keys, *.p8
        """),
    ),
    Group(
        _SECRET,
        "it holds credentials of a cloud or a cluster",
        folders=_names("""
            .aws, .azure, .gcloud, .kube, .oci, .bluemix, .terraform.d, .digitalocean, .fly
        """),
        files=_names("""
            credentials, credentials.json, credentials.toml, credentials.y*ml, kubeconfig*, service-account*.json,
            service_account*.json, application_default_credentials.json, *credentials*.csv, .vault-token, .boto,
            .s3cfg, client_secret*.json, token.json
        """),
        paths=_names("""
            .config/gcloud, .config/gh, .config/doctl, .docker/config.json, .config/hub
        """),
    ),
    Group(
        _SECRET,
        "it holds credentials of a package registry, a host or a database",
        files=_names("""
            .netrc, _netrc, .git-credentials, .npmrc, .yarnrc.yml, .pypirc, .pgpass, .my.cnf, .htpasswd, .dockercfg,
            .dockerconfigjson, .mylogin.cnf, .gem_credentials, auth.json, wp-config.php, .lftprc, .msmtprc, .esmtprc
        """),
        paths=_names("""
            .git/config, .git/credentials, .gem/credentials, .cargo/credentials, .m2/settings.xml,
            .gradle/gradle.properties, .composer/auth.json
        """),
    ),
    Group(
        _SECRET,
        "it belongs to a browser, a keyring, a shell history or a running process",
        folders=_names(".mozilla, .thunderbird, keychains, keyrings, .electrum, .bitcoin"),
        files=_names("""
            login data, cookies, cookies.sqlite, logins.json, key4.db, web data, wallet.dat, .bash_history,
            .zsh_history, .python_history, .psql_history, .mysql_history, .node_repl_history, .viminfo, shadow,
            gshadow, sudoers, environ
        """),
        paths=_names("""
            .local/share/keyrings, .config/google-chrome, .config/chromium, library/keychains
        """),
    ),
)

OPEN_FILES: Final = _names("""
    .env.example, .env.sample, .env.template, .env.dist, .env.defaults, example.env, sample.env
""")
"""Names that look sensitive and are published on purpose; they are not sensitive."""

SYSTEM_FOLDERS: Final = _names("proc, sys, dev, run")
"""First components of absolute paths below which the machine shows its inside."""
