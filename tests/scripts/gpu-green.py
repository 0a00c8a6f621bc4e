#!/usr/bin/env python3
"""Checks and measures `verdigris.green` on a GPU: the Triton kernel, next to torch's operations.

    python3 tests/scripts/gpu-green.py [DEVICE] [VOCABULARY]      by default cuda:0 and 128256 tokens

Needs torch, Triton, numpy and the wheel. The wheel's compiled part can also be next to the sources of a checkout, in a
folder `verdigris` that PYTHONPATH leads to.

It checks that the lists of keys of all functions equal those of torch's operations and of the program, that marked
logits do in three types, that a step in a CUDA graph marks the same, and that no step waits for the device. Then it
prints the microseconds of a step as a table: in a CUDA graph, by calls from Python, and by torch's operations. Steps
take turns at several tensors of logits, so that these come from memory and not from a cache. The status is 1 if a check
fails.
"""

import json
import pathlib
import statistics
import sys
import tempfile
import time

import numpy
import torch
import verdigris
from verdigris.bits import expand
from verdigris.green import GreenLists

ONE = [{"context": "min", "width": 4}]
NINE = [
    {"context": "min", "width": 4},
    {"context": "all", "width": 1, "gamma": 0.5, "delta": 1.0},
    {"context": "all", "width": 2},
    {"context": "min", "width": 1, "gamma": 0.75, "delta": 0.1},
    {"context": "all", "width": 4, "gamma": 0.125, "delta": 0.7},
    {"context": "min", "width": 8, "gamma": 0.375},
    {"context": "all", "width": 5, "delta": 1.3},
    {"context": "min", "width": 2, "gamma": 0.5},
    {"context": "all", "width": 8, "gamma": 0.25, "delta": 3.0},
]
SALTED = {"context": "self-salted", "width": 4}
HARD = {"context": "min", "width": 4, "delta": None}
# All functions, soft and hard, with the smallest and the largest gamma.
CHECKED = [
    *NINE, SALTED, HARD, {"context": "self-salted", "width": 1, "gamma": 0.625, "delta": None},
    {"context": "all", "width": 3, "gamma": 1 / 256}, {"context": "min", "width": 3, "gamma": 255 / 256, "delta": None},
]
# The bytes of logits that steps take turns at: more than the cache of any GPU.
BYTES = 256 << 20
TYPES = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}


def keys_of(cases, vocabulary):
    """Keys for a vocabulary of this size."""
    made = []
    for at, case in enumerate(cases):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "my.key"
            verdigris.Key.lists(id=f"k{at}", **case).save(path)
            fields = json.loads(path.read_text())
            fields["vocabulary"]["size"] = vocabulary
            # The check value is for the original size.
            fields.pop("check", None)
            path.write_text(json.dumps(fields))
            made.append(verdigris.Key.load(path))
    return made


def check(keys, device, vocabulary):
    """Compares lists and logits of all keys, and prints the number of compared values."""
    rows, columns = 3 * len(keys), vocabulary + 64
    which = torch.arange(rows) % len(keys)
    contexts = torch.randint(0, vocabulary, (rows, 8))
    # One row without a key, and two whose contexts are not whole for most keys.
    which[0] = -1
    contexts[1, -1] = -1
    contexts[2, :-1] = -1
    by_triton, by_torch = (GreenLists(keys, device, triton=triton) for triton in (True, False))
    there = which.to(device), contexts.to(device)
    green = by_triton.green(*there, columns)
    assert torch.equal(green, by_torch.green(*there, columns)), "lists differ from those of torch's operations"
    mine = green.cpu()
    for row, key in enumerate(which.tolist()):
        mask = numpy.zeros((1, -(-vocabulary // 32)), numpy.int32)
        width = keys[key].context[1]
        if key >= 0 and bool((contexts[row, -width:] >= 0).all()):
            verdigris.Mark(keys[key]).fill_bitmask(contexts[row : row + 1, -width:].numpy().copy(), mask)
        want = expand(torch.from_numpy(mask), columns)[0]
        assert torch.equal(mine[row], want), f"row {row} differs from the program's"
    print(f"{green.numel():,} memberships equal those of torch's operations and of the program, {len(keys)} keys")
    for name, dtype in TYPES.items():
        logits = (4 * torch.randn(rows, columns, device=device)).to(dtype)
        logits[-len(keys) :].masked_fill_(torch.rand(len(keys), columns, device=device) < 0.9999, -torch.inf)
        want = by_torch.mark(logits.clone(), *there)
        got = logits.clone()
        torch.cuda.set_sync_debug_mode("error")
        by_triton.mark(got, *there)
        torch.cuda.set_sync_debug_mode("default")
        assert torch.equal(got, want) and not torch.equal(got, logits), f"logits in {name} differ from torch's"
        again = logits.clone()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            by_triton.mark(again, *there)
        # Capturing does not run.
        assert torch.equal(again, logits)
        graph.replay()
        assert torch.equal(again, want), f"logits in {name} differ in a graph"
        print(f"{got.numel():,} logits in {name} equal those of torch's operations, by a call and in a graph")


def time_of(run, steps, device):
    """The median of several times of a step on the device, in microseconds, where `run` is `steps` steps."""
    run()
    torch.cuda.synchronize(device)
    times = []
    for _ in range(15):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        run()
        end.record()
        torch.cuda.synchronize(device)
        times.append(1000 * begin.elapsed_time(end) / steps)
    return statistics.median(times)


def wall_of(step, count, device):
    """The median of several times of a step by the host's clock, in microseconds: calls from Python, then a wait."""
    for _ in range(2):
        step(0)
    times = []
    for _ in range(5):
        torch.cuda.synchronize(device)
        begun = time.perf_counter()
        for at in range(count):
            step(at)
        torch.cuda.synchronize(device)
        times.append(1e6 * (time.perf_counter() - begun) / count)
    return statistics.median(times)


def in_graph(step, count, device):
    """The time of a step within a graph of `count` steps."""
    for at in range(count):
        step(at)
    torch.cuda.synchronize(device)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for at in range(count):
            step(at)
    return time_of(graph.replay, count, device)


def measure(name, keys, which, dtype, device, vocabulary, is_salted):
    rows = len(which)
    count = max(4, min(64, BYTES // (rows * vocabulary * dtype.itemsize)))
    logits = [torch.randn(rows, vocabulary, device=device).to(dtype) for _ in range(count)]
    which, contexts = which.to(device), torch.randint(0, vocabulary, (rows, 8), device=device)
    by_triton, by_torch = (GreenLists(keys, device, triton=triton) for triton in (True, False))
    figures = [
        in_graph(lambda at: by_triton.mark(logits[at % count], which, contexts), count, device),
        wall_of(lambda at: by_triton.mark(logits[at % count], which, contexts), 4 * count, device),
        wall_of(lambda at: by_torch.mark(logits[at % count], which, contexts, salted=is_salted), 3, device),
        in_graph(lambda at: logits[at % count].add_(1), count, device),
    ]
    short = next(short for short, each in TYPES.items() if each == dtype)
    print(f"| {name} | {rows} | {short} | " + " | ".join(f"{figure:,.1f}" for figure in figures) + " |", flush=True)


def main():
    device = torch.device(sys.argv[1] if len(sys.argv) > 1 else "cuda:0")
    vocabulary = int(sys.argv[2]) if len(sys.argv) > 2 else 128256
    torch.cuda.set_device(device)
    import triton

    versions = f"torch {torch.__version__}, Triton {triton.__version__}"
    print(f"{torch.cuda.get_device_name(device)}, {versions}, {vocabulary} tokens\n")
    check(keys_of(CHECKED, vocabulary), device, vocabulary)
    check(keys_of(NINE, vocabulary), device, vocabulary)
    # Neither a multiple of 16 nor of 128.
    check(keys_of([*ONE, SALTED, HARD], 50257), device, 50257)

    print("\nMicroseconds a step. The last column adds 1 to the logits, which reads and writes them once.\n")
    print("| keys | rows | logits | in a graph | by calls | torch's operations | `add_` |")
    print("|---|--:|---|--:|--:|--:|--:|")
    one, nine = keys_of(ONE, vocabulary), keys_of(NINE, vocabulary)
    with_salted, with_hard = keys_of([*NINE[:8], SALTED], vocabulary), keys_of([*NINE[:8], HARD], vocabulary)
    for rows in (1, 8, 64):
        turns = torch.arange(rows)
        first = turns * 0
        single = turns % 8
        single[-1] = 8
        for dtype in (torch.float32, torch.bfloat16):
            measure("one", one, first, dtype, device, vocabulary, False)
            measure("nine", nine, turns % 9, dtype, device, vocabulary, False)
            measure("nine, one hard", with_hard, turns % 9, dtype, device, vocabulary, False)
            measure("nine, one self-salted without a row", with_salted, turns % 8, dtype, device, vocabulary, False)
            measure("nine, one self-salted with one row", with_salted, single, dtype, device, vocabulary, True)
    measure("nine, one self-salted with all rows", with_salted, first + 8, torch.float32, device, vocabulary, True)


if __name__ == "__main__":
    main()
