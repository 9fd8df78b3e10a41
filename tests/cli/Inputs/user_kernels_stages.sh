#!/bin/sh
# A program is dumped at each stage and run from there. TCRUN FILE SCRATCH
set -eu
"$1" run "$2" --backend=ref --random=7 --quiet --output="$3.safetensors"
for stage in graph functional loop schedule plan kernel; do
  "$1" dump "$2" --stage="$stage" >"$3.$stage.tc"
  "$1" run "$3.$stage.tc" --random=7 --strict --expect="$3.safetensors" >"$3.out"
  grep -q 'as expected' "$3.out"
  echo "$stage: as expected"
done
