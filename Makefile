# `make help` prints all targets. ARGS is passed to the command of a target. `setup` is fast if nothing
# has changed.
.DEFAULT_GOAL := help
.PHONY: help setup tiny tiny-qwen3-vocab tiny-vision demo demo-model eval-demo-model test-demo-model serve check \
	test test-nightly test-fast docs docs-demo trace record-streams fuzz bench bench-list bench-growth \
	bench-overhead bench-hop bench-masks bench-engine-steps bench-grammars bench-drafts bench-validation bench-looks \
	bench-interference bench-affinity bench-schemas conformance surface chaos compat dist lock fleet site soak rolling

PORT ?= 4000
ARGS ?=
export PATH := $(CURDIR)/.venv/bin:$(PATH)
# Tests and commands start dozens of processes, which would each compile our packages again.
unexport PYTHONDONTWRITEBYTECODE

help: ## Print this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "%-20s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## Create or update .venv
	@scripts/setup.sh

# Uses the bundled demo model. MODEL=tiny-random uses random weights; MODEL can also be a directory.
demo: setup $(if $(filter tiny-random,$(MODEL)),tiny) ## Run the demo with tools on a local stack
	@toolgate demo $(if $(MODEL),--model $(MODEL:tiny-random=.cache/models/tiny)) $(ARGS)

# FAMILY=NAME creates .cache/models/tiny-NAME, with the marks, chat template and end-of-turn tokens of
# a dialect. MARKS=all makes all its marks special tokens, MARKS=none all of them text.
FAMILY ?=
MARKS ?= named
tiny: setup ## Create the model with random weights that tests and benchmarks use (FAMILY=NAME)
	@$(if $(FAMILY),python -m tests.models.tiny_family .cache/models/tiny-$(FAMILY) \
		--family $(FAMILY) --marks $(MARKS),python -m tests.models.tiny_random .cache/models/tiny)

QWEN3_VOCAB := .cache/models/tiny-qwen3-vocab
tiny-qwen3-vocab: setup ## Create such a model with Qwen3's vocabulary
	@python -m tests.models.tiny_random $(QWEN3_VOCAB) \
		--tokenizer "$${TOOLGATE_SHARED:-../shared}/data/qwen3-tokenizer"

tiny-vision: setup ## Create such a model that accepts images
	@python -m tests.models.tiny_vision .cache/models/tiny-vision

# Trains from scratch, on two cores without a GPU. The weights are in demo_model/toolgate_demo_model.
# MINUTES=5 stops the training after 5 minutes; the same command resumes it. The environment variables
# keep freed memory, because page faults cost more than the arithmetic, and keep idle threads from
# spinning. Paths in ARGS are relative to demo_model/, here and below.
SEED ?= 1
MINUTES ?=
RUN := ../.cache/models/demo-$(SEED)
demo-model: setup ## Train the demo model and replace its weights (MINUTES=5, SEED=1)
	@cd demo_model && OMP_WAIT_POLICY=PASSIVE MALLOC_MMAP_MAX_=0 \
		MALLOC_TRIM_THRESHOLD_=16000000000 MALLOC_TOP_PAD_=536870912 \
		python -m trainer.train $(RUN) --seed $(SEED) $(if $(MINUTES),--minutes $(MINUTES)) $(ARGS)
	@cd demo_model && python -m trainer.export $(RUN) toolgate_demo_model/weights

eval-demo-model: setup ## Evaluate the demo model
	@cd demo_model && python -m trainer.evaluate $(ARGS)

test-demo-model: setup ## Test the demo model's trainer
	@cd demo_model && pytest $(ARGS)

serve: setup ## Serve a model with a gateway, in the foreground (MODEL=…, PORT=4000)
	@test -n "$(MODEL)" || { echo "usage: make serve MODEL=<dir or hub id> [PORT=4000]"; exit 2; }
	@exec toolgate serve "$(MODEL)" --port $(PORT) $(ARGS)

check: setup ## Check format, lint and types
	ruff format --check .
	ruff check .
	mypy
	lint-imports

# Tests that depend on the adapter run with both adapters. `make test ADAPTER=structured_output` (or
# logits_processor) runs all tests with one.
ADAPTER ?=

test: setup ## Run the tests, except slow ones (ARGS=tests/core, ADAPTER=structured_output)
	@TOOLGATE_ADAPTER=$(or $(ADAPTER),auto) python scripts/run_tests.py $(ARGS)

test-nightly: setup ## Run all tests, with more examples
	TOOLGATE_TEST_NIGHTLY=1 TOOLGATE_ADAPTER=$(or $(ADAPTER),auto) pytest $(ARGS)

test-fast: setup ## Run the tests that take no vLLM, no gateway process and no exhaustive checks
	@python scripts/run_tests.py --fast $(ARGS)

# DEMO=no leaves out the recording of the demo, which starts vLLM twice and takes minutes.
DEMO ?= yes
docs: tiny ## Generate the reference pages in docs/, and record the demo (DEMO=no: do not)
	@python scripts/config_doc.py
	@python scripts/dashboard.py
	@python scripts/errors_doc.py
	@python scripts/families_doc.py
	@python scripts/metrics_doc.py
	@python scripts/parameters_doc.py
	@python scripts/settings_doc.py
	@python -m tests.support.schemas.support_page
	@$(if $(filter no,$(DEMO)),,$(MAKE) --no-print-directory docs-demo)

