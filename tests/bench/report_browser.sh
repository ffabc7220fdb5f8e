#!/usr/bin/env bash
# The page of `stretto report` in a real browser: it draws without a word on the console, sorts,
# filters, and shows hostile names as text; a page of 500 rows; pages of many long names, of parts of
# one training run and of a single run; the axis of memory beside a run that does not fit. Times are
# printed, not judged.
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

page() {  # NAME CHECKS WIDTH: runs the checks in NAME/report.html
  local nonce result console
  "$program" report "$dir/$1" --title "Browser test" > /dev/null
  nonce=$(grep -o "nonce-[0-9a-f]*" "$dir/$1/report.html" | head -n 1)
  {
    sed 's|</body>||; s|</html>||' "$dir/$1/report.html"
    printf '<script nonce="%s">' "${nonce#nonce-}"
    cat "$source/tests/bench/$2"
    printf '</script></body></html>\n'
  } > "$dir/$1/checked.html"
  timeout 120 "$browser" --headless --no-sandbox --disable-gpu --user-data-dir="$dir/profile" \
    --window-size=$3,4000 --enable-logging=stderr --dump-dom "file://$dir/$1/checked.html" \
    > "$dir/dom" 2> "$dir/messages" || fail "$1: the browser ended with $?"
  result=$(grep -o 'data-result="[^"]*"' "$dir/dom" | head -n 1) || fail "$1: the checks did not run: $(grep CONSOLE "$dir/messages")"
  [ "$result" = 'data-result="ok"' ] || fail "$1: $result"
  console=$(grep CONSOLE "$dir/messages" || true)
  [ -z "$console" ] || fail "$1: console: $console"
  echo "report_browser: $1: ok; $(stat -c %s "$dir/$1/report.html") bytes," \
    "open after $(grep -o 'data-opened="[0-9]*"' "$dir/dom" | tr -dc 0-9) ms"
}

# Records with every kind of name that could hurt.
python=$(command -v python3) || { echo "report_browser: SKIPPED: no python3" >&2; exit 77; }
"$python" - "$source/tests/fuzz/corpus/record" "$dir" << 'END'
import copy, json, os, sys
corpus, out = sys.argv[1:]
good = json.load(open(f"{corpus}/dp2.json"))
rejected = json.load(open(f"{corpus}/rejected.json"))
hostile = ["<img src=x onerror=globalThis.pwned=1>", "</script><script>globalThis.pwned=2</script>",
           "=HYPERLINK(\"http://x\")", "\x1b[31mred\x1b[0m", "'\"&<!--", "javascript:globalThis.pwned=3"]
def pipeline(record, p):
    record["timeline"] = [[[0, m, 0, m + s, m + s + 1] for m in range(4)] +
                          [[1, m, 0, 8 + 2 * m - s, 10 + 2 * m - s] for m in range(4)] for s in range(p)]
def write(name, count):
    os.makedirs(f"{out}/{name}")
    for i in range(count):
        r = copy.deepcopy(rejected if i % 5 == 4 else good)
        r["label"] = hostile[i % 6] if i < 12 else f"run {i}"
        r["config"]["seed"] = i
        r["config"]["parallel"]["tp"] = 1 + i % 4
        if i % 5 == 3: r["config"]["parallel"]["pp"] = 2; pipeline(r, 2)
        if i % 5 == 2:  # the fastest of all, which learned nothing
            r["label"], r["status"], r["reason"] = f"fast {i}", "fail", "the loss did not fall"
            r["steps"]["seconds"] = [1e-6 for _ in r["steps"]["seconds"]]
        r["reason"] = (r["reason"] + " " + hostile[i % 6]) if r["reason"] else ""
        r["log_tail"] = hostile[(i + 1) % 6]
        r["machine"] = {"cpu": {"usable": 2}, "memory": {"total_bytes": 8e9},
                        "measured": {"gemm_flops": 1e11, "triad_bytes_per_second": 1e10}}
        r["gemm_flops"] = 5e10
        r["operators"] = {"linear_forward": {"calls": 8, "seconds": 1e-3, "flops": 5e7, "bytes": 1e6},
                          "adamw": {"calls": 1, "seconds": 1e-4, "flops": 1e5, "bytes": 1e6}}
        r["predicted"] = {"seconds": 0.05, "low": 0.04, "high": 0.06}
        json.dump(r, open(f"{out}/{name}/{i:04}.json", "w"))
write("hostile", 12)
write("rows500", 500)

def keep(name, i, change):
    os.makedirs(f"{out}/{name}", exist_ok=True)
    r = copy.deepcopy(good)
    r["machine"] = {"measured": {"gemm_flops": 1e11, "triad_bytes_per_second": 1e10}}
    r["gemm_flops"] = 5e10
    change(r)
    json.dump(r, open(f"{out}/{name}/{99 - i:04}.json", "w"))  # the last is found first
for i in range(20):
    def point(r):
        r["label"] = f"seq_len32_precisionamp_bf16_dp{i}_activation_checkpointingselective"
        r["config"]["threads"] = 1 + i  # changes nothing that is learned
        r["config"]["seq_len"] //= 1 + i % 2
        r["operators"] = {"linear_forward": {"calls": 8, "seconds": 1e-3, "flops": 9e7, "bytes": 1e6}}
    keep("long", i, point)
for i in range(3):
    def part(r):
        r["label"], r["command"], r["started"] = "", ["stretto", "train", "tiny"], f"2026-04-01T1{2 + i}:00:00Z"
        r["config"]["output"], r["config"]["train"]["steps"], r["config"]["parallel"]["dp"] = "runs/a", 9 + i, 2 - i % 2
        r["peak_flops"] = r["gemm_flops"] = 0
        r["steps"]["seconds"] = [x * (1 + i) for x in r["steps"]["seconds"]]
    keep("training", i, part)
def one(r):
    r["label"], r["predicted"] = "run", {"seconds": 0.05, "low": 0.04, "high": 0.06}
keep("single", 0, one)
for i in range(4):  # three that ran and one that needs far more; the limits of two pages are near and far
    def sized(r):
        r["label"], r["config"]["seed"], m = f"size {i}", i, r["memory"]
        m["predicted_rank"] = (400, 500, 600, 90000)[i] << 20
        m["predicted_terms"] = {term: m["predicted_rank"] * (term == "weights") for term in m["predicted_terms"]}
        m["grown_rank"] = m["grown_total"] = (450, 700, 550, 0)[i] << 20
        m["limit"] = limit << 20
        if i == 3: r["status"], r["exit_code"], r["reason"], r["steps"] = "OOM", 80, "too large", rejected["steps"]
    for name, limit in (("near", 1000), ("far", 5000)): keep(name, i, sized)
END
page hostile report_browser.js 1280
page rows500 report_browser.js 1280
page long report_pages.js 500
page training report_pages.js 1280
page single report_pages.js 1280
page near report_memory.js 1280
page far report_memory.js 1280
