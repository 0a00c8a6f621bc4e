#!/usr/bin/env python3
"""Soaks `verdigris serve` with two tenants: one must not be affected by the other.

    cargo build --release && tests/scripts/serve-tenants.py [--seconds N]

One tenant sends every kind of difficult request: hostile constraints, broken bodies, requests of a thousand texts, long
prompts, log-probabilities, streams that are not read, and connections that are cut. The other one requests short texts,
whose bytes are known from requests made before the first tenant arrived. It fails if

  - a request of the second tenant is not answered, or with other bytes than alone;
  - a request of the first is answered with an error other than a refusal (such as 500);
  - memory grows: at the end it exceeds the maximum of the first half by a tenth and 32 MiB;
  - anything runs or waits at the end, or has panicked.

The waiting times of the second tenant are printed but not checked. It needs only Python.
"""

import argparse
import asyncio
import collections
import importlib.util
import json
import os
import pathlib
import random
import sys
import tempfile
import time

spec = importlib.util.spec_from_file_location("faults", pathlib.Path(__file__).with_name("serve-faults.py"))
faults = importlib.util.module_from_spec(spec)
spec.loader.exec_module(faults)

KEYS = {name: f"0123456789abcdef-{name}" for name in ("noisy", "quiet", "operator")}
NOISY_CLIENTS = 24
# Allowed statuses for requests that ask for too much, or too often.
REFUSED = (400, 413, 429, 503, 504)


def as_tenant(name):
    return [f"Authorization: Bearer {KEYS[name]}"]


async def ask(server, tenant, body, path="/v1/completions"):
    return await faults.answer(server, path, body, as_tenant(tenant))


def short(number):
    """A request of the second tenant."""
    body = {"prompt": f"The captain {number}", "seed": number, "max_tokens": 2 + number % 12, "ignore_eos": True}
    more = [{}, {"n": 2}, {"logprobs": 2}, {"structured_outputs": {"regex": f" [a-z]{{{2 + number % 5}}}"}}][number % 4]
    if "structured_outputs" in more:
        body.pop("ignore_eos")
    return {**body, **more}


def said(got):
    """The content of an answer, without the parts that differ each time."""
    if got is None or got[0] != 200 or not got[3]:
        return f"no answer: {got and (got[0], got[2][:300])}"
    body = json.loads(got[2])
    return json.dumps({name: body[name] for name in ("choices", "usage")}, sort_keys=True)


class Soak:
    def __init__(self, server, seconds):
        self.server, self.end = server, time.monotonic() + seconds
        self.count, self.faults, self.waits, self.rss = collections.Counter(), [], [], []
        self.alone = {}

    def fault(self, what):
        if len(self.faults) < 20:
            print(f"  FAULT: {what}", flush=True)
        self.faults.append(what)

    def goes_on(self):
        return time.monotonic() < self.end

    async def noisy(self, number):
        chance, kinds = random.Random(number), [name for name in dir(self) if name.startswith("noise_")]
        while self.goes_on():
            kind = chance.choice(kinds)
            self.count[kind.removeprefix("noise_")] += 1
            try:
                await asyncio.wait_for(getattr(self, kind)(chance), 120)
            except (ConnectionError, asyncio.IncompleteReadError, asyncio.TimeoutError):
                pass

    def judge(self, got):
        if got is not None and got[0] != 200 and got[0] not in REFUSED:
            self.fault(f"status {got[0]}: {got[2][:300]}")
        self.count[f"status {got and got[0]}"] += 1

    async def noise_hostile_form(self, chance):
        form = chance.choice(faults.HOSTILE)
        self.judge(await ask(self.server, "noisy", {"prompt": "a", "max_tokens": 30, "structured_outputs": form}))

    async def noise_broken_body(self, chance):
        self.judge(await ask(self.server, "noisy", chance.choice(faults.MALFORMED)))

    async def noise_thousand_texts(self, chance):
        prompts = [f"Chapter {i}. " + "The sea was high. " * chance.randrange(200) for i in range(8)]
        await self.cut({"prompt": prompts, "n": 128, "max_tokens": 400, "ignore_eos": True}, chance.uniform(0.2, 4))

    async def noise_too_many_texts(self, _):
        self.judge(await ask(self.server, "noisy", {"prompt": ["a"] * 128, "n": 128, "max_tokens": 1}))

    async def noise_long_prompt(self, chance):
        prompt = f"{chance.random()} " + "The captain slept. " * 300
        self.judge(await ask(self.server, "noisy", {"prompt": prompt, "max_tokens": 20, "n": 4}))

    async def noise_logprobs(self, chance):
        body = {"prompt": "The", "n": 16, "max_tokens": 100, "logprobs": 20, "ignore_eos": True}
        self.judge(await ask(self.server, "noisy", {**body, "stream": chance.random() < 0.5}))

    async def noise_unread_stream(self, chance):
        body = {"prompt": "The", "n": 32, "max_tokens": 400, "ignore_eos": True, "stream": True, "logprobs": 5}
        await self.cut(body, chance.uniform(1, 4))

    async def noise_cut_connection(self, chance):
        body = {"prompt": "The captain", "max_tokens": 400, "ignore_eos": True, "stream": chance.random() < 0.5}
        await self.cut(body, chance.uniform(0, 0.2))

    async def noise_large_body(self, _):
        self.judge(await ask(self.server, "noisy", {"prompt": [1] * 1_500_000, "max_tokens": 1}))

    async def cut(self, body, seconds):
        """Sends a request, reads nothing, and disconnects."""
        _, writer = await faults.send(self.server, "/v1/completions", body, as_tenant("noisy"))
        await asyncio.sleep(seconds)
        writer.transport.abort()

    async def quiet(self, first):
        number = first
        while self.goes_on():
            got = await ask(self.server, "quiet", short(number % 40))
            self.count["quiet answers"] += 1
            if said(got) != self.alone[number % 40]:
                self.fault(f"quiet request {number % 40}: {said(got)[:300]}, and alone {self.alone[number % 40][:300]}")
            number += 1
            await asyncio.sleep(0.01)

    async def one_token(self):
        while self.goes_on():
            begun = time.monotonic()
            got = await ask(self.server, "quiet", {"prompt": "Hello", "max_tokens": 1})
            self.waits.append(time.monotonic() - begun)
            if got is None or got[0] != 200:
                self.fault(f"one token: {got}")
            await asyncio.sleep(0.05)

    async def watch(self, seconds):
        for _ in range(20):
            await asyncio.sleep(seconds / 20)
            self.rss.append(self.server.rss())

    async def metrics(self):
        reader, writer = await asyncio.open_connection(self.server.host, self.server.port)
        writer.write(f"GET /metrics HTTP/1.0\r\n{as_tenant('operator')[0]}\r\n\r\n".encode())
        text = (await reader.read()).decode()
        writer.close()
        lines = (line.split() for line in text.splitlines() if line.startswith("verdigris_") and "{" not in line)
        return {line[0]: float(line[1]) for line in lines}

    async def run(self, seconds):
        for number in range(40):
            got = await ask(self.server, "quiet", short(number))
            self.alone[number] = said(got)
            if not self.alone[number].startswith("{"):
                self.fault(f"quiet request {number} alone: {self.alone[number]}")
        self.end = time.monotonic() + seconds
        clients = [self.noisy(number) for number in range(NOISY_CLIENTS)]
        clients += [self.quiet(0), self.quiet(20), self.one_token(), self.watch(seconds)]
        await asyncio.gather(*clients)
        end = time.monotonic() + 60
        names = ("verdigris_num_requests_running", "verdigris_num_requests_waiting", "verdigris_kv_cache_usage_perc")
        while left := {name: value for name, value in (await self.metrics()).items() if name in names and value}:
            if time.monotonic() > end:
                self.fault(f"left at the end: {left}")
                break
            await asyncio.sleep(0.2)
        if "panicked" in self.server.said():
            self.fault("a panic: see the log")
        early, late = max(self.rss[: len(self.rss) // 2]), self.rss[-1]
        if late > early * 1.1 + 32:
            self.fault(f"memory grew from {early:.0f} to {late:.0f} MiB")
        for name, count in sorted(self.count.items()):
            print(f"  {name.replace('_', ' '):<20} {count:>7}")
        waits = sorted(self.waits)
        at = lambda share: waits[min(len(waits) - 1, int(len(waits) * share))] * 1e3
        print(f"  one token of the quiet tenant, ms: median {at(0.5):.0f}, 95 % {at(0.95):.0f}, 99 % {at(0.99):.0f}, "
              f"most {waits[-1] * 1e3:.0f}, of {len(waits)}")
        print(f"  memory, MiB: at most {early:.0f} in the first half, {late:.0f} at the end")


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--program", default=str(faults.ROOT / "target/release/verdigris"))
    options.add_argument("--seconds", type=float, default=300)
    given = options.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        rights = {"operator": " metrics"}
        keys = "".join(f"{name} {key}{rights.get(name, '')}\n" for name, key in KEYS.items())
        (pathlib.Path(folder) / "keys.txt").write_text(keys)
        more = ["--api-key-file", "keys.txt", "--max-num-seqs", "32", "--max-stall-seconds", "2"]
        server = faults.Server(os.path.abspath(given.program), folder, *more)
        try:
            soak = Soak(server, given.seconds)
            asyncio.run(soak.run(given.seconds))
        finally:
            server.end()
    print(f"{len(soak.faults)} faults")
    return min(len(soak.faults), 1)


if __name__ == "__main__":
    sys.exit(main())
