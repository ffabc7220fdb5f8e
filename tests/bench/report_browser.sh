#!/usr/bin/env bash
# The page of `stretto report` in a real browser, without a word on its console: every figure, bar and
# point of a sweep against its record, sorting, filtering, scrolling; the same on paper and on a phone;
# hostile names as text; 500 rows; many long names; a training run in parts with its metrics; a single
# run; the axis of memory beside a run that does not fit. Times are printed, not judged.
# Exits 77 (skipped, and says so) where no Chromium is installed.
#   report_browser.sh PROGRAM SOURCE_DIR
set -euo pipefail
program=$1 source=$2
browser=$(command -v chromium || command -v chromium-browser || command -v google-chrome) || {
  echo "report_browser: SKIPPED: no Chromium (apt-get install chromium)" >&2
  exit 77
}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
fail() { echo "report_browser: $1" >&2; exit 1; }

browse() {  # WORDS...: the browser without a window
  timeout 120 "$browser" --headless --no-sandbox --disable-gpu --user-data-dir="$dir/profile" \
    --enable-logging=stderr "$@"
}

page() {  # NAME CHECKS WIDTH [HASH]: runs the checks in NAME/report.html
  local nonce result console shown=checked.html
  "$program" report "$dir/$1" --title "Browser test" > /dev/null
  nonce=$(grep -o "nonce-[0-9a-f]*" "$dir/$1/report.html" | head -n 1)
  {
    sed 's|</body>||; s|</html>||' "$dir/$1/report.html"
    for script in report_checks.js "$2"; do
      printf '<script nonce="%s">' "${nonce#nonce-}"
      cat "$source/tests/bench/$script"
      printf '</script>'
    done
    printf '</body></html>\n'
  } > "$dir/$1/checked.html"
  if [ "$3" -lt 500 ]; then  # no window is as narrow as a phone, but a frame is
    shown=framed.html
    printf '<!doctype html><iframe src="checked.html" width="%s" height="844" style="border: 0"></iframe><script>
      addEventListener("message", e => Object.assign(document.documentElement.dataset, e.data));</script>' "$3" > "$dir/$1/$shown"
  fi
  browse --window-size="$3,4000" --virtual-time-budget=5000 --dump-dom "file://$dir/$1/$shown${4:-}" \
    > "$dir/dom" 2> "$dir/messages" || fail "$1: the browser ended with $?"
  result=$(grep -o 'data-result="[^"]*"' "$dir/dom" | head -n 1) || fail "$1: the checks did not run: $(grep CONSOLE "$dir/messages")"
  [ "$result" = 'data-result="ok"' ] || fail "$1: $result"
  console=$(grep CONSOLE "$dir/messages" || true)
  [ -z "$console" ] || fail "$1: console: $console"
  echo "report_browser: $1, $2, $3 px: ok; $(stat -c %s "$dir/$1/report.html") bytes," \
    "open after $(grep -o 'data-opened="[0-9]*"' "$dir/dom" | tr -dc 0-9) ms"
}

python=$(command -v python3) || { echo "report_browser: SKIPPED: no python3" >&2; exit 77; }
"$python" "$source/tests/bench/report_records.py" "$source/tests/fuzz/corpus/record" "$dir"
page sweep report_figures.js 1280
page sweep report_phone.js 390
page sweep report_paper.js 1280
page sweep report_hash.js 1280 '#sort=tp&filter=dp2'
page hostile report_browser.js 1280
page rows500 report_browser.js 1280
page long report_pages.js 500
page training report_training.js 1280
page single report_pages.js 1280
page near report_memory.js 1280
page far report_memory.js 1280

# On real paper: it took nine pages when headings and charts were parted.
browse --print-to-pdf="$dir/sweep.pdf" --no-pdf-header-footer "file://$dir/sweep/report.html" > /dev/null 2>&1
pages=$(grep -a -A1 '/Type /Pages' "$dir/sweep.pdf" | grep -a -o 'Count [0-9]*' | head -n 1 | tr -dc 0-9 || true)
[ "${pages:-0}" -ge 1 ] && [ "$pages" -le 6 ] || fail "the sweep is printed on '$pages' pages"
echo "report_browser: on paper: $pages pages"
