# Each target prints what it does. `setup` is fast when nothing changed.
.PHONY: setup tiny demo demo-model eval-demo-model test-demo-model serve check test test-fast \
	test-nightly docs fuzz bench bench-grammars bench-growth bench-interference bench-masks \
	bench-drafts bench-hop bench-schemas bench-looks bench-affinity conformance surface compat

PORT ?= 4000
ARGS ?=
export PATH := $(CURDIR)/.venv/bin:$(PATH)

setup:
	@scripts/setup.sh

# The shipped demo model; random weights, the most hostile model, with MODEL=tiny-random; or any
# model directory.
demo: setup $(if $(filter tiny-random,$(MODEL)),tiny)
	@toolgate demo $(if $(MODEL),--model $(MODEL:tiny-random=.cache/models/tiny)) $(ARGS)

tiny: setup
	@python -m tests.models.tiny_random .cache/models/tiny

# Trains a demo model from scratch, on two cores without a GPU, and replaces the weights in
# demo_model/toolgate_demo_model. MINUTES=5 stops the training then; the same command resumes it.
# The environment variables keep freed memory (page faults cost more than the arithmetic) and keep
# idle threads from spinning. Paths in ARGS are relative to demo_model/, here and below.
SEED ?= 1
MINUTES ?=
RUN := ../.cache/models/demo-$(SEED)
demo-model: setup
	@cd demo_model && OMP_WAIT_POLICY=PASSIVE MALLOC_MMAP_MAX_=0 \
		MALLOC_TRIM_THRESHOLD_=16000000000 MALLOC_TOP_PAD_=536870912 \
		python -m trainer.train $(RUN) --seed $(SEED) $(if $(MINUTES),--minutes $(MINUTES)) $(ARGS)
	@cd demo_model && python -m trainer.export $(RUN) toolgate_demo_model/weights

eval-demo-model: setup
	@cd demo_model && python -m trainer.evaluate $(ARGS)

test-demo-model: setup
	@cd demo_model && pytest $(ARGS)

serve: setup
	@test -n "$(MODEL)" || { echo "usage: make serve MODEL=<dir or hub id> [PORT=4000]"; exit 2; }
	@exec toolgate serve "$(MODEL)" --port $(PORT) $(ARGS)

check: setup
	ruff format --check .
	ruff check .
	mypy
	lint-imports

# All tests but the slow ones, those that depend on the adapter on both. `make test
# ADAPTER=structured_output` (or logits_processor) runs all of them on one.
ADAPTER ?=

test: setup
	TOOLGATE_ADAPTER=$(or $(ADAPTER),auto) pytest -m "not slow" $(ARGS)

test-nightly: setup ## The slow tests too
	TOOLGATE_ADAPTER=$(or $(ADAPTER),auto) pytest $(ARGS)

test-fast: setup ## Tests that start neither vLLM nor a gateway process, in two processes
	pytest -n 2 --dist loadfile --no-loadscope-reorder -m "not vllm and not litellm_process" $(ARGS)

docs: tiny
	@python scripts/config_doc.py
	@python scripts/errors_doc.py
	@python scripts/limits_doc.py
	@python scripts/metrics_doc.py
	@python scripts/parameters_doc.py
	@python scripts/settings_doc.py
	@python -m tests.support.schema_support

fuzz: setup
	@test -n "$(URL)" || { echo "usage: make fuzz URL=http://127.0.0.1:4000 KEY=sk-… [ARGS='--requests 10000']"; exit 2; }
	@python -m bench.fuzz.run "$(URL)" "$(KEY)" $(ARGS)

# Tokens a second beside every alternative, on the tiny model and on one over a vocabulary of real
# size; about fifty minutes. The tables go to stdout, the plots into docs/plots.
bench: tiny
	@python -m tests.models.tiny_random .cache/models/tiny-qwen3-vocab \
		--tokenizer "$${TOOLGATE_SHARED:-../shared}/data/qwen3-tokenizer"
	@python -m bench.throughput.run .cache/models/tiny-qwen3-vocab --plots docs/plots --tokens 48 $(ARGS)
	@python -m bench.throughput.run .cache/models/tiny --plots docs/plots --tokens 40 $(ARGS)

bench-grammars: setup
	@python -m tests.models.tiny_random .cache/models/tiny-qwen3-vocab \
		--tokenizer "$${TOOLGATE_SHARED:-../shared}/data/qwen3-tokenizer"
	@python -m bench.micro.grammars .cache/models/tiny-qwen3-vocab $(ARGS)

bench-masks bench-drafts bench-interference: bench-%: setup
	@python -m tests.models.tiny_random .cache/models/tiny-qwen3-vocab \
		--tokenizer "$${TOOLGATE_SHARED:-../shared}/data/qwen3-tokenizer"
	@python -m bench.$(if $(filter interference,$*),scenarios,micro).$* .cache/models/tiny-qwen3-vocab $(ARGS)

bench-growth: tiny
	@python -m tests.models.tiny_random .cache/models/tiny-qwen3-vocab \
		--tokenizer "$${TOOLGATE_SHARED:-../shared}/data/qwen3-tokenizer"
	@python -m bench.growth.run .cache/models/tiny .cache/models/tiny-qwen3-vocab $(ARGS)

bench-affinity: tiny
	@python -m bench.scenarios.affinity .cache/models/tiny $(ARGS)

bench-hop: setup
	@python -m bench.gateway_overhead.run $(ARGS)

bench-schemas: setup tiny
	@python -m bench.scenarios.schemas --model .cache/models/tiny --contender toolgate \
		--contender vllm-strict $(ARGS)

bench-looks: setup
	@python -m bench.micro.validation_overhead $(ARGS)

conformance: setup
	@python -m bench.conformance.run $(ARGS)

surface: setup tiny
	@python -m bench.surface.run --model .cache/models/tiny --report docs/parameters-vllm.md $(ARGS)

# Other versions of LiteLLM and vLLM; an hour and a half for all. ARGS='--only 1.109.1 -- -x'
compat: setup
	@python scripts/compat.py $(ARGS)
