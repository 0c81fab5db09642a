# make setup  the environment in .venv from the lock file      make run   the daemon in the foreground (ARGS="...")
# make test   every test (E2E=required: a missing tool fails)   make demo  a stuck and a working session, judged live
# make bench  figures as ratios                                 make lint  ruff and mypy
# make conformance SEED=n COUNT=m   our supervisors against OTP's (needs erlang-base)
# make lock   writes requirements.lock anew from pyproject.toml
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.made-from-lock
WORKERS ?= 2
ARGS ?=
SEED ?= 1
COUNT ?= 2000

.PHONY: setup run test demo bench lint lock conformance
.DELETE_ON_ERROR:

setup: $(STAMP)

$(STAMP): requirements.lock pyproject.toml deploy/make-environment
	@PYTHON="$(PYTHON)" sh deploy/make-environment "$(VENV)"
	@touch $@

run: $(STAMP)
	@exec $(BIN)/treewarden run $(ARGS)

demo: $(STAMP)
	@exec $(BIN)/treewarden demo $(ARGS)

test: $(STAMP)
	$(BIN)/python -m pytest -q -n $(WORKERS) --dist loadgroup $(ARGS)

bench: $(STAMP)
	@$(BIN)/python -m tests.bench $(ARGS)

conformance: $(STAMP)
	@$(BIN)/python -m tests.conformance --seed $(SEED) --count $(COUNT) $(ARGS)

lint: $(STAMP)
	$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/mypy

lock:
	uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --all-extras \
	  --no-emit-index-url --output-file requirements.lock pyproject.toml
