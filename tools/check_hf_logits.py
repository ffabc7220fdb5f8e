#!/usr/bin/env python3
"""Compares an exported model with Hugging Face transformers.

    stretto export runs/a -o my-model
    tools/check_hf_logits.py build/stretto runs/a my-model

Loads my-model with transformers and compares, on random tokens, every logit and the loss with those
of `stretto eval`. Exit 1 when the largest difference is above 1e-4 of the largest logit.
Needs: pip install numpy torch transformers.
"""
import json
import subprocess
import sys
import tempfile

import numpy
import torch
from transformers import AutoModelForCausalLM


def evaluate(stretto, run, path, vocab):
    with tempfile.NamedTemporaryFile() as out:
        command = [stretto, "eval", run, path, "--json", "--logits", out.name]
        text = subprocess.run(command, check=True, capture_output=True).stdout
        return json.loads(text), numpy.fromfile(out.name, "<f4").reshape(-1, vocab)


def main():
    if len(sys.argv) != 4:
        raise SystemExit(__doc__.strip())
    stretto, run, directory = sys.argv[1:4]
    model = AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32).eval()
    config = json.load(open(f"{directory}/config.json"))
    vocab = config["vocab_size"]
    length = config.get("n_positions") or config.get("max_seq_len")
    rng = numpy.random.default_rng(1)
    worst = 0.0
    for trial in range(4):
        ids = rng.integers(0, vocab, length + 1)
        with tempfile.NamedTemporaryFile(suffix=".u16") as file:
            file.write(ids.astype("<u2").tobytes())
            file.flush()
            ours, mine = evaluate(stretto, run, file.name, vocab)
        # In sequences of the length that the run had, like ours.
        used, seq = ours["tokens"], len(mine)
        with torch.no_grad():
            logits = torch.cat([model(torch.tensor(ids[i : min(i + seq, used)][None])).logits[0].double()
                                for i in range(0, used, seq)])
        loss = torch.nn.functional.cross_entropy(logits, torch.tensor(ids[1 : used + 1]))
        theirs = logits[:seq].numpy()
        difference = abs(mine - theirs).max() / abs(theirs).max()
        worst = max(worst, difference)
        print(f"sequence {trial}: loss {ours['loss']:.7f}, transformers {loss.item():.7f}; "
              f"logits differ by {difference:.2e} of the largest")
    print(f"worst relative difference {worst:.2e} ({'ok' if worst < 1e-4 else 'TOO LARGE'})")
    return 0 if worst < 1e-4 else 1


if __name__ == "__main__":
    sys.exit(main())
