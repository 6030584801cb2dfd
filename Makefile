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

.PHONY: setup kernels bench-kernels plugin gpu-check demo test test-long test-reference lint goldens clean

setup: $(VENV)/.ready

kernels: setup  ## compile the CPU kernels again where their sources changed

bench-kernels: setup  ## the CPU kernels against the oracle and a plain read; against PyTorch where Python has it
	$(BIN)/python scripts/bench_kernels.py

plugin: setup  ## the CUDA library, by nvcc, for every architecture: build/plugins/cuda-*/libcpspec_cuda.so
	$(MAKE) -C plugins cuda tensorrt PYTHON=$(abspath $(BIN))/python

gpu-check: setup  ## on a machine with a GPU: the kernels' suite on it, and a table of their times
	$(BIN)/python scripts/gpu_check.py

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

GOLDENS_TTS := tokenizer_goldens layout_goldens decoder_goldens goldens
GOLDENS_OMNI := omni_pretrained chat_goldens omni_layout_goldens omni_decoder_goldens omni_goldens

goldens: $(REFERENCE_TTS)/.ready $(REFERENCE_OMNI)/.ready  ## write every golden of the tests again from the references
	set -e; for name in $(GOLDENS_TTS); do $(REFERENCE_TTS)/bin/python scripts/make_$$name.py; done
	set -e; for name in $(GOLDENS_OMNI); do $(REFERENCE_OMNI)/bin/python scripts/make_$$name.py; done

clean:
	rm -rf $(VENV) $(REFERENCE_TTS) $(REFERENCE_OMNI) demo-output build
