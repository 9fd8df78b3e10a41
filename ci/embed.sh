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
export XDG_CACHE_HOME="$scratch/cache"
"$scratch/tc/bin/tcrun" compile examples/gpt_block.pt2 -o "$scratch/model.tcx" --backend=cpu --sizes=x=1x16x64 --sizes=any --quiet
passed=0 failed=0
result() { # NAME
  if [ "$2" -eq 0 ]; then passed=$((passed + 1)); else failed=$((failed + 1)) && echo "failed: $1"; fi
}
for source in examples/c/*.c; do
  name=$(basename "$source" .c)
  rc=0
  { "$scratch/build/$name" "$scratch/model.tcx" >"$scratch/out" &&
    FileCheck-19 "$source" <"$scratch/out"; } || rc=1
  result "$name" $rc
done
# The programs that train: what goes on from a checkpoint ends with the same bytes as what was never stopped.
cmake -S examples/train -B "$scratch/train" -DCMAKE_PREFIX_PATH="$scratch/tc" >/dev/null
cmake --build "$scratch/train" >/dev/null
for name in mlp gpt fno; do
  rc=0
  train() { # CHECKPOINT STEPS
    "$scratch/train/$name" LICENSE --quiet --threads=1 --checkpoint="$scratch/$name.$1.safetensors" --steps="$2" >"$scratch/out"
  }
  { train whole 5 && train parts 3 && train parts 5 && grep -q 'steps 3 to 5' "$scratch/out" &&
    cmp "$scratch/$name.whole.safetensors" "$scratch/$name.parts.safetensors"; } || rc=1
  result "training resumed: $name" $rc
done
# The small runtime: at most 1 MB, and all that it needs besides is the device's plugin.
rc=0
strip -o "$scratch/stripped" "$scratch/tc/lib/libtc_rt.so"
[ "$(wc -c <"$scratch/stripped")" -le 1048576 ] || rc=1
result 'size of libtc_rt' $rc
mkdir -p "$scratch/small/bin" "$scratch/small/lib/tc/plugins"
chmod go-w "$scratch/small" "$scratch/small/lib" "$scratch/small/lib/tc" "$scratch/small/lib/tc/plugins"
cp -p "$scratch/tc/lib/tc/plugins/"libtc_cpu.so "$scratch/tc/lib/tc/plugins/"libtc_cpu.tc-plugin.toml "$scratch/small/lib/tc/plugins"
cp -p "$scratch/tc/lib/"libtc_rt.so.0 "$scratch/small/lib"
rc=0
{ LD_LIBRARY_PATH=$scratch/small/lib "$scratch/build/run_artifact" "$scratch/model.tcx" >"$scratch/out" &&
  FileCheck-19 examples/c/run_artifact.c <"$scratch/out"; } || rc=1
result 'the runtime and a plugin alone' $rc
export PKG_CONFIG_PATH="$scratch/tc/lib/pkgconfig"
rc=0
# shellcheck disable=SC2046 # flags are words
cc -std=c11 -Wall -Wextra -Wpedantic -Werror examples/c/graph_break.c -o "$scratch/by_pkg_config" \
  $(pkg-config --cflags --libs tc) || rc=1
result 'pkg-config' $rc
rc=0
# shellcheck disable=SC2046
cc -std=c11 -Wall -Wextra -Wpedantic -Werror examples/c/run_artifact.c -o "$scratch/by_pkg_config" \
  $(pkg-config --cflags --libs tc_rt) -lm || rc=1
result 'pkg-config of the runtime' $rc
rc=0
echo '#include "tc/ops.h"' >"$scratch/header.cc"
echo '#include "tc/rt.h"' >>"$scratch/header.cc"
# shellcheck disable=SC2046
c++ -std=c++17 -Wall -Wextra -fsyntax-only "$scratch/header.cc" $(pkg-config --cflags tc) || rc=1
result 'C++ headers' $rc
# A vendor's plugin, built against the installed SDK alone, before the installed program's own test suite.
rc=0
{ cmake -S "$scratch/tc/share/tc/sdk/examples/abacus" -B "$scratch/abacus" -DCMAKE_PREFIX_PATH="$scratch/tc" \
  -DCMAKE_C_FLAGS='-Wall -Wextra -Wpedantic -Werror' >/dev/null && cmake --build "$scratch/abacus" >/dev/null &&
  "$scratch/tc/bin/tcrun" conform "$scratch/abacus/libabacus.so" --quiet; } || rc=1
result "the SDK's example" $rc
# The same without CMake.
rc=0
mkdir -p "$scratch/template"
chmod go-w "$scratch" "$scratch/template"
cp "$scratch/tc/share/tc/sdk/template/"*.toml "$scratch/template"
# shellcheck disable=SC2046
{ cc -std=c11 -D_POSIX_C_SOURCE=200809L -Wall -Wextra -Wpedantic -Werror -shared -o "$scratch/template/libtemplate.so" \
  -Wl,--version-script="$(pkg-config --variable=map tc_sdk)" "$scratch/tc/share/tc/sdk/template/"*.c \
  $(pkg-config --cflags --libs tc_sdk) -lm -pthread && chmod go-w "$scratch/template/"* &&
  "$scratch/tc/bin/tcrun" conform --plugin="$scratch/template/libtemplate.so" --quiet; } || rc=1
result "the SDK's template, by pkg-config" $rc
echo "$passed passed, $failed failed, 0 skipped"
[ "$failed" -eq 0 ]