docs-demo: tiny ## Record the demo: docs/guide/demo.svg and docs/guide/demo.txt
	@python scripts/record_demo.py

site: setup ## Build the documentation as a site in .cache/site; dead links are errors
	@uv pip install --quiet --python .venv/bin/python 'mkdocs-material>=9.6,<10'
	@python scripts/site_pages.py
	@mkdocs build --quiet

fuzz: setup ## Send random requests to a running gateway (URL=… KEY=…)
	@test -n "$(URL)" || { echo "usage: make fuzz URL=http://127.0.0.1:4000 KEY=sk-… [ARGS='--api messages --requests 10000']"; exit 2; }
	@python -m bench fuzz "$(URL)" "$(KEY)" $(ARGS)

# The tables are printed, the plots are written to docs/plots.
bench: tiny tiny-qwen3-vocab ## Compare tokens per second with vLLM and LiteLLM (50 minutes)
	@python -m bench throughput $(QWEN3_VOCAB) --plots docs/plots --tokens 48 $(ARGS)
	@python -m bench throughput .cache/models/tiny --plots docs/plots --tokens 40 $(ARGS)

bench-list: setup ## List all benchmarks; each runs with `python -m bench NAME`
	@python -m bench --list

bench-growth: tiny tiny-qwen3-vocab ## Measure the cost of enforcement by tools, streams, tokens, grammars
	@python -m bench growth .cache/models/tiny $(QWEN3_VOCAB) $(ARGS)

bench-overhead: setup ## Measure the gateway's cost compared with LiteLLM's hosted_vllm/
	@python -m bench gateway-overhead $(ARGS)

bench-hop: bench-overhead ## Earlier name of bench-overhead

bench-masks: tiny-qwen3-vocab ## Measure the enforcement time per engine step
	@python -m bench masks $(QWEN3_VOCAB) $(ARGS)

bench-engine-steps: tiny-qwen3-vocab ## Measure what enforcement adds to a step of vLLM's engine
	@python -m bench engine-steps $(QWEN3_VOCAB) $(ARGS)

bench-grammars: tiny-qwen3-vocab ## Measure compile and load times of grammars
	@python -m bench grammars $(QWEN3_VOCAB) $(ARGS)

bench-drafts: tiny-qwen3-vocab ## Measure the engine steps that drafts save
	@python -m bench drafts $(QWEN3_VOCAB) $(ARGS)

bench-validation: setup ## Measure the gateway's cost of parsing tools and validating calls
	@python -m bench validation-overhead $(ARGS)

bench-looks: bench-validation ## Earlier name of bench-validation

bench-interference: tiny-qwen3-vocab ## Measure the effect of new tools on running streams
	@python -m bench interference $(QWEN3_VOCAB) $(ARGS)

bench-affinity: tiny ## Compare prefix cache hits with and without prefix affinity
	@python -m bench affinity .cache/models/tiny $(ARGS)

bench-schemas: tiny ## Validate calls with the schemas of MaskBench
	@python -m bench schemas --model .cache/models/tiny --contender toolgate \
		--contender vllm-strict $(ARGS)

conformance: setup ## Run the black-box evaluation (ARGS='--contender toolgate --model DIR')
	@python -m bench conformance $(ARGS)

surface: tiny ## Compare each parameter with vLLM's own server; writes .cache/parameters-vllm.md
	@python -m bench surface --model .cache/models/tiny --report .cache/parameters-vllm.md $(ARGS)

# Takes 8 to 14 minutes, most of it for restarts of vLLM and LiteLLM.
chaos: tiny ## Kill and stop each process of a fleet under load, and check every response
	@python -m bench chaos .cache/models/tiny $(ARGS)

# SEEDS=100 DAYS=10 are 1,000 simulated days, 13 minutes on two cores.
SEEDS ?= 20
DAYS ?= 2
fleet: setup ## Simulate fleets with faults under a virtual clock, and check limits, keys, grammars
	@python -m bench fleet --seeds $(SEEDS) --days $(DAYS) $(ARGS)

HOURS ?= 1
soak: tiny ## Keep a fleet under load and faults, and check responses and growth (HOURS=0.2)
	@python -m bench soak .cache/models/tiny --hours $(HOURS) $(ARGS)

rolling: tiny ## Restart each server of a fleet in turn, under load, and check every response
	@python -m bench rolling .cache/models/tiny $(ARGS)

trace: setup ## List the files that one streamed request enters (ARGS=--limits)
	@python scripts/trace_request.py $(ARGS)

record-streams: setup ## Record token streams of a backend for the tests (URL=… KEY=…)
	@python scripts/record_streams.py "$(URL)" "$(KEY)"

# All versions take about 40 minutes. ARGS='--only 1.109.1 -- -x' selects one and passes -x to pytest.
compat: setup ## Run the tests with other versions of LiteLLM and vLLM
	@python scripts/compat.py $(ARGS)

dist: setup ## Build wheels, source distributions and bills of materials into dist/, twice, and compare them
	@python scripts/dist.py $(ARGS)

lock: setup ## Write requirements/locked, with the hashes of all packages (ARGS='--only proxy')
	@python scripts/lock.py $(ARGS)
