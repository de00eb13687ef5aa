# Every target installs what it needs: `make demo` and `make test` work on a fresh clone.
PYTHON  ?= python3
VENV    := .venv
BIN     := $(VENV)/bin
INSTALL := $(BIN)/pip install --quiet --disable-pip-version-check --no-compile --constraint constraints.txt
RUNTIME := $(VENV)/.runtime
READY   := $(VENV)/.ready
RUN     := build/demo
GALLERY := build/gallery
SERIES  := build/series
BOTH    := --model minilm-l6 --model smollm2-135m

.PHONY: help setup demo gallery docs docs-renew test test-all test-portable test-simulated test-kernels test-quantized browser check bench format clean
.DEFAULT_GOAL := help

help:
	@echo "make demo           survey a real encoder and a real decoder, and print the path of the report"
	@echo "make test           run the tests that take seconds; make test-all also runs the slow ones"
	@echo "make test-portable  run the tests that depend on processor, threads or terminal, under other settings"
	@echo "make test-simulated run the tests that require a GPU on GPUs simulated on the CPU; requires g++"
	@echo "make test-kernels   compile the GPU kernels, and run them on simulated GPUs in the interpreter of Triton"
	@echo "make test-quantized survey models that bitsandbytes and torchao have quantized"
	@echo "make browser        install Chromium, which the tests of the report need"
	@echo "make check          style, types and import order"
	@echo "make docs           build the documentation into build/site/index.html"
	@echo "make docs-renew     write the generated pages of docs/ again"
	@echo "make gallery        reproduce the papers on real models and renew the figures in docs/gallery"
	@echo "make bench          time ratios against the forward pass and against other tools, in build/bench.json"
	@echo "make setup          only install $(VENV) with all development tools"

# Two stages: what the demo runs, and on top of it the tools of developers, which take longer to install.
$(RUNTIME): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; v = sys.version.split()[0]; sys.exit(None if sys.version_info >= (3, 11) else f"Theodolite requires Python 3.11 or newer; $(PYTHON) is {v}. Try: make PYTHON=python3.12")'
	$(PYTHON) -m venv $(VENV)
	$(INSTALL) torch
	$(INSTALL) --editable '.[gguf]'
	touch $(RUNTIME)

$(READY): $(RUNTIME)
	$(INSTALL) --editable '.[dev]'
	touch $(READY)

setup: $(READY)

# Both models read the same 75 dialogues, about 23,000 tokens each.
demo: $(RUNTIME)
	$(BIN)/theodolite survey minilm-l6    --corpus chitchat --limit 75 --out $(RUN)/minilm-l6    --overwrite
	$(BIN)/theodolite survey smollm2-135m --corpus chitchat --limit 75 --out $(RUN)/smollm2-135m --overwrite
	$(BIN)/theodolite report $(RUN)/minilm-l6 $(RUN)/smollm2-135m --out $(RUN)/report.html

gallery: setup
	$(BIN)/theodolite reproduce norm-variance $(BOTH) --corpus chitchat --limit 100 --out $(GALLERY)/norm-variance
	$(BIN)/theodolite reproduce anisotropy-inherent $(BOTH) --model antiberty=gallery/antibodies.txt --model whisper-tiny-en=speech \
	    --model dinov2-small-focus=pictures --model resnet-50=pictures \
	    --corpus chitchat --limit 100 --out $(GALLERY)/anisotropy-inherent
	mkdir -p $(GALLERY)/dynamics && cp -r $(GALLERY)/anisotropy-inherent/surveys $(GALLERY)/dynamics/
	$(BIN)/python examples/train_series.py --out $(SERIES)
	$(BIN)/theodolite dynamics decoder --checkpoints '$(SERIES)/decoder/step-{step}' --corpus $(SERIES)/held-out.jsonl --limit 10 --out $(SERIES)/decoder-steps
	$(BIN)/theodolite reproduce dynamics $(BOTH) --corpus chitchat --limit 100 --series $(SERIES)/decoder-steps --series $(SERIES)/encoder-series \
	    --out $(GALLERY)/dynamics
	$(BIN)/theodolite reproduce bert-spaces --model minilm-l6 --corpus chitchat --out $(GALLERY)/bert-spaces
	$(BIN)/theodolite bridge minilm-l6 --corpus chitchat --limit 60 --out $(GALLERY)/bridge/minilm-l6 --overwrite
	$(BIN)/python -m gallery $(GALLERY) docs/gallery
	$(BIN)/python -m manual

