#!/usr/bin/env bash
# Usage: mpi_train_test.sh PROGRAM CONFIG. The same topologies with ranks as threads and as processes
# under mpirun: losses and gradient norms are equal bit for bit, because sums are taken in rank order
# by every transport. A timeline holds every process, and a run that fails leaves its record.
set -u
program=$1 config=$2
# shellcheck source=/dev/null
. "$(dirname "$0")/../support/mpirun.sh"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
settings=(train.steps=5 train.audit_every=2 threads=1 micro_batch=2 seq_len=32 log.format=json)

curve() { sed -nE 's/.*"step":([0-9]+),.*"loss":([^,]+),.*"grad_norm":([^,]+),.*/\1 \2 \3/p'; }

compare() {  # NAME WORDS...
  local out=$work/$1
  "$program" train -n 4 "$config" "${settings[@]}" "${@:2}" 2> "$out.threads.err" | curve > "$out.threads"
  timeout 500 "$launcher" "${flags[@]}" -n 4 "$program" train "$config" "${settings[@]}" "${@:2}" \
    < /dev/null 2> "$out.mpi.err" | curve > "$out.mpi"
  if [ "$(wc -l < "$out.mpi")" -ne 5 ] || ! cmp -s "$out.threads" "$out.mpi"; then
    echo "FAILED: $1"
    diff "$out.threads" "$out.mpi"
    tail -n 5 "$out.threads.err" "$out.mpi.err"
    return 1
  fi
  echo "ok: $1: 5 losses and gradient norms equal bit for bit"
}

# Side by side: most of a short job is the launcher's waiting.
jobs=()
while read -r -a words; do
  compare "${words[@]}" &
  jobs+=($!)
done << 'GRID'
dp4 parallel.dp=4
zero1 parallel.dp=4 parallel.zero=1
zero3 parallel.dp=4 parallel.zero=3
tp4 parallel.tp=4
pp4 parallel.pp=4
zerobubble parallel.pp=4 parallel.schedule=zero_bubble
eager parallel.pp=4 parallel.schedule=eager_1f1b
dp2tp2 parallel.dp=2 parallel.tp=2
tp2pp2 parallel.tp=2 parallel.pp=2
interleaved parallel.dp=2 parallel.pp=2 parallel.schedule=interleaved parallel.interleave=2
GRID
failures=0
for job in "${jobs[@]}"; do wait "$job" || failures=$((failures + 1)); done

# One timeline for all processes: the tasks of every rank, as of threads.
tasks() { sed -nE 's/.*"name":"(forward|backward[a-z_]*) ([0-9]+)","ph":"X","pid":([0-9]+).*/rank \3: \1 \2/p' "$1/trace.json" | sort; }
pipeline=("${settings[@]}" parallel.pp=2 trace=1)
"$program" train -n 2 "$config" "${pipeline[@]}" output="$work/traced-threads" > /dev/null 2>&1
timeout 500 "$launcher" "${flags[@]}" -n 2 "$program" train "$config" "${pipeline[@]}" output="$work/traced-mpi" \
  < /dev/null > /dev/null 2>&1
if [ "$(tasks "$work/traced-mpi" | grep -c "rank 1: ")" -eq 8 ] && # four micro-batches, forward and back
  diff <(tasks "$work/traced-threads") <(tasks "$work/traced-mpi"); then
  echo "ok: the timeline of processes holds the tasks of both stages"
else
  echo "FAILED: the timeline of processes"
  tasks "$work/traced-mpi"
  failures=$((failures + 1))
fi

# A run that fails ends its processes at once; its record says why all the same.
timeout 500 "$launcher" "${flags[@]}" -n 2 "$program" train "$config" threads=1 train.steps=200 train.lr=1000 \
  train.max_skipped=3 output="$work/failed" < /dev/null > /dev/null 2>&1
if grep -q '"status": *"diverged"' "$work"/failed/run-*.json; then
  echo "ok: the record of a run that diverged says so"
else
  echo "FAILED: the record of a run that diverged"
  failures=$((failures + 1))
fi
exit $((failures > 0))
