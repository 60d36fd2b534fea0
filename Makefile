# Everything runs from a virtual environment that the first target makes:
#   make demo    Spark on the sample store: scan, look up, write, read back
#   make test    the tests that a change should pass
#   make docs    the documentation site
# They need Python 3.11 or later, Java 17 or later and make, and nothing else that is installed.

VENV ?= .venv
BIN = $(VENV)/bin
PIP = $(BIN)/python -m pip --disable-pip-version-check --quiet

# What another Python or Spark left in the environment must not reach this one.
unexport PYTHONHOME PYTHONPATH PYTHONSTARTUP VIRTUAL_ENV
# Without bytecode each of the processes of the tests compiles all of them anew.
unexport PYTHONDONTWRITEBYTECODE
unexport SPARK_HOME SPARK_CONF_DIR SPARK_DIST_CLASSPATH PYSPARK_PYTHON PYSPARK_DRIVER_PYTHON
unexport PYSPARK_SUBMIT_ARGS HADOOP_CONF_DIR HADOOP_HOME

.PHONY: help demo test test-system lint format docs browse vectors bench differential random-sql broker fuzz faults simulate cluster versions audit locked lock share wheel release-check clean

help:
	@sed -n 's/^## //p' $(MAKEFILE_LIST)

## make demo     run the main job: Spark on the sample store
demo: $(VENV)/.spark
	@.ci/check-java
	@$(BIN)/python -m pyspark_rmqindex.demo

## make test     run the unit tests on all cores, then those on Spark in two processes
test: $(VENV)/.dev
	@.ci/check-java
	$(BIN)/python -m pytest -m unit -n auto --dist worksteal
	$(BIN)/python -m pytest -m spark -n 2 --dist loadfile tests/connector tests/docs

## make test-system  run all other tests in two processes: brokers, killed writers, long ones
##               (npm; Maven, a JDK); the longest files first, so that both processes end together
test-system: $(VENV)/.dev
	@.ci/check-java
	@.ci/check-node
	$(BIN)/python -m pytest -m system -n 2 --dist loadfile --no-loadscope-reorder tests/system tests/docs tests/spec tests/connector tests/format tests/cli tests/project

## make lint     check style (ruff), types (mypy, strict), imports (import-linter) and workflows (zizmor)
lint: $(VENV)/.dev
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache
	$(BIN)/zizmor --offline --no-progress --quiet .github spec/kit/action.yml

## make format   rewrite the code in the project's style
format: $(VENV)/.dev
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

## make docs     build the documentation site into docs/_build/html, and the specification on one
##               page for print into docs/_build/html/print, warnings as errors
SITE ?= docs/_build
docs: $(VENV)/.docs
	$(BIN)/python -m sphinx -n -W --keep-going -q -b html -d $(SITE)/doctrees docs $(SITE)/html
	$(BIN)/python -m sphinx -n -W --keep-going -q -b singlehtml -c docs/print -d $(SITE)/doctrees-print docs/spec $(SITE)/html/print
	@echo $(SITE)/html/index.html $(SITE)/html/print/index.html

## make browse   ask the site what an operator would type, in a real browser, and look at its pages
##               (Chromium and its driver on the PATH)
browse: $(VENV)/.browse docs
	$(BIN)/python -m tests.system.site_in_browser $(SITE)/html $(BROWSE)

## make vectors  write the vectors anew, and build their archive and the conformance kit
VECTORS ?= build/vectors
vectors: | $(BIN)/python
	@$(BIN)/python spec/tools/make_vectors.py
	@$(BIN)/python spec/tools/make_archive.py $(VECTORS) --pin

## make bench    measure against RocketMQ, Parquet and Spark's floors (half an hour; Maven, a JDK)
bench: $(VENV)/.bench
	@.ci/check-java
	$(BIN)/python -m benchmarks $(BENCH)

## make differential   compare with RocketMQ's own classes, 10,000 random sequences (Maven, a JDK)
differential: $(VENV)/.dev
	@.ci/check-maven
	$(BIN)/python -m tests.system.differential $(DIFFERENTIAL)

## make random-sql  15,600 random statements on Spark, DuckDB, Polars, DataFusion and Sail (an hour)
random-sql: $(VENV)/.dev
	@.ci/check-java
	$(BIN)/python -m tests.system.random_sql --session classic $(RANDOM_SQL)
	$(BIN)/python -m tests.system.random_sql --session connect $(RANDOM_SQL)
	$(BIN)/python -m tests.system.random_sql --session duckdb $(RANDOM_SQL)
	$(BIN)/python -m tests.system.random_sql --session polars $(RANDOM_SQL)
	$(BIN)/python -m tests.system.random_sql --session datafusion $(RANDOM_SQL)
	$(BIN)/python -m tests.system.random_sql --session sail $(RANDOM_SQL)

## make fuzz     fuzz the decoders, 20 seconds each target (seven minutes)
fuzz: $(VENV)/.fuzz
	$(BIN)/python -m tests.fuzz $(FUZZ)

