# Two commands are enough for a newcomer: `make demo` and `make test`.
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
CODE := src tests $(wildcard benchmarks examples)

.DEFAULT_GOAL := help
.PHONY: help setup demo test lint format unit test-object test-slow bench docs clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(READY) ## Make .venv with the package and its tools (the other commands do it when needed)

$(READY): pyproject.toml scripts/setup.sh
	scripts/setup.sh $(VENV)
	@touch $@

demo: $(READY) ## Two minutes: two continuous queries, checked and timed, and a load that shifts
	$(BIN)/anabranch demo

test: lint unit ## Everything a change must pass

lint: $(READY) ## Style, types, import contracts
	$(BIN)/ruff check $(CODE)
	$(BIN)/ruff format --check $(CODE)
	$(BIN)/mypy
	PYTHONPATH=src $(BIN)/lint-imports --no-logo

unit: $(READY)
	$(BIN)/pytest -n 2 --dist loadfile --no-loadscope-reorder -m "not slow" $(ARGS)

docs: $(READY) ## The documentation as a site, in site/
	$(BIN)/python -m pip install --quiet --disable-pip-version-check '.[docs]'
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet

format: $(READY) ## Rewrite the code in the house style
	$(BIN)/ruff check --fix $(CODE)
	$(BIN)/ruff format $(CODE)

test-object: $(READY) ## The local tests again, with checkpoints in an object store
	ANABRANCH_STORAGE=object $(BIN)/pytest -n 2 --dist loadfile -m "not slow and not spark and not cluster" \
		tests/state tests/engine tests/reliability $(ARGS)

test-slow: $(READY) ## The tests that take longer than a minute each
	HYPOTHESIS_PROFILE=long $(BIN)/pytest -m slow $(ARGS)

bench: $(READY) ## The window join beside its peers (ARGS are passed on)
	$(BIN)/anabranch bench join $(ARGS)

clean: ## Remove everything that make made
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache dist
