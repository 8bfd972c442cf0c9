# make test     everything that has to pass, in less than 20 minutes on two cores
# make fuzz     FUZZ_SECONDS on each parser          make bench    the figures on speed
# make report   the main job on the bundled trace    make build    the command, optimised

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := all

FUZZ_SECONDS ?= 600
FUZZ_SHORT_RUNS ?= 20000
FUZZ_TARGETS := blktrace blkparse spc msr csv parquet open devices disksim specs

.PHONY: all build test needs check fuzz-build fuzz-short fuzz-run fuzz bench report

all: build

build:
	cargo build --release

test: needs check
	cargo test --workspace
	$(MAKE) fuzz-short

# blktrace for the parity tests, a C++ compiler for the fuzzer's engine.
needs:
	@missing=""; \
	command -v blkparse >/dev/null && command -v btt >/dev/null || missing+=" blktrace"; \
	command -v c++ >/dev/null || missing+=" g++"; \
	if [ -z "$$missing" ]; then exit 0; fi; \
	sudo=""; if [ "$$(id -u)" != 0 ]; then sudo="sudo -n"; fi; \
	if command -v apt-get >/dev/null && $$sudo true 2>/dev/null; then \
	  { $$sudo apt-get update -qq && $$sudo apt-get install -y -qq $$missing; } || \
	    echo "!!! cannot install$$missing: what needs it is SKIPPED"; \
	else \
	  echo "!!! without$$missing, and no right to install it: what needs it is SKIPPED"; \
	fi

check:
	cargo fmt --check
	cargo fmt --check --manifest-path fuzz/Cargo.toml
	cargo clippy --workspace --all-targets -- -D warnings

fuzz-build:
	RUSTC_WRAPPER="$(CURDIR)/fuzz/coverage.sh" cargo build --bins \
	  --manifest-path fuzz/Cargo.toml --target-dir target

# The same inputs every time: a fixed seed, a fixed number of runs, from the seeds alone.
fuzz-short:
	@if command -v c++ >/dev/null; then \
	  $(MAKE) --no-print-directory fuzz-build fuzz-run \
	    FUZZ_LIMIT="-seed=1 -runs=$(FUZZ_SHORT_RUNS)" FUZZ_CORPUS=; \
	else \
	  echo "!!! no C++ compiler for the fuzzer's engine: fuzzing is SKIPPED"; \
	fi

# Starts from the seeds and from what earlier runs kept in fuzz/corpus; what breaks a parser is
# kept in fuzz/artifacts.
fuzz: fuzz-build fuzz-run

FUZZ_LIMIT ?= -max_total_time=$(FUZZ_SECONDS)
FUZZ_CORPUS ?= fuzz/corpus

fuzz-run:
	@for target in $(FUZZ_TARGETS); do \
	  mkdir -p fuzz/artifacts/$$target; \
	  corpus=""; \
	  if [ -n "$(FUZZ_CORPUS)" ]; then corpus="$(FUZZ_CORPUS)/$$target"; mkdir -p $$corpus; fi; \
	  echo "fuzzing $$target ($(FUZZ_LIMIT))"; \
	  log=fuzz/artifacts/$$target/last.log; seeds=fuzz/artifacts/$$target/seeds; \
	  rm -rf $$seeds; cp -r fuzz/seeds/$$target $$seeds; \
	  if ! target/debug/fuzz-$$target $$corpus $$seeds \
	    $(FUZZ_LIMIT) -max_len=65536 -rss_limit_mb=2048 -timeout=20 \
	    -artifact_prefix=fuzz/artifacts/$$target/ -print_final_stats=1 >$$log 2>&1; then \
	    tail -n 40 $$log; \
	    echo "!!! $$target: an input that breaks it is in fuzz/artifacts/$$target"; \
	    exit 1; \
	  fi; \
	  grep -E 'DONE|number_of_executed_units|peak_rss_mb' $$log | tail -n 3; \
	done

# Ratios to targets and, for CSV, to Polars reading the same file in the same run.
bench:
	python3 -m venv target/polars
	target/polars/bin/pip install -q -r crates/forebay-trace/benches/requirements.txt
	cargo bench -p forebay-core --bench simulator
	cargo bench -p forebay-trace --bench readers

report:
	cargo run --release -- advise
