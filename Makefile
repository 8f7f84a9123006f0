# Each target prints what it does. `setup` is fast when nothing changed.
.PHONY: setup tiny demo serve test check docs bench

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
