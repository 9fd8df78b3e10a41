#!/bin/sh
# Each example against the references: compiled, op by op, and from an artifact. TCRUN FOLDER BACKEND SCRATCH
set -eu
for file in "$2"/*.tc; do
  name=$(basename "$file" .tc)
  expected="$4.$name.safetensors"
  "$1" run "$file" --backend=ref --random=7 --quiet --output="$expected"
  for mode in inductor eager; do
    "$1" run "$file" --backend="$3" --mode="$mode" --random=7 --strict --expect="$expected" >"$4.out"
    grep -q 'as expected' "$4.out"
  done
  "$1" compile "$file" -o "$4.tcx" --backend="$3" >"$4.out"
  "$1" run "$4.tcx" --backend="$3" --random=7 --expect="$expected" >"$4.out"
  grep -q 'as expected' "$4.out"
  echo "$name: as expected"
done
