#!/usr/bin/env bash
# Usage: sweep_slurm.sh PROGRAM SANDBOX. A sweep as arrays of jobs in a real Slurm on this machine.
set -euo pipefail
program=$1 sandbox=$2
work=$(mktemp -d)
trap '"$sandbox" stop "$work/slurm"; rm -rf "$work"' EXIT
"$sandbox" start "$work/slurm" 4 || { [ $? -eq 69 ] && exit 125; exit 1; }
export SLURM_CONF=$work/slurm/slurm.conf
cat > "$work/spec.yaml" << 'SPEC'
base: tiny-100k
set: {seq_len: 32, micro_batch: 1, global_batch: 4, threads: 1}
points:
  - {name: one}
  - {name: dp2, parallel.dp: 2}
  - {name: tp3, parallel.tp: 3}
  - {name: slow, global_batch: 100000, timeout: 2s}
steps: 2
seconds: 0
timeout: 8min
SPEC
mkdir "$work/sweep"
echo '{"cpu":{"model":"Paper CPU","usable":2},"measured":{"fma_flops":2e11,"gemm_flops":2e11}}' > "$work/sweep/machine.json"
cd "$work"
timeout 500 "$program" sweep spec.yaml --run --launcher slurm --wait --out sweep || { cat sweep/slurm-*.log; exit 1; }
python3 - sweep/points << 'END'
import glob, json, sys
statuses = {r["label"]: r["status"] for r in (json.load(open(f)) for f in glob.glob(sys.argv[1] + "/*/record.json"))}
launchers = {r["label"]: r["launcher"] for r in (json.load(open(f)) for f in glob.glob(sys.argv[1] + "/*/record.json"))}
assert launchers["one"] == "threads" and launchers["dp2"] == "srun", launchers
assert statuses == {"one": "ok", "dp2": "ok", "tp3": "rejected", "slow": "timeout"}, statuses
END
echo "ok: a Slurm array leaves every row"
