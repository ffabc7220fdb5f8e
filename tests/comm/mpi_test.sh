#!/usr/bin/env bash
# Usage: mpi_test.sh PROGRAM. The contract with 1 to 4 processes, then every way in which a rank may
# fail: the job must end by itself, with the right exit code, and name the rank.
set -u
program=$1
export STRETTO_TEST_JOB=$$
# shellcheck source=/dev/null
. "$(dirname "$0")/../support/mpirun.sh"
# Hydra, MPICH's launcher, kills the others and reports that.
exited=9 killed=9 names_exited="BAD TERMINATION" names_killed="BAD TERMINATION"
if $open_mpi; then
  exited=3 killed=137
  names_exited="Process name: .*,1\].*Exit code: *3" names_killed="rank 1 .*signal 9"
fi
failures=0

# Jobs side by side: they mostly wait.
jobs=()
holds() {  # RANKS
  local output
  output=$(timeout 500 "$launcher" "${flags[@]}" -n "$1" "$program" 2>&1) && echo "ok: contract with $1 ranks" && return
  echo "FAILED: contract with $1 ranks:"
  echo "$output"
  return 1
}
for ranks in 1 2 3 4; do
  holds $ranks &
  jobs+=($!)
done

# expect HOW EXIT_CODE TEXT [FLAGS]: rank 1 of 4 fails.
expect() {
  fails "$@" &
  jobs+=($!)
}
fails() {
  local begin=$SECONDS output code
  output=$(timeout 500 "$launcher" "${flags[@]}" "${@:4}" -n 4 "$program" "$1" 2>&1)
  code=$?
  if [ "$code" -ne "$2" ] || ! grep -q "$3" <<< "${output//$'\n'/ }"; then
    echo "FAILED: $1: exit code $code (expected $2) after $((SECONDS - begin)) s:"
    echo "$output"
    return 1
  else
    echo "ok: $1 ended with $code after $((SECONDS - begin)) s"
  fi
}
expect throw 74 "rank 1 in step 3: disk full"
expect exit $exited "$names_exited"
expect kill $killed "$names_killed"
if [ "$killed" -eq 137 ]; then  # told to leave the others alone, as Slurm may, it answers 0
  expect kill 0 "rank 1 has ended in step 3 without a word.*ranks 0, 2, 3 wait in all_reduce #2" --enable-recovery
fi
expect sleep 81 "rank 1 stands still in step 3.*ranks 0, 2, 3 wait in all_reduce #2 (200000 bytes, group world)"
expect hang 81 "rank 1 stands still in step 3.*ranks 0, 2, 3 wait in all_reduce #2 (200000 bytes, group world)"

for job in "${jobs[@]}"; do wait "$job" || failures=$((failures + 1)); done
left_over() {  # of this test: another may run beside it
  local environment
  for environment in $(grep -lazs "^STRETTO_TEST_JOB=$$\$" /proc/[0-9]*/environ 2> /dev/null); do
    [ "$(readlink "${environment%environ}exe")" = "$(readlink -f "$program")" ] && cut -d/ -f3 <<< "$environment"
  done
}
for _ in $(seq 40); do  # the launcher may return while its last ranks are being ended
  left=$(left_over)
  [ -n "$left" ] || break
  sleep 0.5
done
if [ -n "$left" ]; then
  echo "FAILED: processes are left over: $left"
  failures=$((failures + 1))
fi
exit $((failures > 0))
