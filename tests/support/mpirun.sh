# Sourced by tests that start ranks as processes: $launcher and its ${flags[@]}, with which any number
# of them may start here; where there is no launcher, the test is skipped.
launcher=${STRETTO_MPIEXEC:-mpirun}
if ! command -v "$launcher" > /dev/null; then
  echo "skipped: no mpirun (apt-get install openmpi-bin)"
  exit 125
fi
flags=() open_mpi=false
if "$launcher" --version 2>&1 | grep -Eq "Open MPI|OpenRTE"; then
  open_mpi=true flags=(--oversubscribe)
  [ "$(id -u)" -ne 0 ] || flags+=(--allow-run-as-root)
fi
