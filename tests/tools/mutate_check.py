#!/usr/bin/env python3
"""tools/mutate on a project of its own: what it plants and what it leaves alone, what compiles, what tests see.

  mutate_check.py SOURCE_DIR
"""
import argparse, json, os, shutil, subprocess, sys, tempfile

SOURCE = sys.argv[1]
sys.path.insert(0, os.path.join(SOURCE, "tools/mutation"))
import faults, gpu, plant, tests

CODE = """#include <vector>  // and nothing of ours
// if (a < b) in a comment
constexpr int kSize = 4;
constexpr int kWidth = 30;
int table[kSize];
struct Sum {
  int value = 7;  // nobody looks
  explicit Sum(int begin) : begin_(begin) {}
  int begin_;
};
int clamp(int x, int low, int high) {
  if (x < low) return low;
  return x > high ? high : x;
}
template <class T> T largest(const std::vector<T>& values) {
  T most = values[0];
  for (const T& v : values) most = most < v ? v : most;
  return most;
}
int same(int x) { return x * 1; }
int count(int n) {
  Sum sum(0);
  int all = 0;
  const auto add = [&](int by) { all += by; };
  for (int i = 0; i < n; ++i) {
    if (i == 3 && n > 5) continue;
    add(i);
  }
  if (all < 0) throw all - 1;
  return all + sum.begin_ + kWidth;
}
"""
MAIN = """#include <cstdlib>
#include <cstring>
#include <vector>
int clamp(int x, int low, int high);
int count(int n);
int same(int x);
int main(int, char** words) {
  if (std::strcmp(words[1], "clamp") == 0) return clamp(1, 2, 5) != 2 || clamp(9, 2, 5) != 5 || clamp(4, 2, 5) != 4;
  if (std::strcmp(words[1], "count") == 0) return count(4) != 36 || count(7) != 48 || same(3) != 3;
  return 1;  // fails in any case
}
"""
CMAKE = """cmake_minimum_required(VERSION 3.16)
project(small CXX)
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
include_directories(src)
add_executable(small src/base/code.cpp src/base/main.cpp)
enable_testing()
foreach(word clamp count always)
  add_test(NAME ${word} COMMAND small ${word})
endforeach()
"""


def fail(text):
    sys.exit(f"mutate_check: {text}")


def expect(what, found, wanted):
    if found != wanted:
        fail(f"{what}: {found!r} instead of {wanted!r}")


def lines_with(found, line):
    return sorted({(f.kind, f.after) for f in found if f.line == line})


def what_is_found():
    found = faults.faults_of("code.cpp", CODE)
    expect("a comment", lines_with(found, 2), [])
    expect("a template", [f.after for f in found if f.line == 15], [])
    expect("a message", lines_with(found, 29), [("boundary", "if (all <= 0) throw all - 1;"),
                                                ("comparison", "if (all >= 0) throw all - 1;"),
                                                ("constant", "if (all < 1) throw all - 1;"),
                                                ("negated", "if (!(all < 0)) throw all - 1;")])
    for kind, after in [("boundary", "for (int i = 0; i <= n; ++i) {"), ("logic", "if (i == 3 || n > 5) continue;"),
                        ("dropped", ";"), ("dropped", "if (i == 3 && n > 5) ;"), ("early return", "if (x < low) ;"),
                        ("constant", "constexpr int kWidth = 31;"), ("sign", "return all - sum.begin_ + kWidth;"),
                        ("reset", "const auto add = [&](int by) { all = by; };"), ("factor", "int same(int x) { return x / 1; }"),
                        ("constant", "int value = 8;")]:
        if not any(f.kind == kind and f.after == after for f in found):
            fail(f"no fault '{kind}: {after}'")
    script = faults.faults_of_script("a.js", "if (a === /['\"<]/.test(b)) {\n  draw(`${a < b}`, 2);\n}\n")
    expect("a script", sorted((f.kind, f.after) for f in script if f.kind != "swapped"),
           [("comparison", "if (a !== /['\"<]/.test(b)) {"), ("constant", "draw(`${a < b}`, 1);"),
            ("constant", "draw(`${a < b}`, 3);"), ("dropped", "")])


