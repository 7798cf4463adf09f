# make demo    two examples, short, with figures in demo/ (needs only Python 3.11 or newer)
# make test    the tests that are not slow, in an environment from PyPI and, where it can be had, what depends on it in one with dolfinx
# make test-slow   the slow ones; PART=2/5 is the second of five parts of them
# make test-processors   the suite as it would run on other processors
# make margins   the statistical tests with 20 shifts of all seeds, and by how much they hold
# make test-dolfinx-0.9   the tests of what is built on dolfinx, in an unpacked Debian 13; test-dolfinx-0.11 in sid
# make docs    the documentation site, in docs/_build/html
# make lint    style, types, the direction of imports, and language
# make bench   the benchmarks
# make peers   other toolkits on the same problems, each in an environment of its own below .peers/, and the page about it
# make test-python-3.13   the tests of `make test` with that version of Python, where it is there; or 3.12, 3.14
# make test-lower-bounds   the suite with the oldest version of every dependency that pyproject.toml allows
# make clean   removes environments, logs and figures
#
# Every target sets up what it needs (in .venv, .venv-dolfinx, .venv-lower, .debian-trixie), and does so again only when
# pyproject.toml changes.

SHELL := bash
.SHELLFLAGS := -o pipefail -c
.DEFAULT_GOAL := help
.PHONY: help demo test test-pypi test-slow test-dolfinx test-dolfinx-0.9 test-dolfinx-0.11 test-lower-bounds test-processors margins test-python-3.12 test-python-3.13 test-python-3.14 peers docs lint bench clean

WORKERS ?= 2
DEMO_HARE_LYNX ?= --draws 4000
DEMO_HEAT_SOURCE ?= --draws 4000
PYTEST_ARGUMENTS ?=
# DOLFINX=no leaves the second environment out
DOLFINX ?= yes

export MPLBACKEND := Agg
# every process that a test starts would compile the sources anew
unexport PYTHONDONTWRITEBYTECODE
# each process takes half of the tests, and at the end what the other one has not begun: a file's fixtures are made once
TEST_PROCESSES = -n $(WORKERS) --dist worksteal
# beside these, what is over sooner has half as many: fewer that collect tests, and compile the same at once
PROCESSES_ASIDE = -n $(shell echo $$((($(WORKERS) + 1) / 2))) --dist worksteal
# the test processes share the cores; nested threads would only slow them down
ONE_THREAD = OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(IN_MEMORY)
# where a test waits for its disk, memory is as good: thousands of files are written for good
IN_MEMORY := $(shell [ "$$(df --output=avail -k /dev/shm 2>/dev/null | tail -n 1)" -gt 4000000 ] 2>/dev/null && echo PYTEST_DEBUG_TEMPROOT=/dev/shm)
# Open MPI refuses to run as root, and on few cores, unless told
OPEN_MPI := OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1 \
	PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe

help:
	@sed -n '/^# make/s/^# //p' Makefile

demo:
	@.ci/environment .venv
	@mkdir -p demo
	.venv/bin/python examples/hare_lynx.py $(DEMO_HARE_LYNX) --out demo/hare_lynx
	.venv/bin/python examples/heat_source.py $(DEMO_HEAT_SOURCE) --out demo/heat_source
	@echo "Short runs: where one warns, its draws are too few. At the examples' default lengths there are enough."
	@echo "The figures:"; find "$(CURDIR)/demo" -name '*.png' | sort

# Both suites at once, so that no core waits where one waits for a process or for its last test; what the second one
# says is shown after the first, and the closing lines stand together at the end. Each runs even if the other one fails
test:
	@.ci/environment .venv dev
	@rm -rf .make/closing-lines .make/test-dolfinx.log; mkdir -p .make; status=0; \
	$(MAKE) --no-print-directory -j2 -k test-pypi $(if $(filter no,$(DOLFINX)),,test-dolfinx ASIDE=yes) || status=1; \
	[ ! -f .make/test-dolfinx.log ] || cat .make/test-dolfinx.log; \
	echo; cat .make/closing-lines; exit $$status

