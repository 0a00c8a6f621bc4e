#!/usr/bin/env python3
"""Measures how fast transformers on torch reads and generates on this CPU, with random weights:
tests/scripts/torch-peers.py [bfloat16|float32].

The same measurements as those of the program `decode`: 512 tokens read at once, and 2,048; then 32 generated one by one
after 128 and after 2,048; the best of three runs each. Needs torch and transformers.
"""

import os
import sys
import time

import torch
from transformers import DynamicCache, LlamaConfig, LlamaForCausalLM, Qwen2Config, Qwen2ForCausalLM

torch.set_num_threads(int(os.environ.get("THREADS", os.cpu_count())))
torch.set_grad_enabled(False)

SHAPES = {
    "SmolLM2-135M": lambda: LlamaForCausalLM(LlamaConfig(
        vocab_size=49152, hidden_size=576, intermediate_size=1536, num_hidden_layers=30, num_attention_heads=9,
        num_key_value_heads=3, max_position_embeddings=8192, tie_word_embeddings=True)),
    "Qwen2.5-0.5B": lambda: Qwen2ForCausalLM(Qwen2Config(
        vocab_size=151936, hidden_size=896, intermediate_size=4864, num_hidden_layers=24, num_attention_heads=14,
        num_key_value_heads=2, max_position_embeddings=32768, tie_word_embeddings=True)),
}


def tokens(n):
    return torch.tensor([[i * 37 % 40000 + 1 for i in range(n)]])


def best(f):
    times = []
    for _ in range(3):
        start = time.perf_counter()
        f()
        times.append(time.perf_counter() - start)
    return min(times)


def main():
    kind = getattr(torch, sys.argv[1] if len(sys.argv) > 1 else "bfloat16")
    print("| transformers | prompt of 512, tokens/s | of 2,048 | writing at 128 | at 2,048 |\n|---|--:|--:|--:|--:|")
    for name, make in SHAPES.items():
        model = make().to(kind).eval()

        def read(ids, cache):
            model(ids, past_key_values=cache, use_cache=True, logits_to_keep=1)

        figures = [n / best(lambda: read(tokens(n), DynamicCache())) for n in (512, 2048)]
        for depth in (128, 2048):
            cache = DynamicCache()
            read(tokens(depth), cache)

            def write():
                if cache.get_seq_length() > depth:
                    cache.crop(depth - cache.get_seq_length())
                for token in tokens(32)[0]:
                    read(token.view(1, 1), cache)

            figures.append(32 / best(write))
        print(f"| {name}, {str(kind).removeprefix('torch.')} | " + " | ".join(f"{figure:.1f}" for figure in figures) + " |", flush=True)


if __name__ == "__main__":
    main()
