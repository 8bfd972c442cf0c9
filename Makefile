# make test     all tests but the slow ones: 20 minutes of CPU time, including builds
# make lint     format and lints, which a change must also pass   make quick  CRATE=NAME: one crate, in a minute
# make test-full  also the slow tests, which take hours
# make fuzz     FUZZ_SECONDS on each parser          make bench    speed measurements
# make reproduce  the five papers' tables and one page of their claims; PAPER=bid for one of them
# make reproduce-short  all of it on the bundled trace alone      make reproduce-check  only compares
# make reproduce-retrodiction  docs/retrodiction.md: the models compared with recordings
# make reproduce-traces  papers/raid/traces.md, half an hour
# make report   the main job on the bundled trace    make build    the command, optimized
# make dist     target/dist/forebay, static, smaller and somewhat faster, slow to build; wheels in target/dist/wheels
# make release  these, a Debian package, and their sums, in target/dist/release
# make install  the command, completions, manual pages and a systemd unit under PREFIX (/usr/local); DESTDIR before it, for packages
# make uninstall  removes them again         make msrv     checks with the oldest Rust that Cargo.toml promises
# make audit    licenses, sources and known advisories of the pinned dependencies; needs the network
# make package  the packages for the registry, as far as they can be built without it
# make bench-play  the live driver compared with fio
# make bench-serve  the network block device compared with nbdkit and qemu-nbd, and the overhead of each policy
# make bench-volume  live writes to a volume compared with fio sending its drives the same I/Os
# make bench-store  our store compared with fio, LevelDB and RocksDB; needs libleveldb-dev and librocksdb-dev
# make capture-peers  the I/O of LevelDB and RocksDB replayed on the paper's disks: papers/shift/peers.md; needs root
# make proptest-long  the property tests with PROPTEST_SEEDS random seeds
# make kill-volume  kills a volume's writer ROUNDS times
# make day          a day of a store's ingest in virtual time, with checks of its values and space
# make kill-store   kills a store's server ROUNDS times, under clients and redis-benchmark
# make kill-serve   kills the server of a block device ROUNDS times, under a writer
# make guest-serve  programs on devices of `forebay serve` in a virtual machine, while the server is killed; needs QEMU
# make guest    schedulers compared with Linux 6.12 in a virtual machine; LOAD=burst SCHEDULER=bfq selects; needs QEMU
# make mutants  how many of MUTANTS one-line bugs the tests catch; MUTANTS_SEED draws the bugs
# make big      memory on BIG_REQUESTS requests       make big-short    the same on 8 M

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := all
# The recipes look for built files here, so a folder that the user's Cargo configuration names is not used.
export CARGO_TARGET_DIR := $(CURDIR)/target

# With STRICT=1, `make test` fails if a package that tests use cannot be installed.
STRICT ?= 0
FUZZ_SECONDS ?= 600
FUZZ_SHORT_RUNS ?= 20000

.PHONY: guest guest-serve dist-command dist-wheels install uninstall msrv audit package laws day kill-volume kill-store kill-serve all build dist release test lint test-full quick proptest-long mutants needs py py-build py-test \
  fuzz-build fuzz-short fuzz-run fuzz bench bench-play bench-serve bench-volume report reproduce reproduce-build \
  reproduce-short reproduce-traces reproduce-retrodiction model-targets model-ablation model-budgets big big-short bench-store bench-sweep bench-fleet bench-policies capture-peers reproduce-check

all: build

build:
	cargo build --release

# The shipped command is static: it runs on any Linux of its architecture.
dist: dist-command dist-wheels

HOST := $(shell rustc -vV | sed -n 's/^host: //p')
STATIC := $(HOST:-gnu=-musl)

# A host with musl, such as Alpine, builds for itself.
dist-command:
	@mkdir -p target/dist; \
	if [ $(HOST) = $(STATIC) ] || { command -v musl-gcc >/dev/null && { \
	  test -d "$$(rustc --print sysroot)/lib/rustlib/$(STATIC)" || rustup target add $(STATIC); }; }; then \
	  cargo build --profile dist -p forebay-cli --target $(STATIC); \
	  install target/$(STATIC)/dist/forebay target/dist/forebay; \
	else \
	  echo "!!! no Rust for $(STATIC) (rustup target add $(STATIC)) or no musl-gcc (musl-tools)"; \
	  cargo build --profile dist -p forebay-cli; \
	fi; \
	needed=$$(packaging/needed.sh target/dist/forebay); \
	if [ -n "$$needed" ]; then echo "!!! target/dist/forebay is NOT STATIC, it needs" $$needed; fi; \
	target/dist/forebay --version

