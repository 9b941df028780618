# Everything that `make` installs or builds stays inside this folder: .venv, node_modules and .cfrag.
PYTHON ?= python3
JOBS ?= 2
BIN := .venv/bin
STAMPS := .cfrag/stamps

.PHONY: help demo bench test check stop setup setup-dev lock prerequisites
.DELETE_ON_ERROR:
.NOTPARALLEL:

help:
	@echo "make demo   deploy to a Cloudflare on this machine, ingest documents, search them"
	@echo "make stop   stop that Cloudflare (its data stays in .cfrag)"
	@echo "make bench  count round trips, and compare the ways in, on what make demo has deployed"
	@echo "make test   run the tests"
	@echo "make check  lint and type-check"
	@echo "make lock   renew the locks"

demo: setup
	@$(BIN)/cfrag demo

stop:
	@test ! -x $(BIN)/cfrag || $(BIN)/cfrag local stop

bench: setup
	@$(BIN)/python -m bench

test: setup-dev
	$(BIN)/python -m pytest -n $(JOBS) --dist loadgroup --durations 15

check: setup-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m tools.check_worker
	$(BIN)/python -m tools.check_locks

setup: prerequisites $(STAMPS)/python $(STAMPS)/node $(STAMPS)/pulumi $(STAMPS)/worker-modules

setup-dev: setup $(STAMPS)/python-dev

prerequisites:
	@$(PYTHON) tools/prerequisites.py

$(STAMPS)/venv: tools/bootstrap.lock
	@echo "cfrag: making .venv"
	@$(PYTHON) -m venv .venv
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r tools/bootstrap.lock
	@mkdir -p $(STAMPS) && touch $@

$(STAMPS)/python: $(STAMPS)/venv requirements.lock pyproject.toml
	@echo "cfrag: installing Python packages"
	@$(BIN)/uv pip install --quiet --python $(BIN)/python --require-hashes -r requirements.lock
	@$(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation --editable .
	@touch $@

$(STAMPS)/python-dev: $(STAMPS)/python requirements-dev.lock
	@echo "cfrag: installing Python packages for tests and checks"
	@$(BIN)/uv pip install --quiet --python $(BIN)/python --require-hashes -r requirements-dev.lock
	@touch $@

$(STAMPS)/node: local/workerd/package.json local/workerd/package-lock.json
	@echo "cfrag: installing Node packages for the local Workers runtime"
	@cd local/workerd && npm ci --silent --no-audit --no-fund
	@mkdir -p $(STAMPS) && touch $@

$(STAMPS)/pulumi: $(STAMPS)/python tools/pulumi_tools.py $(wildcard tools/pulumi/*/go.sum)
	@$(BIN)/python -m tools.pulumi_tools
	@touch $@

$(STAMPS)/worker-modules: $(STAMPS)/python $(wildcard worker_template/requirements.lock)
	@echo "cfrag: fetching the packages that go into the Worker"
	@$(BIN)/python -c 'from infra.bundle import store, vendor; vendor.ensure(store.home())'
	@touch $@

LOCK := $(BIN)/uv pip compile --quiet --generate-hashes --no-header --no-emit-index-url --no-annotate
HOST := --universal --python-version 3.11
WORKER := --python-version 3.14 --python-platform wasm32-pyodide2025

lock: $(STAMPS)/venv
	$(LOCK) $(HOST) tools/bootstrap.in -o tools/bootstrap.lock
	$(LOCK) $(HOST) pyproject.toml -o requirements.lock
	$(LOCK) $(HOST) --extra dev pyproject.toml -o requirements-dev.lock
	$(LOCK) $(WORKER) worker_template/pyproject.toml -o worker_template/requirements.lock
