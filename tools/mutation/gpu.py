"""Faults in CUDA code: built and packed on a machine without a GPU, judged by tools/gpu-check on one with."""
import json, os, re, shutil, signal, subprocess, tempfile, threading, time
from concurrent.futures import ThreadPoolExecutor

TARGETS = ["test_cpu_ops", "test_cpu_matmul", "test_cuda_gpu", "test_golden", "test_gpu_train", "test_train", "test_topology",
           "stretto"]
PARTS = ["operators", "training"]
LEAST = 30  # seconds for all checks of a fault, or three times what they take without one


def pack(tree, drawn, jobs, bundle):
    """Builds programs with all the faults in them and packs them. Returns the faults that compiled."""
    frontend = os.path.join(tree.source, ".cache/cudnn-frontend/include")
    if os.path.isdir(frontend):
        os.environ.setdefault("CUDNN_FRONTEND_PATH", frontend)
    tree.configure(["-DSTRETTO_CUDA=ON", "-DCMAKE_CUDA_ARCHITECTURES=90a-real", "-DSTRETTO_TESTS=ON"])
    planted = tree.build_with(drawn, TARGETS, jobs, device=True)
    compiled = tree.compiled()
    subprocess.run([os.path.join(tree.root, "tools/gpu-bundle"), tree.build, bundle], check=True, stdout=2)
    return [f for f in planted if f.path in compiled]


class Judge:
    def __init__(self, source, bundle, scratch):
        self.source, self.scratch = source, scratch
        script = 'logs=; bundle=$0; . tools/gpu-programs.sh >&2; printf "%s\\n%s\\n" "$programs" "$LD_LIBRARY_PATH"'
        done = subprocess.run(["bash", "-c", script, os.path.abspath(bundle)], cwd=source, check=True, stdout=subprocess.PIPE,
                              text=True, env={**os.environ, "OUT": scratch})
        self.programs, self.libraries = done.stdout.split("\n")[-3:-1]

    def check(self, mutant, limit, cache=None):
        """The output of gpu-check, up to the first check that fails, and its exit code."""
        own = tempfile.mkdtemp(dir=self.scratch)
        if cache and os.path.isdir(cache):
            shutil.copytree(cache, os.path.join(own, "cache"))
        variables = {**os.environ, "STRETTO_PROGRAMS": self.programs, "LD_LIBRARY_PATH": self.libraries, "OUT": own,
                     "XDG_CACHE_HOME": os.path.join(own, "cache"), "STRETTO_MUTANT": str(mutant), "TMPDIR": own,
                     "STRETTO_CHECK_ENDS": str(int(time.time() + limit))}
        words = [os.path.join(self.source, "tools/gpu-check"), "--first"]
        for part in PARTS:
            words += ["--only", part]
        process = subprocess.Popen(words, env=variables, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                   errors="replace", start_new_session=True)
        try:
            output = process.communicate(timeout=limit + 30)[0]
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            output = process.communicate()[0]
        return process.returncode, output, own


def judge(source, bundle, options, say):
    """Judges what a bundle carries, `jobs` at a time, until the time is over. Returns what is written as JSON."""
    with open(bundle + ".json", encoding="utf-8") as file:
        result = json.load(file)
    ends = time.time() + options.seconds
    scratch, lock = tempfile.mkdtemp(prefix="mutate-"), threading.Lock()
    checker = Judge(source, bundle, scratch)
    say("without a fault")
    # As many at once as later, so that they take as long.
    with ThreadPoolExecutor(options.jobs) as pool:
        started = time.time()
        sound = list(pool.map(lambda _: checker.check(0, options.seconds / 2), range(options.jobs)))
        took = time.time() - started
    if any(code != 0 for code, _, _ in sound):
        raise SystemExit("mutate: gpu-check fails without a fault:\n" + next(out for code, out, _ in sound if code != 0)[-4000:])
    cache = os.path.join(sound[0][2], "cache")
    say(f"all checks pass without a fault, in {took:.0f} s")

    def one(fault):
        if fault["verdict"] != "open" or time.time() > ends - took:
            return
        code, output, own = checker.check(fault["number"], min(max(LEAST, 3 * took), ends - time.time()), cache)
        shutil.rmtree(own, ignore_errors=True)
        late = time.time() > ends - 5 and "no time was left" in output
        failure = re.search(r"^==== (.*?): exit (-?\d+)", output, re.M)
        fault["verdict"] = "open" if late else "seen" if code else "unseen"
        fault["seen_by"] = failure.group(1) if failure else "gpu-check" if code else ""
        hung = code < 0 or failure and failure.group(2) in ("124", "137")
        fault["how"] = "" if not code else "hangs" if hung else "fails"
        say(f"{fault['verdict']} {fault['path']}:{fault['line']} {fault['seen_by']}")
        if options.json:
            with lock, open(options.json, "w", encoding="utf-8") as file:
                json.dump(result, file, indent=1)

    with ThreadPoolExecutor(options.jobs) as pool:
        list(pool.map(one, result["faults"]))
    shutil.rmtree(scratch, ignore_errors=True)
    return result