# One wheel for every Python from 3.10 on.
dist-wheels:
	test -x $(MATURIN) || { python3 -m venv target/maturin; \
	  target/maturin/bin/pip install -q "$$(grep '^maturin==' crates/forebay-py/tests/requirements.txt)"; }
	rm -rf target/dist/wheels
	$(MATURIN) build --profile dist --out target/dist/wheels

MATURIN := target/maturin/bin/maturin

# The published files: the static command, wheels, a Debian package, and their checksums.
RELEASE := target/dist/release

release: dist
	rm -rf $(RELEASE); mkdir -p $(RELEASE)
	@needed=$$(packaging/needed.sh target/dist/forebay); [ -z "$$needed" ] || \
	  { echo "!!! only a static binary is released: rustup target add $(STATIC), and install musl-tools"; exit 1; }
	cp target/dist/wheels/*.whl $(RELEASE)
	install target/dist/forebay "$(RELEASE)/forebay-$$(target/dist/forebay --version | cut -d' ' -f2)-$$(uname -m)-linux"
	@if command -v dpkg-deb >/dev/null; then packaging/deb.sh target/dist/forebay $(RELEASE); \
	else echo "!!! no dpkg-deb: there is NO DEBIAN PACKAGE"; fi
	cd $(RELEASE); sha256sum * >SHA256SUMS; cat SHA256SUMS

# Builds nothing if there is a binary, so that `make && sudo make install` does not build as root. BINARY: the file to install.
PREFIX ?= /usr/local
DESTDIR ?=
BINARY ?= target/release/forebay
SHARE = $(DESTDIR)$(PREFIX)/share
UNITS = $(DESTDIR)$(PREFIX)/lib/systemd/system

install:
	@if [ "$(BINARY)" = target/release/forebay ] && [ ! -e "$(BINARY)" ]; then cargo build --release; fi
	install -D "$(BINARY)" "$(DESTDIR)$(PREFIX)/bin/forebay"
	install -d "$(SHARE)/bash-completion/completions" "$(SHARE)/zsh/site-functions" "$(SHARE)/fish/vendor_completions.d"
	"$(BINARY)" completions bash > "$(SHARE)/bash-completion/completions/forebay"
	"$(BINARY)" completions zsh > "$(SHARE)/zsh/site-functions/_forebay"
	"$(BINARY)" completions fish > "$(SHARE)/fish/vendor_completions.d/forebay.fish"
	"$(BINARY)" man "$(SHARE)/man/man1"
	install -d "$(UNITS)"
	sed 's|/usr/local/bin|$(PREFIX)/bin|' packaging/forebay.service > "$(UNITS)/forebay.service"

uninstall:
	rm -f "$(DESTDIR)$(PREFIX)/bin/forebay" "$(SHARE)/bash-completion/completions/forebay" \
	  "$(SHARE)/zsh/site-functions/_forebay" "$(SHARE)/fish/vendor_completions.d/forebay.fish" \
	  "$(SHARE)/man/man1/forebay.1" "$(SHARE)/man/man1/forebay-"*.1 "$(UNITS)/forebay.service"

# The oldest Rust version that Cargo.toml promises to support.
MSRV := $(shell sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)

msrv:
	rustup toolchain install --profile minimal --no-self-update $(MSRV)
	cargo +$(MSRV) check --workspace --all-targets --target-dir target/msrv

# Checks licenses and sources, and advisories if their database is available: deny.toml.
audit:
	cargo deny --version >/dev/null 2>&1 || cargo install --locked cargo-deny
	cargo deny check || { echo "!!! without the network: cargo deny check bans licenses sources"; exit 1; }

# Each package contains everything that its crate needs and is built from it, with the other packages in place of the registry.
package:
	cargo package --workspace $(foreach own,py fuzz rig guest testing,--exclude forebay-$(own)) --locked

# Many tests wait for servers, so twice as many threads as processors keep the processors busy.
export RUST_TEST_THREADS ?= $(shell echo $$((2 * $$(getconf _NPROCESSORS_ONLN))))
STAGE := @.ci/stage
# The targets of tests: examples and benches are only checked, and the libraries' documentation has no code to run.
TARGETS := --lib --bins --tests
# The CPU time in seconds that `make test` may take, including builds.
TEST_CPU_MAX_S := 1200

test: needs
	@rm -f target/stages target/skips
	$(STAGE) build cargo build --workspace $(TARGETS) -q
	$(STAGE) tests cargo test --workspace $(TARGETS) --no-fail-fast
	$(STAGE) python $(MAKE) --no-print-directory py
	$(STAGE) --total $(TEST_CPU_MAX_S)

# Apart from the tests, because other versions of Rust have other lints, and because nothing that it compiles serves the tests.
lint:
	@rm -f target/stages target/skips
	$(STAGE) format cargo fmt --check
	$(STAGE) clippy cargo clippy --workspace --all-targets -- -D warnings

# Also the slow tests: fuzzing, power cuts, kill -9, the commands of all pages, type checkers, serving without io_uring.
test-full: lint test
	@$(MAKE) --no-print-directory needs OPTIONAL="chromium:chromium chromium-driver:chromedriver"
	$(PY)/python -m pip install -q -r crates/forebay-py/tests/browser.txt || \
	  echo "!!! Selenium cannot be installed: the tests of pages in a browser are SKIPPED"
	@rm -f target/stages target/skips
	$(STAGE) slow cargo test --workspace $(TARGETS) -- --ignored
	$(STAGE) slow-python $(PY)/pytest -q -n 2 --dist loadfile -m slow
	$(STAGE) laws $(MAKE) --no-print-directory laws
	$(STAGE) without-io-uring .ci/without-io-uring cargo test -p forebay-live -p forebay-serve -p forebay-store -p forebay-volume -p forebay-play -p forebay-cli
	$(STAGE) fuzz $(MAKE) --no-print-directory fuzz-short
	$(STAGE) kill-volume $(MAKE) --no-print-directory kill-volume
	$(STAGE) kill-store $(MAKE) --no-print-directory kill-store
	$(STAGE) kill-serve $(MAKE) --no-print-directory kill-serve
	$(if $(QEMU),$(STAGE) guest $(MAKE) --no-print-directory guest-serve,@echo "!!! QEMU is not installed: the tests with a \
	  kernel of their own are SKIPPED")
	$(STAGE) --total 20000

QEMU = $(shell command -v qemu-system-x86_64)

# Tests a single crate during work on it, in a minute on two processors if it has been built: make quick CRATE=forebay-store
quick:
	@test -n "$(CRATE)" || { echo "expected CRATE=NAME, one of: $$(ls crates | tr '\n' ' ')"; exit 2; }
	@rm -f target/stages target/skips
	$(STAGE) format cargo fmt --check -p $(CRATE)
	$(STAGE) clippy cargo clippy -p $(CRATE) --all-targets -- -D warnings
	$(STAGE) tests cargo test -q -p $(CRATE)
	$(STAGE) --total 120

# Runs the crate with unsafe code under the address sanitizer (lent memory deliberately outlives its pool, so leaks are
# not reported), and those of its tests that Miri can run; Miri needs a nightly toolchain.
sanitize:
	RUSTC_BOOTSTRAP=1 RUSTFLAGS=-Zsanitizer=address ASAN_OPTIONS=detect_leaks=0 CARGO_INCREMENTAL=0 \
	  cargo test -q -p forebay-live --lib --tests --target x86_64-unknown-linux-gnu --target-dir target/sanitize

miri:
	rustup component add --toolchain nightly miri rust-src
	MIRIFLAGS='-Zmiri-disable-isolation -Zmiri-ignore-leaks' PROPTEST_CASES=2 \
	  cargo +nightly miri test -p forebay-live --lib --target-dir target/miri -- $(MIRI)

MIRI ?= pool::

# Every property test, with different cases in every round; .cargo/config.toml fixes the cases of
# `make test`. To repeat a failed round, use the seed that it prints.
PROPTEST_SEEDS ?= 50

proptest-long:
	@for round in $$(seq $(PROPTEST_SEEDS)); do \
	  seed=$$(od -An -N4 -tu4 /dev/urandom | tr -d ' '); \
	  echo "round $$round: PROPTEST_RNG_SEED=$$seed"; \
	  PROPTEST_RNG_SEED=$$seed cargo test -q -p forebay-core -p forebay-trace -p forebay-live -p forebay; \
	done

# The laws of contents with eight times as many power cuts, some 3,000 of them on arrays and over 10,000 on stores; the laws
# of a volume's space over all its configurations, and its reports of losses; promises beside every kind of neighbor.
laws:
	FOREBAY_LAWS=8 cargo test -q -p forebay-core --lib -- array:: adapt::
	FOREBAY_LAWS=8 cargo test -q -p forebay-core --test all adaptation::
	FOREBAY_LAWS=24 cargo test -q -p forebay-live --test all laws
	FOREBAY_LAWS=2 cargo test -q -p forebay-serve --lib laws
	FOREBAY_LAWS=50 cargo test -q -p forebay-store --test all crash
	FOREBAY_LAWS=8 cargo test -q -p forebay-volume --lib killing

# Kills a writer of a volume ROUNDS times and checks that acknowledged data survives, with any two drives missing.
ROUNDS ?= 100

kill-volume:
	FOREBAY_KILLED_ROUNDS=$(ROUNDS) cargo test -q -p forebay-cli --test all -- \
	  --ignored --exact --nocapture killed::acknowledged_data_survive_kill_9_many_times

# A day of a store's ingest in virtual time.
day:
	cargo test -q -p forebay-store --test all long -- --ignored --nocapture

# Kills a store's server ROUNDS times and checks that acknowledged data is there when the store is reopened.
kill-store:
	FOREBAY_KILLED_ROUNDS=$(ROUNDS) cargo test -q -p forebay-cli --test all -- \
	  --ignored --exact --nocapture store::acknowledged_data_survive_kill_9_many_times

# Kills the server of a block device ROUNDS times under a writer, and checks that flushed and FUA data survive; then under git
# and SQLite on ext4, while policies are switched and drives are lost.
kill-serve:
	FOREBAY_KILLED_ROUNDS=$(ROUNDS) cargo test -q -p forebay-cli --test all -- \
	  --ignored --exact --nocapture serve_ends::flushed_data_survive_kill_9_many_times
	FOREBAY_KILLED_ROUNDS=$(ROUNDS) cargo test -q -p forebay-cli --test all -- \
	  --ignored --exact --nocapture serve_filesystem::a_file_system_survives_lost_drives_and_kills_many_times

# One-line bugs drawn by a seed over all crates: how many do the tests catch? Each takes a minute. Bugs without an
# observable effect are listed in .cargo/mutants.toml.
MUTANTS ?= 60
MUTANTS_SEED ?= 1
MUTANTS_VERSION := 27.1.0

mutants:
	cargo mutants --version 2>/dev/null | grep -qx 'cargo-mutants $(MUTANTS_VERSION)' || \
	  cargo install --locked cargo-mutants --version $(MUTANTS_VERSION)
	python3 mutants/plant.py $(MUTANTS_SEED) $(MUTANTS) target/mutants

# The optional programs of tests and of the commands on pages, by package; a test in dependencies.rs checks the list.
# Every test passes without them: whatever needs them is skipped with a message.
OPTIONAL := blktrace:blkparse,btt g++:c++ libnbd-bin:nbdcopy,nbdinfo,nbdfuse fuse3:fusermount3 \
  qemu-utils:qemu-io,qemu-img,qemu-nbd fio:fio nbdkit:nbdkit nbd-client:nbd-client \
  redis-tools:redis-cli,redis-benchmark systemd:systemd-analyze bsdutils:script util-linux:setpriv,losetup \
  mount:mount,umount e2fsprogs:mkfs.ext4,fsck.ext4 git:git dpkg:dpkg-deb \
  binutils:readelf

# Installs what is missing, and goes on without what cannot be installed; with STRICT=1, that fails.
needs:
	@missing=""; \
	for each in $(OPTIONAL); do \
	  for program in $$(echo "$${each#*:}" | tr , ' '); do \
	    PATH="$$PATH:/usr/sbin:/sbin" command -v "$$program" >/dev/null && continue; \
	    missing+=" $${each%%:*}"; break; \
	  done; \
	done; \
	python3 -c 'import ensurepip' 2>/dev/null || missing+=" python3-venv"; \
	/usr/bin/python3 -c 'import nbd' 2>/dev/null || missing+=" python3-libnbd"; \
	if [ -z "$$missing" ]; then exit 0; fi; \
	sudo=""; if [ "$$(id -u)" != 0 ]; then sudo="sudo -n"; fi; \
	absent=""; \
	if ! command -v apt-get >/dev/null || ! $$sudo true 2>/dev/null; then \
	  absent="$$missing"; \
	  echo "!!! tests use packages that cannot be installed without root and apt-get: sudo apt-get install$$missing"; \
	else \
	  $$sudo apt-get update -qq || echo "!!! apt-get update failed: its lists may be old"; \
	  for package in $$missing; do \
	    said=$$($$sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq "$$package" 2>&1) && continue; \
	    why=$$(grep -m 1 '^E: ' <<<"$$said" || tail -n 1 <<<"$$said"); \
	    absent+=" $$package"; echo "!!! cannot install $$package: $${why#E: }"; \
	  done; \
	fi; \
	if [ -n "$$absent" ] && [ "$(STRICT)" = 1 ]; then exit 1; fi

# The Python package, built into a separate environment as `pip install .` would, but faster.
py:
	@if python3 -c 'import ensurepip, sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null; then \
	  $(MAKE) --no-print-directory py-test; \
	else \
	  echo "!!! no Python 3.10 with venv: the Python package's tests are SKIPPED"; \
	  printf 'no Python 3.10 with venv\tthe Python package\n' >>"$${FOREBAY_SKIPS:-/dev/null}"; \
	fi

PY := target/py/bin

# Built with test settings, although it has no tests in Rust, so that its dependencies are built only once for all tests.
py-build:
	test -x $(PY)/python || python3 -m venv target/py
	$(PY)/python -m pip install -q -r crates/forebay-py/tests/requirements.txt
	cargo build -q -p forebay-py --lib --tests
	install target/debug/lib_forebay.so crates/forebay-py/python/forebay/_forebay.abi3.so
	echo "$(CURDIR)/crates/forebay-py/python" >"$$($(PY)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/forebay.pth"

py-test: py-build
	$(PY)/python -m pip install -q --no-deps -r crates/forebay-py/tests/libcachesim.txt || \
	  echo "!!! libcachesim cannot be installed: the comparison of caches with it is SKIPPED"
	$(PY)/python -m pip install -q --no-deps -r crates/forebay-py/tests/sweep.txt || \
	  echo "!!! Dask or a local S3 server cannot be installed: what needs it of sweeps' tests is SKIPPED"
	test -x target/debug/forebay || cargo build -p forebay-cli
	$(PY)/pytest -q -n 2 --dist loadfile

# Coverage of our own crates steers the fuzzer, so they are built a second time.
fuzz-build:
	RUSTC_WRAPPER="$(CURDIR)/fuzz/coverage.sh" cargo build -p forebay-fuzz --features engine --target-dir target/fuzz

# Starts from the seeds and from what earlier runs kept in fuzz/corpus; what breaks a parser is kept in fuzz/artifacts.
fuzz: fuzz-build fuzz-run

# The same inputs every time: a fixed seed and number of runs, starting from the seeds alone.
fuzz-short: fuzz-build
	$(MAKE) --no-print-directory fuzz-run FUZZ_LIMIT="-seed=1 -runs=$(FUZZ_SHORT_RUNS)" FUZZ_CORPUS=

FUZZ_LIMIT ?= -max_total_time=$(FUZZ_SECONDS)
FUZZ_CORPUS ?= fuzz/corpus
FUZZ_TARGETS := $(notdir $(wildcard fuzz/seeds/*))

# One target per processor.
fuzz-run:
	@$(MAKE) --no-print-directory -j $$(getconf _NPROCESSORS_ONLN) $(FUZZ_TARGETS:%=fuzz-run-%)

fuzz-run-%:
	@mkdir -p fuzz/artifacts/$*; \
	corpus=""; \
	if [ -n "$(FUZZ_CORPUS)" ]; then corpus="$(FUZZ_CORPUS)/$*"; mkdir -p $$corpus; fi; \
	echo "fuzzing $* ($(FUZZ_LIMIT))"; \
	log=fuzz/artifacts/$*/last.log; seeds=fuzz/artifacts/$*/seeds; \
	rm -rf $$seeds; cp -r fuzz/seeds/$* $$seeds; \
	if ! FUZZ_TARGET=$* target/fuzz/debug/fuzz $$corpus $$seeds \
	  $(FUZZ_LIMIT) -max_len=65536 -rss_limit_mb=2048 -timeout=20 \
	  -artifact_prefix=fuzz/artifacts/$*/ -print_final_stats=1 >$$log 2>&1; then \
	  tail -n 40 $$log; \
	  echo "!!! $*: an input that breaks it is in fuzz/artifacts/$*"; \
	  exit 1; \
	fi; \
	grep -E 'DONE|number_of_executed_units|peak_rss_mb' $$log | tail -n 3 | sed 's/^/$*: /'