def what_is_planted(folder):
    """A choice at run time does what the changed text would do, and lines keep their numbers."""
    found = [f for f in faults.faults_of("code.cpp", CODE) if f.line in (12, 13, 24, 25, 26, 27, 30)]
    for number, fault in enumerate(found, 1):
        fault.number = number
    text = plant.planted(CODE, found, "mutants.h")
    expect("lines", text.count("\n"), CODE.count("\n") + 2)
    with open(os.path.join(folder, "mutants.h"), "w") as file:
        file.write(plant.HEADER.replace("STRETTO_MUTANTS)", "999)").replace("STRETTO_MUTANTS,", "999,") + plant.HOST_CHOICE)
    show = '\n#include <cstdio>\nint main() { std::printf("%d %d %d %d %d", clamp(1, 2, 5), clamp(2, 2, 5), clamp(9, 2, 5), count(4), count(7)); }\n'

    def printed(text, name, mutant):
        with open(os.path.join(folder, name + ".cpp"), "w") as file:
            file.write(text + show)
        if mutant in (0, None):
            subprocess.run(["c++", "-std=c++20", "-w", "-o", name, name + ".cpp"], cwd=folder, check=True)
        return subprocess.run(["./" + name], cwd=folder, capture_output=True, text=True, timeout=60,
                              env={**os.environ, "STRETTO_MUTANT": str(mutant or 0)}).stdout

    expect("no fault", printed(text, "all", 0), "2 2 5 36 48")
    ends = [f for f in found if "++" not in f.after or "!(" not in f.after][::6]
    for fault in ends:
        alone = CODE
        for start, end, words in sorted(fault.edits, reverse=True):
            alone = alone[:start] + words + alone[end:]
        expect(f"line {fault.line}, {fault.after}", printed(text, "all", fault.number), printed(alone, "one", None))


def what_tests_see(folder):
    """The whole tool: a fault that a test sees, one that none sees, one that changes nothing, one that does not compile."""
    for path, text in [("src/base/code.cpp", CODE), ("src/base/main.cpp", '#include "base/main.h"\n' + MAIN), ("src/base/main.h", ""), ("CMakeLists.txt", CMAKE),
                       ("apps/none.txt", ""), (".gitignore", "/.cache/\n__pycache__/\n"), ("tests/none.txt", "")]:
        os.makedirs(os.path.dirname(os.path.join(folder, path)) or folder, exist_ok=True)
        with open(os.path.join(folder, path), "w") as file:
            file.write(text)
    shutil.copytree(os.path.join(SOURCE, "tools/mutation"), os.path.join(folder, "tools/mutation"),
                    ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy2(os.path.join(SOURCE, "tools/mutate"), os.path.join(folder, "tools/mutate"))
    git = ["git", "-C", folder, "-c", "user.name=a", "-c", "user.email=a@example.org"]
    for words in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "small"]):
        subprocess.run(git + words, check=True)
    with open(os.path.join(folder, "src/base/code.cpp"), "a") as file:  # not committed, and planted in all the same
        file.write("int later(int x) { return x + 5; }\n")
    result = os.path.join(folder, ".cache/result.json")
    os.makedirs(os.path.dirname(result))
    done = subprocess.run([os.path.join(folder, "tools/mutate"), "src/base/code.cpp", "--count", "99", "--seed", "3", "--json", result],
                          capture_output=True, text=True)
    if done.returncode != 0:
        fail(done.stderr)
    with open(result) as file:
        found = json.load(file)["faults"]
    verdicts = {}
    for f in found:
        verdicts[f["line"]] = f["verdict"]
    expect("the size of an array", 3 in verdicts, False)  # it takes no choice at run time
    expect("a wrong sum", verdicts[30], "seen")
    expect("a value that nobody looks at", verdicts[7], "same")
    expect("the same machine code", verdicts[20], "same")
    expect("what is not committed", verdicts[32], "unseen")
    if "always fails without a fault" not in done.stderr:
        fail("it is not said that a test fails without a fault")
    expect("tests that see", {f["seen_by"] for f in found if f["verdict"] == "seen"} <= {"clamp", "count"}, True)
    expect("worktrees left behind", len(subprocess.run(git + ["worktree", "list"], capture_output=True, text=True).stdout.splitlines()), 1)
    expect("the source", subprocess.run(git + ["status", "--short"], capture_output=True, text=True).stdout, " M src/base/code.cpp\n")


