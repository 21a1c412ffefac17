# Two commands matter: `make run` trains a real policy, `make test` proves the package works.
# Both create .venv on first use and reuse it afterwards.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
TELIC := $(BIN)/telic

.PHONY: web help run test test-all check bench bench-compare bench-gpu setup format clean wheel docs

help:
	@echo "make run           install, train HalfCheetah to run forward fast, write report and video (about 2 minutes)"
	@echo "make test          run the quick tests"
	@echo "make test-all      run all tests: whole studies, more kills, hours of sandbox attacks"
	@echo "make check         check format, lint, types, layers, line budget, wording and tables of results"
	@echo "make bench         compare speed and learning with Stable-Baselines3 (at most 12 minutes)"
	@echo "make bench-compare REF=COMMIT  compare this tree with a commit, beyond noise (8 minutes or more)"
	@echo "make bench-gpu     the same benchmark on an NVIDIA GPU, with rsl_rl (about 12 minutes)"
	@echo "make web           build the dashboard's pages from web/ (needs Node 20 or newer)"
	@echo "make setup         create .venv and install"
	@echo "make wheel         build the wheel, install it into an empty environment and run telic there"
	@echo "make docs          build the documentation in build/site; a broken link fails"

run: $(STAMP)
	$(TELIC) run "run forward fast" --env HalfCheetah-v5

# Compile first: tests start hundreds of processes, and with PYTHONDONTWRITEBYTECODE each would compile telic
# again. Plain assertions first: rewriting those of every file takes as long as a hundred tests. Failed tests run
# again with rewritten assertions, for their messages.
test: $(STAMP)
	@$(BIN)/python -m compileall -q src tests
	@echo 'pytest -m "not long and not slow"'
	@$(BIN)/python -m pytest -q -n 2 --dist worksteal --assert=plain -m "not long and not slow" || \
	{ $(BIN)/python -m pytest -q --last-failed --last-failed-no-failures=none --maxfail=20; exit 1; }

# Ray is 350 MB and takes a minute or two to install, so it is installed only here.
test-all: $(STAMP)
	@$(PIP) -e ".[ray]"
	$(BIN)/python -m pytest -q -n 2 --dist worksteal

check: $(STAMP)
	$(BIN)/ruff format --check src tests examples benchmarks scripts
	$(BIN)/ruff check src tests examples benchmarks scripts
	$(BIN)/pyrefly check
	$(BIN)/python scripts/shape.py --check
	$(BIN)/python scripts/language.py --check
	$(BIN)/python scripts/results.py --check

bench: $(STAMP)
	$(BIN)/python benchmarks/cpu.py

bench-compare: $(STAMP)
	$(BIN)/python benchmarks/compare.py $(REF)

bench-gpu: $(STAMP)
	$(BIN)/python benchmarks/gpu.py

# Not `npm ci`: it requires binaries of every platform in the lock file, which not every registry has.
web:
	cd web && npm install --no-audit --no-fund && npm run client && npm test && npm run build

format: $(STAMP)
	$(BIN)/ruff format src tests examples benchmarks scripts
	$(BIN)/ruff check --fix src tests examples benchmarks scripts

setup: $(STAMP)

# Install torch first, so that packages that depend on it accept the pinned build. System packages are installed
# in parallel. pip compiles on one core, so bytecode is compiled separately, partly during the download.
PIP := $(BIN)/pip install -qq --disable-pip-version-check
COMPILE := $(BIN)/python -m compileall -qq $(VENV)/lib
$(STAMP): pyproject.toml scripts/setup-system
	@test -d $(VENV) || $(PYTHON) -m venv $(VENV)
	@echo "Installing telic into $(VENV) (one to three minutes the first time) ..."
	@sh scripts/setup-system & system=$$!; \
	$(PIP) --upgrade "pip>=26" || true; \
	$(PIP) --no-compile "torch==2.13.0" && { $(COMPILE) >/dev/null 2>&1 & compiling=$$!; \
	$(PIP) --no-compile -e ".[export,sb3,gpu,llm,mcp,web,dev]"; }; \
	status=$$?; wait $$compiling; $(COMPILE) -j 0 >/dev/null 2>&1; wait $$system; exit $$status
	@touch $@

# Test the wheel as a user gets it, without this folder on its path.
wheel:
	rm -rf dist build/wheel
	$(PYTHON) -m venv build/wheel
	build/wheel/bin/pip install -qq --disable-pip-version-check "torch==2.13.0"
	build/wheel/bin/pip wheel -q --no-deps --wheel-dir dist .
	build/wheel/bin/pip install -qq --disable-pip-version-check dist/telic-*.whl
	cd build/wheel && bin/telic --version && bin/telic run "balance the pole" --env InvertedPendulum-v5

docs:
	$(PYTHON) -m venv build/docs
	build/docs/bin/pip install -qq --disable-pip-version-check "mkdocs-material>=9.8,<10" "mkdocstrings[python]>=1"
	NO_MKDOCS_2_WARNING=1 build/docs/bin/mkdocs build --strict --quiet --site-dir build/site

clean:
	rm -rf $(VENV) build dist .pytest_cache .ruff_cache
