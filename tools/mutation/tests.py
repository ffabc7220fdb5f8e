"""The tests that ctest knows: what each one reaches, and whether one of them sees a fault."""
import json, os, re, shutil, signal, subprocess, tempfile, threading, time
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

CASE = "--gtest_filter="


@dataclass
class Test:
    name: str
    program: tuple  # command, environment, folder: what tests may share a process
    case: str  # of GoogleTest, or ""
    module: str
    labels: list
    skip_code: int = -1
    seconds: float = 0
    reached: frozenset = frozenset()


@dataclass
class Outcome:
    code: int  # 0: passed; what a signal ended has minus its number
    seconds: float
    output: str
    hung: bool = False


def listed(build):
    """Every test whose program is built."""
    shown = json.loads(subprocess.run(["ctest", "--show-only=json-v1"], cwd=build, check=True, capture_output=True).stdout)
    found = []
    for entry in shown["tests"]:
        command = entry.get("command")
        if not command or not all(os.path.exists(w) for w in command if w.startswith(build + "/")):
            continue
        properties = {p["name"]: p["value"] for p in entry["properties"]}
        case = next((w[len(CASE):] for w in command if w.startswith(CASE)), "")
        words = tuple(w for w in command if not w.startswith("--gtest_"))
        program = (words, tuple(properties.get("ENVIRONMENT", [])), properties.get("WORKING_DIRECTORY", build))
        where = re.search(r"/tests/(\w+)/", " ".join(command))
        found.append(Test(entry["name"], program, case, where.group(1) if where else "", properties.get("LABELS", []),
                          int(properties.get("SKIP_RETURN_CODE", -1))))
    return found


class Runner:
    """Starts tests, each process tree in a namespace of its own where the system allows that: a fault may end or leave
    processes."""

    def __init__(self, scratch):
        self.scratch, self.least = scratch, 5  # seconds of CPU time that any test may have
        self.apart = []
        alone = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]
        if shutil.which("unshare") and subprocess.run([*alone, "true"], capture_output=True).returncode == 0:
            self.apart = [*alone, "sh", "-c", '"$@"; exit $?', "sh"]  # the first process there gets few signals
        self.limits = shutil.which("prlimit")

    def run(self, program, cases, expected, mutant=0, reached=None):
        """`expected` seconds without a fault; ten times as many end it."""
        words, environment, folder = program
        command = list(words)
        if cases:
            command += [CASE + ":".join(cases), "--gtest_fail_fast", "--gtest_also_run_disabled_tests"]
        if self.limits:  # of a process: seconds of CPU time, memory, files
            most = int(self.least + 10 * expected)
            command = [self.limits, f"--cpu={most}:{most + 2}", f"--as={8 << 30}", f"--fsize={8 << 30}", "--core=0",
                       *command]
        own = tempfile.mkdtemp(dir=self.scratch)
        variables = {**os.environ, **dict(v.split("=", 1) for v in environment), "TMPDIR": own, "STRETTO_MUTANT": str(mutant)}
        if reached:
            variables["STRETTO_MUTANTS_REACHED"] = reached
        started, hung = time.monotonic(), False
        with open(os.path.join(own, "output"), "w+b") as output:
            process = subprocess.Popen([*self.apart, *command], stdout=output, stderr=subprocess.STDOUT, cwd=folder,
                                       stdin=subprocess.DEVNULL, env=variables, start_new_session=True)
            try:
                code = process.wait(40 + 15 * expected)
            except subprocess.TimeoutExpired:
                hung = True
            finally:  # the whole group, whatever came of it
                try:
                    os.killpg(process.pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
                code = process.wait()
            seconds = time.monotonic() - started
            size = output.seek(0, os.SEEK_END)
            output.seek(max(0, size - 200000))
            text = output.read().decode(errors="replace")
        shutil.rmtree(own, ignore_errors=True)
        code = 128 - code if code > 128 else code  # of a shell: 128 and the signal
        hung = hung or code == -signal.SIGXCPU
        return Outcome(-signal.SIGKILL if hung else code, seconds, text, hung)


def survey(tests, runner, count, jobs, say):
    """Runs every test once without a fault, and notes which faults it reaches. Returns the tests that passed."""
    done = []

    def one(test):
        path = tempfile.mktemp(dir=runner.scratch)
        outcome = runner.run(test.program, [test.case] if test.case else [], 30, 0, path)
        try:
            with open(path, "rb") as file:
                marks = file.read()
            os.remove(path)
        except FileNotFoundError:
            marks = b""
        test.seconds = outcome.seconds
        test.reached = frozenset(i for i in range(1, min(len(marks), count + 1)) if marks[i])
        done.append(test)
        if len(done) % 100 == 0:
            say(f"{len(done)} of {len(tests)} tests run without a fault")
        if outcome.code == test.skip_code:
            return None
        if outcome.code != 0:
            say(f"{test.name} fails without a fault ({outcome.code}) and is left out")
            return None
        return test

    with ThreadPoolExecutor(jobs) as pool:
        return [test for test in pool.map(one, tests) if test]


def batches(tests, module):
    """Tests in the order in which they are most likely to notice soon: those of the module, then quick ones; cases of one
    program share processes of a few seconds."""
    found = []
    for own in (True, False):
        groups = defaultdict(list)
        for test in sorted((t for t in tests if (t.module == module) == own), key=lambda t: t.seconds):
            groups[test.program if test.case else test.name].append(test)
        cut = []
        for group in groups.values():
            batch = []
            for test in group:
                if batch and (sum(t.seconds for t in batch) + test.seconds > 3 or len(batch) == 40):
                    cut.append(batch)
                    batch = []
                batch.append(test)
            cut.append(batch)
        found += sorted(cut, key=lambda batch: sum(t.seconds for t in batch))
    return found


def failing(batch, output):
    """The test of a batch that the output names."""
    names = re.findall(r"^\[  FAILED  \] (\S+?)(?:,|$| \()", output, re.M) or re.findall(r"^\[ RUN      \] (\S+)", output, re.M)[-1:]
    return next((t for t in batch if t.case and t.case in names), batch[0] if len(batch) == 1 else None)


def judge(fault, tests, runner, limit):
    """Runs the tests that reach a fault until one sees it."""
    reaching = sorted((t for t in tests if fault.number in t.reached), key=lambda t: (t.module != fault.module, t.seconds))
    taken, spent = [], 0
    for test in reaching:
        if spent + test.seconds <= limit or not taken:
            taken.append(test)
            spent += test.seconds
    fault.tests, fault.left_out = len(reaching), [t.name for t in reaching if t not in taken]
    for batch in batches(taken, fault.module):
        expected = sum(t.seconds for t in batch)
        outcome = runner.run(batch[0].program, [t.case for t in batch if t.case], expected, fault.number)
        if outcome.code in (0, batch[0].skip_code):
            continue
        test = failing(batch, outcome.output)
        again = [test] if test else batch  # would they fail anyway?
        without = runner.run(again[0].program, [t.case for t in again if t.case], sum(t.seconds for t in again), 0)
        if without.code != 0:
            fault.doubts.append((test or batch[0]).name)
            continue
        fault.seen_by = test.name if test else f"{batch[0].program[0][0].split('/')[-1]} ({len(batch)} cases)"
        fault.how = "hangs" if outcome.hung else "ends with a signal" if outcome.code < 0 else "fails"
        return
