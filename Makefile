# Every target sets up what it needs in .venv; `make help` lists them.
PYTHON ?= python3
BIN := .venv/bin
RUN ?= runs/demo
FIELDS ?=
LONG := benchmarks/peer_learning.py

.PHONY: help demo test test-slow soak check docs bench clean
.DEFAULT_GOAL := help

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-9s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: .venv/.runtime  ## pretrain with HNPM on the bundled photos, evaluate, write report and map (about 6 minutes)
	$(BIN)/hardpair pretrain demo --run $(RUN) --resume $(FIELDS)
	$(BIN)/hardpair evaluate $(RUN)
	$(BIN)/hardpair report $(RUN)
	@test $(RUN)/embedding/manifest.json -nt $(RUN)/encoder.safetensors || rm -rf $(RUN)/embedding
	$(BIN)/hardpair embed $(RUN) sample --out $(RUN)/embedding
	$(BIN)/hardpair map $(RUN)/embedding --out $(RUN)/map.html
	@echo "open $(RUN)/report.html and $(RUN)/map.html in a browser"

test: .venv/.dev  ## run the fast tests (about three minutes on two cores)
	$(BIN)/python -m pytest --numprocesses auto --dist worksteal

test-slow: .venv/.dev  ## run the others: kills, torchrun, several processes, other instruction sets (minutes)
	$(BIN)/python -m pytest --numprocesses auto --dist worksteal -m "slow and not soak"

soak: .venv/.dev  ## the long form of the fault tests (minutes)
	$(BIN)/python -m pytest -m soak

check: .venv/.dev  ## format, lint and types, as CI checks them
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

docs: .venv/.docs  ## build the documentation into site/ (offline, links checked)
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet
	@echo "open site/index.html in a browser"

bench: .venv/.bench  ## measure speed, memory and agreement with lightly (its learning only in short)
	for script in $(filter-out $(LONG),$(wildcard benchmarks/*.py)); do $(BIN)/python $$script || exit 1; done
	rm -rf runs/peer-short
	$(BIN)/python $(LONG) --data sample --images 320 --epochs 1 --seeds 1 --out runs/peer-short
	@echo "in full, on CIFAR-10, some hours: $(BIN)/python $(LONG) --lightly-optimiser both"

clean:  ## remove the environment and all caches, but never runs/ or data/
	rm -rf .venv dist site .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

.venv/.runtime: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "hardpair needs Python 3.11 or newer; try make PYTHON=python3.12")'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	$(BIN)/python -c 'from hardpair.views import compile_kernels; compile_kernels()'
	@touch $@

.venv/.dev: .venv/.runtime
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[dev]"
	@touch $@

.venv/.docs: .venv/.runtime
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[docs]"
	@touch $@

.venv/.bench: .venv/.runtime
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[bench]"
	@touch $@
