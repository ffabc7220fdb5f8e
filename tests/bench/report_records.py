"""Writes the records of the pages that report_browser.sh opens: report_records.py CORPUS OUT, each page's into OUT/NAME."""
import copy, json, os, sys
corpus, out = sys.argv[1:]
good = json.load(open(f"{corpus}/dp2.json"))
rejected = json.load(open(f"{corpus}/rejected.json"))
hostile = ["<img src=x onerror=globalThis.pwned=1>", "</script><script>globalThis.pwned=2</script>",
           "=HYPERLINK(\"http://x\")", "\x1b[31mred\x1b[0m", "'\"&<!--", "javascript:globalThis.pwned=3"]
def pipeline(record, p):
    record["timeline"] = [[[0, m, 0, m + s, m + s + 1] for m in range(4)] +
                          [[1, m, 0, 8 + 2 * m - s, 10 + 2 * m - s] for m in range(4)] for s in range(p)]
def write(name, count):  # names of every kind that could hurt
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
for i, (label, dp, tp, pp, zero, millis) in enumerate([  # a sweep as people run it, on one rank or cut over more
        ("one-rank", 1, 1, 1, 0, 37), ("dp2", 2, 1, 1, 0, 21), ("dp2-zero1", 2, 1, 1, 1, 20), ("dp2-zero3", 2, 1, 1, 3, 27),
        ("tp2", 1, 2, 1, 0, 25), ("pp2", 1, 1, 2, 0, 30), ("pp4", 1, 1, 4, 0, 33), ("tp2-pp2", 1, 2, 2, 0, 35)]):
    def layout(r):
        r["label"], r["started"], r["predicted"] = label, f"2026-04-01T12:0{i}:00Z", {"seconds": 0.05, "low": 0.04, "high": 0.06}
        r["command"] = ["stretto", "bench", "tiny", f"parallel.dp={dp}"]
        r["config"]["parallel"].update(dp=dp, tp=tp, pp=pp, zero=zero)
        r["machine"] = {"cpu": {"usable": 4}, "memory": {"total_bytes": 8e9},
                        "measured": {"gemm_flops": 1e11, "triad_bytes_per_second": 1e10, "message_seconds": 2e-6, "message_bytes_per_second": 1e10}}
        r["attribution"]["comm_tp"]["seconds"] += 0.004 * i
        seconds = r["steps"]["seconds"]
        r["steps"]["seconds"] = [millis * (1 + 0.002 * (k % 5)) / 1e3 for k in range(len(seconds))]
        r["memory"].update(grown_rank=(30 + 2 * i) << 20, grown_total=(30 + 2 * i) * dp * tp * pp << 20)
        r["operators"] = {"linear_forward": {"calls": 8, "seconds": 8e-3, "flops": 2e8, "bytes": 4e6},
                          "attention_forward": {"calls": 4, "seconds": 2e-3, "flops": 2e7, "bytes": 8e6}}
        if pp > 1: pipeline(r, pp)
        if pp == 4: r["timeline"] = [stage[:-1] for stage in r["timeline"]]  # another share of it is idle
        if label == "dp2-zero3": r["config"]["activation_checkpointing"] = "full"
        if label == "tp2-pp2":
            r["cores"] = {"usable": 4, "wanted": 4, "others": 2.5, "idle": 0}
    keep("sweep", i, layout)
for i, (label, status) in enumerate([("tp3", "rejected"), ("too-large", "OOM"), ("lost", "killed")]):
    def failed(r):
        r["label"], r["status"], r["exit_code"], r["reason"], r["steps"] = label, status, 80, f"spec.yaml:1:2 {label} cannot; fix: leave it", rejected["steps"]
        r["config"]["parallel"].update(dp=1, tp=3 if label == "tp3" else 1, zero=0)
        r["config"]["seed"], r["log_tail"] = i, f"last words of {label}"
        del r["attribution"]
    keep("sweep", 20 + i, failed)
for i in range(3):
    def part(r):
        r["label"], r["command"], r["started"] = "", ["stretto", "train", "tiny"], f"2026-04-01T1{2 + i}:00:00Z"
        r["config"]["output"], r["config"]["train"]["steps"], r["config"]["parallel"]["dp"] = "runs/a", 9 + i, 2 - i % 2
        r["peak_flops"] = r["gemm_flops"] = 0
        r["steps"]["seconds"] = [x * (1 + i) for x in r["steps"]["seconds"]]
        r["steps"]["first"] = (1, 9, 4985)[i]
        del r["attribution"]
    keep("training", i, part)
names = ("matmul", "attention", "other", "optimizer", "copy", "comm_dp", "comm_tp", "comm_pp", "data", "host")
with open(f"{out}/training/metrics.jsonl", "w") as lines:  # 5000 steps, of which records keep the first few
    for step in range(1, 5001):
        loss = 9 if step == 2345 else 5 - step / 2500
        times = {name: (4 if name == "matmul" else 1) * 1e-3 for name in names}
        print(json.dumps({"step": step, "loss": loss, "times": times}), file=lines)
        if step % 1000 == 0: print(json.dumps({"step": step, "eval_loss": 3.5 - 0.25 * step / 1000 + 0.5 * (step == 5000)}), file=lines)
    print('{"step": 5000, "checkpoint": {}}\n{"step": 5001, "loss": 1', end="", file=lines)
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
