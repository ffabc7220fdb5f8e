#!/usr/bin/env python3
"""Compares an exported model with Hugging Face transformers, used as everybody uses them.

    stretto export runs/a -o my-model
    tools/check_hf_logits.py build/stretto runs/a my-model

Loads model and tokenizer with transformers. On random texts, `model(**tokenizer(text))` must give the
logits and the loss of `stretto eval`, and `model.generate(**tokenizer(text))` the text of `stretto
generate`. Exit 1 when a text differs, or a logit by more than 1e-4 of the largest.
Needs: pip install numpy torch transformers.
"""
import json
import subprocess
import sys
import tempfile

import numpy
import torch
import transformers

LIMIT = 1e-4
PROMPT, TOKENS = "The model reads", 12


def answer(*command):
    return subprocess.run(command, check=True, capture_output=True).stdout


def evaluate(stretto, run, ids, vocab):
    with tempfile.NamedTemporaryFile(suffix=".u16") as tokens, tempfile.NamedTemporaryFile() as out:
        tokens.write(ids.astype("<u2").tobytes())
        tokens.flush()
        said = json.loads(answer(stretto, "eval", run, tokens.name, "--json", "--logits", out.name))
        return said["loss"], numpy.fromfile(out.name, "<f4").reshape(-1, vocab)


def worst_logits(stretto, run, model, tokenizer, config):
    vocab = config["vocab_size"]
    length = config.get("n_ctx") or config.get("stretto_seq_len") or config["max_seq_len"]
    rng = numpy.random.default_rng(1)
    worst = 0.0
    for trial in range(4):
        # Bytes that are no text become other ones, so there are enough tokens.
        text = tokenizer.decode(rng.integers(0, min(vocab, len(tokenizer)), 4 * length))
        inputs = tokenizer(text, return_tensors="pt", truncation=True, max_length=length)
        ids = numpy.array(tokenizer(text, truncation=True, max_length=length + 1)["input_ids"])
        loss, mine = evaluate(stretto, run, ids, vocab)
        with torch.no_grad():
            theirs = model(**inputs).logits[0].double()
        their_loss = torch.nn.functional.cross_entropy(theirs, torch.tensor(ids[1:])).item()
        difference = abs(mine - theirs.numpy()).max() / abs(theirs).max().item()
        worst = max(worst, difference, abs(loss - their_loss) / their_loss)
        print(f"text {trial}: loss {loss:.7f}, transformers {their_loss:.7f}; "
              f"logits differ by {difference:.2e} of the largest")
    return worst


def same_text(stretto, run, model, tokenizer):
    mine = answer(stretto, "generate", run, "-p", PROMPT, "-n", str(TOKENS), "-t", "0")
    inputs = tokenizer(PROMPT, return_tensors="pt")
    ids = model.generate(**inputs, max_new_tokens=TOKENS, do_sample=False)[0]
    # They stop where a text ends; a character that is cut there decodes otherwise.
    theirs = tokenizer.decode(ids, skip_special_tokens=True).rstrip("\N{REPLACEMENT CHARACTER}")
    same = mine.decode(errors="replace").startswith(theirs)
    print(f"generated {theirs!r}" + ("" if same else f", but here {mine!r}"))
    return same


def main():
    if len(sys.argv) != 4:
        raise SystemExit(__doc__.strip())
    stretto, run, directory = sys.argv[1:4]
    model = transformers.AutoModelForCausalLM.from_pretrained(directory).float().eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(directory)
    config = json.load(open(f"{directory}/config.json"))
    worst = worst_logits(stretto, run, model, tokenizer, config)
    same = same_text(stretto, run, model, tokenizer)
    good = worst < LIMIT and same
    print(f"transformers {transformers.__version__}: worst relative difference {worst:.2e} "
          f"({'ok' if good else 'TOO LARGE' if same else 'ANOTHER TEXT'})")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
