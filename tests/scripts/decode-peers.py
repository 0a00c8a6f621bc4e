#!/usr/bin/env python3
"""Measures how fast other programs read and generate with GGUF files on this CPU:
tests/scripts/decode-peers.py FILE...

llama.cpp (pip install llama-cpp-python, or xllamacpp, which includes a build) and mistral.rs (pip install mistralrs);
those that are installed are measured. mistral.rs takes texts instead of tokens, so its files must have a tokenizer.

The same measurements as those of the program `decode`: 512 tokens read at once, and 2,048 (by llama.cpp in parts of
512); then 32 generated one by one after 128 and after 2,048; the best of three runs each (RUNS in the environment), of
mistral.rs of two at most. SHORT=1 as there.
"""

import json
import os
import sys
import time
import urllib.request

threads = int(os.environ.get("THREADS", os.cpu_count()))
RUNS = int(os.environ.get("RUNS", 3))
SHORT = "SHORT" in os.environ
LENGTHS, DEPTHS = ((512,), (128,)) if SHORT else ((512, 2048), (128, 2048))
HEAD = "prompt of 512, tokens/s | writing at 128 |\n|---|--:|--:|" if SHORT else (
    "prompt of 512, tokens/s | of 2,048 | writing at 128 | at 2,048 |\n|---|--:|--:|--:|--:|")


def tokens(n):
    return [(i * 37) % 40000 + 1 for i in range(n)]


class Library:
    """llama-cpp-python."""

    def __init__(self, path):
        self.llm = llama_cpp.Llama(path, n_ctx=2304, n_threads=threads, n_threads_batch=threads, n_batch=512,
                                   verbose=False, logits_all=False)

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
        asked = {"prompt": tokens(count), "n_predict": more, "temperature": 0, "cache_prompt": False,
                 "ignore_eos": True}
        request = urllib.request.Request(self.server.listening_address + "/completion", json.dumps(asked).encode(),
                                         {"Content-Type": "application/json"})
        return json.loads(urllib.request.urlopen(request).read())["timings"]

    def reading(self, length):
        return self.ask(length, 1)["prompt_per_second"]

    def writing(self, depth):
        return self.ask(depth, 32)["predicted_per_second"]


class MistralRs:
    """mistral.rs; it measures the times itself."""
    runs = 2

    def __init__(self, path):
        which = mistralrs.Which.GGUF(quantized_model_id=os.path.dirname(path) or ".",
                                     quantized_filename=os.path.basename(path))
        self.runner = mistralrs.Runner(which=which, prefix_cache_n=0)

    def ask(self, count, more):
        # One token each, with the tokenizers of common models.
        text = " the" * count
        request = mistralrs.CompletionRequest(model="default", prompt=text, max_tokens=more, temperature=0,
                                              ignore_eos=True)
        usage = self.runner.send_completion_request(request).usage
        if abs(usage.prompt_tokens - count) > 1 or usage.completion_tokens != more:
            sys.exit(f"mistral.rs read {usage.prompt_tokens} tokens and wrote {usage.completion_tokens}")
        return usage

    def reading(self, length):
        return length / self.ask(length, 1).total_prompt_time_sec

    def writing(self, depth):
        return 32 / self.ask(depth, 32).total_completion_time_sec


peers = {}
try:
    import llama_cpp
    peers["llama.cpp"] = Library
except ImportError:
    try:
        import xllamacpp
        peers["llama.cpp"] = Server
    except ImportError:
        pass
try:
    import mistralrs
    peers["mistral.rs"] = MistralRs
except ImportError:
    pass
if not peers:
    sys.exit("install llama-cpp-python, xllamacpp or mistralrs")

for name, Peer in peers.items():
    print(f"| {name} | {HEAD}")
    for path in sys.argv[1:]:
        peer, runs = Peer(path), range(min(RUNS, getattr(Peer, "runs", RUNS)))
        figures = [max(peer.reading(length) for _ in runs) for length in LENGTHS]
        figures += [max(peer.writing(depth) for _ in runs) for depth in DEPTHS]
        print(f"| {os.path.basename(path)} | " + " | ".join(f"{figure:.1f}" for figure in figures) + " |", flush=True)
