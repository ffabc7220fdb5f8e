#!/usr/bin/env python3
"""Writes a text corpus of about SIZE megabytes from the documentation on this system.

Usage: tools/make_text_corpus.py OUT.txt [SIZE]
Manual pages, changelogs and copyright files (unpacked), headers and Python sources, each file once,
in a fixed shuffled order. Enough variety to time tokenizers; no good for training models.
"""
import gzip
import random
import sys
from pathlib import Path

ROOTS = ["/usr/share/man", "/usr/share/doc", "/usr/share/info", "/usr/lib/python3", "/usr/include",
         "/usr/share/perl", "/usr/lib/python3.11"]


def main():
    if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
        raise SystemExit(__doc__.strip())
    out, size = sys.argv[1], float(sys.argv[2]) * 1e6 if len(sys.argv) > 2 else 100e6
    files = sorted({p for root in ROOTS for p in Path(root).rglob("*") if p.is_file()
                    and not p.is_symlink()
                    and p.suffix in (".gz", ".txt", ".h", ".hpp", ".py", ".html", "", ".pod")})
    random.Random(1).shuffle(files)
    written = 0
    seen = set()
    with open(out, "wb") as sink:
        for path in files:
            try:
                data = (gzip.open if path.suffix == ".gz" else open)(path, "rb").read(2_000_000)
                data.decode()
            except (OSError, EOFError, UnicodeDecodeError):
                continue
            if hash(data) in seen:
                continue
            seen.add(hash(data))
            data = data[: int(size) - written]
            sink.write(data)
            written += len(data)
            if written >= size:
                break
    print(f"{out}: {written / 1e6:.1f} MB from {len(seen)} files", file=sys.stderr)


if __name__ == "__main__":
    main()