# Measures the shipped build (profile dist). Prints ratios to targets and, in the same run, to Polars reading CSV and to
# libCacheSim's loop.
bench:
	python3 -m venv target/polars
	target/polars/bin/pip install -q -r crates/forebay-trace/benches/requirements.txt
	python3 -m venv target/libcachesim
	target/libcachesim/bin/pip install -q numpy && target/libcachesim/bin/pip install -q --no-deps \
	  -r crates/forebay-py/tests/libcachesim.txt || echo "!!! no libcachesim to compare with"
	cargo bench --profile dist -p forebay-core --bench simulator
	cargo bench --profile dist -p forebay-core --bench cache -- target/libcachesim/bin/python
	cargo bench --profile dist -p forebay --bench plan
	cargo bench --profile dist -p forebay-model --bench model
	cargo bench --profile dist -p forebay --bench compare
	cargo bench --profile dist -p forebay-trace --bench readers
	cargo bench --profile dist -p forebay-live --bench galois
	cargo bench --profile dist -p forebay-cli --bench serve -- --short --disk="$$(realpath "$(BENCH_FOLDER)")" beside

# Compares the live driver with fio on the same file; lateness needs root and a tracefs.
bench-play:
	@command -v fio >/dev/null || echo "!!! fio is not installed: nothing to compare with"
	cargo bench --profile dist -p forebay-live --bench play

