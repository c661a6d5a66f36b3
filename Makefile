# Every target does its own set-up in .venv; a stamp is renewed when setup.cfg changes.
# `make PYTHON=/path/to/python3.12 test` chooses the interpreter .venv is made from. `make` without
# a target lists those that have a comment with two signs.
#
# pip is the newest, which resolves what is asked for in a third of the time that the one of Python
# 3.11 takes. It compiles nothing: of 8,000 files a tenth is ever imported, and compiled then.

PYTHON ?= python3
BIN := .venv/bin
INSTALL := $(BIN)/python -m pip --quiet --disable-pip-version-check install --no-compile --editable
CHECKED := $(foreach folder,symgrad tests examples benchmarks tools,\
	$(if $(wildcard $(folder)/*.py),$(folder)))

# Tests start some hundred interpreters, and each would compile the package anew.
test: export PYTHONDONTWRITEBYTECODE =

.DEFAULT_GOAL := help
.PHONY: help train test test-all-pythons lint style docs bench dist programs array-api clean
.DELETE_ON_ERROR:
# Two set-ups at once would write to one .venv.
.NOTPARALLEL:

help: ## List the targets
	@echo 'make TARGET, where TARGET is one of:'
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  \1@\2/' | \
		awk -F@ '{ printf "  %-18s %s\n", $$1, $$2 }'

train: .venv/stamp-examples ## Train examples/digits.py on real scans of digits
	$(BIN)/python examples/digits.py

# Types are checked beside the tests: mypy takes one core, and would leave the others idle.
test: style programs ## Run all that a change must pass: linters, types, contracts, tests
	$(BIN)/mypy $(CHECKED) & types=$$!; trap 'kill $$types; exit 1' INT TERM; \
	$(BIN)/python -m pytest --quiet --numprocesses auto --dist loadfile; tests=$$?; \
	wait $$types && exit $$tests

test-all-pythons: ## Run the tests with every Python from 3.11 on that is found
	$(PYTHON) tools/all_pythons.py --numprocesses auto --dist loadfile

# A C compiler, emulators, valgrind and a browser, for the tests that run them.
programs: ## Install what some tests run: a C compiler, emulators, valgrind, a browser
	tools/install_programs.sh

lint: style ## Run ruff, the contracts of imports and mypy
	$(BIN)/mypy $(CHECKED)

style: .venv/stamp-dev ## Run ruff and the contracts of imports
	$(BIN)/ruff check --quiet .
	$(BIN)/ruff format --check --quiet .
	$(BIN)/lint-imports --no-logo --no-cache

# The site of the documentation, in build/docs/html: warnings are errors, links are followed.
docs: .venv/stamp-docs ## Build the site of the documentation, in build/docs/html
	$(BIN)/python tools/build_docs.py

bench: .venv/stamp-bench ## Measure
	$(BIN)/python -m benchmarks

# The public conformance suite of the Array API, of which SUITE is a checkout with its submodule:
# make array-api SUITE=path. EXAMPLES is how many operands each case draws, CASES which files it runs.
EXAMPLES ?= 20
CASES ?= array_api_tests
array-api: .venv/stamp-array-api ## Run the conformance suite of the Array API: SUITE=path
	@test -d "$(SUITE)/array_api_tests" || { \
		echo 'say where the suite is: make array-api SUITE=path' >&2; exit 1; }
	cd "$(SUITE)" && ARRAY_API_TESTS_MODULE=tests.array_api.namespace \
		PYTHONPATH="$(CURDIR)" PYTHONDONTWRITEBYTECODE=1 "$(CURDIR)/$(BIN)/python" -m pytest \
		-p no:cacheprovider --quiet --tb=short \
		--disable-deadline -o xfail_strict=true --max-examples $(EXAMPLES) \
		--xfails-file="$(CURDIR)/tests/array_api/expected_failures.txt" \
		--skips-file="$(CURDIR)/tests/array_api/skipped_tests.txt" $(CASES)

# The wheel brings along what .venv compiles of it: the leaf functions of common products.
dist: .venv/stamp-dev ## Build the wheel and the source distribution in dist/, and check them
	rm -rf build dist
	SYMGRAD_BUILD_PYTHON="$(CURDIR)/$(BIN)/python" $(BIN)/python -m build --quiet
	$(BIN)/twine check --strict dist/*

clean: ## Remove what the other targets made
	rm -rf .venv .venvs build dist *.egg-info .mypy_cache .pytest_cache .ruff_cache \
		.import_linter_cache .hypothesis
	find symgrad tests examples benchmarks tools -name __pycache__ -prune -exec rm -rf {} + \
		2>/dev/null || true

.venv/stamp-python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo 'symgrad needs Python 3.11 or newer and $(PYTHON) is not;' \
			'choose one with: make PYTHON=/path/to/python3' >&2; exit 1; }
	$(PYTHON) -m venv --upgrade-deps .venv
	@touch $@

# `dev` holds what `examples` and `docs` hold, so all three stamps are good after it.
.venv/stamp-dev: .venv/stamp-python setup.cfg pyproject.toml
	$(INSTALL) '.[dev]'
	@touch $@ .venv/stamp-examples .venv/stamp-docs

.venv/stamp-array-api: .venv/stamp-python setup.cfg pyproject.toml
	$(INSTALL) '.[array-api]'
	@touch $@

.venv/stamp-docs: .venv/stamp-python setup.cfg pyproject.toml
	$(INSTALL) '.[docs]'
	@touch $@

.venv/stamp-examples: .venv/stamp-python setup.cfg pyproject.toml
	$(INSTALL) '.[examples]'
	@touch $@

.venv/stamp-bench: .venv/stamp-python setup.cfg pyproject.toml
	$(INSTALL) '.[bench]'
	@touch $@
