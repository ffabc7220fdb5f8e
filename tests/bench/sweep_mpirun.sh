#!/usr/bin/env bash
# Usage: sweep_mpirun.sh PROGRAM. A sweep whose points are processes of mpirun: rows with
# the right status, attribution that adds up over all ranks, and a record that `bench --from` reruns.
set -euo pipefail
program=$1
# shellcheck source=/dev/null
STRETTO_MPIEXEC=mpirun . "$(dirname "$0")/../support/mpirun.sh"  # as `sweep` calls it
work=$(mktemp -d)
trap 'wait; rm -rf "$work"' EXIT
cat > "$work/spec.yaml" << 'SPEC'
base: tiny-100k
set: {seq_len: 32, micro_batch: 1, global_batch: 4, threads: 1}
points:
  - {name: one}
  - {name: dp2, parallel.dp: 2}
  - {name: pp2, parallel.pp: 2}
  - {name: tp3, parallel.tp: 3}
steps: 4
seconds: 0
timeout: 8min
SPEC
echo '{"cpu":{"model":"Paper CPU","usable":2},"measured":{"fma_flops":2e11,"gemm_flops":2e11}}' > "$work/machine.json"
mkdir "$work/sweep" && cp "$work/machine.json" "$work/sweep/"
"$program" sweep "$work/spec.yaml" --run --launcher mpirun --out "$work/sweep"
python3 - "$work/sweep/points" << 'END'
import glob, json, sys
rows = {r["label"]: r for r in (json.load(open(f)) for f in glob.glob(sys.argv[1] + "/*/record.json"))}
statuses = {k: v["status"] for k, v in rows.items()}
assert statuses == {"one": "ok", "dp2": "ok", "pp2": "ok", "tp3": "rejected"}, statuses
assert len(rows["pp2"]["timeline"]) == 2 and len(rows["pp2"]["timeline"][1]) == 8, rows["pp2"]["timeline"]
for label in ["one", "dp2", "pp2"]:
    r = rows[label]
    share = sum(p["seconds"] for p in r["attribution"].values()) / r["attribution_wall"]
    assert 0.99 < share < 1.01, (label, share)
    assert r["launcher"] == ("threads" if label == "one" else "mpirun"), (label, r["launcher"])
    assert r["nodes"] == 1 and r["memory"]["grown_total"] > 0
    assert r["memory"]["ranks_here"] == 1, (label, r["memory"])  # of each process
END
point=$(echo "$work"/sweep/points/dp2-*/record.json)
mpirun "${flags[@]}" -n 2 "$program" bench --from "$point" --machine "$work/machine.json" --steps 2 --seconds 0 \
  --out "$work/again.json" < /dev/null > /dev/null
"$program" compare "$point" "$work/again.json" --tolerance 1000 > "$work/compared"
grep -q dp2 "$work/compared"
# A launcher that binds ranks leaves each its own cores: their rates are not shared. Measuring takes a while.
bound() {
  $open_mpi && [ "$(nproc)" -ge 2 ] || return 0
  mpirun "${flags[@]}" --bind-to core -n 2 "$program" bench --from "$point" --steps 2 --seconds 0 \
    --out "$work/bound.json" < /dev/null > /dev/null
  python3 - "$work/bound.json" << 'END'
import json, sys
r = json.load(open(sys.argv[1]))
rates = r["machine"]["measured"]
if r["machine"]["cpu"]["usable"] == 1:
    best = max(rates["fma_flops"], rates["gemm_flops"])
    assert abs(r["peak_flops"] / best - 1) < 1e-6, (r["peak_flops"], rates)
END
}
bound &
# Finished points stay; other launchers and more steps are other runs.
again() { "$program" sweep "$work/spec.yaml" --run --out "$work/sweep" "$@" 2>&1; }
[ "$(again --launcher mpirun | grep -c 'finished before')" -eq 4 ]
[ "$(again | grep -c 'finished before')" -eq 1 ]
rows=$("$program" collect "$work/sweep" --style full --save-path "$work" 2> /dev/null | grep -c dp2)
[ "$rows" -eq 2 ] || { echo "dp2 has $rows rows"; exit 1; }
grep -q "mpirun -n 2 stretto bench" "$work/results.csv"
again --launcher mpirun --steps 12 > "$work/more"
grep -q "dp2: measured before with .* timed steps, but 12" "$work/more"
wait $!
echo "ok: mpirun sweeps, adds up and reruns"
