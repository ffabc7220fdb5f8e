#!/usr/bin/env bash
# Usage: slurm_test.sh PROGRAM CONFIG SANDBOX. Under a real Slurm: srun gives the curve of thread ranks
# bit for bit; a batch file runs; SIGUSR1 before the time limit stops the job with 75 and requeues it;
# a killed rank ends the step. Skipped (125) without root or packages.
set -u
program=$1 config=$2 sandbox=$3
work=$(mktemp -d)
trap '"$sandbox" stop "$work/slurm"; rm -rf "$work"' EXIT
"$sandbox" start "$work/slurm" 32 2>&1  # all parts at a time: they mostly wait for Slurm
case $? in
  0) ;;
  69) exit 125 ;;
  *) exit 1 ;;
esac
export SLURM_CONF=$work/slurm/slurm.conf
cd "$work" || exit 1
failures=0
check() {  # WHAT CONDITION...
  local what=$1
  shift
  if "$@"; then echo "ok: $what"; else echo "FAILED: $what"; failures=$((failures + 1)); fi
}
curve() { sed -nE 's/.*"step":([0-9]+),.*"loss":([^,]+),.*"grad_norm":([^,]+),.*/\1 \2 \3/p'; }
settings=(threads=1 micro_batch=2 seq_len=32 log.format=json)

against_threads() {
  "$program" train -n 4 "$config" "${settings[@]}" train.steps=5 parallel.tp=2 | curve > threads
  timeout 500 srun -n 4 --mpi=pmix "$program" train "$config" "${settings[@]}" train.steps=5 parallel.tp=2 |
    curve > srun_curve
  check "srun gives the curve of thread ranks" test -s srun_curve -a "$(cat srun_curve)" = "$(cat threads)"
}

# With a hostile word.
batch() {
  "$program" slurm "$config" "${settings[@]}" 'output=run $(touch owned)' train.steps=5 -N 1 \
    --ntasks-per-node 4 --cpus-per-task 1 --name job-1 > job.sbatch 2> slurm.err
  check "a batch file is printed" test -s job.sbatch
  timeout 500 sbatch --wait job.sbatch > /dev/null
  check "the batch job ends well" test $? -eq 0
  check "its log has five steps" test "$(curve < job-1-*.log | wc -l)" -eq 5
  check "nothing of it was executed" test ! -e owned
}

# As Slurm sends it before the time limit: saved, 75, requeued by the script.
signalled() {
  "$program" slurm "$config" "${settings[@]}" output=run2 train.steps=1000000 -N 1 --ntasks-per-node 4 \
    --cpus-per-task 1 --name job-2 > job2.sbatch 2> slurm2.err
  local id restarts=0
  id=$(sbatch --parsable job2.sbatch)
  for _ in $(seq 1000); do grep -qs '"loss"' "job-2-$id.log" && break; sleep 0.5; done
  scancel --signal=USR1 "$id.0"
  for _ in $(seq 1000); do
    restarts=$(scontrol show job "$id" | sed -nE 's/.*Restarts=([0-9]+).*/\1/p')
    [ "${restarts:-0}" -ge 1 ] && break
    sleep 0.5
  done
  check "a signalled job is requeued" test "${restarts:-0}" -ge 1
  check "it said that it was stopped" grep -q "stopped after step" "job-2-$id.log"
  scancel "$id"
}

# The step ends, by itself and not with success.
killed() {
  timeout 500 srun -n 4 --mpi=pmix --kill-on-bad-exit=1 "$program" train "$config" "${settings[@]}" \
    train.steps=1000000 train.watchdog=5 parallel.tp=2 seed=4711 > step.log 2> step.err &
  local step=$! victim="" process code
  for _ in $(seq 1000); do [ -s step.log ] && break; sleep 0.5; done
  for process in $(grep -lazs "^SLURM_PROCID=2\$" /proc/[0-9]*/environ 2> /dev/null); do
    process=${process%/environ}
    if grep -qaz "^SLURM_CONF=$SLURM_CONF\$" "$process/environ" && grep -qaz '^seed=4711$' "$process/cmdline" &&
      [ "$(readlink "$process/exe")" = "$(readlink -f "$program")" ]; then
      victim=${process#/proc/}
    fi
  done
  check "the rank was found" test -n "$victim"
  [ -n "$victim" ] && kill -9 "$victim"
  wait $step
  code=$?
  check "a killed rank ends the step (exit code $code)" test $code -ne 0 -a $code -ne 124
}

parts=()
for part in against_threads batch signalled killed; do
  ($part; exit "$failures") &
  parts+=($!)
done
for part in "${parts[@]}"; do wait "$part" || failures=$((failures + 1)); done
exit $((failures > 0))
