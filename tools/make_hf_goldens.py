#!/usr/bin/env python3
"""Makes tests/goldens/hf: tiny models of each family, as Hugging Face transformers write them.

    make_hf_goldens.py             weights, and the logits that transformers compute for some tokens
    make_hf_goldens.py --configs   config.json alone, as this version of transformers writes it, and
                                   with every key that it knows

The first with one version, the second with several: keys come and go.
Needs: pip install torch transformers.
"""
import json
import pathlib
import platform
import shutil
import sys
import tempfile

import torch
import transformers

GOLDENS = pathlib.Path(__file__).resolve().parent.parent / "tests" / "goldens" / "hf"
V, P, C, H, L = 11, 8, 6, 3, 2  # three heads: the slopes of ALiBi go by powers of two
TOKENS = [3, 1, 4, 1, 5, 9, 2, 6]
ENDS = {"bos_token_id": 0, "eos_token_id": 0}


def models():
    yield "gpt2", transformers.GPT2LMHeadModel(transformers.GPT2Config(
        vocab_size=V, n_positions=P, n_embd=C, n_layer=L, n_head=H, n_inner=10, **ENDS))
    if hasattr(transformers, "MptConfig"):
        yield "mpt", transformers.MptForCausalLM(transformers.MptConfig(
            vocab_size=V, max_seq_len=P, d_model=C, n_layers=L, n_heads=H, **ENDS))


def write_weights(folder, model):
    """Values are far from the usual initial ones, so that every weight matters."""
    generator = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for name, value in model.named_parameters():
            scale = "norm" in name or "ln_" in name
            mean = 1.0 if scale and name.endswith("weight") else 0.0
            value.copy_(mean + 0.4 * torch.randn(value.shape, generator=generator))
        logits = model.eval()(torch.tensor([TOKENS])).logits[0]
    with tempfile.TemporaryDirectory() as temp:
        model.save_pretrained(temp)
        shutil.copy(f"{temp}/model.safetensors", folder)
    about = {"made_by": "tools/make_hf_goldens.py", "transformers": transformers.__version__,
             "torch": torch.__version__, "python": platform.python_version(), "tokens": TOKENS,
             "logits": logits.flatten().tolist()}
    (folder / "golden.json").write_text(json.dumps(about) + "\n")


def write_configs(folder, model):
    with tempfile.TemporaryDirectory() as temp:
        model.save_pretrained(temp)
        config = pathlib.Path(temp, "config.json").read_text()
    name = f"config-{transformers.__version__}"
    (folder / f"{name}.json").write_text(config)
    (folder / f"{name}-full.json").write_text(model.config.to_json_string(use_diff=False))


def main():
    if sys.argv[1:] not in ([], ["--configs"]):
        raise SystemExit(__doc__.strip())
    for name, model in models():
        folder = GOLDENS / name
        folder.mkdir(parents=True, exist_ok=True)
        (write_configs if sys.argv[1:] else write_weights)(folder, model)


if __name__ == "__main__":
    main()
