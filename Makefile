# Two commands do everything on a fresh machine: `make demo` and `make test`.

PYTHON ?= python3
BIN := .venv/bin

# Hundreds of short processes import Prefect, which takes half as long again where its bytecode is kept nowhere.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help demo up down test test-long test-browser test-cluster test-cluster-beside test-cluster-alone test-trainers lint types docs bench lock clean

help: ## Show what there is.
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

demo: .venv/.installed ## Run the main job, end to end, on this machine.
	@$(BIN)/python -m deployments.demo.run

up: .venv/.installed ## Start a Prefect server with all deployments, a worker and the demo's Hub.
	@$(BIN)/python -m deployments.stack up

down: .venv/.installed ## Stop what `make up` started.
	@$(BIN)/python -m deployments.stack down

test: .venv/.installed-dev ## Run the tests.
	@$(BIN)/python -m pytest -n 4 --dist loadfile --no-loadscope-reorder -m "not browser and not cluster and not trainers and not slow and not long"

test-long: .venv/.installed-dev ## Run whole sweeps, flows killed at every moment, the notebook, the code of the docs.
	@$(BIN)/python -m pytest -n 3 --dist loadfile --no-loadscope-reorder -m "long and not cluster"

test-browser: .venv/.installed-dev ## Run the tests of the Prefect UI; needs Chromium.
	@$(BIN)/python -m pytest -m browser tests/browser

test-cluster: test-cluster-beside test-cluster-alone ## Run the tests on Kubernetes: a one-node one made here, or SLIPWAY_TEST_KUBECONFIG.
	@echo "Not run, for their length (ten minutes and more): $(BIN)/python -m pytest -m 'cluster and slow'"

test-cluster-beside: .venv/.installed-dev
	@$(BIN)/python -m pytest -n 2 --dist loadfile -m "cluster and not alone and not slow"

test-cluster-alone: .venv/.installed-dev
	@$(BIN)/python -m pytest -m "cluster and alone and not slow"

test-trainers: .venv/.installed-dev ## Run the tests with a real trainer; installs torch (gigabytes) into .slipway/trainers.
	@test -x .slipway/trainers/bin/python || $(BIN)/uv venv --quiet --python $(BIN)/python .slipway/trainers
	@$(BIN)/uv pip install --quiet --python .slipway/trainers/bin/python --torch-backend cpu torch transformers accelerate trl datasets 2>/dev/null \
		|| $(BIN)/uv pip install --quiet --python .slipway/trainers/bin/python torch transformers accelerate trl datasets
	@$(BIN)/python -m pytest -rs -m trainers tests/trainers

lint: .venv/.installed-dev ## Check format, style and the floors of the house.
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .

types: .venv/.installed-dev ## Check types, for Linux and for macOS.
	@$(BIN)/mypy --platform linux
	@$(BIN)/mypy --platform darwin --cache-dir .mypy_cache/darwin

docs: .venv/.installed-dev ## Build the docs into .slipway/site; a broken link fails.
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict
	@echo "The docs are in .slipway/site/index.html"

bench: .venv/.installed-dev ## Measure what Slipway adds to Prefect; takes some minutes.
	@$(BIN)/python -m benchmarks

lock: .venv/.installed-dev ## Resolve the dependencies anew.
	@$(BIN)/uv pip compile --quiet --universal --generate-hashes --no-emit-index-url --no-header \
		pyproject.toml -o requirements.lock
	@$(BIN)/uv pip compile --quiet --universal --generate-hashes --no-emit-index-url --no-header \
		--group dev pyproject.toml -o requirements-dev.lock

clean: .venv/.installed ## Remove the local cluster's volumes and runs, the server, the reports.
	@$(BIN)/python -m deployments.stack clean

.venv/.installed: requirements.lock pyproject.toml deployments/install.py
	@$(PYTHON) deployments/install.py
	@touch $@

.venv/.installed-dev: requirements-dev.lock pyproject.toml deployments/install.py
	@$(PYTHON) deployments/install.py --dev
	@touch .venv/.installed $@
