# Two commands do everything on a fresh machine: `make demo` and `make test`. Both create .venv first.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
REFERENCE_TTS := .venv-reference-tts
REFERENCE_OMNI := .venv-reference-omni
TEXT ?= the mother is in the kitchen now
SPEAKER ?= vivian
export TEXT SPEAKER
PYTEST_WORKERS ?= auto

KERNEL_SOURCES := $(wildcard plugins/CMakeLists.txt plugins/include/cpspec/* plugins/core/* plugins/cpu/*)

.PHONY: setup kernels demo test test-long test-reference lint goldens clean

setup: $(VENV)/.ready

kernels: setup  ## compile the CPU kernels again where their sources changed

$(VENV)/.ready: pyproject.toml $(KERNEL_SOURCES)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "error: Python 3.11 or newer is needed; run make PYTHON=/path/to/python3.11 setup"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	@touch $@

demo: setup  ## a sentence with the demo voice, autoregressively and with a window of 3
	$(BIN)/python scripts/demo.py --text "$$TEXT" --speaker "$$SPEAKER" --output demo-output

test: setup  ## what a change must pass
	$(BIN)/python -m pytest -n $(PYTEST_WORKERS)

test-long: setup  ## full grids, long runs
	$(BIN)/python -m pytest -n $(PYTEST_WORKERS) -m ''

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy cpspec_trt

.venv-reference-%/.ready: scripts/reference/requirements-%.txt scripts/reference/make_environment.sh
	PYTHON=$(PYTHON) scripts/reference/make_environment.sh $* .venv-reference-$*
	@touch $@

test-reference: $(REFERENCE_TTS)/.ready $(REFERENCE_OMNI)/.ready  ## compare with the PyTorch references on fresh seeds
	$(REFERENCE_TTS)/bin/python scripts/compare_reference.py
	$(REFERENCE_OMNI)/bin/python scripts/compare_omni_reference.py

goldens: $(REFERENCE_TTS)/.ready $(REFERENCE_OMNI)/.ready  ## write tests/goldens again from the PyTorch references
	$(REFERENCE_TTS)/bin/python scripts/make_goldens.py
	$(REFERENCE_OMNI)/bin/python scripts/make_omni_goldens.py

clean:
	rm -rf $(VENV) $(REFERENCE_TTS) $(REFERENCE_OMNI) demo-output build
