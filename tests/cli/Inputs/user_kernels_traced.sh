#!/bin/sh
# Each example over a driver that only keeps books, in a mode: what was launched of it, each once. TCRUN FOLDER DRIVER SCRATCH MODE
set -eu
for file in "$2"/*.tc; do
  FAKE_DRIVER_TRACE="$4.trace" "$1" bench "$file" --backend=cuda --mode="$5" --random --unchecked --runs=2 \
    --set cuda.driver="$3" --set cache.dir="$4.cache" >"$4.out"
  echo "== $(basename "$file" .tc)"
  grep tc_kernel_user_ "$4.trace" | sort -u
  tail -n 1 "$4.trace"
done
