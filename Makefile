# misclick: two commands do everything. `make demo` shows it, `make test` proves it.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed

.DEFAULT_GOAL := help
.PHONY: help demo serve test lint format bench clean

help: ## what there is
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 12

demo: $(INSTALLED) ## install, serve, replay a noisy click stream over HTTP, show what was learned
	@$(BIN)/misclick demo

serve: $(INSTALLED) ## run the service on its embedded store until Ctrl-C
	@$(BIN)/misclick serve

# In two processes, each with stores and services of its own; a file's tests stay together.
test: $(INSTALLED) ## every test
	@$(BIN)/python -m pytest -n 2 --dist loadfile

lint: $(INSTALLED) ## style, types, and which module may import which
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check
	@$(BIN)/mypy
	@$(BIN)/lint-imports

format: $(INSTALLED) ## put the style right
	@$(BIN)/ruff check --fix
	@$(BIN)/ruff format

bench: $(INSTALLED) ## what a round costs: of each learner alone, and over HTTP
	@$(BIN)/pip install --quiet --editable '.[bench]'
	@$(BIN)/python -m benchmarks.learner_step
	@$(BIN)/python -m benchmarks.http

clean: ## remove what was installed and made here, but for data/, which is what models have learned
	rm -rf $(VENV) build dist *.egg-info out .pytest_cache .mypy_cache .ruff_cache .hypothesis \
	  .import_linter_cache .schemathesis

# torch is pinned; where the index offers its CPU build (2.13.0+cpu), pip prefers that one.
$(INSTALLED): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit("misclick needs Python 3.11 or newer" if sys.version_info < (3, 11) else 0)'
	@echo "installing into $(VENV) (about a minute the first time)"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[noise,dev]'
	@touch $@