# Compares `forebay serve` with nbdkit file and qemu-nbd under fio's nbd engine, on files in BENCH_MEMORY and BENCH_FOLDER;
# then measures the overhead of each policy, and compares promises measured and simulated. BENCH_SERVE: arguments of
# crates/forebay-cli/benches/serve/main.rs, such as --rounds=9 or promises.
BENCH_MEMORY ?= /dev/shm
BENCH_SERVE ?=

bench-serve:
	@command -v fio >/dev/null || { echo "fio is not installed: nothing asks the servers" >&2; exit 1; }
	cargo bench --profile dist -p forebay-cli --bench serve -- \
	  --memory="$(BENCH_MEMORY)" --disk="$$(realpath "$(BENCH_FOLDER)")" $(BENCH_SERVE)
	@echo "two tenants, arrays, LevelDB: crates/forebay-cli/benches/serve/*.py say how"

# Writes to a volume of six drives, and fio sending those drives the same I/Os. BENCH_DRIVES: a folder for six
# files, or six block devices; what is on these is lost.
BENCH_DRIVES ?= /dev/shm

bench-volume:
	@command -v fio >/dev/null || { echo "fio is not installed: nothing to compare with" >&2; exit 1; }
	cargo bench --profile dist -p forebay-volume --bench volume -- $(BENCH_DRIVES)

