#!/usr/bin/env python3
"""Measures how fast llama.cpp reads and generates with a GGUF file: tests/scripts/decode-peers.py FILE...
(pip install llama-cpp-python, or xllamacpp, which includes a build).

The same measurements as those of the program `decode`: 512 tokens read at once, and 2,048 (by llama.cpp in parts of
512); then 32 generated one by one after 128 and after 2,048.
"""

import json
import os
import sys
import time
import urllib.request

threads = int(os.environ.get("THREADS", os.cpu_count()))


def tokens(n):
    return [(i * 37) % 40000 + 1 for i in range(n)]


class Library:
    """llama-cpp-python."""

    def __init__(self, path):
        self.llm = llama_cpp.Llama(path, n_ctx=2304, n_threads=threads, n_threads_batch=threads, n_batch=512, verbose=False,
                                   logits_all=False)

    def reading(self, length):
        self.llm.reset()
        start = time.perf_counter()
        self.llm.eval(tokens(length))
        return length / (time.perf_counter() - start)

    def writing(self, depth):
        if self.llm.n_tokens < depth:
            self.llm.reset()
            self.llm.eval(tokens(depth))
        self.llm.n_tokens = depth
        start = time.perf_counter()
        for token in tokens(32):
            self.llm.eval([token])
        return 32 / (time.perf_counter() - start)


class Server:
    """xllamacpp, a server in this process; it measures the times itself."""

    def __init__(self, path):
        parameters = xllamacpp.CommonParams()
        parameters.model.path, parameters.n_ctx, parameters.n_parallel, parameters.n_batch = path, 2304, 1, 512
        parameters.n_ubatch, parameters.verbosity = 512, -1
        parameters.cpuparams.n_threads = parameters.cpuparams_batch.n_threads = threads
        self.server = xllamacpp.Server(parameters)

    def ask(self, count, more):
        asked = {"prompt": tokens(count), "n_predict": more, "temperature": 0, "cache_prompt": False, "ignore_eos": True}
        request = urllib.request.Request(self.server.listening_address + "/completion", json.dumps(asked).encode(),
                                         {"Content-Type": "application/json"})
        return json.loads(urllib.request.urlopen(request).read())["timings"]

    def reading(self, length):
        return self.ask(length, 1)["prompt_per_second"]

    def writing(self, depth):
        return self.ask(depth, 32)["predicted_per_second"]


try:
    import llama_cpp
    Peer = Library
except ImportError:
    import xllamacpp
    Peer = Server

print("| llama.cpp | prompt of 512, tokens/s | of 2,048 | writing at 128 | at 2,048 |\n|---|--:|--:|--:|--:|")
for path in sys.argv[1:]:
    peer = Peer(path)
    figures = [max(peer.reading(length) for _ in range(3)) for length in (512, 2048)]
    figures += [max(peer.writing(depth) for _ in range(3)) for depth in (128, 2048)]
    print(f"| {os.path.basename(path)} | " + " | ".join(f"{figure:.1f}" for figure in figures) + " |", flush=True)
