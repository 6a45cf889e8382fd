# Two commands matter: `make demo` and `make test`. Each sets up what it needs, is idempotent and quiet on success.
# PYTHON names the interpreter to build on (3.11 or newer); VENV the environment's folder.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
# Two more than two processors: many tests wait.
WORKERS ?= 4
# Engines of containers are one a worker, and their commands are programs that have to be waited for.
ENGINE_WORKERS ?= 3
TESTS := tests --ignore=tests/bench --ignore=tests/realworld
IN_PARALLEL := --dist loadfile --no-loadscope-reorder
ROOMS ?= turn,session
STEPS ?= 1000000
PYTEST_ARGS ?=
DEMO_ARGS ?=
N ?= 200
TIER ?= kill
SEED ?= 1
CRASH_ARGS ?=
E2E_ARGS ?=
# A real model is used when one of these keys is set; its SDK is installed only then.
DEMO_PROFILE := $(if $(OPENAI_API_KEY)$(ANTHROPIC_API_KEY),models,demo)

.DEFAULT_GOAL := help
.PHONY: help demo thorough crash mutate simulate test test-engines check bench schema lock redteam realworld e2e e2e-vscode bench-vscode client vsix clean bootstrap-dev

help:
	@echo "make demo       set up, then the main job on a small real repository"
	@echo "make test       set up, then every test this machine can run (hermetic), but for those that start container engines"
	@echo "make test-engines  those: docker, gVisor and another machine behind ssh and TLS (root, Debian's dockerd)"
	@echo "make thorough   the tests that try more when asked: properties, kills, power losses, each attempt in its own jail"
	@echo "make check      ruff, mypy, import contracts, house gates, schema and docs freshness"
	@echo "make bench      print the figures"
	@echo "make crash      kill the real daemon N times (N=200 SEED=1; TIER=power loses power, TIER=disk refuses writes)"
	@echo "make simulate   a million steps of the machine under random interleavings (STEPS=1000000)"
	@echo "make mutate     mutation score of the kernel rooms (ROOMS=turn,session)"
	@echo "make redteam    a compromised model against the policy (AgentDojo), then our attacks on the real daemon"
	@echo "make realworld  third-party packages (needs the package index), and commits of GLOVEPORT_HISTORY_REPOS=/a:/b against git"
	@echo "make e2e        the end-to-end tests alone, those in a real VS Code last"
	@echo "make e2e-vscode the extension in a real VS Code and a browser (Debian, as root; installs both at first)"
	@echo "make bench-vscode  figures of the extension: activation, paint, frames, memory, size"
	@echo "make client     build, test and pack the VS Code extension (needs Node 20 or newer)"
	@echo "make vsix       pack the VS Code extension and nothing else"
	@echo "make schema     regenerate protocol/schema, protocol/typescript and missing golden files"
	@echo "make lock       resolve requirements/*.lock anew (needs uv)"
	@echo "make clean      remove the environment, caches and built files"

demo:
	@$(PYTHON) scripts/bootstrap --venv $(VENV) $(DEMO_PROFILE)
	@$(BIN)/gloveport demo $(DEMO_ARGS)

bootstrap-dev:
	@$(PYTHON) scripts/bootstrap --venv $(VENV) dev

# Skipped tests are listed with their reasons; GLOVEPORT_REQUIRE=all turns a missing tool into a failure.
# Each test is run by one of three: this, test-engines, e2e-vscode (tests/arch/test_commands.py).
test: bootstrap-dev
	@GLOVEPORT_ENGINES_ELSEWHERE=1 $(BIN)/python -m pytest $(TESTS) -m "not window and not engine" \
		-q -rsfE -n $(WORKERS) $(IN_PARALLEL) $(PYTEST_ARGS)

test-engines: bootstrap-dev
	@$(BIN)/python -m pytest $(TESTS) -m "engine and not window" -q -rsfE -n $(ENGINE_WORKERS) $(IN_PARALLEL) $(PYTEST_ARGS)

# GLOVEPORT_THOROUGH=1 is what tests/kit/amount.py and tests/conftest.py ask for.
thorough: bootstrap-dev
	@GLOVEPORT_THOROUGH=1 $(BIN)/python -m pytest tests/property tests/crash/test_proof.py tests/crash/test_power_loss.py \
		tests/security/test_escapes.py tests/contract/test_sandbox_claims.py tests/contract/test_sandbox_survival.py \
		--timeout 1800 -q -rsfE -n $(WORKERS) $(IN_PARALLEL) $(PYTEST_ARGS)

