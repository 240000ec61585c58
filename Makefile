# Everything works from a bare python3 (3.11 or newer) with pip: each target sets up what it needs.

PYTHON ?= python3
PYTEST_ARGS ?=
DEMO_ARGS ?=
SEEDS ?= 500
BACKEND ?= sqlite
FROM ?=
WORKERS ?= 2
JOBS ?= $(WORKERS)
CYCLES ?= 200
CASES ?= 100000
MINUTES ?= 5
RATE ?= 350
STORE ?=
QUEUE ?= sqs
KEY ?=
BENCH_ARGS ?=

VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
DOCS_READY := $(VENV)/.docs-ready
RESULTS := build/conformance-results.json
TYPED := $(wildcard src tools tests bench examples)

# The tests start thousands of short processes: without bytecode each would compile the package.
unexport PYTHONDONTWRITEBYTECODE

# Colour only where someone reads it (MAKE_TERMOUT is set when make writes to a terminal).
BOLD := $(if $(MAKE_TERMOUT),\033[1m)
BLUE := $(if $(MAKE_TERMOUT),\033[36m)
PLAIN := $(if $(MAKE_TERMOUT),\033[0m)
say = printf '\n$(BOLD)==> %s$(PLAIN)\n' $(1)

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help setup debian run test test-full lint conformance faults simulate simulate-bugs chaos io-faults explore fuzz soak mutants bench bench-quick release docs screenshots

help: ## Show this list
	@printf 'Tallgrass: start with $(BOLD)make run$(PLAIN), check with $(BOLD)make test$(PLAIN).\n\n'
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  $(BLUE)make %-12s$(PLAIN) %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@printf '\nPass options to pytest with PYTEST_ARGS, e.g. make test PYTEST_ARGS="-k ledger".\n'

setup: $(READY) ## Create .venv with the pinned versions (other targets do this by themselves)
	@printf 'Ready: %s\n' "$$($(BIN)/python --version) in $(VENV)"

run: $(READY) ## Run the demo, then let the oracle judge what it left
	@folder=$$(mktemp -d "$${TMPDIR:-/tmp}/tallgrass-demo-XXXXXX") && \
	$(BIN)/tallgrass demo --dir "$$folder" $(DEMO_ARGS) && \
	$(call say,"The oracle's verdict (tests/oracle reads the files and imports nothing of Tallgrass)") && \
	$(BIN)/python -m tests.oracle.verdict "$$folder/ledger.db" "$$folder/queue.db" "$$folder/manifest.json"

test: lint debian ## Lint, run all tests, report conformance
	@$(call say,"Tests ($(WORKERS) workers)")
	@status=0; \
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal --conformance-results=$(RESULTS) $(PYTEST_ARGS) || status=$$?; \
	$(call say,"Conformance"); \
	$(BIN)/python -m tools.conformance --results $(RESULTS) || status=1; \
	if [ $$status -eq 0 ]; then printf '\nAll checks passed.'; else printf '\nSome checks FAILED: see above.'; fi; \
	printf ' Conformance results: %s\n' '$(RESULTS)'; \
	exit $$status

test-full: export TALLGRASS_TEST_FULL = 1
test-full: test faults ## The same with full counts, then the planted faults (long)

lint: $(READY) ## Check style, types and layering
	@$(call say,"ruff check")
	@$(BIN)/ruff check --quiet . && echo 'No findings.'
	@$(call say,"ruff format --check")
	@$(BIN)/ruff format --check .
	@$(call say,"mypy --strict")
	@$(BIN)/mypy $(TYPED)
	@$(call say,"import-linter")
	@$(BIN)/lint-imports

conformance: $(READY) debian ## Run only the tests that show a requirement, then report
	@$(call say,"Tests that carry a conformance id ($(WORKERS) workers)")
	@status=0; \
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal -m conformance --conformance-results=$(RESULTS) $(PYTEST_ARGS) || status=$$?; \
	$(call say,"Conformance"); \
	$(BIN)/python -m tools.conformance --results $(RESULTS) || status=1; \
	exit $$status

faults: $(READY) ## Plant each fault of tests/faults.toml and see that its test finds it
	@$(call say,"Planted faults")
	@$(BIN)/python -m tools.faults --jobs $(WORKERS)

simulate: $(READY) ## Play SEEDS=500 simulated histories on JOBS=2 cores, FROM= a seed; BACKEND=postgres
	@$(call say,"Simulated histories")
	@$(BIN)/python -m tools.simulate --seeds $(SEEDS) --jobs $(JOBS) --backend $(BACKEND) $(if $(FROM),--from $(FROM))

simulate-bugs: $(READY) ## Plant each of the known bugs, and play seeds until it is found
	@$(call say,"Planted bugs")
	@$(BIN)/python -m tools.simulate_bugs $(if $(FROM),--from $(FROM))

chaos: $(READY) ## Kill real processes CYCLES=200 times; the oracle reads what is left
	@$(call say,"Crashes of real processes")
	@$(BIN)/python -m tools.chaos --cycles $(CYCLES) $(if $(FROM),--from $(FROM))

io-faults: $(READY) ## Let every write, sync, rename and commit fail in turn, on all stores
	@$(call say,"Faults of disk and line")
	@$(BIN)/python -m tools.io_faults

explore: $(READY) ## Try every order of events for few units and workers
	@$(call say,"All interleavings of few")
	@$(BIN)/python -m tools.explore --larger

fuzz: $(READY) ## Give CASES=100000 generated inputs to all that reads bytes from outside
	@$(call say,"Hostile bytes")
	@$(BIN)/python -m tools.fuzz --cases $(CASES)

soak: $(READY) ## Run for MINUTES=5 at RATE=350 units/s with faults, on both stores or STORE=; must be flat
	@$(call say,"A long run")
	@$(BIN)/python -m tools.soak --minutes $(MINUTES) --rate $(RATE) $(if $(STORE),--store $(STORE)) --queue $(QUEUE) $(if $(FROM),--from $(FROM))

mutants: $(READY) ## Change the core in every small way and see that a test notices
	@$(call say,"Mutants")
	@$(BIN)/python -m tools.mutants --jobs $(WORKERS)

bench: $(READY) debian ## Measure speed beside others (an hour, 30 GB); writes bench/report.*
	@$(call say,"Benchmarks")
	@status=0; $(BIN)/python -m bench $(BENCH_ARGS) || status=$$?; \
	$(BIN)/python -m tools.generate_docs; exit $$status

bench-quick: $(READY) debian ## The same with small counts, in about a minute
	@$(call say,"Benchmarks with small counts")
	@$(BIN)/python -m bench --quick $(BENCH_ARGS)

docs: $(DOCS_READY) ## Build the documents as a site in build/site; a link that leads nowhere fails
	@$(call say,"Documents")
	@$(BIN)/python -m tools.generate_docs --check
	@NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --quiet --strict && echo 'build/site/index.html'

screenshots: $(READY) debian ## Take pictures of the console into docs/images, from a store that is ingested for it
	@$(call say,"Pictures of the console")
	@$(BIN)/python -m tools.screenshots

release: $(READY) ## Build releases/v<version> of the commit; KEY= a private key signs it
	@$(call say,"Release")
	@$(BIN)/python -m tools.release $(if $(KEY),--key $(KEY))

# --- what pip cannot bring: from Debian where this user may install it, elsewhere its tests skip ----

APT := DEBIAN_FRONTEND=noninteractive apt-get -qq
# Shell: $(1) is here already, or else package $(2) can be installed by this user.
from_debian = @{ $(1); } >/dev/null 2>&1 || { \
  [ "$$(id -u)" -eq 0 ] && command -v apt-get >/dev/null && \
  $(call say,"$(2) from Debian (once)") && { \
    $(APT) install -y --no-install-recommends $(2) >/dev/null 2>&1 || { \
      $(APT) update >/dev/null && $(APT) install -y --no-install-recommends $(2) >/dev/null; }; }; } || \
  echo 'Tests of $(3) skip: apt-get install $(2) brings what they need'

debian:
	$(call from_debian,ls /usr/share/postgresql/*/extension/postgis.control,postgresql-postgis,pgstac)
	$(call from_debian,command -v prometheus,prometheus,alerts and scrapes)
	$(call from_debian,command -v chromium,chromium,the console in a browser)

# --- set-up: again only when the pins or the package's metadata change ---------------------------

$(READY): pyproject.toml constraints.txt
	@$(call say,"Setting up $(VENV) (once; about a minute)")
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo 'Tallgrass needs Python 3.11 or newer. Name one with: make PYTHON=python3.12 ...' >&2; exit 1; }
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv --clear $(VENV) >/dev/null 2>&1 || { \
	  $(PYTHON) -m venv --clear --without-pip $(VENV) && \
	  $(PYTHON) -m pip --quiet --python $(BIN)/python install pip; }
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt hatchling editables setuptools
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt --no-build-isolation -e '.[aws,langgraph,pgstac,postgres,stac,telemetry,web,dev]'
	@touch $@

$(DOCS_READY): $(READY)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt --no-build-isolation -e '.[docs]'
	@touch $@
