#!/usr/bin/env bash
# The Makefile's targets do not race, `make -j` or not: what they start has ended before the next thing begins. Nothing
# is built or installed here: stand-ins note when they begin and end.
#   makefile.sh SOURCE_DIR
# Exit code 125: make is missing.
set -euo pipefail
command -v make > /dev/null || { echo "makefile: SKIPPED: no make" >&2; exit 125; }
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cp "$1/Makefile" "$dir"
mkdir -p "$dir/tools" "$dir/programs"
for name in tools/setup tools/first-minute tools/check tools/fuzz tools/skipped programs/cmake programs/ctest programs/cpack; do
  cat > "$dir/$name" << 'END'
#!/usr/bin/env bash
name="$(basename "$0") $*"
echo "begins: $name" >> "$LOG"
sleep 0.02
echo "ends: $name" >> "$LOG"
END
  chmod +x "$dir/$name"
done
fail() { echo "makefile: make -j $targets: $1" >&2; cat "$LOG" >&2; exit 1; }

goes() {  # TARGETS: in a fresh tree; says what was started, in its order
  targets=$* LOG=$dir/log
  export LOG
  rm -rf "$LOG" "$dir/build"
  # shellcheck disable=SC2086
  env -u MAKEFLAGS -u MAKELEVEL -u SUDO_UID PATH="$dir/programs:$PATH" make -s -j 8 -C "$dir" $targets > "$dir/out" 2>&1 ||
    { cat "$dir/out" >&2; fail "failed"; }
  awk '/^begins: / {if (open) exit 1; open = 1} /^ends: / {open = 0} END {exit open}' "$LOG" || fail "two at once"
  order=$(sed -n 's/^begins: //p' "$LOG" | sed -E 's/(cmake --(preset|build|install)).*/\1/; s/ --.*(output|prefix).*//' | paste -sd ';')
}
is() { [ "$order" = "$1" ] || fail "$order instead of $1"; }

goes package
is 'setup build;setup package;cmake --preset;cmake --build;cpack '
goes test
is 'setup test;cmake --preset;cmake --build;ctest;skipped tests.xml'
goes install
is 'setup build;cmake --preset;cmake --build;cmake --install'
goes bench test package  # one build folder, configured in two ways
goes clean build
is 'setup build;cmake --preset;cmake --build'
