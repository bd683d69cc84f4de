# Everything runs in .venv, made on first use. Another interpreter: make test PYTHON=python3.13
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check

.DEFAULT_GOAL := help

.PHONY: help
help: ## show this list
	@awk -F ':.*## ' '/^[a-z][a-z-]*:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# pip 25.1 is the first that reads dependency groups.
$(VENV)/installed: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(PIP) install --quiet --upgrade 'pip>=25.1'
	$(PIP) install --quiet --editable '.[browse,emulator,plots,tokens]'
	@touch $@

$(VENV)/installed-dev: $(VENV)/installed
	$(PIP) install --quiet --group dev
	@touch $@

.PHONY: demo
demo: $(VENV)/installed ## judge the bundled items against a local emulator; no key, no cost
	$(BIN)/iwb-batch demo

.PHONY: test
test: $(VENV)/installed-dev ## run the tests
	$(BIN)/python -m pytest -n auto

# Needs Chromium, or any browser of its family named in CHROMIUM.
.PHONY: test-pages
test-pages: $(VENV)/installed-dev ## try the HTML pages in a real browser
	$(BIN)/python -m pytest tests/browser -o python_files='check_*.py'

.PHONY: sweep
sweep: $(VENV)/installed-dev ## the long tests: every fault at every point, kills, thousands of random schedules
	$(BIN)/python -m pytest tests/sweep -n auto

# Options: make bench BENCH='--only build,ingest --repeat 3'; BENCH='--help' lists them.
.PHONY: bench
bench: $(VENV)/installed ## time and memory beside plain scripts and floors, as ratios; some ten minutes
	@$(BIN)/python -m tests.bench $(BENCH)

.PHONY: lint
lint: $(VENV)/installed-dev ## ruff, format, types
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

.PHONY: check
check: lint test ## all of it; the tests also compare generated docs with the code

.PHONY: docs
docs: $(VENV)/installed ## write the generated pages and the list of pages in README.md
	$(BIN)/python docs/generate.py

# FOLDER holds writingbench/, writing_preference_bench/ and official_aggregates/; see tests/data_checks/.
.PHONY: check-data
check-data: $(VENV)/installed-dev ## try it on the real data: make check-data DATA=FOLDER
	@if [ -n "$(DATA)" ] && [ -d "$(DATA)" ]; then \
	  IWB_CHECK_DATA="$(abspath $(DATA))" $(BIN)/python -m pytest tests/data_checks \
	    -o python_files='check_*.py' -o python_functions='check_*'; \
	else echo "no data folder: name one with DATA=FOLDER; nothing was checked"; fi

.PHONY: clean
clean: ## remove the virtual environment, caches and built files; runs/ stays
	rm -rf $(VENV) build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis
