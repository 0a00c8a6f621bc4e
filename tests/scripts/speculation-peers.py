#!/usr/bin/env python3
"""Measures the speedup by drafts in llama.cpp and in transformers, on the prompts of
`verdigris bench speculation --prompts`.

    pip install xllamacpp torch transformers accelerate gguf
    tests/scripts/speculation-peers.py MODEL.gguf PROMPTS.jsonl [--draft SMALL.gguf] [--samples 2] [--tokens 200] [--temperature 0 0.7]

llama.cpp: plain, n-grams of the text (ngram-simple, ngram-mod), and a draft model. transformers: plain, prompt lookup,
and a draft model (assisted generation), with the weights of the file decoded to bf16. The methods of a library take
turns on each prompt. Prints tokens per second, and the speed relative to plain of the same library.
"""

import argparse
import json
import os
import time
import urllib.request
from collections import defaultdict

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("model")
parser.add_argument("prompts")
parser.add_argument("--draft")
parser.add_argument("--samples", type=int, default=2)
parser.add_argument("--tokens", type=int, default=200)
parser.add_argument("--temperature", type=float, nargs="+", default=[0.0, 0.7])
parser.add_argument("--without", choices=["llama.cpp", "transformers"], nargs="*", default=[])
args = parser.parse_args()
threads = int(os.environ.get("THREADS", os.cpu_count()))

prompts, counts = [], defaultdict(int)
for line in open(args.prompts, encoding="utf-8"):
    one = json.loads(line)
    counts[one["kind"]] += 1
    if counts[one["kind"]] <= args.samples:
        prompts.append((one["kind"], one["prompt"]))


class LlamaCpp:
    """A server in this process for each method."""

    name = "llama.cpp"

    def __init__(self):
        import xllamacpp
        types = xllamacpp.common_speculative_type
        kinds = {name.rsplit("_TYPE_", 1)[-1].lower(): getattr(types, name) for name in dir(types) if "_TYPE_" in name}
        self.servers = {}
        for way, kind in [("plain", None), ("ngram-simple", "ngram_simple"), ("ngram-mod", "ngram_mod"), ("draft model", "draft_simple")]:
            if kind == "draft_simple" and not args.draft or kind and kind not in kinds:
                continue
            parameters = xllamacpp.CommonParams()
            parameters.model.path, parameters.n_ctx, parameters.n_parallel, parameters.verbosity = args.model, 2048, 1, -1
            parameters.cpuparams.n_threads = parameters.cpuparams_batch.n_threads = threads
            if kind:
                parameters.speculative.types = [kinds[kind]]
            if kind == "draft_simple":
                parameters.speculative.draft.mparams.path = args.draft
            self.servers[way] = xllamacpp.Server(parameters)
        self.ways = list(self.servers)

    def write(self, way, prompt, temperature, seed):
        asked = {"messages": [{"role": "user", "content": prompt}], "max_tokens": args.tokens, "temperature": temperature, "top_k": 0,
                 "top_p": 0.95, "min_p": 0, "seed": seed, "cache_prompt": False, "ignore_eos": True}
        request = urllib.request.Request(self.servers[way].listening_address + "/v1/chat/completions", json.dumps(asked).encode(),
                                         {"Content-Type": "application/json"})
        begun = time.perf_counter()
        answer = json.loads(urllib.request.urlopen(request).read())
        return answer["usage"]["completion_tokens"], time.perf_counter() - begun


class Transformers:
    name = "transformers"

    def __init__(self):
        import torch
        from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig
        torch.set_num_threads(threads)
        self.torch = torch

        def load(path):
            folder, file = os.path.split(os.path.abspath(path))
            config = GgufConfig(dequantize=True)
            return AutoModelForCausalLM.from_pretrained(folder, gguf_file=file, quantization_config=config, dtype=torch.bfloat16), \
                AutoTokenizer.from_pretrained(folder, gguf_file=file)

        self.model, self.tokenizer = load(args.model)
        self.options = {"plain": {}, "prompt lookup": {"prompt_lookup_num_tokens": 10}}
        if args.draft:
            self.options["draft model"] = {"assistant_model": load(args.draft)[0]}
        self.ways = list(self.options)

    def write(self, way, prompt, temperature, seed):
        turn = [{"role": "user", "content": prompt}]
        text = self.tokenizer.apply_chat_template(turn, add_generation_prompt=True, tokenize=False)
        ids = self.tokenizer(text, return_tensors="pt", add_special_tokens=False)
        sampling = {"do_sample": True, "temperature": temperature, "top_p": 0.95, "top_k": 0} if temperature > 0 else {"do_sample": False}
        self.torch.manual_seed(seed)
        begun = time.perf_counter()
        written = self.model.generate(**ids, **sampling, **self.options[way], max_new_tokens=args.tokens, min_new_tokens=args.tokens, pad_token_id=0)
        return written.shape[1] - ids["input_ids"].shape[1], time.perf_counter() - begun


for peer in (LlamaCpp, Transformers):
    if peer.name in args.without:
        continue
    library = peer()
    for temperature in args.temperature:
        sums = defaultdict(lambda: [0, 0.0])
        for seed, (kind, prompt) in enumerate(prompts):
            for way in library.ways:
                tokens, seconds = library.write(way, prompt, temperature, seed)
                for of in (kind, "all"):
                    sums[of, way][0] += tokens
                    sums[of, way][1] += seconds
        speed = {key: tokens / seconds for key, (tokens, seconds) in sums.items()}
        kinds = list(dict.fromkeys(kind for kind, _ in prompts)) + ["all"]
        print(f"\n{library.name}, temperature {temperature}: tokens/s (beside plain)\n")
        print("| | " + " | ".join(kinds) + " |\n|---|" + "--:|" * len(kinds))
        for way in library.ways:
            cells = [f"{speed[kind, way]:.1f} ({speed[kind, way] / speed[kind, 'plain']:.2f})" for kind in kinds]
            print(f"| {way} | " + " | ".join(cells) + " |", flush=True)
