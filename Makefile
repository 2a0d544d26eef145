# `make run` and `make test` need Python 3.11 or later, and nothing else.

BIN := .venv/bin
ARGS ?=

.PHONY: help run demo test check lint mutate bench soak wheel dev clean

help:
	@echo "make run     the gateway in front of a sample consumer, on an embedded Postgres"
	@echo "make demo    why one would want it: the three shapes of duplicates, without and with it"
	@echo "make test    the tests"
	@echo "make check   format, lint, types, import contracts and tests"
	@echo "make lint    the same without the tests"
	@echo "make mutate  breaks the rules one by one; each break must fail a test"
	@echo "make bench   measures; make bench ARGS=\"--quick --output bench.json\""
	@echo "make soak    the long loops"
	@echo "make wheel   dist/*.whl"
	@echo "make clean   removes what the others made, .venv included; keeps data/"

# Root's Postgres runs as another user, who may not be able to pass to where this checkout is.
ifeq ($(shell id -u),0)
run: export DEDUP__STORE__EMBEDDED ?= /var/lib/dedup-gateway
endif
run:
	@scripts/bootstrap
	@$(BIN)/dedup-gateway sample --config config/demo.yaml

demo:
	@scripts/bootstrap
	@$(BIN)/dedup-gateway demo

dev:
	@scripts/bootstrap dev providers

# By file: tests of one file may share what is costly to set up. Two workers, because many tests
# run a gateway, a consumer and a Postgres each.
test: dev
	$(BIN)/python -m pytest -m "not soak" -n 2 --dist loadfile

check: lint test

lint: dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

mutate: dev
	$(BIN)/python -m scripts.mutate $(ARGS)

bench:
	@scripts/bootstrap dev bench
	$(BIN)/python -m bench $(ARGS)

# One at a time and without the limit of two minutes a test.
soak: dev
	$(BIN)/python -m pytest -m soak --timeout 0 $(ARGS)

wheel: dev
	$(BIN)/python -m pip wheel --quiet --no-deps --wheel-dir dist .
	@ls dist/*.whl

clean:
	rm -rf .venv .cache build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
