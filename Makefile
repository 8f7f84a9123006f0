# Each target prints what it does. `setup` is fast when nothing changed.
.PHONY: setup tiny demo serve check test docs fuzz bench-grammars conformance

PORT ?= 4000
ARGS ?=
export PATH := $(CURDIR)/.venv/bin:$(PATH)

setup:
	@scripts/setup.sh

demo: setup tiny
	@toolgate demo $(ARGS)

tiny: setup
	@python models/tiny_random.py .cache/models/tiny

serve: setup
	@test -n "$(MODEL)" || { echo "usage: make serve MODEL=<dir or hub id> [PORT=4000]"; exit 2; }
	@exec toolgate serve "$(MODEL)" --port $(PORT) $(ARGS)

check: setup
	ruff format --check .
	ruff check .
	mypy

test: setup
	pytest $(ARGS)

docs: setup
	@python scripts/parameters_doc.py

fuzz: setup
	@test -n "$(URL)" || { echo "usage: make fuzz URL=http://127.0.0.1:4000 KEY=sk-… [ARGS='--requests 10000']"; exit 2; }
	@python bench/fuzz.py "$(URL)" "$(KEY)" $(ARGS)

bench-grammars: setup
	@python models/tiny_random.py .cache/models/tiny-qwen3-vocab \
		--tokenizer "$${TOOLGATE_SHARED:-../shared}/data/qwen3-tokenizer"
	@python bench/grammars.py .cache/models/tiny-qwen3-vocab $(ARGS)

conformance: setup
	@python bench/conformance.py $(ARGS)
