# Every target sets up what it needs: `make demo` and `make test` work on a fresh clone.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready
RUN    := build/demo
GALLERY := build/gallery
SERIES := build/series
BOTH   := --model minilm-l6 --model smollm2-135m

# The demo reads the same 100 dialogues with both models, about 32,000 tokens each.
.PHONY: help setup demo gallery docs docs-renew test browser check bench format clean
.DEFAULT_GOAL := help

help:
	@echo "make demo    survey a real encoder and a real decoder, and name the report to open"
	@echo "make gallery repeat the papers on real models and renew the pictures in docs/gallery"
	@echo "make docs    build the site, strictly, into build/site/index.html"
	@echo "make docs-renew  write the generated pages of docs again"
	@echo "make test    run the tests"
	@echo "make browser install Chromium, which tests the report, where it is missing"
	@echo "make check   style, types and the import contract"
	@echo "make bench   ratios against the forward pass and against peers, written to build/bench.json"
	@echo "make setup   only make $(VENV) with everything in it"

setup: $(READY)

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; v = sys.version.split()[0]; sys.exit(None if sys.version_info >= (3, 11) else f"Theodolite needs Python 3.11 or newer; $(PYTHON) is {v}. Try: make PYTHON=python3.12")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt torch
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	touch $(READY)

demo: setup
	$(BIN)/theodolite survey minilm-l6    --corpus chitchat --limit 100 --out $(RUN)/minilm-l6    --overwrite
	$(BIN)/theodolite survey smollm2-135m --corpus chitchat --limit 100 --out $(RUN)/smollm2-135m --overwrite
	$(BIN)/theodolite report $(RUN)/minilm-l6 $(RUN)/smollm2-135m --out $(RUN)/report.html

gallery: setup
	$(BIN)/theodolite reproduce norm-variance $(BOTH) --corpus chitchat --limit 100 --out $(GALLERY)/norm-variance
	$(BIN)/theodolite reproduce anisotropy-inherent $(BOTH) --model antiberty=gallery/antibodies.txt --model whisper-tiny-en=speech \
	    --corpus chitchat --limit 100 --out $(GALLERY)/anisotropy-inherent
	mkdir -p $(GALLERY)/dynamics && cp -r $(GALLERY)/anisotropy-inherent/surveys $(GALLERY)/dynamics/
	$(BIN)/python examples/train_series.py --out $(SERIES)
	$(BIN)/theodolite dynamics decoder --checkpoints '$(SERIES)/decoder/step-{step}' --corpus $(SERIES)/held-out.jsonl --limit 10 --out $(SERIES)/decoder-steps
	$(BIN)/theodolite reproduce dynamics $(BOTH) --corpus chitchat --limit 100 --series $(SERIES)/decoder-steps --series $(SERIES)/encoder-series \
	    --out $(GALLERY)/dynamics
	$(BIN)/theodolite reproduce bert-spaces --model minilm-l6 --corpus chitchat --out $(GALLERY)/bert-spaces
	$(BIN)/python -m gallery $(GALLERY) docs/gallery
	$(BIN)/python -m manual

# Warnings are links that lead nowhere and pages that nothing leads to: they fail the build, but not with --quiet.
docs: setup
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict
	@echo "site: build/site/index.html"

docs-renew: setup
	$(BIN)/python -m manual

test: setup
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest --numprocesses 2 --dist loadfile

# What tests the report as people see it. Without a browser those tests are skipped; .ci/run has them fail.
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
