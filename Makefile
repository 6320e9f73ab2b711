# Two commands matter to a newcomer: `make book` and `make test`. Each sets up what it needs.
# The work is in `tools/`, so that the same commands run on a machine without make (see README.md).

PYTHON ?= python3
VENV   := .venv
ifeq ($(OS),Windows_NT)
BIN    := $(VENV)/Scripts
else
BIN    := $(VENV)/bin
endif
PY     := $(BIN)/python
# Newer than requirements.txt when the environment holds what it asks for.
READY  := $(VENV)/ready

.PHONY: help environment book test notebooks pull address serve bench lint format clean

help: ## list these commands
	@echo "make book and make test do all their own set-up. The others:"
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/  make \1|\2/p' Makefile | awk -F'|' '{ printf "%-18s %s\n", $$1, $$2 }'

environment: $(READY) ## .venv with everything that requirements.txt pins

$(READY): requirements.txt pyproject.toml
	@$(PYTHON) -c 'import sys; v = sys.version_info; sys.exit(v < (3, 11) and "The book needs Python 3.11 or newer; $(PYTHON) is %d.%d. Name another: make PYTHON=python3.12 …" % v[:2] or 0)'
	@$(PY) -m pip --version >/dev/null 2>&1 || { rm -rf $(VENV); $(PYTHON) -m venv $(VENV); } || { rm -rf $(VENV); \
		echo "$(PYTHON) cannot make an environment. On Debian and Ubuntu: apt-get install python3-venv"; exit 1; }
	@echo "Installing what requirements.txt pins into $(VENV): some minutes the first time."
	@$(PY) -m pip install --quiet --disable-pip-version-check --requirement requirements.txt
	@$(PY) -m pip install --quiet --disable-pip-version-check --no-deps --editable .
	@touch $@

book: $(READY) ## build the site from nothing, warnings are errors; prints the file to open
	@$(PY) -m tools.book

test: $(READY) ## everything: style, types, drift, tests, every notebook, the site in a browser
	@$(PY) -m tools.checks

notebooks: $(READY) ## derive and run what changed (one chapter: NAME=05)
	@$(PY) -m tools.notebooks $(NAME)

pull: $(READY) ## bring edits made in a notebook back into its manuscript
	@$(PY) -m tools.pull $(NAME)

address: $(READY) ## say where the course is published: make address REPO=owner/name
	@$(PY) -m tools.address $(REPO)

serve: $(READY) ## show the built site at http://127.0.0.1:8000/
	@test -f _build/html/index.html || $(PY) -m tools.book
	@$(PY) -m http.server --bind 127.0.0.1 --directory _build/html 8000

bench: $(READY) ## measure what is meant to be fast against its peers
	@$(PY) -m benchmarks

lint: $(READY) ## style and types only
	@$(PY) -m tools.checks style

format: $(READY) ## mend what ruff can mend
	@$(PY) -m ruff check --quiet --fix-only .
	@$(PY) -m ruff format .

clean: ## remove what was built, and the environment
	rm -rf _build build dist course_lib.egg-info .pytest_cache .ruff_cache .mypy_cache .hypothesis $(VENV)
