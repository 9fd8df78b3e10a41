#!/bin/sh
# pack.sh BUILD [small]: a tarball in BUILD that runs where it is unpacked: programs, plugins, configs, examples, the SDK,
# and the shared libraries that a plain system does not have. `small` leaves out the processor's plugin and with it the
# largest libraries, for hosts that compute on a GPU. Needs `./dev build` before it.
set -eu
build=$1
kind=${2:-full}
version=$(sed -n 's/^project(tc VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)
name=tc-$version-linux-$(uname -m)
stage=$build/pack/$name
rm -rf "$stage" "$stage-small"
mkdir -p "$stage"
cmake --install "$build" --strip --prefix "$stage" >/dev/null
if [ "$kind" = small ]; then
  name=$name-small
  mv "$stage" "$build/pack/$name"
  stage=$build/pack/$name
  rm -f "$stage"/lib/tc/plugins/libtc_cpu*
fi

# Libraries of the C runtime belong to the system; drivers are opened at run time where they are.
own='linux-vdso|ld-linux|libc\.so|libm\.so|libdl\.so|librt\.so|libpthread\.so'
mkdir -p "$stage/lib"
find "$stage" -type f \( -name '*.so*' -o -perm -u+x \) -exec ldd {} + 2>/dev/null |
  awk '$2 == "=>" && $3 ~ /^\// {print $3}' | sort -u | grep -Ev "/($own)" | while read -r library; do
  case $library in
  "$PWD"/*) ;;
  *) cp -L "$library" "$stage/lib/" ;;
  esac
done

# It must run from where it lies.
"$stage/bin/tcrun" backends >"$build/pack/backends.txt"
tar -C "$build/pack" -czf "$build/$name.tar.gz" "$name"
echo "$build/$name.tar.gz ($(du -h "$build/$name.tar.gz" | cut -f1))"
