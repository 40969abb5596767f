# Everything a person types. `make help` lists it; each target works on its own, from any state.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

PY := .venv/bin/python
# Of pytest: one more than cores, since many tests wait for processes that they have started; more
# only import everything once more.
PARALLEL := -n $(shell echo $$((1 + $$(nproc)))) --dist worksteal
# Files whose tests share what they have started: side by side, each by one process.
BY_FILE := -n $(shell echo $$((1 + $$(nproc)))) --dist loadfile
# A wait that ran out on a busy machine is tried once more; the summary names it ("R", "rerun"). What
# is wrong fails at once.
AGAIN := --reruns 1 --only-rerun NotInTimeError --only-rerun '^Failed: Timeout'
# Real vLLM, one after the other: side by side they take the time from each other's deadlines.
ENGINES := tests/contract/engine
CLUSTER := tests/support/cluster/cluster
GENERATED := crds charts/kindling/templates/crd.yaml docs/reference

help: ## list every target
	@awk -F ':.*## ' '/^[a-z][a-z-]*:.*## / {printf "  %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: .venv ## one-node cluster, images, chart, a tiny model on CPU, a completion through the endpoint
	@tests/support/demo/demo

demo-down: ## remove the demo and its cluster (images and binaries stay cached)
	@$(CLUSTER) --name demo down

test: .venv ## everything: lint, unit, golden, and the real one-node cluster with real vLLM
	@$(MAKE) -j3 --output-sync=line test-fast prepare-cluster prepare-images prepare-stores
	@$(MAKE) test-cluster

test-fast: lint test-unit ## lint and the tests that need neither network nor cluster

test-unit: .venv ## unit, property, golden and contract tests
	$(PY) -m pytest $(PARALLEL) $(AGAIN) -m "not cluster and not slow" tests

mutation: .venv ## take away each rule, flag and fact that catches a trap of vLLM: a test must fail (part of test-unit)
	$(PY) -m pytest -q tests/mutation

test-cluster: .venv ## test-node, then test-beside: side by side they would slow each other's engines down
	@$(MAKE) test-node
	@$(MAKE) test-beside

test-node: .venv ## the tests on the one-node cluster alone
	$(PY) -m pytest -v $(AGAIN) -m "cluster and not slow" tests/cluster

test-beside: .venv ## the tests that need its programs only: control planes without a node, helm, images, engines
	$(PY) -m pytest -v $(BY_FILE) $(AGAIN) -m "cluster and not slow" --ignore=tests/cluster --ignore=$(ENGINES) tests
	$(PY) -m pytest -v $(AGAIN) -m "cluster and not slow" $(ENGINES)

soak: .venv ## repetition, chaos and long cases, ten times as many examples; docs/soak.md has the last result
	KINDLING_EXAMPLES=10 $(PY) -m pytest $(PARALLEL) -m "not cluster" --timeout=1800 tests/property
	$(PY) -m pytest -v -m slow --timeout=7200 tests

faults: .venv ## make every fault once and write docs/faults.md: what was promised, seen and measured
	KINDLING_FAULTS=write $(PY) -m pytest -v --timeout=1800 $$(grep -rl --include='test_*.py' 'fault: Fault' tests)

bench: .venv ## the figures, as a table of ratios (never part of pass or fail)
	$(PY) -m tests.bench
	$(PY) -m tests.bench.runtime
	$(PY) -m tests.bench.planner

lint: .venv generated ## ruff, mypy, import-linter, yamllint, shellcheck, hadolint, locks, structure, generated files
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/mypy
	.venv/bin/lint-imports
	.venv/bin/yamllint --strict .
	$(PY) -m tests.support.lint.shell
	.venv/bin/hadolint $$(git ls-files 'images/**Containerfile')
	$(PY) -m tests.support.lint
	.venv/bin/uv lock --check
	images/lock --check

typecheck: .venv ## mypy --strict alone
	.venv/bin/mypy

format: .venv ## ruff format and the fixes ruff is sure of
	.venv/bin/ruff check --fix .
	.venv/bin/ruff format .

generate: .venv ## CRD, the chart's copy of it, API reference: all from the typed model
	$(PY) -m kindling_operator.schema

generated: generate
	@git diff --exit-code -- $(GENERATED) || { echo "generated files were stale: commit what 'make generate' wrote"; exit 1; }
	@new=$$(git ls-files --others --exclude-standard -- $(GENERATED)); [ -z "$$new" ] || { echo "generated files are not committed: $$new"; exit 1; }

golden: .venv ## rewrite the golden files from what the code does now; read the diff before you commit it
	KINDLING_GOLDEN=write $(PY) -m pytest -q tests/golden

images: .venv ## build the operator and runtime-cpu images
	images/build operator runtime-cpu

chart: .venv ## lint the chart with both helms and package it into dist/
	@$(CLUSTER) build helm helm3
	@eval "$$($(CLUSTER) paths helm helm3)" && helm3 lint charts/kindling && helm lint charts/kindling && mkdir -p dist && helm package -d dist charts/kindling

cluster-up: ## start the one-node cluster "test" and print how to use it
	@$(CLUSTER) --name test up && $(CLUSTER) --name test env

cluster-down: ## stop the one-node cluster "test" (images stay; PURGE=1 removes everything)
	@$(CLUSTER) --name test down $(if $(PURGE),--purge)

prepare-cluster:
	@$(CLUSTER) build core registry helm helm3

prepare-images: .venv
	@images/build operator runtime-cpu > /dev/null

prepare-stores: .venv
	@$(PY) -m tests.support.stores.programs > /dev/null

lock: .venv ## resolve every lock file again within the pins
	.venv/bin/uv lock
	images/lock --update

purge: ## end every cluster and remove the shared cache: binaries, wheels, images, states
	@tests/support/purge

clean: ## remove what builds left in this folder (the shared cache stays: `make purge` removes it)
	rm -rf .venv dist .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis tests/.failures

.venv: .venv/.stamp

.venv/.stamp: pyproject.toml uv.lock tests/support/bootstrap
	@tests/support/bootstrap

.PHONY: help demo demo-down test test-fast test-unit mutation test-cluster test-node test-beside soak faults bench lint typecheck format generate generated golden images chart cluster-up cluster-down prepare-cluster prepare-images prepare-stores lock purge clean .venv