# $(call closing_line,NAME,LOG) keeps the line in which pytest says how many tests passed
closing_line = echo "$(1): $$(grep -aE ' in [0-9.]+s' $(2) | tail -n 1)" >> .make/closing-lines

test-pypi:
	@.ci/environment .venv dev
	@mkdir -p .make; echo "Tests in the PyPI environment"; \
	$(ONE_THREAD) .venv/bin/python -P -m pytest $(TEST_PROCESSES) -m "not slow" --durations=10 $(PYTEST_ARGUMENTS) 2>&1 | tee .make/test-pypi.log; \
	status=$$?; $(call closing_line,PyPI environment,.make/test-pypi.log); exit $$status

# each has a quicker test beside it: see CONTRIBUTING.md
PART ?= 1/1
test-slow:
	@.ci/environment .venv dev
	@mkdir -p .make; echo "Slow tests, part $(PART)"; \
	$(ONE_THREAD) .venv/bin/python -P -m pytest $(TEST_PROCESSES) -m slow --part $(PART) --durations=5 $(PYTEST_ARGUMENTS) 2>&1 | tee .make/test-slow.log; \
	status=$$?; $(call closing_line,slow tests $(PART),.make/test-slow.log); exit $$status

# what depends on dolfinx, MPI or the version of numpy; all else would only run twice
test-dolfinx:
	@mkdir -p .make; .ci/dolfinx-environment | tee .make/dolfinx.log; status=$$?; \
	if [ $$status = 3 ]; then echo "dolfinx environment: $$(tail -n 1 .make/dolfinx.log)" >> .make/closing-lines; exit 0; fi; \
	[ $$status = 0 ] || { echo "dolfinx environment: could not be set up" >> .make/closing-lines; exit 1; }; \
	echo "Tests in the dolfinx environment"$(if $(ASIDE), beside them); \
	$(ONE_THREAD) $(OPEN_MPI) NUMBA_CACHE_DIR="$(CURDIR)/.venv-dolfinx/numba-cache" .venv-dolfinx/bin/python -P -m pytest $(if $(ASIDE),$(PROCESSES_ASIDE),$(TEST_PROCESSES)) \
		-m "(dolfinx or mpi or numpy) and not slow" --durations=5 $(PYTEST_ARGUMENTS) 2>&1 $(if $(ASIDE),>,| tee) .make/test-dolfinx.log; \
	status=$$?; $(call closing_line,dolfinx environment,.make/test-dolfinx.log); exit $$status

# the rest of the suite does not depend on dolfinx's version
test-dolfinx-0.9: SUITE = trixie
test-dolfinx-0.11: SUITE = sid
test-dolfinx-0.9 test-dolfinx-0.11:
	@mkdir -p .make; .ci/in-debian $(SUITE) | tee .make/$@.log; status=$$?; \
	if [ $$status = 3 ]; then echo "$@: $$(tail -n 1 .make/$@.log)" >> .make/closing-lines; exit 0; fi; \
	[ $$status = 0 ] || { echo "$@: could not be set up" >> .make/closing-lines; exit 1; }; \
	echo "Tests in Debian $(SUITE)"; \
	.ci/in-debian $(SUITE) env $(ONE_THREAD) $(OPEN_MPI) python -P -m pytest $(TEST_PROCESSES) \
		-m "(dolfinx or mpi) and not slow" --durations=5 $(PYTEST_ARGUMENTS) 2>&1 | tee .make/$@.log; \
	status=$$?; $(call closing_line,$@,.make/$@.log); exit $$status

test-processors:
	@.ci/environment .venv dev
	$(ONE_THREAD) .venv/bin/python tests/tools/processors.py -n $(WORKERS) $(PYTEST_ARGUMENTS)

