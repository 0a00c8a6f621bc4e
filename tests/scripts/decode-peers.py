#!/usr/bin/env python3
"""How fast llama.cpp reads and writes with a GGUF file: tests/scripts/decode-peers.py FILE... (pip install llama-cpp-python).

The same measures as the program `decode` takes: 512 tokens read at once, and 32 written one by one after 128 and after 2,048.
"""

import os
import sys
import time

import llama_cpp

threads = int(os.environ.get("THREADS", os.cpu_count()))


def tokens(n):
    return [(i * 37) % 40000 + 1 for i in range(n)]


print("| llama.cpp | prompt of 512, tokens/s | writing at 128 | at 2,048 |\n|---|--:|--:|--:|")
for path in sys.argv[1:]:
    llm = llama_cpp.Llama(path, n_ctx=2304, n_threads=threads, n_threads_batch=threads, n_batch=512, verbose=False, logits_all=False)

    def read(some):
        llm.eval(some)

    best = float("inf")
    for _ in range(3):
        llm.reset()
        start = time.perf_counter()
        read(tokens(512))
        best = min(best, time.perf_counter() - start)
    figures = [512 / best]
    for depth in (128, 2048):
        best = float("inf")
        llm.reset()
        read(tokens(depth))
        for _ in range(3):
            llm.n_tokens = depth
            start = time.perf_counter()
            for token in tokens(32):
                read([token])
            best = min(best, time.perf_counter() - start)
        figures.append(32 / best)
    print(f"| {os.path.basename(path)} | " + " | ".join(f"{figure:.1f}" for figure in figures) + " |", flush=True)
