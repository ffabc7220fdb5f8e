#!/usr/bin/env python3
"""Finds what scripts call and no package brings: programs of this machine that neither the base system nor a set
of tools/setup installs, and Python modules that are not Python's own.

  needs_check.py SOURCE_DIR

A script may do without what it asks for first (`command -v NAME`), and without a module that it names beside the word
"Needs". Commands are found by looking, not by parsing: words that are no program here are taken for something else.
Exit code: 0 nothing, 1 something; 125: this is no Debian.
"""
import glob
import os
import re
import shutil
import subprocess
import sys

QUIET = [  # what holds no commands, in the order in which it is taken out
    (r"<<-?\s*(['\"]?)(\w+)\1(.*)\n(?:.*\n)*?\s*\2\n", r"\3\n"),  # here-documents
    (r"(?m)(^|\s)#.*", r"\1"),
    (r"\\.", "_"),
    (r"'[^']*'", "_"),
    (r"\$\{[^{}]*\}", "_"),
    (r"\(\([^()]*(?:\([^()]*\)[^()]*)*\)\)", "_"),
    (r"\[\[.*?\]\]", "_"),
    (r"(?m)^[ \t]*[\w*?.| -]+\)", ""),  # patterns of `case`
]
BEFORE = [r"(?:^|(?<!=)\(|[;|&`]|\$\()", r"(?:\b(?:if|then|else|elif|do|while|until|exec|time|nice|xargs|env)|!)\s",
          r"\btimeout\s+\S+\s"]  # a command
COMMANDS = [re.compile(before + r"\s*(?:\w+=\S*\s+)*([A-Za-z_][\w.+-]*)(?![\w.+/=(-])", re.M) for before in BEFORE]
IMPORT = re.compile(r"^\s*(?:import\s+(\w+(?:,\s*\w+)*)\s*$|from\s+(\w+)[\w.]*\s+import\s)", re.M)


def commands(text):
    for pattern, instead in QUIET:
        text = re.sub(pattern, instead, text)
    # Of quoted text only what is substituted.
    text = re.sub(r'"[^"]*"', lambda q: " ".join(re.findall(r"\$\([^()]*\)", q.group())) or "_", text)
    return {word for pattern in COMMANDS for word in pattern.findall(text)}


def packages():
    """Installed packages: name -> (essential or required, names of which each group is needed)."""
    form = "${Package}\t${Essential} ${Priority}\t${Pre-Depends}, ${Depends}\t${Provides}\n"
    known, provided = {}, {}
    for line in subprocess.check_output(["dpkg-query", "-W", "-f", form], text=True).splitlines():
        name, priority, needs, provides = line.split("\t")
        words = [[re.split(r"[ :(]", w.strip())[0] for w in group.split("|")] for group in needs.split(",")]
        known[name] = ("yes" in priority or "required" in priority, words)
        for virtual in re.findall(r"[\w.+-]+(?=\s*[(,]|$)", provides):
            provided.setdefault(virtual, []).append(name)
    return known, provided


def brought(wanted, known, provided):
    """The packages wanted, and all that they need in turn."""
    found, todo = set(), list(wanted)
    while todo:
        name = todo.pop()
        if name in provided and name not in known:
            todo += provided[name]
        if name in found or name not in known:
            continue
        found.add(name)
        todo += [word for group in known[name][1] for word in group]
    return found


def programs_of(names):
    out = set()
    for name in names:
        for listing in glob.glob(f"/var/lib/dpkg/info/{name}.list") + glob.glob(f"/var/lib/dpkg/info/{name}:*.list"):
            with open(listing) as f:
                out.update(path.strip() for path in f if re.match(r"(/usr)?/s?bin/", path))
    return {os.path.basename(p) for p in out}, {os.path.realpath(p) for p in out}


def main():
    root = sys.argv[1]
    if shutil.which("dpkg-query") is None:
        print("needs_check: SKIPPED: no dpkg-query")
        sys.exit(125)
    with open(os.path.join(root, "tools/setup")) as f:
        setup = f.read()
    first_sets = re.search(r"^build=\((.*?)^\)\s*^tests=\((.*?)^\)", setup, re.M | re.S).groups()
    tested, listed = (re.findall(r'"([a-z0-9.+-]+):[^"]+"', text) for text in (" ".join(first_sets), setup))
    known, provided = packages()
    base = [name for name, (required, _) in known.items() if required]
    # What other sets need in turn is not there for `make test`.
    names, paths = programs_of(brought(base + ["apt", "make"] + tested, known, provided) | set(listed))
    words = subprocess.check_output(["bash", "-c", "compgen -bk"], text=True).split()
    machine = os.pathsep.join(["/usr/sbin", "/sbin", os.environ["PATH"]])

    scripts = [os.path.join(root, ".ci/run")]
    for folder in ["tools", "tests"]:
        for parent, _, files in os.walk(os.path.join(root, folder)):
            scripts += [os.path.join(parent, name) for name in files]
    texts = {}
    for path in scripts:
        with open(path, errors="replace") as f:
            first = f.readline()
            if first.startswith("#!") or re.search(r"\.(sh|py)$", path):
                texts[path] = (first, f.read())
    functions = {name for _, text in texts.values() for name in re.findall(r"^\s*(\w+)\(\)", text, re.M)}
    local = {os.path.basename(path).split(".")[0] for path in texts}

    bad = []
    for path, (first, text) in sorted(texts.items()):
        asked = set(re.findall(r"command -v ['\"]?([\w.+-]+)", text))
        called = {first.split()[-1].split("/")[-1]} if first.startswith("#!") else set()
        if "python" not in first and not path.endswith(".py"):
            called |= commands(text)
        for word in sorted(called - set(words) - functions - names - asked):
            place = shutil.which(word, path=machine)
            if place is not None and os.path.realpath(place) not in paths:
                bad.append(f"{path}: calls {word}, which no set of tools/setup brings")
        for plain, of in IMPORT.findall(text):
            for module in re.split(r",\s*", plain or of):
                needs = re.search(rf"(?i)\bneeds\b[^\n]*\b{module}\b", text)
                if module not in sys.stdlib_module_names | local and not needs:
                    bad.append(f"{path}: imports {module}, which is not Python's own: say that it `Needs` it")
    print("\n".join(bad) or f"needs_check: {len(texts)} scripts call nothing that no package brings")
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