margins:
	@.ci/environment .venv dev
	$(ONE_THREAD) .venv/bin/python tests/tools/margins.py --processes $(WORKERS) $(PYTEST_ARGUMENTS)

# needs Python 3.11: some of the oldest versions have no build for a newer one
test-lower-bounds:
	@mkdir -p .make; "$$(.ci/find-python)" .ci/requirements --lower-bounds > .make/lower-bounds.txt
	@PIP_ARGUMENTS="--constraint .make/lower-bounds.txt" .ci/environment .venv-lower test
	$(ONE_THREAD) NUMBA_CACHE_DIR="$(CURDIR)/.venv-lower/numba-cache" .venv-lower/bin/python -P -m pytest $(TEST_PROCESSES) $(PYTEST_ARGUMENTS)

# the tests of `make test`, with another version of Python where there is one
test-python-3.12 test-python-3.13 test-python-3.14: VERSION = $(@:test-python-%=%)
test-python-3.12 test-python-3.13 test-python-3.14:
	@python=$$(.ci/find-python $(VERSION)) || { echo "skipped: there is no Python $(VERSION) here"; exit 0; }; \
	PYTHON=$$python .ci/environment .venv-$(VERSION) test && \
	$(ONE_THREAD) NUMBA_CACHE_DIR="$(CURDIR)/.venv-$(VERSION)/numba-cache" .venv-$(VERSION)/bin/python -P -m pytest $(TEST_PROCESSES) \
		-m "not slow" $(PYTEST_ARGUMENTS)

# each toolkit has an environment of its own; what benchmarks/peers/results.jsonl holds is not run again
PEERS = pints nutpie pypesto tinyDA numpyro cuqipy
peers:
	@.ci/environment .venv dev
	@for peer in $(PEERS); do PIP_ARGUMENTS=$$peer .ci/environment .peers/$$peer || exit 1; done
	$(ONE_THREAD) .peers/pints/bin/python benchmarks/peers/run.py reference --problems hare_lynx heat_modes fitzhugh_nagumo
	$(ONE_THREAD) .peers/nutpie/bin/python benchmarks/peers/run.py reference
	$(ONE_THREAD) .venv/bin/python benchmarks/peers/run.py invsamp
	@for peer in $(PEERS); do \
		$(ONE_THREAD) .peers/$$peer/bin/python benchmarks/peers/run.py $$(echo $$peer | tr A-Z a-z) || exit 1; done
	$(ONE_THREAD) .peers/nutpie/bin/python benchmarks/peers/run.py nutpie_own
	.venv/bin/python benchmarks/peers/page.py

# DOCS=docs/_build/0.2.0 keeps the site of a version: sites that are built beside it later link to it
DOCS ?= docs/_build/html
docs:
	@.ci/environment .venv dev
	$(ONE_THREAD) .venv/bin/python -P -m sphinx -E -q -W --keep-going -b html docs $(DOCS)
	@echo "$(DOCS)/index.html"

lint:
	@.ci/environment .venv dev
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/lint-imports
	.venv/bin/mypy
	.venv/bin/python -P tests/tools/prose.py

# those that start ranks or compare with dolfinx run in the environment that has it, once `make test` has made it
bench:
	@.ci/environment .venv dev
	@status=0; for script in benchmarks/[!_]*.py; do \
		python=.venv/bin/python; \
		case $$script in */heat.py|*/mpi.py|*/strong_scaling.py) \
			[ ! -x .venv-dolfinx/bin/python ] || python=.venv-dolfinx/bin/python;; esac; \
		echo "$$script"; $(ONE_THREAD) $(OPEN_MPI) $$python "$$script" || status=1; \
	done; exit $$status

clean:
	rm -rf .venv .venv-dolfinx .venv-lower .venv-3.12 .venv-3.13 .venv-3.14 .peers .make build dist demo *.egg-info docs/_build docs/reference/generated
	rm -rf --one-file-system .debian-trixie .debian-sid
	rm -rf .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
