"""A worktree of its own, in which faults are planted and built."""
import json, os, re, shutil, subprocess
from collections import defaultdict

import plant

KEPT = {}


def output_of(*command, **options):
    return subprocess.run(command, check=True, capture_output=True, text=True, **options).stdout


class Tree:
    def __init__(self, source, folder, say):
        """Checks out what `source` has, with its changes that are not committed."""
        self.source, self.root, self.build, self.say = source, folder, os.path.join(folder, "build"), say
        commit = output_of("git", "rev-parse", "HEAD", cwd=source).strip()
        if os.path.exists(os.path.join(folder, ".git")):
            subprocess.run(["git", "checkout", "--quiet", "--force", "--detach", commit], cwd=folder, check=True)
        else:
            os.makedirs(os.path.dirname(folder), exist_ok=True)
            subprocess.run(["git", "worktree", "add", "--quiet", "--detach", folder, commit], cwd=source, check=True)
        changed = output_of("git", "diff", "--name-only", "-z", "HEAD", cwd=source) + output_of(
            "git", "ls-files", "--others", "--exclude-standard", "-z", cwd=source)
        for name in filter(None, changed.split("\0")):
            here, there = os.path.join(source, name), os.path.join(folder, name)
            if os.path.exists(here):
                os.makedirs(os.path.dirname(there), exist_ok=True)
                shutil.copy2(here, there)
            elif os.path.exists(there):
                os.remove(there)

    def remove(self):
        subprocess.run(["git", "worktree", "remove", "--force", self.root], cwd=self.source, check=False)

    def read(self, path):
        """The text of a file as it was at the beginning."""
        if path in KEPT:
            return KEPT[path]
        with open(os.path.join(self.source, path), encoding="utf-8") as file:
            return KEPT.setdefault(path, file.read())

    def write(self, path, text):
        """Leaves a file alone that has the text already, so that it is not compiled again."""
        path = os.path.join(self.root, path)
        if os.path.exists(path):
            with open(path, encoding="utf-8") as file:
                if file.read() == text:
                    return
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)

    def configure(self, options):
        linker = next((name for name in ("mold", "lld", "gold") if shutil.which({"gold": "ld.gold", "lld": "ld.lld"}.get(name, name))), "")
        words = ["-DCMAKE_EXE_LINKER_FLAGS=-fuse-ld=" + linker] if linker else []
        subprocess.run(["cmake", "--no-warn-unused-cli", "-S", self.root, "-B", self.build, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release", *words, *options],
                       check=True, stdout=subprocess.DEVNULL)

    def ninja(self, targets, jobs):
        done = subprocess.run(["ninja", "-C", self.build, "-k", "0", "-j", str(jobs), *targets], capture_output=True, text=True,
                              errors="replace")
        return done.returncode == 0, done.stdout + done.stderr

    def plant(self, faults, device=False):
        """Writes the files with all the faults in them, and those back that have none any more. For a GPU, what makes it
        ready also tells it which fault was chosen."""
        header = os.path.join(self.build, "mutants.h")
        self.write(header, plant.HEADER.replace("STRETTO_MUTANTS)", "65536)").replace("STRETTO_MUTANTS,", "65536,") +
                   (plant.DEVICE_CHOICE if device else plant.HOST_CHOICE) + plant.QUIET)
        by_path = defaultdict(list)
        for fault in faults:
            by_path[fault.path].append(fault)
        start = plant.DEVICE_START[0] if device else None
        for path in sorted({*by_path, *KEPT, *([start] if start else [])}):
            text = self.read(path)
            if by_path[path] or path == start:
                text = plant.planted(text, by_path[path], header)
            if path == start:
                if plant.DEVICE_START[1] not in text:
                    raise SystemExit(f"mutate: {start} has no {plant.DEVICE_START[1]!r}, after which a GPU learns of the fault")
                text = text.replace(*plant.DEVICE_START[1:], 1)
            self.write(path, text)

    def build_with(self, faults, targets, jobs, device=False):
        """Plants, builds, and drops what does not compile. Returns the faults that are in the programs."""
        for turn in range(12):
            self.plant(faults, device)
            good, output = self.ninja(targets, jobs)
            if good:
                return faults
            dropped = self.culprits(output, faults)
            if not dropped:
                raise SystemExit("mutate: the build fails, and no fault is the reason:\n" + output[-6000:])
            self.say(f"{len(dropped)} of {len(faults)} faults do not compile: " +
                     ", ".join(sorted(f"{f.path}:{f.line}" for f in dropped)))
            faults = [f for f in faults if f not in dropped]
        raise SystemExit("mutate: the build still fails:\n" + output[-6000:])

    def compiled(self):
        """The files, headers too, that the programs here are made of."""
        found = set()
        for line in output_of("ninja", "-C", self.build, "-t", "deps").splitlines():
            if line.startswith("    "):
                found.add(os.path.relpath(os.path.join(self.build, line.strip()), self.root))
        return found

    def culprits(self, output, faults):
        """The faults that compilers complain about."""
        by_path = defaultdict(list)
        for fault in faults:
            by_path[fault.path].append(fault)
        dropped = set()
        for failure in re.split(r"^(?=FAILED: )", output, flags=re.M)[1:]:
            errors, others, named = set(), set(), set()
            for path, line, rest in re.findall(r"^(?:In file included from |\s+from )?([^\s:()]+)[:(](\d+)\)?([^\n]*)", failure, re.M):
                place = os.path.relpath(os.path.join(self.build, path), self.root)
                if place in by_path:
                    named.add(place)
                    (errors if "error" in rest[:30] else others).add((place, int(line)))
            for path in re.findall(r"\S+\.(?:cpp|cu)\b", failure.split("\n", 2)[1] if failure.count("\n") > 1 else ""):
                place = os.path.relpath(os.path.join(self.build, path), self.root)
                if place in by_path:
                    named.add(place)
            here = {f for path in named for f in by_path[path]}
            # Whoever needs a constant says where, and not always where it was declared.
            dropped |= self.at(errors, by_path) or self.at(others, by_path) or {f for f in here if f.region.constant} or here
        return dropped

    @staticmethod
    def at(places, by_path):
        return {f for path, line in places for f in by_path[path] if f.region.line <= line <= f.region.last_line}

    def broken(self, fault):
        """The text of a file with this fault and no choice. Lines keep their numbers."""
        text = self.read(fault.path)
        for start, end, words in sorted(fault.edits, reverse=True):
            text = text[:start] + words + "\n" * (text[start:end].count("\n") - words.count("\n")) + text[end:]
        return text

    def same_code(self, fault):
        """Whether a fault changes no object file: then it is no fault."""
        with open(os.path.join(self.build, "compile_commands.json")) as file:
            commands = json.load(file)
        where = os.path.join(self.root, fault.path)
        entries = [e for e in commands if e["file"] == where]
        if not entries:  # a header: some files that include it
            users = set()
            for block in output_of("ninja", "-C", self.build, "-t", "deps").split("\n\n"):
                if where in block or os.path.relpath(where, self.build) in block:
                    users.add(block.split(":")[0])
            entries = [e for e in commands if e.get("output") in users and "/src/" in e["file"]][:4]
        if not entries:
            return False
        objects, text = [], self.read(fault.path)
        for version in (text, self.broken(fault)):
            self.write(fault.path, version)
            parts = []
            for entry in entries:
                command = re.sub(r" -o \S+", " -o mutant.o", entry["command"]) + " -g0 -w"
                if subprocess.run(command, shell=True, cwd=entry["directory"], capture_output=True).returncode != 0:
                    parts.append(os.urandom(8))
                    continue
                with open(os.path.join(entry["directory"], "mutant.o"), "rb") as file:
                    parts.append(file.read())
            objects.append(parts)
        self.write(fault.path, text)
        return objects[0] == objects[1]
