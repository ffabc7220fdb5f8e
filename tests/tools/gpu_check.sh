#!/usr/bin/env bash
# How long tools/gpu-check lets a check run. No GPU: programs are stand-ins, and so is `timeout`, which notes the seconds.
#   gpu_check.sh SOURCE_DIR
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
mkdir -p "$dir/programs" "$dir/path" "$dir/tmp"
for name in stretto test_topology test_cuda_gpu test_train test_cpu_matmul; do
  # shellcheck disable=SC2016
  printf '#!/bin/sh\n[ "$1" = version ] || echo "%s" >> "$STARTED"\n' $name > "$dir/programs/$name"
done
cat > "$dir/path/timeout" << 'END'
#!/usr/bin/env bash
[ "$1" = -k ] || exit "${NO_GPU:-0}"  # a look at the card
shift 2
echo "$1" >> "$LIMITS"
shift
"$@"
END
printf '#!/bin/sh\necho "ERROR SUMMARY: 0 errors; RACECHECK SUMMARY: 0 hazards"\n' > "$dir/path/compute-sanitizer"
chmod +x "$dir"/programs/* "$dir"/path/*
export STARTED=$dir/started LIMITS=$dir/limits OUT=$dir/logs STRETTO_PROGRAMS=$dir/programs TMPDIR=$dir/tmp
unset STRETTO_CHECK_ENDS limit text
fail() { echo "gpu_check: $1" >&2; cat "$dir/out" >&2; exit 1; }

checks() {  # EXIT_CODE SECONDS_LEFT WORDS...: runs gpu-check; "-": it has no end
  local wants=$1 left=$2 code=0
  shift 2
  rm -f "$STARTED" "$LIMITS"
  touch "$STARTED" "$LIMITS"
  if [ "$left" != - ]; then export STRETTO_CHECK_ENDS=$(($(date +%s) + left)); else unset STRETTO_CHECK_ENDS; fi
  PATH="$dir/path:$PATH" "$1/tools/gpu-check" "${@:2}" > "$dir/out" 2>&1 || code=$?
  [ "$code" -eq "$wants" ] || fail "exit $code instead of $wants"
}
# Every check had LOW to HIGH seconds, or of two kinds of checks either had its own. (The clock goes on meanwhile.)
had() {
  awk -v pairs="$*" 'BEGIN {n = split(pairs, ends, " ")} {good = 0; for (i = 1; i < n; i += 2)
    if (ends[i] <= $1 && $1 <= ends[i + 1]) good = used[i] = 1; if (!good) exit bad = 1}
    END {for (i = 1; i < n; i += 2) if (!used[i]) bad = 1; exit bad}' "$LIMITS" || fail "limits $(paste -sd ' ' "$LIMITS") instead of $*"
}

# Without a GPU nothing is built, and the message says why.
printf '#!/bin/sh\necho "$@" >> "$CONFIGURED"\nexit 1\n' > "$dir/path/cmake"
chmod +x "$dir/path/cmake"
export CONFIGURED=$dir/configured
touch "$CONFIGURED"
NO_GPU=9 checks 71 - "$1"
grep -q "no NVIDIA GPU answers" "$dir/out" || fail "it does not say that there is no GPU"
# With one, but without a bundle, the tests are configured, too: `make build` leaves them out.
(unset STRETTO_PROGRAMS && checks 70 - "$1" --bundle "$dir/none")
grep -q -- "--preset cuda .*-DSTRETTO_TESTS=ON" "$CONFIGURED" || fail "the tests are not configured"

sanitizer="--only initcheck"  # its checks have a limit of 200 s, and others before them have none
# shellcheck disable=SC2086
{
  checks 0 - "$1" $sanitizer
  had 300 300 200 200
  checks 0 1000 "$1" $sanitizer  # whatever takes long may have all that is left, within its limit
  had 900 1000 200 200
  checks 0 150 "$1" $sanitizer  # which is no promise
  had 50 150
}

checks 1 - "$1" --at-once --within 0 --only topologies --only timelines
[ ! -s "$STARTED" ] || fail "something was started although no time was left"
[ "$(grep -cE '^(timelines|what the GPU did, and when|topologies .*) +FAIL +no time was left +0s$' "$dir/out")" -eq 6 ] ||
  fail "no line says that no time was left, or it is not repeated at the end"
[ "$(grep -c "some of it FAILED" "$dir/out")" -eq 2 ] || fail "a part does not say that it failed"
tail -n 1 "$dir/out" | grep -qx "3 checks, 3 failed" || fail "what had no time is not counted"

printf '#!/bin/sh\nexit 1\n' > "$dir/programs/test_topology"
checks 1 - "$1" --first --only topologies --only initcheck
[ ! -s "$STARTED" ] || fail "--first: something was started after the first check that fails"
