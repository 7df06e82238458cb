# Everything runs in .venv, which is made on first use and brought up to date when pyproject.toml or constraints.txt
# change. `make train` installs only what training needs; the other targets add the tools for development.

PYTHON ?= python3
ARGS ?=

VENV := .venv
BIN := $(VENV)/bin
STATE := $(shell cat pyproject.toml constraints.txt | cksum | tr ' ' -)
RUNTIME := $(VENV)/.runtime-$(STATE)
DEV := $(VENV)/.dev-$(STATE)
PIP := $(BIN)/python -m pip --disable-pip-version-check install -qq --constraint constraints.txt

# One thread: the models are small, and two threads on two busy cores are many times slower than one.
export OMP_NUM_THREADS ?= 1
export TOKENIZERS_PARALLELISM ?= false

.PHONY: help setup train test test-verl check lint format starters wheel smoke bench compare soak growth clean

help:
	@echo "make train [ARGS='...']    train the bundled starter model; ARGS go to \`rollwise train\`"
	@echo "make test                  ruff, mypy and all tests"
	@echo "make test-verl             the backend verl: real Ray and FSDP2 on the CPU, in an environment of its own"
	@echo "make lint | make format    the checks without the tests; lay out the code"
	@echo "make compare [ARGS='...']  methods against each other on one budget"
	@echo "make starters              build the bundled models anew, into build/starters/"
	@echo "make wheel | make smoke    build the wheel; install it apart and train two steps with it"
	@echo "make bench [ARGS='...']    seconds a step, beside TRL"
	@echo "make soak [MINUTES=30]     kill and resume runs of all methods; make growth: their memory"
	@echo "make setup | make clean    make .venv; remove what was made, .venv included"

$(VENV)/pyvenv.cfg:
	@command -v "$(PYTHON)" >/dev/null || { echo "make: $(PYTHON) not found; install Python 3.11 or newer, or give PYTHON=..." >&2; exit 1; }
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "make: $(PYTHON) is `$(PYTHON) -V 2>&1`; Python 3.11 or newer is needed, give PYTHON=..." >&2; exit 1; }
	@"$(PYTHON)" -c 'import ensurepip, venv' 2>/dev/null || { echo "make: $(PYTHON) has no venv module; install it (Debian: apt-get install python3-venv)" >&2; exit 1; }
	@"$(PYTHON)" -m venv $(VENV)

$(RUNTIME): $(VENV)/pyvenv.cfg
	@echo "installing rollwise into $(VENV) (once; about a minute, several on a busy machine)"
	@$(PIP) --editable .
	@rm -f $(VENV)/.runtime-* && touch $@

$(DEV): $(RUNTIME)
	@echo "installing the tools for development into $(VENV) (once; this too may take minutes on a busy machine)"
	@$(PIP) --editable '.[dev]'
	@rm -f $(VENV)/.dev-* && touch $@

setup: $(DEV)

train: $(RUNTIME)
	@$(BIN)/rollwise train $(ARGS)

test: lint
	$(BIN)/python -m pytest $(ARGS)

check: test

# verl has an environment of its own: it takes other versions. Where its packages cannot be had, the tests say so and pass.
VERL := build/verl
VERLED := $(VERL)/.ready-$(shell cat pyproject.toml constraints-verl.txt | cksum | tr ' ' -)

test-verl:
	@test -f $(VERLED) || { \
	  echo "installing rollwise with verl into $(VERL) (once; some minutes, 2 GB)"; \
	  "$(PYTHON)" -m venv $(VERL) && \
	  $(VERL)/bin/python -m pip --disable-pip-version-check install -qq --constraint constraints-verl.txt \
	    --editable '.[verl,math,data,images]' pytest hypothesis && \
	  rm -f $(VERL)/.ready-* && touch $(VERLED); \
	} || echo "test-verl: verl cannot be installed here; its tests are skipped" >&2
	@if test -f $(VERLED); then OMP_NUM_THREADS=1 $(VERL)/bin/python -m pytest tests/verl $(ARGS); fi

lint: $(DEV)
	$(BIN)/ruff check
	$(BIN)/ruff format --check --quiet
	$(BIN)/mypy

format: $(DEV)
	$(BIN)/ruff format
	$(BIN)/ruff check --fix

starters: $(DEV)
	@for recipe in src/rollwise/starters/*/recipe.yaml; do \
	  name=$$(basename $$(dirname $$recipe)); \
	  $(BIN)/python scripts/build_starter.py $$name --out build/starters/$$name || exit 1; \
	done

wheel: $(RUNTIME)
	@rm -rf build/wheel
	@$(BIN)/python -m pip --disable-pip-version-check wheel -qq --no-deps --wheel-dir build/wheel .
	@ls build/wheel

# The wheel alone, in an environment of its own; only the dependencies come from .venv.
smoke: wheel
	@rm -rf build/smoke build/smoke-run
	@$(BIN)/python -m venv --without-pip build/smoke
	@$(BIN)/python -m pip --disable-pip-version-check --python build/smoke/bin/python install -qq --no-deps build/wheel/*.whl
	@cd build && PYTHONPATH=$$(../$(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))') \
	  smoke/bin/rollwise train --set budget.steps=2 --set eval.prompts=64 --set output=smoke-run $(ARGS)

# TRL lives in an environment of its own, with the same torch and transformers.
build/trl/.ready: benchmarks/requirements-trl.txt
	@"$(PYTHON)" -m venv build/trl
	@build/trl/bin/python -m pip --disable-pip-version-check install -qq --requirement $<
	@touch $@

bench: $(RUNTIME) build/trl/.ready
	@$(BIN)/python benchmarks/step_vs_trl.py $(ARGS)

compare: $(RUNTIME)
	@$(BIN)/rollwise compare $(ARGS)

# Runs killed by SIGKILL at random moments and resumed, against runs left alone; then saves killed. MINUTES=30
soak: $(DEV)
	@PYTHONPATH=. $(BIN)/python -m tests.saves --kills 200 $(ARGS)
	@PYTHONPATH=. $(BIN)/python -m tests.kills --minutes $(or $(MINUTES),30) --kills 4 $(ARGS)

# Resident memory over 300 steps of every method.
growth: $(DEV)
	@ROLLWISE_GROWTH="$$($(BIN)/rollwise methods | sed -n 's/^\([a-z].*\)$$/\1/p' | tr '\n' ' ')" \
	  $(BIN)/python -m pytest tests/test_memory.py -k grow $(ARGS)

clean:
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find src tests scripts benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +
