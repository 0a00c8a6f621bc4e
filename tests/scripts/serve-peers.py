#!/usr/bin/env python3
"""Compares `verdigris serve` with llama.cpp's server, on one file of one model, in one run.

    pip install xllamacpp
    tests/scripts/serve-peers.py MODEL.gguf PROMPTS.jsonl [--clients 1 4 16 64] [--tokens 128] [--rounds 2] [--ways plain llama.cpp]

The program is target/release/verdigris. Each client sends chats of the file to a server, one after the other, as
streams of the given number of tokens; the servers take turns. Printed for each server and number of clients: total
tokens per second; the time to the first token, and between tokens, at the median and at the 99th percentile. Then 32
chats with one long system prompt: the time to the first token of the first, and of the others, which start when the
first is answered.
"""

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from statistics import median

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("model")
parser.add_argument("prompts")
parser.add_argument("--clients", type=int, nargs="+", default=[1, 4, 16, 64])
parser.add_argument("--tokens", type=int, default=128)
parser.add_argument("--requests", type=int, default=2, help="of each client, in each round")
parser.add_argument("--rounds", type=int, default=1)
parser.add_argument("--ways", nargs="+", default=["plain", "marked", "schema", "llama.cpp"])
parser.add_argument("--json", action="store_true", help="a line of JSON for each row, with all times")
args = parser.parse_args()

PROGRAM = os.path.join(os.environ.get("CARGO_TARGET_DIR", "target"), "release", "verdigris")
PROMPTS = [json.loads(line)["prompt"] for line in open(args.prompts, encoding="utf-8")]
# Unbounded strings, so that a text has all its max_tokens.
SCHEMA = {"type": "array", "items": {"type": "object", "additionalProperties": False, "required": ["name", "about"],
                                     "properties": {"name": {"type": "string"}, "about": {"type": "string"}}},
          "minItems": 100}


class Verdigris:
    """The program, with its own key."""

    def __init__(self, folder):
        key = os.path.join(folder, "bench.key")
        if not os.path.exists(key):
            subprocess.run([PROGRAM, "key", "new", key, "--model", args.model], check=True, stdout=subprocess.DEVNULL)
        command = [PROGRAM, "serve", "--model", args.model, "--key", key, "--port", "0", "--kv-cache-tokens", "131072"]
        # Its log is a file, since a pipe would not be read.
        log = os.path.join(folder, "log.txt")
        self.process = subprocess.Popen(command, stderr=open(log, "w", encoding="utf-8"))
        said = ""
        while "listening at http://" not in said:
            if self.process.poll() is not None:
                sys.exit(f"no server: {said}")
            time.sleep(0.1)
            said = open(log, encoding="utf-8").read()
        self.address = said.split("listening at http://")[1].split()[0]

    def stop(self):
        self.process.terminate()
        self.process.wait()


class LlamaCpp:
    """llama.cpp's server in this process, with a slot for each of the most clients."""

    def __init__(self):
        import xllamacpp
        parameters = xllamacpp.CommonParams()
        parameters.model.path, parameters.verbosity = args.model, -1
        parameters.n_parallel = max(args.clients)
        parameters.n_ctx = 2048 * parameters.n_parallel
        parameters.cpuparams.n_threads = parameters.cpuparams_batch.n_threads = os.cpu_count()
        self.server = xllamacpp.Server(parameters)
        self.address = self.server.listening_address.split("http://")[1]

    def stop(self):
        pass


async def stream(address, body):
    """The times at which pieces of an answer arrived, relative to the request, and its number of tokens."""
    host, port = address.rsplit(":", 1)
    reader, writer = await asyncio.open_connection(host, int(port))
    data = json.dumps(body).encode()
    head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\nConnection: close\r\n"
    writer.write(f"{head}Content-Length: {len(data)}\r\n\r\n".encode() + data)
    begun, times, tokens = time.perf_counter(), [], None
    while line := await reader.readline():
        if not line.startswith(b"data: ") or line.startswith(b"data: [DONE]"):
            continue
        event = json.loads(line[6:])
        if "error" in event:
            sys.exit(f"{address}: {event}")
        if event.get("usage"):
            tokens = event["usage"]["completion_tokens"]
        if event["choices"] and event["choices"][0]["delta"].get("content"):
            times.append(time.perf_counter() - begun)
    writer.close()
    return times, tokens


def asked(way, number, system=None, tokens=args.tokens, turn="0"):
    # Differs for every request, since servers cache the beginnings of conversations.
    mark = "" if system else f"({args.ways.index(way)}.{turn}.{number}) "
    messages = [{"role": "user", "content": mark + PROMPTS[number % len(PROMPTS)]}]
    if system:
        messages.insert(0, {"role": "system", "content": system})
    body = {"messages": messages, "max_tokens": tokens, "temperature": 0.8, "top_p": 0.95, "seed": number, "stream": True,
            "stream_options": {"include_usage": True}}
    if way == "llama.cpp":
        return body | {"ignore_eos": True, "top_k": 0, "min_p": 0}
    if way == "schema":
        body["structured_outputs"] = {"json": SCHEMA}
    else:
        body["ignore_eos"] = True
    return body | {"watermarking": way == "marked"}


async def clients(address, way, count, turn):
    """The answers to `count` clients, and the total seconds."""
    async def one(client):
        numbers = [client * args.requests + i for i in range(args.requests)]
        return [await stream(address, asked(way, number, turn=turn)) for number in numbers]
    begun = time.perf_counter()
    answers = await asyncio.gather(*[one(client) for client in range(count)])
    return [answer for of_one in answers for answer in of_one], time.perf_counter() - begun


async def prefix(address, way):
    system = "You answer in one short sentence. " + "The library has a rule for every shelf, and each rule has a reason. " * 105
    first, _ = await stream(address, asked(way, 0, system, 8))
    others = await asyncio.gather(*[stream(address, asked(way, n, system, 8)) for n in range(1, 32)])
    alone, _ = await stream(address, asked(way, 40, system, 8))
    return first[0], [times[0] for times, _ in others], alone[0]


def at(values, share):
    values = sorted(values)
    return values[min(len(values) - 1, int(share * len(values)))]


with tempfile.TemporaryDirectory() as folder:
    servers = {}
    for way in args.ways:
        servers[way] = LlamaCpp() if way == "llama.cpp" else servers.get("plain") or servers.get("marked") or Verdigris(folder)
    try:
        print("| clients | server | tokens/s | first token, ms: p50 | p99 | between tokens, ms: p50 | p99 |")
        print("|--:|---|--:|--:|--:|--:|--:|")
        for way, server in servers.items():
            asyncio.run(stream(server.address, asked(way, 0, None, 16)))
        for count in args.clients:
            seen = {way: ([], [], []) for way in servers}
            for turn in range(args.rounds):
                for way, server in servers.items():
                    answers, seconds = asyncio.run(clients(server.address, way, count, f"{count}.{turn}"))
                    speeds, firsts, between = seen[way]
                    speeds.append(sum(tokens for _, tokens in answers) / seconds)
                    firsts += [times[0] for times, _ in answers]
                    between += [b - a for times, _ in answers for a, b in zip(times, times[1:])]
            for way, (speeds, firsts, between) in seen.items():
                row = [1000 * value for value in (median(firsts), at(firsts, .99), median(between), at(between, .99))]
                if args.json:
                    print(json.dumps({"clients": count, "server": way, "tokens_per_second": speeds, "ms": row}))
                else:
                    print(f"| {count} | {way} | {median(speeds):.1f} | " + " | ".join(f"{value:.0f}" for value in row) + " |", flush=True)
        print("\n32 chats with one system prompt of some 1,500 tokens; ms to the first token")
        print("| server | first | the 31 others together, p50 | p99 | one more, alone |\n|---|--:|--:|--:|--:|")
        for way in [way for way in servers if way in ("plain", "llama.cpp")]:
            first, others, alone = asyncio.run(prefix(servers[way].address, way))
            print(f"| {way} | {1000 * first:.0f} | {1000 * median(others):.0f} | {1000 * at(others, .99):.0f} | {1000 * alone:.0f} |")
    finally:
        for server in {id(server): server for server in servers.values()}.values():
            server.stop()
