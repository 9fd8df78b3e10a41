# headers.sh INCLUDE: every public header by itself, as C11 and as C++17, with every warning an error, by each compiler there is.
set -eu
include=$1
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
tried=0
for header in "$include"/tc/*.h; do
  name=tc/$(basename "$header")
  printf '#include "%s"\n#include "%s"\n' "$name" "$name" >"$scratch/a.c"
  cp "$scratch/a.c" "$scratch/a.cc"
  for way in 'gcc -std=c11 a.c' 'clang-19 -std=c11 a.c' 'g++ -std=c++17 a.cc' 'clang++-19 -std=c++17 a.cc'; do
    # shellcheck disable=SC2086 # the words of a way are meant to be apart
    set -- $way
    command -v "$1" >/dev/null || continue
    "$1" "$2" -Wall -Wextra -Wpedantic -Werror -fsyntax-only -I"$include" "$scratch/$3" || {
      echo "$name does not compile: $way"
      exit 1
    }
    tried=$((tried + 1))
  done
done
echo "$tried compilations"
[ "$tried" -gt 0 ]
