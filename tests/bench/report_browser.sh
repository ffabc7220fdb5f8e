#!/usr/bin/env bash
# The page of `stretto report` in a real browser: it draws without console errors, sorts, filters,
# and shows hostile names as text. Exits 77 (skipped) where no Chromium is installed.
#   report_browser.sh PROGRAM SOURCE_DIR
set -euo pipefail
program=$1 source=$2
browser=$(command -v chromium || command -v chromium-browser || command -v google-chrome) || exit 77
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
hostile='<img src=x onerror=document.title=1></script><script>document.title=2</script>=1+1'
sed 's/"label": "[^"]*"/"label": "'"${hostile//\//\\/}"'"/' "$source/tests/fuzz/corpus/record/dp2.json" > "$dir/a.json"
cp "$source/tests/fuzz/corpus/record/rejected.json" "$dir/b.json"
"$program" report "$dir" --title "Browser test" > /dev/null

page() {  # the document after its scripts ran; messages of the console into $dir/console
  "$browser" --headless --no-sandbox --disable-gpu --user-data-dir="$dir/profile" \
    --virtual-time-budget=5000 --enable-logging=stderr --dump-dom "file://$dir/report.html$1" \
    2> "$dir/console"
}
fail() { echo "report_browser: $1" >&2; exit 1; }
rows() { grep -o '<tbody>.*</tbody>' "$dir/dom" | grep -o '<tr' | wc -l; }

page '' > "$dir/dom"
grep -q 'data-ready="yes"' "$dir/dom" || fail "the page's script did not finish: $(grep CONSOLE "$dir/console")"
if grep -q CONSOLE "$dir/console"; then fail "console: $(grep CONSOLE "$dir/console")"; fi
[ "$(rows)" = 2 ] || fail "$(rows) rows instead of 2"
grep -q '<title>Browser test</title>' "$dir/dom" || fail "a name in a record ran as code"
if grep -q '<img' "$dir/dom"; then fail "a name in a record became markup"; fi
[ "$(grep -c '<canvas' "$dir/dom")" -ge 1 ] || fail "no charts"

page '#filter=rejected' > "$dir/dom"
[ "$(rows)" = 1 ] || fail "the filter left $(rows) rows instead of 1"
first() { grep -o '<tbody>.*</tbody>' "$dir/dom" | grep -o '<td class="text">[a-zA-Z]*</td>' | head -1; }
page '#sort=tokens/s' > "$dir/dom"
[ "$(first)" = '<td class="text">ok</td>' ] || fail "sorting by tokens/s put $(first) first"
page '#sort=tp' > "$dir/dom"
[ "$(first)" != '<td class="text">ok</td>' ] || fail "sorting by tp put $(first) first"
