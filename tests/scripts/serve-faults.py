#!/usr/bin/env python3
"""Runs `verdigris serve` under load and faults, and checks that nothing breaks, leaks, is lost or duplicated.

    cargo build --release && tests/scripts/serve-faults.py [--quick]

Four parts, each with its own server on this machine, the built-in model and a time limit:

  faults  20,000 requests: 10 % whose client disconnects, 5 % malformed, 5 % hostile schemas, some slow readers. No
          answer is lost, duplicated or mixed up; every complete one is logged once; memory is flat; nothing is left
          running.
  drain   SIGTERM under load: every answer that has begun is completed, and the server ends with status 0.
  kill    SIGKILL under load: every complete answer is logged.
  marks   1,000 answers of 220 tokens under --enforce-all: each with enough scored tokens is detected at p <= 1e-5.

It needs only Python. `--quick` does a tenth of everything. Status 0: no faults were found.
"""

import argparse
import asyncio
import collections
import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
CLIENTS = 24
# The scored tokens that suffice at 1e-5 with the key's strength: docs/watermark.md.
ENOUGH = 100


class Server:
    """The program as a server, run in a folder with a key."""

    def __init__(self, program, folder, *options):
        self.folder = pathlib.Path(folder)
        self.audit = self.folder / "audit.jsonl"
        subprocess.run([program, "key", "new", "my.key"], cwd=folder, check=True, capture_output=True)
        self.log = open(self.folder / "log.txt", "w+")
        arguments = [program, "serve", "--port", "0", "--key", "my.key", "--enforce-all", "--audit-log", "audit.jsonl"]
        # As in the unit of docs/deploy; otherwise free memory kept by glibc hides what the program keeps.
        environment = os.environ | {"MALLOC_ARENA_MAX": "2"}
        environment |= {f"MALLOC_{what}_THRESHOLD_": "131072" for what in ("TRIM", "MMAP")}
        self.process = subprocess.Popen(
            [*arguments, *options], cwd=folder, stdout=subprocess.DEVNULL, stderr=self.log, env=environment
        )
        end = time.monotonic() + 60
        while True:
            said = (self.folder / "log.txt").read_text()
            if "listening at http://" in said:
                address = said.split("listening at http://")[1].split()[0].strip('"}')
                self.host, port = address.rsplit(":", 1)
                self.port = int(port)
                return
            if time.monotonic() > end or self.process.poll() is not None:
                raise SystemExit(f"the server does not start: {said}")
            time.sleep(0.05)

    def rss(self):
        """The server's memory, in MiB."""
        for line in pathlib.Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) / 1024
        raise SystemExit("no VmRSS")

    def records(self):
        """The complete lines of the audit log."""
        for line in self.audit.read_text().splitlines():
            try:
                yield json.loads(line)
            except json.JSONDecodeError:
                pass

    def said(self):
        return (self.folder / "log.txt").read_text()

    def end(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.log.close()


async def send(server, path, body, headers=()):
    reader, writer = await asyncio.open_connection(server.host, server.port, limit=1 << 24)
    body = body if isinstance(body, bytes) else json.dumps(body).encode()
    head = [f"POST {path} HTTP/1.1", "Host: localhost", "Connection: close", f"Content-Length: {len(body)}", *headers]
    writer.write("\r\n".join(head).encode() + b"\r\n\r\n" + body)
    await writer.drain()
    return reader, writer


async def answer(server, path, body, headers=()):
    """Status, headers, the body so far, and whether it is complete; None if the connection ended before the head."""
    reader, writer = await send(server, path, body, headers)
    try:
        return await received(reader)
    finally:
        writer.close()


async def received(reader):
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
    except (asyncio.IncompleteReadError, ConnectionError):
        return None
    lines = head.split("\r\n")
    fields = {name.lower(): value for name, value in (line.split(": ", 1) for line in lines[1:] if ": " in line)}
    status = int(lines[0].split()[1])
    text, is_whole = b"", False
    try:
        if fields.get("transfer-encoding") != "chunked":
            text = await reader.readexactly(int(fields["content-length"]))
            is_whole = True
        while not is_whole:
            size = int(await reader.readline() or b"0", 16)
            chunk = await reader.readexactly(size + 2)
            is_whole = size == 0
            text += chunk[:-2]
    except (asyncio.IncompleteReadError, ConnectionError):
        pass
    return status, fields, text.decode(errors="replace"), is_whole


def read(status, fields, text, is_whole):
    """The id and texts of a complete answer, or the reason why it is incomplete."""
    if not is_whole:
        return None, "it was cut off"
    if "text/event-stream" not in fields.get("content-type", ""):
        body = json.loads(text)
        return (body["id"], {c["index"]: c["text"] for c in body["choices"]}), None
    events = [line[6:] for line in text.splitlines() if line.startswith("data: ")]
    if events.count("[DONE]") != 1 or events[-1] != "[DONE]":
        return None, f"{events.count('[DONE]')} ends"
    events = [json.loads(event) for event in events[:-1]]
    errors = [event["error"] for event in events if "error" in event]
    if errors:
        return None, f"an error: {errors}"
    texts, ended, ids = collections.defaultdict(str), collections.Counter(), {event["id"] for event in events}
    for event in events:
        for choice in event["choices"]:
            texts[choice["index"]] += choice["text"]
            ended[choice["index"]] += choice["finish_reason"] is not None
    if len(ids) != 1 or any(count != 1 for count in ended.values()):
        return None, f"{len(ids)} ids, ends {dict(ended)}"
    return (ids.pop(), dict(texts)), None


MALFORMED = [
    b"", b"{", b"[]", b"\xff\xfe", b'{"prompt": 7}', b'{"prompt": "a", "max_tokens": -1}', b"[" * 600,
    b'{"prompt": "a", "n": 1e9}', b'{"prompt": "a", "prompt": "b"}', b'{"prompt": "a", "frobnicate": 1}',
]


def nested(depth):
    schema = {"type": "integer"}
    for _ in range(depth):
        schema = {"anyOf": [{"type": "array", "items": schema}, {"type": "object", "properties": {"a": schema}}]}
    return schema


HOSTILE = [
    {"json": {"$ref": "http://x/"}},
    {"json": {"$ref": "#"}},
    {"json": {"allOf": [{"pattern": f"^(a|b)*{letter}(a|b){{40}}$"} for letter in "abab"]}},
    {"json": nested(12)},
    {"json": {"type": "object", "patternProperties": {f"^.*{i}.*$": {"minimum": i} for i in range(40)}}},
    {"json": {"type": "array", "uniqueItems": True, "items": {"type": "string", "pattern": "^(x+x+)+y$"}}},
    {"json": {"oneOf": [{"properties": {f"p{i}": {"type": "string"}}} for i in range(30)]}},
    {"regex": "((a{90}){90}){90}"},
    {"regex": "(.*a){60}"},
    {"choice": [f"choice {i}" for i in range(2000)]},
]


class Faults:
    """The first part."""

    def __init__(self, server, requests):
        self.server, self.requests = server, requests
        self.expected, self.whole, self.count = {}, collections.Counter(), collections.Counter()
        self.faults, self.rss, self.done = [], {}, 0
        self.slow = asyncio.Semaphore(4)

    def fault(self, what):
        if len(self.faults) < 20:
            print(f"  FAULT: {what}", flush=True)
        self.faults.append(what)

    async def one(self, number):
        chance = random.Random(number)
        kind = chance.random()
        which = chance.randrange(40)
        body = {"prompt": f"The captain {which}", "seed": which, "max_tokens": 4 + which, "ignore_eos": True,
                "n": 1 + (which % 7 == 0), "stream": chance.random() < 0.5}
        if kind < 0.10:
            self.count["disconnects"] += 1
            reader, writer = await send(self.server, "/v1/completions", {**body, "max_tokens": 400})
            if chance.random() < 0.7:
                try:
                    await asyncio.wait_for(reader.read(50), 5)
                except asyncio.TimeoutError:
                    pass
            writer.transport.abort()
        elif kind < 0.15:
            self.count["malformed"] += 1
            got = await answer(self.server, "/v1/completions", chance.choice(MALFORMED))
            if not got or got[0] != 400 or "error" not in json.loads(got[2]):
                self.fault(f"a malformed body: {got}")
        elif kind < 0.20:
            self.count["hostile schemas"] += 1
            hostile = {**body, "stream": False, "max_tokens": 30, "structured_outputs": chance.choice(HOSTILE)}
            hostile.pop("ignore_eos")
            got = await answer(self.server, "/v1/completions", hostile)
            if not got or got[0] not in (200, 400, 503) or got[0] != 200 and "error" not in json.loads(got[2]):
                self.fault(f"a hostile schema: {got}")
            elif got[0] == 200:
                self.whole[json.loads(got[2])["id"]] += 1
        elif kind < 0.205:
            async with self.slow:
                self.count["slow readers"] += 1
                long = {**body, "n": 64, "max_tokens": 60, "stream": True, "logprobs": 20, "return_token_ids": True}
                reader, writer = await send(self.server, "/v1/completions", long)
                await reader.read(20)
                await asyncio.sleep(3)
                writer.transport.abort()
        else:
            name = f"load-{number}"
            got = await answer(self.server, "/v1/completions", body, [f"x-request-id: {name}"])
            if got is None:
                return self.fault("no answer")
            if got[0] == 429:
                self.count["429"] += 1
                return
            self.count["whole"] += 1
            if got[0] != 200:
                return self.fault(f"status {got[0]}: {got[2][:200]}")
            if got[1].get("x-request-id") != name:
                self.fault(f"{name} was answered as {got[1].get('x-request-id')}")
            answered, why = read(*got)
            if why:
                return self.fault(why)
            self.whole[answered[0]] += 1
            if self.expected.setdefault(which, answered[1]) != answered[1]:
                self.fault(f"seed {which} has another text: {answered[1]} and {self.expected[which]}")

    async def run(self):
        numbers = iter(range(self.requests))

        async def client():
            for number in numbers:
                try:
                    await asyncio.wait_for(self.one(number), 300)
                except Exception as error:
                    self.fault(f"request {number}: {error!r}")
                self.done += 1
                for at in (self.requests // 4, self.requests - 1):
                    if self.done == at:
                        self.rss[at] = self.server.rss()
                if self.done % max(self.requests // 10, 1) == 0:
                    print(f"  {self.done} requests, {self.server.rss():.0f} MiB", flush=True)

        await asyncio.gather(*(client() for _ in range(CLIENTS)))
        await self.settle()

    async def settle(self):
        """Checks that nothing is left running without requests."""
        end = time.monotonic() + 60
        while True:
            reader, writer = await asyncio.open_connection(self.server.host, self.server.port)
            writer.write(b"GET /metrics HTTP/1.0\r\n\r\n")
            text = (await reader.read()).decode()
            writer.close()
            now = {line.split()[0]: float(line.split()[1]) for line in text.splitlines() if line.startswith("verdigris_")
                   and "{" not in line and " " in line}
            left = {name: now[name] for name in ("verdigris_num_requests_running", "verdigris_num_requests_waiting",
                                                  "verdigris_kv_cache_usage_perc") if now.get(name)}
            if not left:
                break
            if time.monotonic() > end:
                self.fault(f"left at the end: {left}")
                break
            await asyncio.sleep(0.2)
        records = collections.Counter(r["answer_id"] for r in self.server.records() if r["outcome"] == "whole")
        for name in self.whole:
            if self.whole[name] != 1 or records[name] != 1:
                self.fault(f"{name} came {self.whole[name]} times and is {records[name]} times on record")
        if max(records.values(), default=1) != 1:
            self.fault("an answer is twice on record")
        if "panicked" in self.server.said():
            self.fault("a panic: see the log")
        before, after = self.rss.values()
        if after > before * 1.1 + 32:
            self.fault(f"memory grew from {before:.0f} to {after:.0f} MiB")
        print(f"  {dict(self.count)}; memory {before:.0f} MiB at a quarter, {after:.0f} at the end")


async def loaded(server, then):
    """Sends requests from many clients, calls `then` once there is about one answer each, and returns the outcomes."""
    came, on_the_way = collections.Counter(), []
    ids, stop = [], asyncio.Event()

    async def client(number):
        for turn in range(100_000):
            if stop.is_set():
                return
            body = {"prompt": "The captain", "max_tokens": 40, "ignore_eos": True, "stream": (number + turn) % 2 == 0}
            try:
                got = await answer(server, "/v1/completions", body)
            except OSError:
                came["refused"] += 1
                if server.process.poll() is not None or stop.is_set():
                    return
                await asyncio.sleep(0.05)
                continue
            if got is None:
                came["closed"] += 1
            elif got[0] == 503:
                came["refused"] += 1
                await asyncio.sleep(0.05)
            else:
                answered, why = read(*got) if got[0] == 200 else (None, f"status {got[0]}")
                came["whole" if not why else "failed"] += 1
                if why:
                    on_the_way.append(why)
                else:
                    ids.append(answered[0])

    clients = [asyncio.create_task(client(number)) for number in range(CLIENTS)]
    for _ in range(600):
        if len(ids) >= CLIENTS:
            break
        await asyncio.sleep(0.1)
    await then()
    stop.set()
    await asyncio.wait_for(asyncio.gather(*clients), 120)
    return came, ids, on_the_way


async def drain(server):
    async def then():
        server.process.send_signal(signal.SIGTERM)
        status = await asyncio.wait_for(asyncio.to_thread(server.process.wait), 90)
        if status != 0:
            print(f"  FAULT: status {status}")
            faults.append(status)

    faults = []
    came, _, failed = await loaded(server, then)
    print(f"  {dict(came)}")
    for why in failed[:10]:
        print(f"  FAULT: {why}")
    return faults + failed


async def kill(server):
    async def then():
        server.process.kill()
        await asyncio.to_thread(server.process.wait)

    came, ids, _ = await loaded(server, then)
    records = collections.Counter(r["answer_id"] for r in server.records())
    lost = [name for name in ids if records[name] != 1]
    print(f"  {dict(came)}; {len(lost)} of {len(ids)} whole answers are not on record once")
    return lost


async def marks(server, texts):
    numbers, seen, missed = iter(range(texts)), [], []

    async def client():
        for number in numbers:
            body = {"prompt": f"Chapter {number}. The", "seed": number, "max_tokens": 220, "ignore_eos": True}
            status, _, text, _ = await answer(server, "/v1/completions", body)
            got = json.loads(text)
            mark = got["watermark"]
            if status != 200 or mark["status"] != "watermarked":
                missed.append(f"{status}: {mark}")
                continue
            _, _, found, _ = await answer(server, "/detect", {"text": got["choices"][0]["text"]})
            p = json.loads(found)["p_value"]
            seen.append((mark["scored_tokens"], p))
            if mark["scored_tokens"] >= ENOUGH and p > 1e-5:
                missed.append(f"seed {number}: {mark['scored_tokens']} scored, p {p:.1e}")

    await asyncio.gather(*(client() for _ in range(CLIENTS)))
    enough = [p for scored, p in seen if scored >= ENOUGH]
    print(f"  {len(seen)} answers, {len(enough)} with {ENOUGH} scored tokens or more; largest p of these {max(enough):.1e}")
    for miss in missed[:10]:
        print(f"  FAULT: {miss}")
    return missed


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--program", default=str(ROOT / "target/release/verdigris"))
    options.add_argument("--requests", type=int, default=20_000)
    options.add_argument("--texts", type=int, default=1_000)
    options.add_argument("--quick", action="store_true", help="a tenth of all")
    options.add_argument("--only", choices=["faults", "drain", "kill", "marks"], action="append")
    options.add_argument("--threads", help="as verdigris has it")
    given = options.parse_args()
    share = 10 if given.quick else 1
    program = os.path.abspath(given.program)
    threads = ["--threads", given.threads] if given.threads else []
    found = []
    for part in given.only or ["faults", "drain", "kill", "marks"]:
        print(f"{part}:", flush=True)
        begun = time.monotonic()
        with tempfile.TemporaryDirectory() as folder:
            server = Server(program, folder, "--max-stall-seconds", "2", *threads)
            try:
                if part == "faults":
                    faults = Faults(server, given.requests // share)
                    asyncio.run(faults.run())
                    found += faults.faults
                elif part == "marks":
                    found += asyncio.run(marks(server, given.texts // share))
                else:
                    found += asyncio.run({"drain": drain, "kill": kill}[part](server))
            finally:
                server.end()
        print(f"  {time.monotonic() - begun:.0f} s", flush=True)
    print(f"{len(found)} faults")
    return min(len(found), 1)


if __name__ == "__main__":
    sys.exit(main())
