# cache.sh TCRUN MODEL FOLDER: runs a model with an empty cache, with one whose files are damaged, and with one that is no folder.
set -eu
tcrun=$1 model=$2 folder=$3
rm -rf "$folder"
mkdir -p "$folder"
run() { # NAME CACHE
  TC_CACHE_DIR=$2 "$tcrun" run "$model" --backend=cpu --output="$folder/$1.safetensors" | sed -n "s/.*(\(.*\)).*/$1: \1/p"
  cmp "$folder/$1.safetensors" "$folder/empty.safetensors"
}
run empty "$folder/cache"
run filled "$folder/cache"
find "$folder/cache" -type f | while read -r file; do
  size=$(wc -c <"$file")
  head -c $((size / 2)) "$file" >"$folder/half"
  printf 'nonsense' | cat "$folder/half" - >"$file"
done
run damaged "$folder/cache"
run mended "$folder/cache"
find "$folder/cache" -type f -exec sh -c ': > "$1"' - {} \;
run emptied "$folder/cache"
printf 'x' >"$folder/file"
run file "$folder/file"
