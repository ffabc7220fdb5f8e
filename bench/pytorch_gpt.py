#!/usr/bin/env python3
"""The same GPT in PyTorch, timed step by step: the peer of bench/side_by_side and tools/gpu-train-bench.

Prints one JSON line per step: {"step": i, "seconds": s, "loss": x}, and last {"rss_bytes": n}. All tokens lie
on the device before the first step; between two steps nothing happens but the line.
"""
import argparse
import contextlib
import importlib
import json
import math
import resource
import time

import torch
import torch.nn as nn
import torch.nn.functional as F


def attention(q, k, v):
    if hasattr(F, "scaled_dot_product_attention"):
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)
    t = q.shape[-2]  # PyTorch 1.x has no fused attention
    mask = torch.ones(t, t, dtype=torch.bool).triu(1)
    scores = (q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])).masked_fill(mask, float("-inf"))
    return scores.softmax(-1) @ v


class Block(nn.Module):
    def __init__(self, c, h):
        super().__init__()
        self.h = h
        self.ln1, self.ln2 = nn.LayerNorm(c), nn.LayerNorm(c)
        self.qkv, self.proj = nn.Linear(c, 3 * c), nn.Linear(c, c)
        self.up, self.down = nn.Linear(c, 4 * c), nn.Linear(4 * c, c)

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = (z.view(b, t, self.h, c // self.h).transpose(1, 2)
                   for z in self.qkv(self.ln1(x)).split(c, dim=-1))
        y = attention(q, k, v)
        x = x + self.proj(y.transpose(1, 2).reshape(b, t, c))
        return x + self.down(F.gelu(self.up(self.ln2(x)), approximate="tanh"))


class Gpt(nn.Module):
    def __init__(self, layers, c, h, vocab, positions):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocab, c), nn.Embedding(positions, c)
        self.blocks = nn.ModuleList(Block(c, h) for _ in range(layers))
        self.ln_f = nn.LayerNorm(c)
        for m in self.modules():
            if isinstance(m, (nn.Linear, nn.Embedding)):
                nn.init.normal_(m.weight, std=0.02)

    def forward(self, tokens, targets):
        x = self.wte(tokens) + self.wpe.weight[: tokens.shape[1]]
        for block in self.blocks:
            x = block(x)
        logits = F.linear(self.ln_f(x), self.wte.weight)
        return F.cross_entropy(logits.float().view(-1, logits.shape[-1]), targets.view(-1))


def main():
    a = argparse.ArgumentParser()
    for name, default in (("layers", 12), ("hidden", 768), ("heads", 12), ("vocab", 50257),
                          ("positions", 1024), ("batch", 4), ("seq", 256), ("steps", 4),
                          ("threads", 2)):
        a.add_argument(f"--{name}", type=int, default=default)
    a.add_argument("--precision", choices=["fp32", "amp_bf16", "bf16"], default="fp32")
    a.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    a.add_argument("--compile", action="store_true")
    a = a.parse_args()
    torch.set_num_threads(a.threads)
    torch.manual_seed(0)
    cuda = a.device == "cuda"
    with torch.device(a.device) if cuda else contextlib.nullcontext():  # weights drawn where they stay
        model = Gpt(a.layers, a.hidden, a.heads, a.vocab, max(a.positions, a.seq))
    if a.precision == "bf16":
        model = model.to(torch.bfloat16)
    decay = [p for p in model.parameters() if p.dim() == 2]
    rest = [p for p in model.parameters() if p.dim() < 2]
    fast = {"fused": True} if int(torch.__version__.split(".")[0]) >= 2 else {"foreach": True}
    optimizer = torch.optim.AdamW([{"params": decay, "weight_decay": 0.1},
                                   {"params": rest, "weight_decay": 0.0}], lr=6e-4, **fast)
    run = torch.compile(model) if a.compile else model
    if cuda:
        importlib.import_module("torch.nn.attention")
    kernels = [torch.nn.attention.SDPBackend.CUDNN_ATTENTION,
               torch.nn.attention.SDPBackend.FLASH_ATTENTION] if cuda else None
    data = [torch.randint(0, a.vocab, (a.batch, a.seq + 1)).to(a.device) for _ in range(a.steps)]
    if cuda:
        torch.cuda.synchronize()
    for step, tokens in enumerate(data):
        start = time.perf_counter()
        with torch.autocast(a.device, torch.bfloat16, enabled=a.precision == "amp_bf16"), \
                (torch.nn.attention.sdpa_kernel(kernels, set_priority=True) if cuda
                 else contextlib.nullcontext()):
            loss = run(tokens[:, :-1], tokens[:, 1:].contiguous())
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        value = loss.detach().item()
        if cuda:
            torch.cuda.synchronize()
        print(json.dumps({"step": step + 1, "seconds": time.perf_counter() - start,
                          "loss": value if math.isfinite(value) else None}), flush=True)
    peak = torch.cuda.max_memory_allocated() if cuda \
        else resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(json.dumps({"rss_bytes": peak}))


if __name__ == "__main__":
    main()
