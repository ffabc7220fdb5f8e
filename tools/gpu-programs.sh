# Sourced by gpu-check and gpu-bench: sets $programs (folder of the programs) and $logs, and finds
# the CUDA libraries where no toolkit is installed but Python wheels carry them.
if ! timeout 30 nvidia-smi -L > /dev/null 2>&1; then
  echo "${0##*/}: no NVIDIA GPU answers here (nvidia-smi -L)" >&2
  echo "  fix: run it where there is one; tools/gpu-bundle packs the programs for a machine without compilers" >&2
  exit 71
fi
logs=${OUT:-$(mktemp -d)}
mkdir -p "$logs"
if [ -n "${STRETTO_PROGRAMS:-}" ] || [ -f "$bundle" ]; then
  programs=${STRETTO_PROGRAMS:-$(mktemp -d)}  # unpacked before, or now
  [ -x "$programs/stretto" ] || tar -C "$programs" -xJf "$bundle" || exit 74
  export LD_LIBRARY_PATH="$programs/lib:${LD_LIBRARY_PATH:-}"
  if [ -d "$programs/mpi" ]; then
    export OPAL_PREFIX=$programs/mpi PATH="$programs/mpi/bin:$PATH"
    export PMIX_MCA_pcompress_base_silence_warning=1
  fi
else
  targets="test_cpu_ops test_cpu_matmul test_cuda_gpu test_golden test_gpu_train test_train test_topology"
  cmake --preset cuda -DSTRETTO_TESTS=ON > "$logs/configure.log" 2>&1 || { tail -20 "$logs/configure.log"; exit 70; }
  grep -q "NCCL: yes" "$logs/configure.log" && targets="$targets test_nccl"
  # shellcheck disable=SC2086
  cmake --build build --target $targets bench_gpu_ops stretto > "$logs/build.log" 2>&1 ||
    { tail -40 "$logs/build.log"; exit 70; }
  programs=$(mktemp -d)
  for target in $targets; do
    find build/tests -name "$target" -type f -exec cp {} "$programs/" \;
  done
  cp build/bench/bench_gpu_ops build/stretto "$programs/"
  [ -d build/tests/parallel/fake ] && cp -r build/tests/parallel/fake "$programs/"
fi
folders=$(python3 - 2> /dev/null <<'PY'
import glob, os, sys
found = set()
for root in sys.path:
    for pattern in ("nvidia/*/lib", "nvidia/*/lib64"):
        found.update(glob.glob(os.path.join(root, pattern)))
print(":".join(sorted(found)))
PY
)
export LD_LIBRARY_PATH="${LD_LIBRARY_PATH:-}:/usr/local/cuda/lib64:$folders"
if ldd "$programs/stretto" | grep "not found"; then
  echo "the libraries above are missing on this machine" >&2
fi