# Compares our store with the disk (fio), LevelDB and RocksDB, in BENCH_FOLDER. BENCH_STORE: arguments of
# crates/forebay-store/benches/peers/options.rs, such as --mb=10000. As root, also on a disk that blkio limits.
BENCH_FOLDER ?= target
BENCH_STORE ?=

bench-store:
	@command -v fio >/dev/null || { echo "fio is not installed: nothing to compare with" >&2; exit 1; }
	cargo bench --profile dist -p forebay-store --bench peers -- --folder="$$(realpath "$(BENCH_FOLDER)")" $(BENCH_STORE)

# The overhead of sweeps, with an optimized build.
bench-sweep: reproduce-build
	$(REPRODUCE)/venv/bin/python crates/forebay-py/benches/sweep.py

# The fleet's questions at 1, 10, 100 and 1000 synthetic volumes: docs/fleet.md.
bench-fleet: reproduce-build
	$(REPRODUCE)/venv/bin/python crates/forebay-py/benches/fleet.py 1 10 100 1000

# The cost of policies in Python compared with built-in ones: docs/python-policies.md.
bench-policies: reproduce-build
	$(REPRODUCE)/venv/bin/python crates/forebay-py/benches/policies.py

# Captures the I/O of LevelDB and RocksDB, and replays it on models of other disks.
PEERS_MB ?= 1000

