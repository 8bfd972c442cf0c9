#!/usr/bin/env bash
# big.sh FOREBAY GENERATOR REQUESTS: describes and simulates a synthetic trace of that many requests,
# and caches, fits and compares one of blocks that hardly ever come back, of 20 million at most; fails
# where one of them takes more than 512 MiB of memory, or advise of the latter more than 2 GiB.
set -euo pipefail

forebay=$1 generator=$2 requests=$3
limit_kib=$((512 * 1024))
folder=$(mktemp -d "${TMPDIR:-/tmp}/forebay-big.XXXXXX")
trap 'rm -rf "$folder"' EXIT
trace=$folder/big.parquet

"$generator" "$requests" "$trace"

# Runs a verb, and tells its figures and the most memory it had.
measured() {
  python3 - "$limit_kib" "$folder/out" "$forebay" "$@" <<'PYTHON'
import resource, subprocess, sys, time

limit_kib, out, command = int(sys.argv[1]), sys.argv[2], sys.argv[3:]
begun = time.monotonic()
with open(out, "w") as results:
    subprocess.run(command, stdout=results, check=True)
took_s = time.monotonic() - begun
peak_kib = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
if sys.platform == "darwin":  # in bytes there
    peak_kib //= 1024
print(f"{peak_kib >> 10:4} MiB {took_s:6.1f} s  {' '.join(command[1:2] + command[3:])}", flush=True)
sys.exit(peak_kib > limit_kib and f"!!! more than the {limit_kib >> 10} MiB it may have")
PYTHON
}

measured describe "$trace" --format table
grep -i 'footprint\|touched' "$folder/out" || true
measured simulate "$trace" --device fixed:500 --policy noop
measured simulate "$trace" --device st1000nm0011 --policy deadline

scattered_max=20000000
"$generator" $((requests < scattered_max ? requests : scattered_max)) "$trace" scattered
measured cache "$trace"
measured cache "$trace" --sizes-mib 1000,8191
measured fit "$trace" -o "$folder/model.json"
measured compare "$trace" "$trace"
limit_kib=$((2 << 20))
measured advise "$trace" -o "$folder/report.html"
