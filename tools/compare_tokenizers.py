#!/usr/bin/env python3
"""Stretto, Hugging Face `tokenizers` and tiktoken side by side on one text: ids, and how fast.

Usage: tools/compare_tokenizers.py build/stretto TEXT [--vocab N] [--rounds N]
Needs: pip install tokenizers, and tiktoken if it is to take part. Trains with Stretto and `tokenizers`, compares
the merges, then encodes the text in turns and compares every id: with one thread on each side, in CPU seconds,
so that other work on the machine does not count; and as each does it by default, with all cores, in seconds.
"""
import argparse
import json
import os
import resource
import subprocess
import tempfile
import time

os.environ["TOKENIZERS_PARALLELISM"] = "false"

try:
    import tiktoken
except ImportError:
    tiktoken = None
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers  # noqa: E402

from make_tokenizer_goldens import END, GPT2, LLAMA3, spelling  # noqa: E402


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


def timed(action, clock=time.perf_counter):
    start = clock()
    result = action()
    return clock() - start, result


def children_cpu():
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


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
        cpu = children_cpu()
        ours, theirs = f"{folder}/ours.json", f"{folder}/theirs.json"
        seconds, _ = timed(lambda: subprocess.run(
            [args.stretto, "tokenizer", "train", args.text, "-o", ours, "--vocab", str(args.vocab),
             "--pattern", args.pattern], check=True, stderr=subprocess.DEVNULL))
        print(f"train    stretto    {seconds:6.2f} s, CPU {children_cpu() - cpu:6.2f} s", flush=True)
        tokenizer = new_tokenizer(args.pattern)
        trainer = trainers.BpeTrainer(
            vocab_size=args.vocab, min_frequency=2, special_tokens=["<|endoftext|>"],
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False)
        cpu = time.process_time()
        seconds, _ = timed(lambda: tokenizer.train_from_iterator([text], trainer))
        print(f"train    tokenizers {seconds:6.2f} s, CPU {time.process_time() - cpu:6.2f} s",
              flush=True)
        tokenizer.save(theirs)
        mine, other = json.load(open(ours))["model"], json.load(open(theirs))["model"]
        merges = [m if isinstance(m, str) else " ".join(m) for m in other["merges"]]
        same = sum(a == b for a, b in zip(mine["merges"], merges))
        print(f"merges   {same} of {len(merges)} equal and in the same order")
        if Tokenizer.from_file(ours).get_vocab() != tokenizer.get_vocab():
            raise SystemExit("vocab    `tokenizers` reads other ids from our file than it has itself")

        # encode_batch_fast keeps no offsets; with 200 lines a piece it was the fastest of encode,
        # encode_batch and encode_batch_fast at 1, 20, 200 and 5000 lines.
        tokenizer = Tokenizer.from_file(theirs)
        inverse = {c: b for b, c in spelling().items()}
        ranks = {bytes(inverse[c] for c in t): i for t, i in tokenizer.get_vocab().items()
                 if t != END}
        tik = tiktoken and tiktoken.Encoding("same", pat_str=GPT2 if args.pattern == "gpt2" else LLAMA3,
                                             mergeable_ranks=ranks, special_tokens={END: 0})
        out = f"{folder}/tokens"

        def prepare(threads):
            # The whole program: start, loading the tokenizer, reading, encoding, writing. The others only encode.
            subprocess.run([args.stretto, "data", "prepare", args.text, "-t", theirs, "-o", out, "--threads",
                            str(threads), "--format", "llmc", "--no-end-token"],
                           check=True, stderr=subprocess.DEVNULL)

        def encode(parallel):
            os.environ["TOKENIZERS_PARALLELISM"] = "true" if parallel else "false"
            return [e.ids for e in tokenizer.encode_batch_fast(batches)]

        rates = {"stretto": [], "tokenizers": []}
        default = {"stretto": [], "tokenizers": []}
        for _ in range(args.rounds):
            rates["stretto"].append(megabytes / timed(lambda: prepare(1), children_cpu)[0])
            rates["tokenizers"].append(megabytes / timed(lambda: encode(False), time.process_time)[0])
            if tik:
                rates.setdefault("tiktoken", []).append(
                    megabytes / timed(lambda: [tik.encode_ordinary(b) for b in batches], time.process_time)[0])
            default["stretto"].append(megabytes / timed(lambda: prepare(0))[0])
            default["tokenizers"].append(megabytes / timed(lambda: encode(True))[0])
        for title, unit, table in (("encode", "MB per CPU second", rates), ("all", "MB/s with all cores", default)):
            for name, values in table.items():
                print(f"{title:<8} {name:<10} " + " ".join(f"{v:7.2f}" for v in values)
                      + f" {unit}, best {max(values):.2f}")
                if name != "stretto":
                    print(f"ratio    {max(table['stretto']) / max(values):.1f} to {name}, best to best")
        import array
        raw = open(out + ".bin", "rb").read()[1024:]
        ids = array.array("H" if args.vocab <= 65536 else "I", raw).tolist()
        expected = tokenizer.encode(text).ids
        print(f"ids      {'equal' if ids == expected else 'DIFFERENT'}: {len(ids)} tokens")
        if ids != expected:
            raise SystemExit(1)


if __name__ == "__main__":
    main()
