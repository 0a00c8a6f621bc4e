#!/usr/bin/env python3
"""Measures tokens per second of transformers on a GPU, with a static cache and a compiled step in a CUDA graph, for the
shapes that `device` measures: one text, several texts, and prompts.

    python3 tests/scripts/gpu-peers.py cuda:0 [SHAPE]

Uses random weights in bf16, since speed depends only on shapes. Needs torch and transformers.
"""

import sys
import time

import torch
from transformers import LlamaConfig, LlamaForCausalLM, StaticCache

SHAPES = {
    "Llama 3.2 1B": dict(
        hidden_size=2048, num_hidden_layers=16, head_dim=64, intermediate_size=8192, tie_word_embeddings=True
    ),
    "Llama 3.1 8B": dict(
        hidden_size=4096, num_hidden_layers=32, head_dim=128, intermediate_size=14336, tie_word_embeddings=False
    ),
}


def decode(model, step, texts, held, device):
    """Tokens per second of `texts` texts, each after `held` tokens."""
    config = model.config
    cache = StaticCache(config=config, max_cache_len=held + 256)
    ids = (torch.arange(held, device=device) * 37 % config.vocab_size).expand(texts, -1)
    model(ids, past_key_values=cache, cache_position=torch.arange(held, device=device), use_cache=True)
    token = torch.zeros((texts, 1), dtype=torch.long, device=device)

    def tokens(first, count):
        for at in range(first, first + count):
            place = torch.tensor([at], device=device)
            logits = step(token, past_key_values=cache, cache_position=place, use_cache=True).logits
            token.copy_(logits[:, -1:].argmax(-1))
        torch.cuda.synchronize(device)

    tokens(held, 20)
    begun = time.perf_counter()
    tokens(held + 20, 60)
    return 60 * texts / (time.perf_counter() - begun)


def prompt(model, length, device):
    """Tokens per second of a prompt of `length` tokens."""
    ids = (torch.arange(length, device=device) * 37 % model.config.vocab_size)[None]
    times = []
    for _ in range(6):
        torch.cuda.synchronize(device)
        begun = time.perf_counter()
        model(ids, use_cache=True, logits_to_keep=1)
        torch.cuda.synchronize(device)
        times.append(time.perf_counter() - begun)
    return length / sorted(times[2:])[1]


def main():
    device = sys.argv[1] if len(sys.argv) > 1 else "cuda:0"
    print("| shape, bf16 | measured | tokens/s |\n|---|---|--:|")
    wanted = sys.argv[2] if len(sys.argv) > 2 else ""
    for name, shape in SHAPES.items():
        if wanted not in name:
            continue
        config = LlamaConfig(
            vocab_size=128256, num_attention_heads=32, num_key_value_heads=8, max_position_embeddings=8192,
            rope_theta=500000.0, **shape
        )
        with torch.device(device):
            model = LlamaForCausalLM(config).to(torch.bfloat16).eval()
        with torch.inference_mode():
            for length in [128, 512, 2048, 8000]:
                print(f"| {name} | prompt of {length} | {prompt(model, length, device):.0f} |", flush=True)
            for texts, held in [(1, 128), (1, 2048), (16, 128), (64, 128)]:
                torch.compiler.reset()
                step = torch.compile(model, mode="reduce-overhead", fullgraph=True)
                rate = decode(model, step, texts, held, device)
                print(f"| {name} | {texts} texts after {held} tokens | {rate:.0f} |", flush=True)


if __name__ == "__main__":
    main()
