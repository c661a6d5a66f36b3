# Every target does its own set-up in .venv; a stamp is renewed when setup.cfg changes.
# `make PYTHON=/path/to/python3.12 test` chooses the interpreter .venv is made from.

PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check
CHECKED := $(foreach folder,symgrad tests examples benchmarks tools,\
	$(if $(wildcard $(folder)/*.py),$(folder)))

# Tests start some hundred interpreters, and each would compile the package anew.
test: export PYTHONDONTWRITEBYTECODE =

.PHONY: train test lint bench docs programs array-api clean
.DELETE_ON_ERROR:
# Two set-ups at once would write to one .venv.
.NOTPARALLEL:

train: .venv/stamp-examples
	$(BIN)/python examples/digits.py

test: lint programs
	$(BIN)/python -m pytest --quiet --numprocesses auto --dist loadfile

# A C compiler, emulators, valgrind and a browser, for the tests that run them.
programs:
	tools/install_programs.sh

lint: .venv/stamp-dev
	$(BIN)/ruff check --quiet .
	$(BIN)/ruff format --check --quiet .
	$(BIN)/mypy $(CHECKED)
	$(BIN)/lint-imports --no-logo --no-cache

# The site of the documentation, in build/docs/html: warnings are errors, links are followed.
docs: .venv/stamp-docs
	$(BIN)/python tools/build_docs.py

bench: .venv/stamp-bench
	$(BIN)/python -m benchmarks

# The public conformance suite of the Array API, of which SUITE is a checkout with its submodule:
# make array-api SUITE=path. EXAMPLES is how many operands each case draws, CASES which files it runs.
EXAMPLES ?= 20
CASES ?= array_api_tests
array-api: .venv/stamp-array-api
	@test -d "$(SUITE)/array_api_tests" || { \
		echo 'say where the suite is: make array-api SUITE=path' >&2; exit 1; }
	cd "$(SUITE)" && ARRAY_API_TESTS_MODULE=tests.array_api.namespace \
		PYTHONPATH="$(CURDIR)" PYTHONDONTWRITEBYTECODE=1 "$(CURDIR)/$(BIN)/python" -m pytest \
		-p tests.array_api.suite_plugin -p no:cacheprovider --quiet --tb=short \
		--disable-deadline -o xfail_strict=true --max-examples $(EXAMPLES) --disable-extension linalg fft \
		--xfails-file="$(CURDIR)/tests/array_api/expected_failures.txt" $(CASES)

clean:
	rm -rf .venv build dist *.egg-info .mypy_cache .pytest_cache .ruff_cache \
		.import_linter_cache .hypothesis
	find symgrad tests examples benchmarks tools -name __pycache__ -prune -exec rm -rf {} + \
		2>/dev/null || true

.venv/stamp-python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo 'symgrad needs Python 3.11 or newer and $(PYTHON) is not;' \
			'choose one with: make PYTHON=/path/to/python3' >&2; exit 1; }
	$(PYTHON) -m venv .venv
	@touch $@

# `dev` holds what `examples` and `docs` hold, so all three stamps are good after it.
.venv/stamp-dev: .venv/stamp-python setup.cfg pyproject.toml
	$(PIP) install --editable '.[dev]'
	@touch $@ .venv/stamp-examples .venv/stamp-docs

.venv/stamp-array-api: .venv/stamp-python setup.cfg pyproject.toml
	$(PIP) install --editable '.[array-api]'
	@touch $@

.venv/stamp-docs: .venv/stamp-python setup.cfg pyproject.toml
	$(PIP) install --editable '.[docs]'
	@touch $@

.venv/stamp-examples: .venv/stamp-python setup.cfg pyproject.toml
	$(PIP) install --editable '.[examples]'
	@touch $@

.venv/stamp-bench: .venv/stamp-python setup.cfg pyproject.toml
	$(PIP) install --editable '.[bench]'
	@touch $@