# Warnings are links that lead nowhere and pages that nothing leads to: they fail the build, but not with --quiet.
docs: setup
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict
	@echo "site: build/site/index.html"

docs-renew: setup
	$(BIN)/python -m manual

# One thread per process: on matrices as small as these, more threads only wait for each other.
# Bytecode is kept even where the environment says otherwise: else every process compiles PyTorch and transformers again.
PYTEST := PYTHONDONTWRITEBYTECODE= OMP_NUM_THREADS=1 $(BIN)/python -m pytest --dist worksteal

# More processes than cores: some tests wait for a disk, a browser or a process. Slow ones need the memory.
test: setup
	$(PYTEST) --numprocesses 3 -m "not slow"

test-all: setup
	HYPOTHESIS_PROFILE=ci $(PYTEST) --numprocesses 2

# Tests whose outcome could depend on the processor's instructions, the number of threads, the width of the terminal
# or the path of the temporary folder.
PORTABLE := tests/surveys/test_determinism.py tests/surveys/test_resume.py tests/tables tests/measures tests/cli
test-portable: setup
	mkdir -p build/a-longer-path/of-temporary
	PYTHONDONTWRITEBYTECODE= ATEN_CPU_CAPABILITY=default OPENBLAS_CORETYPE=Prescott MKL_DEBUG_CPU_TYPE=1 OMP_NUM_THREADS=2 COLUMNS=60 \
	    $(BIN)/python -m pytest --numprocesses 2 --dist worksteal --basetemp build/a-longer-path/of-temporary/folders \
	    -m "not slow and not weights" $(PORTABLE)

# Installed beside the environment, where they would slow down or change every other test.
BESIDE := $(INSTALL) --no-deps --upgrade --target

# Kernels are compiled for several GPUs, and run on simulated GPUs by the interpreter of Triton, which is slow: in
# one precision, but for held states.
TRITON := build/triton
$(TRITON)/.ready:
	$(BESIDE) $(TRITON) triton==3.8.0
	touch $(TRITON)/.ready

# Without Triton, whose interpreter is slow: test-kernels has the kernels.
SIMULATED := $(PYTEST) -p tests.simulated_gpus.plugin --numprocesses 2 -m gpu
test-simulated: setup
	PYTHONPATH=. $(SIMULATED)

test-kernels: setup $(TRITON)/.ready
	PYTHONPATH=$(TRITON) TRITON_CACHE_DIR=$(TRITON)/cache $(PYTEST) --numprocesses 2 tests/statistics/cuda/test_kernels_compile.py
	TRITON_INTERPRET=1 PYTHONPATH=$(TRITON):. $(SIMULATED) \
	    -k "(cuda-kernels-overlap and (test_sinks or not torch.float16 and not torch.float32)) or test_kernels or outer_product_gives" \
	    tests/statistics/cuda tests/measures/cuda tests/measures/test_rank_one.py

# transformers imports torchao wherever it finds it.
QUANTIZED := build/quantized
$(QUANTIZED)/.ready:
	$(BESIDE) $(QUANTIZED) bitsandbytes==0.50.2 torchao==0.18.0
	touch $(QUANTIZED)/.ready

test-quantized: setup $(QUANTIZED)/.ready
	PYTHONPATH=$(QUANTIZED) $(PYTEST) --numprocesses 2 tests/surveys/test_quantized_models.py

# Without a browser the tests of the report are skipped; in .ci/run they fail instead.
CHROMIUM := command -v "$${THEODOLITE_CHROMIUM:-chromium}" || command -v chromium-browser || command -v google-chrome
SUDO     := $$([ "$$(id -u)" = 0 ] || echo sudo --non-interactive)
browser:
	@($(CHROMIUM)) >/dev/null || { $(SUDO) apt-get update -qq && $(SUDO) apt-get install -qq -y chromium; } || { \
	    echo "No Chromium, and apt-get could not install it. Install one yourself and give its path:" \
	         "export THEODOLITE_CHROMIUM=/path/to/chromium" >&2; exit 1; }

check: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

format: setup
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: setup
	$(BIN)/python -m benchmarks --out build/bench.json

clean:
	rm -rf build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