capture-peers:
	cargo build --release -p forebay-cli
	mkdir -p target/peers
	python3 papers/shift/peers.py --mb $(PEERS_MB) --work "$(CURDIR)/target/peers"

report:
	cargo run --release -- advise

# The papers' tables, figures and claims compared with ours: completely with an optimized build in a separate environment, in
# the short form with the build of the tests. Cases are stored in target/reproduce/cases, so an interrupted run continues.
PAPER ?=
TRACES ?= ../shared/traces
REPRODUCE := target/reproduce
REPRODUCED := -m forebay.reproduce $(addprefix papers/,$(PAPER)) --work $(REPRODUCE)

reproduce-build:
	test -x $(REPRODUCE)/venv/bin/python || python3 -m venv $(REPRODUCE)/venv
	$(REPRODUCE)/venv/bin/pip install -q -r papers/requirements.txt
	VIRTUAL_ENV="$(CURDIR)/$(REPRODUCE)/venv" $(REPRODUCE)/venv/bin/maturin develop --release

reproduce: reproduce-build
	$(REPRODUCE)/venv/bin/python $(REPRODUCED) --traces $(TRACES) --pictures $(REPRODUCE)/figures
	$(if $(PAPER),,$(REPRODUCE)/venv/bin/python papers/retrodiction/table.py --traces $(TRACES))

