"""Measures microseconds per token of other systems' packages, on one core. Run it right before or after
`cargo bench -p verdigris-watermark`, on the same machine.

Needs the same packages as fixtures/golden/dialects.py, and the same variables VLLM and SGLANG.
"""

import importlib.util
import os
import sys
import time
import types

import torch
from transformers.generation.logits_process import SynthIDTextWatermarkLogitsProcessor, WatermarkLogitsProcessor

torch.set_num_threads(1)


def module(name, path):
    spec = importlib.util.spec_from_file_location(name, path)
    loaded = importlib.util.module_from_spec(spec)
    sys.modules[name] = loaded
    spec.loader.exec_module(loaded)
    return loaded


def micros(f, seconds=1.0):
    f()
    best, start = float("inf"), time.perf_counter()
    while time.perf_counter() - start < seconds:
        before = time.perf_counter()
        f()
        best = min(best, time.perf_counter() - before)
    return 1e6 * best


def line(name, cells):
    print(f"| {name} | " + " | ".join(f"{c:,.0f}" for c in cells) + " |", flush=True)


sizes = [32000, 128256, 256000]
print("| microseconds a token, best of a second | 32,000 | 128,256 | 256,000 |\n|---|--:|--:|--:|")
ids = torch.tensor([[17, 18, 19, 20]])
rows = {v: torch.randn(1, v) for v in sizes}
hf = lambda v, s, w: WatermarkLogitsProcessor(v, "cpu", 0.25, 2.0, 15485863, s, w)  # noqa: E731
line("Hugging Face, left-hash", [micros(lambda p=hf(v, "lefthash", 1), v=v: p(ids, rows[v])) for v in sizes])
line("Hugging Face, self-hash, 40 candidates", [micros(lambda p=hf(v, "selfhash", 4), v=v: p(ids, rows[v])) for v in sizes])


def synthid(v):
    processor = SynthIDTextWatermarkLogitsProcessor(5, list(range(30)), 2**16, 0, 1024, torch.device("cpu"))
    return lambda: processor(ids, rows[v])


line("Hugging Face, SynthID, 30 keys", [micros(synthid(v)) for v in sizes])
for name in ["vllm", "vllm.v1", "vllm.v1.watermarking", "vllm.v1.watermarking.prfs", "sglang", "sglang.srt", "sglang.srt.sampling", "sglang.srt.sampling.watermarking"]:
    sys.modules[name] = types.ModuleType(name)
base = os.path.join(os.environ["VLLM"], "vllm/v1/watermarking/prfs")
module("vllm.v1.watermarking.prfs.base", os.path.join(base, "base.py"))
philox = module("vllm.v1.watermarking.prfs.philox", os.path.join(base, "philox.py"))
line("vLLM, Gumbel, CPU reference", [micros(lambda v=v: torch.argmax(rows[v] - torch.log(-torch.log(philox._philox_uniform(42, 0, ids, torch.arange(v).unsqueeze(0)))))) for v in sizes])

print("\n| detectors, tokens a second | |\n|---|--:|")
text = torch.randint(0, 128256, (4096,)).tolist()
root = os.path.join(os.environ["SGLANG"], "sglang/srt/sampling/watermarking")
module("sglang.srt.sampling.watermarking.config", os.path.join(root, "config.py"))
sglang = module("sglang.srt.sampling.watermarking.detector", os.path.join(root, "detector.py"))
print(f"| SGLang | {1e6 * len(text) / micros(lambda: sglang.detect(text, key='2a')):,.0f} |")
contexts = torch.tensor([text[i : i + 4] for i in range(4092)])
targets = torch.tensor(text[4:]).unsqueeze(-1)
print(f"| vLLM, its draws alone | {1e6 * 4092 / micros(lambda: philox._philox_uniform(42, 0, contexts, targets)):,.0f} |")
