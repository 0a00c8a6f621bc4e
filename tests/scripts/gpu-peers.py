#!/usr/bin/env python3
"""Measures tokens per second of transformers on a GPU, with a static cache and a compiled step, for the shapes that
`device` measures.

    python3 tests/scripts/gpu-peers.py cuda:0

Uses random weights in bf16, since speed depends only on shapes. Needs torch and transformers.
"""

import sys
import time

import torch
from transformers import LlamaConfig, LlamaForCausalLM, StaticCache

SHAPES = {
    "Llama 3.2 1B": dict(hidden_size=2048, num_hidden_layers=16, head_dim=64, intermediate_size=8192, tie_word_embeddings=True),
    "Llama 3.1 8B": dict(hidden_size=4096, num_hidden_layers=32, head_dim=128, intermediate_size=14336, tie_word_embeddings=False),
}


def measure(shape, held, device):
    config = LlamaConfig(
        vocab_size=128256, num_attention_heads=32, num_key_value_heads=8, max_position_embeddings=8192, rope_theta=500000.0, **shape
    )
    with torch.device(device):
        model = LlamaForCausalLM(config).to(torch.bfloat16).eval()
    cache = StaticCache(config=config, max_cache_len=held + 256)
    ids = (torch.arange(held, device=device) * 37 % config.vocab_size)[None]
    step = torch.compile(model, mode="reduce-overhead", fullgraph=True)
    with torch.inference_mode():
        model(ids, past_key_values=cache, cache_position=torch.arange(held, device=device), use_cache=True)
        token = torch.zeros((1, 1), dtype=torch.long, device=device)

        def tokens(first, count):
            for at in range(first, first + count):
                place = torch.tensor([at], device=device)
                logits = step(token, past_key_values=cache, cache_position=place, use_cache=True).logits
                token.copy_(logits[:, -1:].argmax(-1))
            torch.cuda.synchronize(device)

        tokens(held, 20)
        begun = time.perf_counter()
        tokens(held + 20, 100)
        return 100 / (time.perf_counter() - begun)


def main():
    device = sys.argv[1] if len(sys.argv) > 1 else "cuda:0"
    print("| shape | tokens held | tokens/s |\n|---|--:|--:|")
    for name, shape in SHAPES.items():
        for held in [128, 2048]:
            print(f"| {name}, bf16 | {held} | {measure(shape, held, device):.0f} |", flush=True)


if __name__ == "__main__":
    main()