check: bootstrap-dev
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check --quiet .
	@$(BIN)/mypy --no-error-summary
	@$(BIN)/mypy --no-error-summary --config-file pyproject.toml scripts/*.py tests/arch tests/kit
	@PYTHONPATH=protocol:sandbox:server $(BIN)/lint-imports --no-logo
	@$(BIN)/python -m pytest tests/arch -q -rs $(PYTEST_ARGS)

bench: bootstrap-dev
	@set -e; for script in tests/bench/bench_*.py; do \
		if [ -f "$$script" ]; then echo "== $$script"; PYTHONPATH=. $(BIN)/python "$$script"; fi; done

# N times under the real daemon; SEED=s N=1 lives one life again. TIER: kill (the controls, all its life, then from an
# intent on record to its outcome), power (a simulated power loss on its recorded file operations), disk (system calls
# that fail).
crash: bootstrap-dev
	@set -e; export PYTHONPATH=protocol:sandbox:server:.; run() { $(BIN)/python -m "$$@" --seed $(SEED) $(CRASH_ARGS); }; \
	case "$(TIER)" in \
	kill) run tests.kit.proof --controls; run tests.kit.proof --kills $(N); run tests.kit.proof --kills $(N) --between;; \
	power) run tests.kit.power --losses $(N);; \
	disk) run tests.kit.disk --refusals $(N);; \
	*) echo "TIER is kill, power or disk"; exit 2;; esac

simulate: bootstrap-dev
	@PYTHONPATH=. $(BIN)/python -m tests.kit.simulation --steps $(STEPS)

mutate:
	@$(PYTHON) scripts/bootstrap --venv $(VENV) mutation
	@$(BIN)/python scripts/mutate --rooms $(ROOMS)

# The benchmark has an environment of its own; the attacks run in the developers'.
redteam: bootstrap-dev
	@$(PYTHON) scripts/bootstrap --venv $(VENV)-redteam redteam
	@PYTHONPATH=protocol:sandbox:server:. $(VENV)-redteam/bin/python -m tests.redteam.dojo
	@$(BIN)/python -m pytest tests/redteam -q -rs -n $(WORKERS) $(PYTEST_ARGS)

realworld: bootstrap-dev
	@$(BIN)/python -m pytest tests/realworld -q -rs $(PYTEST_ARGS)

e2e: bootstrap-dev
	@$(BIN)/python -m pytest tests/e2e -m "not window" -q -rs $(PYTEST_ARGS)
	@$(MAKE) --no-print-directory e2e-vscode

# E2E_ARGS chooses: E2E_ARGS='-k main_job'. GLOVEPORT_E2E_CACHE says where VS Code lies, GLOVEPORT_E2E_SHOTS where pictures go.
e2e-vscode: bootstrap-dev vsix
	@client-vscode/e2e/install >/dev/null
	@$(BIN)/python -m pytest tests/e2e/test_vscode.py -m window -v -rs $(E2E_ARGS)

# Figures of the client: the panel alone with 10,000 items, then the whole in a window.
bench-vscode: bootstrap-dev vsix
	@client-vscode/e2e/install >/dev/null
	@cd client-vscode && GLOVEPORT_PYTHON=$(abspath $(BIN))/python npm run --silent bench

schema: bootstrap-dev
	@PYTHONPATH=protocol:sandbox:server:. $(BIN)/python scripts/schema.py --write

# Packages are installed anew only when their lock changed.
client: client-vscode/node_modules/.package-lock.json
	@cd client-vscode && said=$$(NO_COLOR=1 npm run --silent test 2>&1) || { printf '%s\n' "$$said"; exit 1; }
	@$(MAKE) --no-print-directory vsix

vsix: client-vscode/node_modules/.package-lock.json
	@cd client-vscode && vsix=$$(npm run --silent package | tail -n 1) && \
		echo "Packed: $$PWD/$$vsix" && echo "Install it: code --install-extension client-vscode/$$vsix" && \
		echo "(or in VS Code: Extensions, the ... menu, Install from VSIX). It needs gloveport on your PATH, or the setting gloveport.command."

client-vscode/node_modules/.package-lock.json: client-vscode/package-lock.json
	@cd client-vscode && npm ci --no-audit --no-fund --no-update-notifier --loglevel=error

lock:
	@scripts/lock

clean:
	@rm -rf $(VENV) $(VENV)-redteam .mypy_cache .ruff_cache .pytest_cache .import_linter_cache client-vscode/node_modules client-vscode/dist client-vscode/*.vsix
