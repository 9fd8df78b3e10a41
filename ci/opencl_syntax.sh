#!/bin/sh
# opencl_syntax.sh TCRUN FILES: the OpenCL C that is printed for models, kernel by kernel, through clang's front end as
# OpenCL C 3.0 for the target that portable code is made for: what the driver at hand lets pass must be the language.
set -eu
tcrun=$1
shift
clang=$(command -v clang-19 || command -v clang) || {
  echo 'clang is not installed'
  exit 77
}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
for model in "$@"; do
  name=$(basename "$model" .pt2)
  "$tcrun" dump "$model" --stage=code --backend=opencl >"$scratch/$name"
  # Each kernel begins with the prologue, whose first line is this one.
  csplit -s -z -f "$scratch/$name." -b '%03d.cl' "$scratch/$name" '/^#pragma OPENCL FP_CONTRACT OFF/' '{*}'
done
find "$scratch" -name '*.cl' -print0 |
  xargs -0 -n 50 "$clang" -x cl -cl-std=CL3.0 -target spir64 -fsyntax-only -Wall -Wno-unused -Werror
count=$(find "$scratch" -name '*.cl' | wc -l)
echo "$count kernels are OpenCL C 3.0"
[ "$count" -gt 0 ]
