#!/bin/sh
# Installs what build/ has into a scratch folder and uses it as an embedder does: the programs of examples/c are built
# against it by find_package, each prints what its CHECK lines say; pkg-config's flags build one too, and C++ reads the
# headers.
set -eu
cd "$(dirname "$0")/.."
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cmake --install build --prefix "$scratch/tc" >/dev/null
cmake -S examples/c -B "$scratch/build" -DCMAKE_PREFIX_PATH="$scratch/tc" >/dev/null
cmake --build "$scratch/build" >/dev/null
passed=0 failed=0
result() { # NAME
  if [ "$2" -eq 0 ]; then passed=$((passed + 1)); else failed=$((failed + 1)) && echo "failed: $1"; fi
}
for source in examples/c/*.c; do
  name=$(basename "$source" .c)
  rc=0
  { XDG_CACHE_HOME=$scratch/cache "$scratch/build/$name" >"$scratch/out" &&
    FileCheck-19 "$source" <"$scratch/out"; } || rc=1
  result "$name" $rc
done
export PKG_CONFIG_PATH="$scratch/tc/lib/pkgconfig"
rc=0
# shellcheck disable=SC2046 # flags are words
cc -std=c11 -Wall -Wextra -Wpedantic -Werror examples/c/graph_break.c -o "$scratch/by_pkg_config" \
  $(pkg-config --cflags --libs tc) || rc=1
result 'pkg-config' $rc
rc=0
echo '#include "tc/ops.h"' >"$scratch/header.cc"
# shellcheck disable=SC2046
c++ -std=c++17 -Wall -Wextra -fsyntax-only "$scratch/header.cc" $(pkg-config --cflags tc) || rc=1
result 'C++ headers' $rc
echo "$passed passed, $failed failed, 0 skipped"
[ "$failed" -eq 0 ]
