# exits.sh CODE COMMAND…: runs the command, its messages on the standard output; succeeds if it ends with that code.
code=$1
shift
"$@" 2>&1
got=$?
if [ "$got" -ne "$code" ]; then
  echo "ended with $got instead of $code: $*"
  exit 1
fi
