# shellcheck shell=sh
# complex_refused.sh TCRUN FOLDER: ops without a meaning on complex numbers, each in a graph of its own, and what is said of it.
tcrun=$1
folder=$2
while IFS='|' read -r call want; do
  printf 'graph @f (%%a : c64[3] = user "a", %%b : c64[3] = user "b") {\n  %%r = aten::%s\n  return user %%r\n}\n' "$call" \
    >"$folder/f.tc"
  got=$("$tcrun" dump "$folder/f.tc" 2>&1)
  code=$?
  op=${call%%(*}
  case $got in
  "tcrun: aten::$op: $want
"*) ;;
  *) code="$code, not the words" ;;
  esac
  if [ "$code" != 2 ]; then
    echo "$call: ended with $code"
    echo "$got"
    exit 1
  fi
done <<'TABLE'
floor(%a)|floor is not supported for complex inputs
ceil(%a)|ceil is not supported for complex inputs
trunc(%a)|trunc is not supported for complex inputs
sign(%a)|Unlike NumPy, torch.sign is not intended to support complex numbers. Please use torch.sgn instead.
signbit(%a)|signbit is not implemented for complex tensors.
maximum(%a, %b)|maximum not implemented for complex tensors.
fmin(%a, %b)|fmin not implemented for complex tensors.
clamp(%a, 0, 1)|clamp is not supported for complex types
relu(%a)|clamp is not supported for complex types
heaviside(%a, %b)|heaviside is not yet implemented for complex tensors.
isposinf(%a)|isposinf does not support complex inputs.
rad2deg(%a)|rad2deg is not supported for complex tensors.
isin.Tensor_Tensor(%a, %b)|Unsupported input type encountered for isin(): ComplexFloat
atan2(%a, %b)|"atan2" not implemented for 'ComplexFloat'
lt.Tensor(%a, %b)|"lt" not implemented for 'ComplexFloat'
bitwise_or.Tensor(%a, %b)|"bitwise_or" not implemented for 'ComplexFloat'
xlogy.Tensor(%a, %b)|"xlogy" not implemented for 'ComplexFloat'
TABLE
echo 'all refused'
