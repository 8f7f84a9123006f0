# `make help` prints all targets. ARGS is passed to the command of a target. `setup` is fast if nothing
# has changed.
.DEFAULT_GOAL := help
.PHONY: help setup demo serve tiny check data test test-fast test-nightly test-database docs site bench soak trace compat dist lock

PORT ?= 4000
ARGS ?=
export PATH := $(CURDIR)/.venv/bin:$(PATH)
# Tests and commands start dozens of processes, which would each compile our packages again.
unexport PYTHONDONTWRITEBYTECODE

help: ## Print this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "%-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## Create or update .venv
	@scripts/setup.sh

# Uses the bundled demo model. MODEL=tiny-random uses random weights; MODEL can also be a directory.
demo: setup $(if $(filter tiny-random,$(MODEL)),tiny) ## Run the demo with tools on a local stack
	@toolgate demo $(if $(MODEL),--model $(MODEL:tiny-random=$(TINY))) $(ARGS)

serve: setup ## Serve a model with a gateway, in the foreground (MODEL=…, PORT=4000)
	@test -n "$(MODEL)" || { echo "usage: make serve MODEL=<dir or hub id> [PORT=4000]"; exit 2; }
	@exec toolgate serve "$(MODEL)" --port $(PORT) $(ARGS)

# KIND=qwen3-vocab has Qwen3's vocabulary, KIND=vision accepts images. FAMILY=NAME creates
# .cache/models/tiny-NAME, with the marks, chat template and end-of-turn tokens of a dialect; MARKS=all
# makes all its marks special tokens, MARKS=none all of them text.
TINY := .cache/models/tiny
FAMILY ?=
KIND ?=
MARKS ?= named
MAKE_TINY := python -m tests.models.tiny_random $(TINY)
MAKE_QWEN3 := python -m tests.models.tiny_random $(TINY)-qwen3-vocab \
	--tokenizer "$${TOOLGATE_SHARED:-../shared}/data/qwen3-tokenizer"
tiny: setup ## Create the model with random weights that tests use (KIND=qwen3-vocab|vision, FAMILY=…)
ifneq ($(FAMILY),)
	@python -m tests.models.tiny_family $(TINY)-$(FAMILY) --family $(FAMILY) --marks $(MARKS)
else ifeq ($(KIND),qwen3-vocab)
	@$(MAKE_QWEN3)
else ifeq ($(KIND),vision)
	@python -m tests.models.tiny_vision $(TINY)-vision
else
	@$(MAKE_TINY)
endif

check: setup ## Check format, lint, types and sizes
	ruff format --check .
	ruff check .
	mypy
	lint-imports
	python scripts/ratchet.py

# Data sets of tests, from packages, where $TOOLGATE_SHARED is absent.
data: setup
	@python -m scripts.public_data

# Tests that depend on the adapter run with both adapters. `make test ADAPTER=structured_output` (or
# logits_processor) runs all tests with one.
ADAPTER ?=
TESTS := python -m pytest -p tests.support.workers --workers 3 --durations 10

test: data ## Run the tests, except slow ones (ARGS=tests/core, ADAPTER=structured_output)
	@TOOLGATE_ADAPTER=$(or $(ADAPTER),auto) $(TESTS) -m "not slow" $(ARGS)

# Of each file, it runs a part of the cases, which the commit chooses.
test-fast: data ## Run a part of the tests that take no vLLM, no gateway process and no exhaustive checks
	@TOOLGATE_TEST_FAST=1 $(TESTS) -m "not vllm and not litellm_process and not exhaustive and not slow" $(ARGS)

test-nightly: data ## Run all tests, with more examples
	@TOOLGATE_TEST_NIGHTLY=1 TOOLGATE_ADAPTER=$(or $(ADAPTER),auto) $(TESTS) $(ARGS)

# The tests leave rows in the database. Node and prisma's engine are downloaded. LiteLLM sets a private
# attribute of prisma's client that later releases do not have.
URL ?=
PRISMA := .cache/prisma
test-database: setup ## Run the tests of LiteLLM's database mode on PostgreSQL (URL=postgresql://…)
	@test -n "$(URL)" || { echo "usage: make test-database URL=postgresql://…"; exit 2; }
	@uv pip install --quiet --python .venv/bin/python --target $(PRISMA) \
		--constraint requirements/constraints.txt prisma==0.11.0
	@export DATABASE_URL="$(URL)" PYTHONPATH="$(PRISMA)" PATH="$(CURDIR)/$(PRISMA)/bin:$(PATH)"; \
		prisma db push --schema "$$(python -c 'from importlib.util import find_spec as find; \
		print(find("litellm").submodule_search_locations[0])')/proxy/schema.prisma" \
		&& TOOLGATE_TEST_DATABASE_URL="$(URL)" pytest tests/proxy/server/database $(ARGS)

# DEMO=no leaves out the recording of the demo, which starts vLLM and takes minutes.
DEMO ?= yes
docs: tiny ## Generate the reference pages in docs/, and record the demo (DEMO=no: do not)
	@python scripts/config_doc.py
	@python scripts/dashboard.py
	@python scripts/errors_doc.py
	@python scripts/families_doc.py
	@python scripts/metrics_doc.py
	@python scripts/parameters_doc.py
	@python scripts/settings_doc.py
	@python -m scripts.schema_support_page
	@$(if $(filter no,$(DEMO)),,python scripts/record_demo.py)

site: setup ## Build the documentation as a site in .cache/site; dead links are errors
	@uv pip install --quiet --python .venv/bin/python 'mkdocs-material>=9.6,<10'
	@python scripts/site_pages.py
	@mkdocs build --quiet

# Each benchmark measures with these models, unless it needs none. Its options are in
# `python -m bench NAME --help`.
MODELS.affinity := $(TINY)
MODELS.drafts := $(TINY)-qwen3-vocab
MODELS.engine-steps := $(TINY)-qwen3-vocab
MODELS.grammars := $(TINY)-qwen3-vocab
MODELS.growth := $(TINY)-qwen3-vocab
MODELS.interference := $(TINY)-qwen3-vocab
MODELS.throughput := $(TINY)-qwen3-vocab
NAME ?=
bench: setup ## Run a benchmark (NAME=engine-steps; without NAME: list them)
ifeq ($(NAME),)
	@python -m bench --list
else
	@$(if $(filter $(TINY),$(MODELS.$(NAME))),$(MAKE_TINY))
	@$(if $(filter $(TINY)-qwen3-vocab,$(MODELS.$(NAME))),$(MAKE_QWEN3))
	@python -m bench $(NAME) $(MODELS.$(NAME)) $(ARGS)
endif

HOURS ?= 1
soak: tiny ## Keep a fleet under load and faults, and check responses and growth (HOURS=0.2)
	@python -m tests.long soak $(TINY) --hours $(HOURS) $(ARGS)

trace: setup ## List the files that one streamed request enters (ARGS=--limits)
	@python scripts/trace_request.py $(ARGS)

# All versions take about 40 minutes. ARGS='--only 1.109.1 -- -x' selects one and passes -x to pytest.
compat: setup ## Run the tests with other versions of LiteLLM and vLLM
	@python scripts/compat.py $(ARGS)

dist: setup ## Build wheels, source distributions and bills of materials into dist/, twice, and compare them
	@python scripts/dist.py $(ARGS)

lock: setup ## Write requirements/locked, with the hashes of all packages (ARGS='--only proxy')
	@python scripts/lock.py $(ARGS)
