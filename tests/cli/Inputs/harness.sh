# harness.sh TCRUN LOG FOLDER: does what a log of output_code says: saves the plan and times it.
set -eu
tcrun=$1 log=$2
sed 1d "$log" >"$3/plan.tc"
cd "$3"
# shellcheck disable=SC2046 # words of a command line
"$tcrun" $(sed -n 's/^# tcrun //p' "$log") --runs=1
