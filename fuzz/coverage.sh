#!/bin/sh
# The compiler, given coverage of our own crates, which steers the fuzzer. Called by cargo as RUSTC_WRAPPER; needs no
# nightly toolchain.
case " $* " in
*" --crate-name forebay"*)
	exec "$@" -Cpasses=sancov-module \
		-Cllvm-args=-sanitizer-coverage-level=4 \
		-Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
		-Cllvm-args=-sanitizer-coverage-pc-table \
		-Cllvm-args=-sanitizer-coverage-trace-compares \
		-Cllvm-args=-simplifycfg-branch-fold-threshold=0
	;;
*) exec "$@" ;;
esac
