# make demo   install, then lint the article's program and run it on 8 virtual GPUs
# make test   the tests
# make lint   ruff and mypy
# make bench  the benchmarks
# make docs   write the README's table of rules from rules/

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin

.PHONY: demo test lint bench docs

# Both commands say 1 where they found something, which is what the demo is for.
demo: $(VENV)/installed
	$(BIN)/ddpdoctor lint fixtures/article/1-first-written || [ $$? -eq 1 ]
	$(BIN)/ddpdoctor probe --nproc 8 || [ $$? -eq 1 ]

test: $(VENV)/installed
	$(BIN)/python -m pytest -n auto --maxprocesses 4 --dist loadfile

lint: $(VENV)/installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(VENV)/installed
	$(BIN)/python benchmarks/agent_overhead.py
	$(BIN)/python benchmarks/virtual_programs.py

docs: $(VENV)/installed
	$(BIN)/python tools/rules_table.py

$(VENV)/installed: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10) and "ddpdoctor needs Python 3.10 or newer; name one: make PYTHON=python3.12 …")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[probe,test]'
	touch $@