## make broker   a real broker written, killed, rebuilt and served again (minutes; Maven, a JDK)
broker: $(VENV)/.dev
	@.ci/check-maven
	$(BIN)/python -m tests.system.broker $(BROKER)

## make faults   kill Spark and its workers, stop writers at each call, fill disks, let writers meet (Spark)
faults: $(VENV)/.dev
	@.ci/check-java
	$(BIN)/python -m tests.system.faults $(FAULTS)

## make simulate 10,000 histories of a store from seeds, its users and what they answer; then power
##               cuts, errors of the disk and lost requests after each call of every write (hours)
simulate: $(VENV)/.dev
	$(BIN)/python -m tests.system.simulator --seeds 10000 --power $(SIMULATE)

## make cluster  read, write and stream on a Spark cluster of two workers, and kill them
cluster: $(VENV)/.dev
	@.ci/check-java
	$(BIN)/python -m tests.system.cluster $(CLUSTER)

## make versions  run every test on the lowest and the newest versions of Python and the packages
versions: | $(BIN)/python
	@.ci/check-java
	@.ci/check-node
	$(BIN)/python -m tests.system.versions $(VERSIONS)

## make audit    look up known vulnerabilities of what is installed (asks PyPI)
audit: $(VENV)/.audit
	@.ci/audit $(BIN)/python

## make locked   set up the environment with the versions of .ci/locked.txt, by their SHA-256
locked: | $(BIN)/python
	@$(PIP) install --require-hashes --no-deps --requirement .ci/locked.txt
	@$(PIP) install --no-deps --no-build-isolation --editable .
	@touch $(VENV)/.spark $(VENV)/.dev $(VENV)/.docs $(VENV)/.audit

## make lock     write .ci/locked.txt anew, with the newest versions (uv on the PATH)
lock:
	uv pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes \
	    --no-annotate --no-header --all-extras --group develop \
	    --output-file .ci/locked.txt pyproject.toml

## make share    write the manual page and the completion of shells from the help of the command
share: $(VENV)/.dev
	$(BIN)/rmqindex --man > docs/share/man/man1/rmqindex.1
	$(BIN)/rmqindex --completion bash > docs/share/bash-completion/completions/rmqindex
	$(BIN)/rmqindex --completion zsh > docs/share/zsh/site-functions/_rmqindex
	$(BIN)/rmqindex --completion fish > docs/share/fish/vendor_completions.d/rmqindex.fish

## make wheel    build the wheel and the source distribution into dist/, the same bytes for a commit
wheel: export SOURCE_DATE_EPOCH ?= $(shell git log -1 --format=%ct 2>/dev/null || echo 1580601600)
wheel: share
	@rm -rf dist
	$(BIN)/python -m build --quiet $(BUILD)
	$(BIN)/python .ci/check_dist.py dist

## make release-check   build, and say of each condition of a release whether it holds
release-check: wheel
	@$(BIN)/python .ci/release_check.py

## make clean    remove what the other targets made
clean:
	rm -rf $(VENV) benchmarks/.work build dist docs/_build docs/spec .mypy_cache .pytest_cache .ruff_cache .hypothesis

# Stamps: the environment is brought up to date when pyproject.toml changes.
$(BIN)/python:
	@python=$$(PYTHON='$(PYTHON)' .ci/find-python) && \
	echo "Making $(VENV) with $$("$$python" --version)" && \
	if ! "$$python" -m venv '$(VENV)'; then \
	    rm -rf '$(VENV)'; \
	    echo "$$python has no venv module that works; on Debian and Ubuntu it is in the package python3-venv." >&2; \
	    exit 1; \
	fi

$(VENV)/.spark: pyproject.toml | $(BIN)/python
	@echo "Installing rmqindex with Spark into $(VENV) (once; a few hundred MB)"
	@$(PIP) install --editable '.[spark]'
	@touch $@

# pip learnt --group in 25.1.
$(VENV)/.dev: pyproject.toml $(VENV)/.spark
	@echo "Installing the development tools into $(VENV)"
	@$(PIP) install --upgrade 'pip>=25.1'
	@$(PIP) install --group dev
	@touch $@

$(VENV)/.docs: pyproject.toml $(VENV)/.dev
	@echo "Installing the documentation tools into $(VENV)"
	@$(PIP) install --group docs
	@touch $@

$(VENV)/.browse: pyproject.toml $(VENV)/.docs
	@echo "Installing what drives a browser into $(VENV)"
	@$(PIP) install --group browse
	@touch $@

$(VENV)/.fuzz: pyproject.toml $(VENV)/.dev
	@echo "Installing what fuzzing needs into $(VENV)"
	@$(PIP) install --group fuzz
	@touch $@

$(VENV)/.audit: pyproject.toml $(VENV)/.dev
	@echo "Installing what asks for advisories into $(VENV)"
	@$(PIP) install --group audit
	@touch $@

$(VENV)/.bench: pyproject.toml $(VENV)/.dev
	@echo "Installing what the benchmarks need into $(VENV)"
	@$(PIP) install --group bench
	@touch $@