def what_hangs(folder):
    """A test that hangs sees the fault; one that would have failed anyway does not."""
    runner = tests.Runner(folder)
    runner.least = 1
    fault = faults.Fault("src/base/a.cpp", "sign", 1, [])
    fault.number, fault.module = 5, "base"

    def judged(script):
        fault.seen_by, fault.how, fault.doubts, fault.tests, fault.left_out = "", "", [], 0, []
        test = tests.Test("one", (("sh", "-c", script), (), folder), "", "base", [], 77, 0.01, frozenset({5}))
        tests.judge(fault, [test], runner, 60)
        return fault.seen_by, fault.how, fault.doubts

    expect("a failure", judged("[ $STRETTO_MUTANT != 5 ]"), ("one", "fails", []))
    expect("a loop", judged("while [ $STRETTO_MUTANT = 5 ]; do :; done"), ("one", "hangs", []))
    expect("a signal", judged("[ $STRETTO_MUTANT != 5 ] || kill -SEGV $$"), ("one", "ends with a signal", []))
    expect("a skipped test", judged("exit 77"), ("", "", []))
    expect("a test that fails anyway", judged("exit 1"), ("", "", ["one"]))


def what_a_gpu_judges(folder):
    """Over tools/gpu-check with stand-ins for the programs: one fault fails a test, one hangs, one is not seen."""
    for name in ("stretto", "test_cpu_ops", "test_cpu_matmul", "test_cuda_gpu"):
        with open(os.path.join(folder, name), "w") as file:
            file.write("#!/bin/sh\n[ \"$1\" != version ] || exit 0\n[ $STRETTO_MUTANT != 1 ] || exit 1\n[ $STRETTO_MUTANT != 2 ] || exec sleep 60\n")
        os.chmod(os.path.join(folder, name), 0o755)
    with open(os.path.join(folder, "nvidia-smi"), "w") as file:
        file.write("#!/bin/sh\n")
    os.chmod(os.path.join(folder, "nvidia-smi"), 0o755)
    os.environ["PATH"] = folder + os.pathsep + os.environ["PATH"]
    bundle = os.path.join(folder, "bundle.tar.xz")
    subprocess.run(["tar", "-C", folder, "-cJf", bundle, "stretto", "test_cpu_ops", "test_cpu_matmul", "test_cuda_gpu"], check=True)
    listed = [{"path": "a.cu", "line": n, "number": n, "verdict": "open", "seen_by": "", "how": ""} for n in (1, 2, 3)]
    with open(bundle + ".json", "w") as file:
        json.dump({"faults": listed}, file)
    gpu.PARTS, gpu.LEAST = ["operators"], 2
    options = argparse.Namespace(jobs=3, seconds=100, json=os.path.join(folder, "found.json"))
    gpu.judge(SOURCE, bundle, options, lambda text: None)
    with open(options.json) as file:
        found = [(f["verdict"], f["seen_by"], f["how"]) for f in json.load(file)["faults"]]
    expect("what gpu-check sees", found, [("seen", "operators", "fails"), ("seen", "operators", "hangs"), ("unseen", "", "")])


what_is_found()
for check in (what_a_gpu_judges, what_is_planted, what_hangs, what_tests_see):
    with tempfile.TemporaryDirectory() as temporary:
        check(temporary)
