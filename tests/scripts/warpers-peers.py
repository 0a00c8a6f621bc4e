#!/usr/bin/env python3
"""Measures the cost per token of the usual warpers for a vocabulary of 128,256 tokens:
tests/scripts/warpers-peers.py [PROGRAM].

First those of Verdigris and candle, by `cargo bench -p verdigris-candle --bench warpers` or PROGRAM, its compiled
bench; then the logits processors of transformers on torch, with sampling, on rows of the same kind. One thread each.
Needs torch and transformers.
"""

import os
import statistics
import subprocess
import sys
import time

import torch
from transformers.generation import logits_process as hf

VOCABULARY = 128_256
torch.set_num_threads(1)
torch.set_grad_enabled(False)
generator = torch.Generator().manual_seed(1)


def row():
    # The same as in crates/candle/benches/warpers.rs.
    logits = 2.2 * torch.randn(VOCABULARY, generator=generator)
    ranks = torch.arange(200)
    tokens = torch.randint(VOCABULARY, (200,), generator=generator)
    logits[tokens] = 20 - 2 * torch.log(1.0 + ranks) + torch.randn(200, generator=generator)
    return logits[None]


rows = [row() for _ in range(16)]
text = torch.tensor([[i * 397 % VOCABULARY for i in range(256)]])


def milliseconds(processors):
    times = []
    for _ in range(20):
        for logits in rows:
            begun = time.perf_counter()
            scores = logits.clone()
            for processor in processors:
                scores = processor(text, scores)
            torch.multinomial(torch.softmax(scores, -1), 1)
            times.append(1e3 * (time.perf_counter() - begun))
    return statistics.median(times)


penalty, warm = hf.RepetitionPenaltyLogitsProcessor(1.1), hf.TemperatureLogitsWarper(0.8)
k, p, least = hf.TopKLogitsWarper(50), hf.TopPLogitsWarper(0.95), hf.MinPLogitsWarper(0.05)
bench = sys.argv[1:] or ["cargo", "bench", "-q", "-p", "verdigris-candle", "--bench", "warpers"]
subprocess.run(bench, check=True, env={**os.environ, "RAYON_NUM_THREADS": "1"}, cwd=os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
print("\n| steps | transformers, ms |\n|---|--:|")
for name, processors in [
    ("repetition penalty 1.1, temperature .8, top-k 50, top-p .95, min-p .05", [penalty, warm, k, p, least]),
    ("the same without min-p", [penalty, warm, k, p]),
    ("temperature .8, top-p .95", [warm, p]),
    ("temperature .8", [warm]),
]:
    print(f"| {name} | {milliseconds(processors):.3f} |", flush=True)
