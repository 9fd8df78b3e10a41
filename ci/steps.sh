# shellcheck shell=sh disable=SC2034
# Steps that are timed and counted; sourced by ./dev and .ci/run.
#
# `step NAME COMMAND…` shows the command's output. A last line "N passed, N failed, N skipped" is added to the sums;
# without one the step itself counts: exit code 0 passed, 77 skipped, others failed. A failing command whose line says
# "0 failed" counts as one failure. `finish` shows the ends of failed steps' outputs again, since long logs are cut in many
# a place, prints the sums as the last line, and gives the exit code.
passed=0 failed=0 skipped=0 failures=
again=120 # lines of a failed step that finish repeats; inner steps' repetitions are among them

step() {
  step_name=$1
  shift
  printf '\n== %s\n' "$step_name"
  step_start=$(date +%s)
  step_dir=$(mktemp -d)
  { set +e; (set -e; "$@") 2>&1; echo $? >"$step_dir/rc"; } | tee "$step_dir/log"
  step_rc=$(cat "$step_dir/rc")
  step_line=$(grep -v '^[[:space:]]*$' "$step_dir/log" | tail -n 1 |
    sed -n 's/^\([0-9][0-9]*\) passed, \([0-9][0-9]*\) failed, \([0-9][0-9]*\) skipped$/\1 \2 \3/p')
  if [ -n "$step_line" ]; then
    step_p=${step_line%% *} step_s=${step_line##* } step_f=${step_line#* } step_f=${step_f% *}
    if [ "$step_rc" -ne 0 ] && [ "$step_f" -eq 0 ]; then step_f=1; fi
  else
    step_p=0 step_f=0 step_s=0
    case $step_rc in
    0) step_p=1 ;;
    77) step_s=1 ;;
    *) step_f=1 ;;
    esac
  fi
  passed=$((passed + step_p)) failed=$((failed + step_f)) skipped=$((skipped + step_s))
  if [ "$step_f" -gt 0 ]; then failures="$failures
== again: the end of $step_name
$(tail -n "$again" "$step_dir/log" | cut -c 1-400)"; fi
  rm -rf "$step_dir"
  printf -- '-- %s: %s passed, %s failed, %s skipped in %s s\n' "$step_name" "$step_p" "$step_f" "$step_s" \
    "$(($(date +%s) - step_start))"
}

# A step without which the others make no sense: not counted when it succeeds, the end when it fails.
must() {
  step "$@"
  if [ "$failed" -gt 0 ]; then finish || exit 1; fi
  passed=$((passed - 1))
}

# A step that cannot run here: says why, and counts as skipped.
skip() {
  printf '\n== %s\n-- skipped: %s\n' "$1" "$2"
  skipped=$((skipped + 1))
}

finish() {
  if [ -n "$failures" ]; then printf '\nfailed:%s\n' "$failures"; fi
  printf '\n%s passed, %s failed, %s skipped\n' "$passed" "$failed" "$skipped"
  [ "$failed" -eq 0 ]
}