reproduce-check: reproduce-build
	$(REPRODUCE)/venv/bin/python $(REPRODUCED) --traces $(TRACES) --check
	$(if $(PAPER),,$(REPRODUCE)/venv/bin/python papers/retrodiction/table.py --traces $(TRACES) --check)

# Compares the models with every trace that has recorded latencies: docs/retrodiction.md.
reproduce-retrodiction: reproduce-build
	$(REPRODUCE)/venv/bin/python papers/retrodiction/table.py --traces $(TRACES)

# Adaptive RAID on recorded traces: papers/raid/traces.md.
reproduce-traces: reproduce-build
	$(REPRODUCE)/venv/bin/python papers/raid/traces.py --traces $(TRACES) --pictures $(REPRODUCE)/figures

# Our targets for the workload model, on the ten traces and three seeds.
model-targets: reproduce-build
	$(REPRODUCE)/venv/bin/python papers/model/held_to.py --traces $(TRACES)

# The figures of twins without one mechanism at a time.
model-ablation: reproduce-build
	$(REPRODUCE)/venv/bin/python papers/model/ablation.py --traces $(TRACES)

# The figures of smaller models: the table and the curve of docs/model.md.
model-budgets: reproduce-build
	$(REPRODUCE)/venv/bin/python papers/model/budgets.py --traces $(TRACES)

reproduce-short: py-build
	$(PY)/python $(REPRODUCED) --short

# Verbs on synthetic traces, each within the 512 MiB of docs/memory.md. Needs 1.6 GB of disk.
BIG_REQUESTS ?= 100000000

big:
	cargo build --release -p forebay-cli --bin forebay --example big
	crates/forebay-cli/examples/big.sh target/release/forebay target/release/examples/big \
	  $(BIG_REQUESTS)

# More requests than are kept in memory, and more regions than the footprint is counted exactly for.
big-short:
	cargo build -p forebay-cli --bin forebay --example big
	crates/forebay-cli/examples/big.sh target/debug/forebay target/debug/examples/big 8000000

# Programs on a ublk and an nbd device of `forebay serve`, which is killed and restarted, in a virtual machine.
guest-serve:
	nice -n 5 python3 guest/serve.py

# Compares Linux's schedulers with the simulator's on nine loads and the same model of a disk, in a virtual machine with
# Debian's kernel: docs/internals/kernel.md. LOAD, SCHEDULER, DEVICE and SEED select; VARIANTS=1 is quick.
guest:
	nice -n 5 python3 guest/guest.py $(foreach each,$(LOAD),--load=$(each)) \
	  $(foreach each,$(SCHEDULER),--scheduler=$(each)) $(foreach each,$(DEVICE),--device=$(each)) \
	  $(if $(SEED),--seed=$(SEED)) $(if $(VARIANTS),--variants=$(VARIANTS)) $(GUEST)
