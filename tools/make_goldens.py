#!/usr/bin/env python3
"""Makes tests/goldens/gpt_{learned,alibi}.{json,bin}: a tiny GPT in PyTorch.

The files hold initial weights, a batch of tokens, logits and the gradient of every parameter for the
first batch, and the losses of 50 AdamW steps (also with weights and activations rounded to bf16, master
weights in float32: how far PyTorch's own bf16 strays), all in float32 as little-endian bytes with an index.
Needs torch, of any version; the versions used are recorded in the index.
"""
import json
import math
import pathlib
import platform

import torch
import torch.nn.functional as F

L, C, H, V, T, B, STEPS = 2, 24, 3, 61, 17, 3, 50
LR, BETAS, EPS, DECAY, CLIP = 3e-3, (0.9, 0.95), 1e-8, 0.1, 1.0


def parameters(alibi, generator):
    """Names, shapes and order as Stretto's parameter list; values are far from the usual init so that
    every term of every gradient matters."""
    def normal(*shape, std=0.15, mean=0.0):
        return torch.randn(*shape, generator=generator) * std + mean
    p = {"wte": normal(V, C)}
    if not alibi:
        p["wpe"] = normal(T, C)
    for i in range(L):
        h = f"h.{i}."
        p[h + "ln1.weight"], p[h + "ln1.bias"] = normal(C, mean=1.0), normal(C)
        p[h + "attn.qkv.weight"], p[h + "attn.qkv.bias"] = normal(3 * C, C), normal(3 * C)
        p[h + "attn.proj.weight"], p[h + "attn.proj.bias"] = normal(C, C), normal(C)
        p[h + "ln2.weight"], p[h + "ln2.bias"] = normal(C, mean=1.0), normal(C)
        p[h + "mlp.up.weight"], p[h + "mlp.up.bias"] = normal(4 * C, C), normal(4 * C)
        p[h + "mlp.down.weight"], p[h + "mlp.down.bias"] = normal(C, 4 * C), normal(C)
    p["ln_f.weight"], p["ln_f.bias"] = normal(C, mean=1.0), normal(C)
    return {k: v.requires_grad_() for k, v in p.items()}


def alibi_slopes(heads):
    power = 2 ** math.floor(math.log2(heads))
    slopes = [2.0 ** (-8.0 * (i + 1) / power) for i in range(power)]
    if power < heads:
        more = [2.0 ** (-8.0 * (i + 1) / (2 * power)) for i in range(2 * power)]
        slopes += more[0::2][: heads - power]
    return torch.tensor(slopes)


def forward(p, tokens, alibi):
    b, t = tokens.shape
    x = p["wte"][tokens]
    if not alibi:
        x = x + p["wpe"][:t]
    distance = torch.arange(t)[:, None] - torch.arange(t)[None, :]
    mask = torch.zeros(t, t).masked_fill(distance < 0, float("-inf"))
    bias = mask.expand(H, t, t)
    if alibi:
        bias = bias - alibi_slopes(H)[:, None, None] * distance.clamp(min=0)
    for i in range(L):
        h = f"h.{i}."
        n = F.layer_norm(x, (C,), p[h + "ln1.weight"], p[h + "ln1.bias"], 1e-5)
        qkv = F.linear(n, p[h + "attn.qkv.weight"], p[h + "attn.qkv.bias"])
        q, k, v = (z.view(b, t, H, C // H).transpose(1, 2) for z in qkv.split(C, dim=-1))
        scores = q @ k.transpose(-1, -2) / math.sqrt(C // H) + bias.to(q.dtype)
        out = (scores.softmax(-1) @ v).transpose(1, 2).reshape(b, t, C)
        x = x + F.linear(out, p[h + "attn.proj.weight"], p[h + "attn.proj.bias"])
        n = F.layer_norm(x, (C,), p[h + "ln2.weight"], p[h + "ln2.bias"], 1e-5)
        a = F.gelu(F.linear(n, p[h + "mlp.up.weight"], p[h + "mlp.up.bias"]), approximate="tanh")
        x = x + F.linear(a, p[h + "mlp.down.weight"], p[h + "mlp.down.bias"])
    n = F.layer_norm(x, (C,), p["ln_f.weight"], p["ln_f.bias"], 1e-5)
    return F.linear(n, p["wte"])


def make_optimizer(p):
    decay = [v for v in p.values() if v.dim() == 2]
    rest = [v for v in p.values() if v.dim() < 2]
    return torch.optim.AdamW([{"params": decay, "weight_decay": DECAY},
                              {"params": rest, "weight_decay": 0.0}],
                             lr=LR, betas=BETAS, eps=EPS)


def bf16_losses(start, stream, alibi):
    p = {k: v.detach().clone().requires_grad_() for k, v in start.items()}
    optimizer = make_optimizer(p)
    losses = []
    for step in range(STEPS):
        tokens, targets = stream[step, :, :-1], stream[step, :, 1:]
        logits = forward({k: v.bfloat16() for k, v in p.items()}, tokens, alibi)
        loss = F.cross_entropy(logits.float().reshape(-1, V), targets.reshape(-1))
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(p.values(), CLIP)
        optimizer.step()
        losses.append(loss.detach())
    return torch.stack(losses)


def main():
    folder = pathlib.Path(__file__).resolve().parent.parent / "tests" / "goldens"
    folder.mkdir(parents=True, exist_ok=True)
    for name, alibi in (("gpt_learned", False), ("gpt_alibi", True)):
        generator = torch.Generator().manual_seed(7)
        p = parameters(alibi, generator)
        stream = torch.randint(0, V, (STEPS, B, T + 1), generator=generator)
        index, blob = {}, bytearray()

        def add(key, tensor):
            tensor = tensor.detach().contiguous()
            kind = "i32" if tensor.dtype == torch.int32 else "f32"
            index[key] = {"type": kind, "shape": list(tensor.shape), "offset": len(blob)}
            blob.extend(tensor.numpy().tobytes())

        for key, value in p.items():
            add("weight/" + key, value)
        add("tokens", stream.to(torch.int32))
        optimizer = make_optimizer(p)
        losses, norms = [], []
        narrow = bf16_losses(p, stream, alibi)
        for step in range(STEPS):
            tokens, targets = stream[step, :, :-1], stream[step, :, 1:]
            logits = forward(p, tokens, alibi)
            loss = F.cross_entropy(logits.reshape(-1, V), targets.reshape(-1))
            optimizer.zero_grad()
            loss.backward()
            if step == 0:
                add("logits", logits)
                for key, value in p.items():
                    add("grad/" + key, value.grad)
            norms.append(torch.nn.utils.clip_grad_norm_(p.values(), CLIP))
            optimizer.step()
            losses.append(loss.detach())
        add("losses", torch.stack(losses))
        add("norms", torch.stack(norms))
        add("losses_bf16", narrow)
        (folder / f"{name}.bin").write_bytes(blob)
        about = {"made_by": "tools/make_goldens.py", "torch": torch.__version__,
                 "python": platform.python_version(), "layers": L, "hidden": C, "heads": H,
                 "vocab": V, "seq_len": T, "batch": B, "steps": STEPS, "lr": LR, "weight_decay": DECAY,
                 "clip": CLIP, "tensors": index}
        (folder / f"{name}.json").write_text(json.dumps(about, indent=1) + "\n")
        print(name, len(blob), "bytes, losses", float(losses[0]), "->", float(losses[-1]))


if __name__ == "__main__":
    main()
