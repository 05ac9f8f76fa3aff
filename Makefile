# `make demo` and `make test` need git, make and Python >= 3.11; everything else goes into .venv.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip install --quiet --disable-pip-version-check

.PHONY: demo test device quick servers lint types site package oldest newest check lock audit clean help

help:
	@echo "make demo    install, and answer a drug-safety question from a synthetic database"
	@echo "make test    install, and run the tests"
	@echo "make quick   run a subset of the tests that takes less than a minute"
	@echo "make servers run the tests of the clients of Snowflake, Databricks and Trino"
	@echo "make device  run the tests of models and fits with the code of a GPU on the CPU"
	@echo "make lint    check style, imports and docstrings     make types   check types"
	@echo "make site    build the documentation in site/"
	@echo "make package build a wheel and a source archive, install the wheel alone, and fit a model with it"
	@echo "make oldest  run the subset with the oldest supported versions     make newest  with the newest"
	@echo "make check   all of them      make clean   remove what these made"
	@echo "make lock    fix the versions and hashes of a deployment      make audit   known vulnerabilities"

demo: $(VENV)/.demo
	$(BIN)/steropes demo

test: $(VENV)/.test-gpu
	$(BIN)/python -m pytest --numprocesses auto --maxprocesses 4 --dist loadfile

# Every fit on PyTorch's CPU device, which runs the lines of a GPU (docs/gpu.md).
device: $(VENV)/.test-gpu
	$(BIN)/python -m pytest --device torch-cpu --numprocesses auto --maxprocesses 4 --dist loadfile \
	  tests/models tests/fit tests/select tests/infer

# One or two files of each package; about 45 seconds of processor time with compiled kernels.
QUICK := $(addprefix tests/,$(addsuffix .py,\
  data/test_outcome data/test_kaplan_meier design_matrix/test_conversion likelihoods/test_cox_likelihood \
  solve/test_certificate priors/test_priors infer/test_calibration_tables fit/test_fit_checkpoints \
  models/test_coefficient_tables models/test_fixed_and_initial_coefficients \
  federated/test_federated_masks studies/test_cohorts studies/test_score_matching studies/test_disclosure \
  studies/test_imports))
quick: $(VENV)/.test
	$(BIN)/python -m pytest $(QUICK)

# fakesnow needs other versions of packages than the tests, and runs as a program of its own.
FAKESNOW := $(VENV)/fakesnow/bin/fakesnow
servers: $(VENV)/.test-servers $(FAKESNOW)
	STEROPES_FAKESNOW=$(abspath $(FAKESNOW)) $(BIN)/python -m pytest -m "slow or not slow" \
	  tests/studies/test_server_clients.py tests/studies/test_transpiled_servers.py

$(FAKESNOW): | $(BIN)/python
	$(PYTHON) -m venv $(VENV)/fakesnow
	$(VENV)/fakesnow/bin/python -m pip install --quiet --disable-pip-version-check \
	  "fakesnow[server]==0.12.*" "snowflake-connector-python<5"

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports --no-cache
	$(BIN)/python -m tests.docs.public_docstrings

types: $(VENV)/.dev
	$(BIN)/mypy

# Every warning of the build is an error: broken links, unknown names, malformed docstrings.
site: $(VENV)/.docs
	$(BIN)/python -m sphinx --fail-on-warning --keep-going --quiet -b html docs site

# The wheel must work without extras, and from a folder that holds no source. Tools are in an
# environment of their own, so that .ci/run can install everything else beside this.
package: $(BIN)/python
	rm -rf dist && $(PYTHON) -m venv $(VENV)/build
	$(VENV)/build/bin/python -m pip install --quiet --disable-pip-version-check "build>=1.2" "twine>=6"
	$(VENV)/build/bin/python -m build > /dev/null
	$(VENV)/build/bin/python -m twine check --strict dist/*
	rm -rf $(VENV)/wheel && $(PYTHON) -m venv $(VENV)/wheel
	$(VENV)/wheel/bin/python -m pip install --quiet --disable-pip-version-check dist/*.whl
	cd dist && $(abspath $(VENV))/wheel/bin/python ../tests/first_fit.py
	$(VENV)/wheel/bin/python -m pip install --quiet --disable-pip-version-check "$$(echo dist/*.whl)[study]"
	$(VENV)/wheel/bin/steropes info

# uv resolves to the lower bounds of pyproject.toml; warnings of those releases are not errors.
oldest newest: $(BIN)/python
	$(PIP) "uv>=0.9" && $(BIN)/uv venv --quiet --clear --python $(BIN)/python $(VENV)/$@
	$(BIN)/uv pip install --quiet --python $(VENV)/$@/bin/python \
	  --resolution $(if $(filter oldest,$@),lowest-direct,highest) ".[test]"
	$(VENV)/$@/bin/python -m pytest $(if $(filter oldest,$@),-o filterwarnings=default) $(QUICK)

check: lint types test site package

# Versions and hashes for deployments: pip install --require-hashes -r requirements/deployment.txt
LOCKED := --extra study --extra postgresql --extra formulas --extra dask --extra federated
lock: $(BIN)/python
	$(PIP) "uv>=0.9"
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header \
	  $(LOCKED) pyproject.toml --output-file requirements/deployment.txt
	$(BIN)/python -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["build-system"]["requires"], sep="\n")' | \
	  $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header \
	  --no-annotate - --output-file requirements/build.txt

# The database of advisories: pypi, or osv. Without --strict a package that the database does not know,
# or all of them behind a mirror without advisories, would be skipped with exit code 0.
ADVISORIES ?= pypi
audit: $(BIN)/python
	$(PIP) "pip-audit>=2.9"
	@$(BIN)/pip-audit --strict --vulnerability-service $(ADVISORIES) --require-hashes --disable-pip \
	  --requirement requirements/deployment.txt --requirement requirements/build.txt || { \
	  echo "make audit: if no vulnerabilities are listed above, the packages could not be compared with the"; \
	  echo "advisories of $(ADVISORIES), and nothing is known about them. Other advisories: make audit ADVISORIES=osv"; \
	  exit 1; }

# One stamp for each extra: a second run installs nothing unless pyproject.toml has changed.
$(VENV)/.demo $(VENV)/.test $(VENV)/.test-servers $(VENV)/.test-gpu $(VENV)/.dev $(VENV)/.docs: $(VENV)/.%: pyproject.toml | $(BIN)/python
	$(PIP) --editable ".[$*]"
	@touch $@

# All that .ci/run needs, by one run of pip instead of three.
$(VENV)/.ci: pyproject.toml | $(BIN)/python
	$(PIP) --editable ".[test-gpu,dev,docs]"
	@touch $(VENV)/.test-gpu $(VENV)/.dev $(VENV)/.docs $@

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "steropes needs Python 3.11 or later; try: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	$(PYTHON) -m venv $(VENV)

clean:
	rm -rf $(VENV) dist site docs/api/generated docs/gallery docs/images/benchmarks steropes-demo .pytest_cache .mypy_cache .ruff_cache .hypothesis
