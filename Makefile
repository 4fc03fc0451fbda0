# Two commands do all: `make run` shows the whole loop, `make test` installs what it needs and runs everything.
SHELL := /bin/bash
BIN := .venv/bin
export OMP_NUM_THREADS ?= 1
export TOKENIZERS_PARALLELISM ?= false

.DEFAULT_GOAL := help
.PHONY: help run test long test-isa test-vllm vllm mutate check types directions collected lock sbom audit outdated wheel format bench story schemathesis clean

help: ## Show this list.
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  make %-12s %s\n", $$1, $$2}'

.venv/.run-ready: pyproject.toml deploy/locks/run.txt $(wildcard deploy/locks/torch*.txt) deploy/environment.sh deploy/python.sh
	@deploy/environment.sh run

.venv/.test-ready: .venv/.run-ready deploy/locks/test.txt
	@deploy/environment.sh test

run: .venv/.run-ready $(if $(filter vllm,$(ENGINE)),vllm) ## The whole loop on this machine: fleet, traffic, a bad change, alert, study, canary, recovery. ONCE=1 ends after it; ENGINE=vllm on real vLLM servers.
	@$(BIN)/tailwright demo $(if $(ENGINE),--engine $(ENGINE)) $(if $(ONCE),--once)

# Files are shared out among the cores; what judges time comes afterwards, with nothing beside it.
APART := story or vllm or isa or long
ALL_CORES := -n auto --dist loadfile --no-loadscope-reorder --durations 10

test: .venv/.test-ready ## Install what the tests need (Debian packages too, saying so), then check and test everything. FAST=1 leaves slow tests out.
	@deploy/test_packages.sh
	@$(MAKE) --no-print-directory check
	@$(BIN)/python -m compileall -q controlplane agents tuner web  # Once, not in each of hundreds of processes.
ifdef FAST
	@$(BIN)/pytest $(ALL_CORES) -m "not ($(APART) or slow or clock)"
	@echo "Left out: the tests marked slow (they start servers, browsers or databases, or compute for a quarter of a second) or clock (they judge time)."
else
	@$(BIN)/pytest $(ALL_CORES) -m "not ($(APART) or clock)"
	@$(BIN)/pytest --durations 10 -m "clock and not ($(APART))" $$(grep -rl --include='test_*.py' pytest.mark.clock tests)
endif

long: .venv/.test-ready ## The tests that attack and kill for minutes: 100,000 requests that nobody should send, kills with PostgreSQL, two days of a fleet in compressed time, the kernels under sanitizers, and at full length what repeats one experiment.
	@deploy/test_packages.sh
	@TAILWRIGHT_TEST_SOAK=1 $(BIN)/pytest $(ALL_CORES) -m "(long or soak) and not (story or vllm or isa or clock)"
	@$(BIN)/pytest -m "long and clock" tests/journeys

story: .venv/.test-ready ## The story of `make run` as a test, then seen on its pages: six minutes, and nine, wants a machine that is otherwise quiet.
	@$(BIN)/pytest -m story tests/journeys/test_story.py tests/journeys/test_story_pages.py

schemathesis: .venv/.test-ready ## Check the API against its own document with seeds 1 to 3 (tens of minutes); a short run is part of the tests.
	@$(BIN)/python -m benchmarks.api_schema --seeds 1,2,3

vllm: ## Build the environment of a real vLLM (CPU): .venv-vllm, or where TAILWRIGHT_VLLM_ENV says. 3 GB, minutes.
	@deploy/vllm_environment.sh

test-vllm: .venv/.test-ready vllm ## Test on real vLLM servers, with the bundled model or TAILWRIGHT_TEST_VLLM_MODEL's.
	@TAILWRIGHT_VLLM_REQUIRED=1 $(BIN)/pytest -m vllm tests/vllm

test-isa: .venv/.test-ready ## Test the engine as on processors with SSE 4.2, AVX2, AVX512 and all that this one has: about ten minutes.
	@$(BIN)/pytest -m isa -s tests/agents/engine/test_instruction_sets.py

mutate: .venv/.test-ready ## Put mistakes into the cores, one at a time, that their own tests must see: MODULE=... SEED=1 COUNT=40 JOBS=1; all of them take hours.
	@$(BIN)/python -m benchmarks.mutation --module "$(MODULE)" --seed $(or $(SEED),1) --count $(or $(COUNT),40) --jobs $(or $(JOBS),1)

check: .venv/.test-ready ## Format, lint, types, import directions.
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	@$(MAKE) --no-print-directory --jobs 2 --output-sync types directions collected

types: .venv/.test-ready
	$(BIN)/mypy
	cd agents/vllm_plugin && ../../$(BIN)/mypy

directions: .venv/.test-ready
	$(BIN)/lint-imports

collected: .venv/.test-ready  # Each test can be; and what pytest makes of their assertions is kept, for workers that would each make it anew.
	@told=$$(PYTHONDONTWRITEBYTECODE= $(BIN)/pytest --collect-only -qq 2>&1) || { tail -40 <<< "$$told"; exit 1; }

lock: ## Write deploy/locks anew from pyproject.toml and the constraints: versions and hashes of all that is installed.
	@[ -x $(BIN)/uv ] || deploy/environment.sh test
	@$(BIN)/python -m deploy.supply.lock

sbom: .venv/.test-ready ## Write the bill of materials that the wheel ships (CycloneDX) anew from deploy/locks, with licences.
	@$(BIN)/python -m deploy.supply.sbom

audit: .venv/.test-ready ## Ask a source of advisories about all that is locked; says "audit SKIPPED" where none can be reached.
	@$(BIN)/python -m deploy.supply.audit

outdated: .venv/.run-ready ## Ask pip's package index for newer versions of all that is locked: advice, which no other target asks for.
	@$(BIN)/python -m deploy.supply.outdated

wheel: .venv/.run-ready ## Build dist/tailwright-VERSION-py3-none-any.whl: the same commit gives the same bytes. TAILWRIGHT_SIGNING_KEY=FILE signs it and its bill of materials.
	@$(BIN)/python -m deploy.supply.wheel

format: .venv/.test-ready ## Rewrite the code in the project's format.
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: .venv/.test-ready ## Run the benchmarks (minutes); docs/benchmarks.md says what each shows.
	$(BIN)/tailwright bench

clean: ## Remove the environments and what runs left behind.
	rm -rf .venv .venv-vllm .tailwright dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
