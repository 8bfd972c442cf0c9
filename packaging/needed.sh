#!/usr/bin/env bash
# Prints the shared libraries that a binary needs, one per line: packaging/needed.sh BINARY. A static binary needs none.
set -euo pipefail
readelf -d "$1" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p'
