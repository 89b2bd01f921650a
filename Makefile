# Two commands are all a newcomer needs: `make demo` and `make test`. Each makes .venv first, where it is missing.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
PIP := $(BIN)/python -m pip --disable-pip-version-check

# Threads that wait for one another sleep instead of spinning. On cores shared with other jobs, spinning makes torch's
# many small steps ten times slower; the results are the same.
export OMP_WAIT_POLICY ?= PASSIVE

.DEFAULT_GOAL := help
.PHONY: help demo test test-all test-slow soak bench lint format results docs clean

# One process for each core, each with one thread; a core that has nothing left to do takes tests from the others.
JOBS ?= $(shell nproc 2>/dev/null || echo 2)
PYTEST := $(BIN)/python -m pytest -n $(JOBS) --dist worksteal

help:  ## Say what can be made
	@grep -hE '^[a-z-]+:.*##' Makefile | sed -E 's/^([a-z-]+):.*## (.*)/  make \1\t\2/' | expand -t 18

demo: $(INSTALLED)  ## Condense an embedded graph, rebuild from it, compare; leaves demo/ behind
	$(BIN)/plgc demo --output demo

test: lint  ## Lint, then run the tests that are quick: every module, in a few minutes
	$(PYTEST) -m "not slow"

test-all: lint  ## Lint, then run every test: Ray, kill and resume, whole grids, real graphs and a browser too
	$(PYTEST)

test-slow: $(INSTALLED)  ## Run what make test leaves out, and nothing else
	$(PYTEST) -m slow

soak: $(INSTALLED)  ## Kill, damage, forge, fill and race at full counts (docs/reliability.md); an hour. SHARE=0.05: less
	$(BIN)/python tests/soak/run.py $(if $(SHARE),--share $(SHARE))

bench: $(INSTALLED)  ## Measure cost as ratios, into results/bench.jsonl; QUICK=1 takes three minutes
	$(BIN)/python benchmarks/bench.py $(if $(QUICK),--quick) $(BENCH)

lint: $(INSTALLED)  ## Check style (ruff) and types (pyright)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright

format: $(INSTALLED)  ## Put the code into the project's style
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

results: $(INSTALLED)  ## Make docs/results.md, its figures and the README's table from results/
	$(BIN)/python benchmarks/publish.py

docs: $(INSTALLED)  ## Build the documentation into site/, warnings as errors
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

clean:  ## Remove what was made here: .venv, demo/, site/ and caches
	rm -rf $(VENV) demo site build dist src/*.egg-info .pytest_cache .ruff_cache .hypothesis
	find src tests benchmarks docs -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

# torch and setuptools come first: with the pinned torch in place nothing else can pull in another build of it, and
# with setuptools in place the package is built with the pinned version.
$(INSTALLED): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; v = sys.version_info; v >= (3, 11) or sys.exit(f"plgc needs Python 3.11 or later, $(PYTHON) is {v[0]}.{v[1]}: name another one, as in make PYTHON=python3.12")'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) install --quiet -c constraints.txt setuptools torch
	$(PIP) install --quiet -c constraints.txt --no-build-isolation -e ".[dev]"
	@touch $@
