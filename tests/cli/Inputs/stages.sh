# tcrun, a model, a folder: every stage of the model into the folder as STAGE.tc; each is run and held to the model's bits.
set -eu
tcrun=$1 model=$2 folder=$3
mkdir -p "$folder"
"$tcrun" run "$model" --backend=cpu --quiet --output="$folder/want.safetensors"
for stage in graph functional loop schedule kernel plan; do
  "$tcrun" dump "$model" --backend=cpu --stage=$stage >"$folder/$stage.tc"
  "$tcrun" run "$folder/$stage.tc" --backend=cpu --expect="$folder/want.safetensors" --rtol=0 --atol=0 >"$folder/log"
  echo "$stage: $(tail -n 1 "$folder/log")"
done
# The kernels that are made of a text are those that were made of the model, and a plan stays as it is.
for stage in loop schedule; do
  "$tcrun" dump "$folder/$stage.tc" --backend=cpu --stage=kernel | grep '^kernel' >"$folder/names"
  grep '^kernel' "$folder/kernel.tc" | diff "$folder/names" -
done
"$tcrun" dump "$folder/plan.tc" --backend=cpu --stage=plan | diff "$folder/plan.tc" -
# Variants with something wrong.
sed 's/^weights.*//' "$folder/plan.tc" >"$folder/bare.tc"
sed 's/launch @/lunch @/' "$folder/plan.tc" >"$folder/bad.tc"
