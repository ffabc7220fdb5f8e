#!/usr/bin/env python3
"""Stretto and Hugging Face `tokenizers` side by side on one text: same ids, and how fast.

Usage: tools/compare_tokenizers.py build/stretto TEXT [--vocab N] [--rounds N]
Needs: pip install tokenizers. Trains a tokenizer with each, compares the files, then encodes the
text in turns (one thread each, so that neither hides behind more cores) and compares every id.
"""
import argparse
import json
import os
import subprocess
import tempfile
import time

os.environ["TOKENIZERS_PARALLELISM"] = "false"

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers  # noqa: E402

LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|"
          r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")


def new_tokenizer(pattern):
    tokenizer = Tokenizer(models.BPE())
    if pattern == "gpt2":
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    else:
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
            pre_tokenizers.Split(Regex(LLAMA3), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def timed(action):
    start = time.perf_counter()
    result = action()
    return time.perf_counter() - start, result


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("stretto")
    parser.add_argument("text")
    parser.add_argument("--vocab", type=int, default=8192)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--pattern", default="gpt2", choices=["gpt2", "llama3"])
    args = parser.parse_args()
    with open(args.text, encoding="utf-8", newline="") as source:
        text = source.read()
    megabytes = len(text.encode()) / 1e6
    lines = text.splitlines(keepends=True)
    batches = ["".join(lines[i:i + 200]) for i in range(0, len(lines), 200)]

    with tempfile.TemporaryDirectory() as folder:
        ours, theirs = f"{folder}/ours.json", f"{folder}/theirs.json"
        seconds, _ = timed(lambda: subprocess.run(
            [args.stretto, "tokenizer", "train", args.text, "-o", ours, "--vocab", str(args.vocab),
             "--pattern", args.pattern], check=True, stderr=subprocess.DEVNULL))
        print(f"train    stretto {seconds:8.2f} s", flush=True)
        tokenizer = new_tokenizer(args.pattern)
        trainer = trainers.BpeTrainer(
            vocab_size=args.vocab, min_frequency=2, special_tokens=["<|endoftext|>"],
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False)
        seconds, _ = timed(lambda: tokenizer.train_from_iterator([text], trainer))
        print(f"train    tokenizers {seconds:5.2f} s", flush=True)
        tokenizer.save(theirs)
        mine, other = json.load(open(ours))["model"], json.load(open(theirs))["model"]
        merges = [m if isinstance(m, str) else " ".join(m) for m in other["merges"]]
        same = sum(a == b for a, b in zip(mine["merges"], merges))
        print(f"merges   {same} of {len(merges)} equal and in the same order")

        rates = {"stretto": [], "tokenizers": []}
        for _ in range(args.rounds):
            out = f"{folder}/tokens"
            record = subprocess.run(
                [args.stretto, "data", "prepare", args.text, "-t", theirs, "-o", out, "--threads",
                 "1", "--format", "llmc", "--no-end-token", "--json"],
                check=True, capture_output=True, text=True).stdout
            rates["stretto"].append(megabytes / json.loads(record)["seconds"])
            # The best case for the other side: pieces of a file, as its users would feed it.
            seconds, _ = timed(lambda: [tokenizer.encode(b).ids for b in batches])
            rates["tokenizers"].append(megabytes / seconds)
        for name, values in rates.items():
            print(f"encode   {name:<10} " + " ".join(f"{v:7.2f}" for v in values)
                  + f" MB/s, best {max(values):.2f}")
        print(f"ratio    {max(rates['stretto']) / max(rates['tokenizers']):.1f} (best to best)")
        import array
        raw = open(out + ".bin", "rb").read()[1024:]
        ids = array.array("H" if args.vocab <= 65536 else "I", raw).tolist()
        expected = tokenizer.encode(text).ids
        print(f"ids      {'equal' if ids == expected else 'DIFFERENT'}: {len(ids)} tokens")
        if ids != expected:
            raise SystemExit(1)


if __name__ == "__main__":
    main()
