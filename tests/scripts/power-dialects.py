"""Compares marks by their price: python tests/scripts/power-dialects.py PROGRAM MODEL [ROW ..].

A chat model answers the prompts of fixtures/prompts/chat.jsonl with a mark of each dialect, at the server's default
sampling, twenty prompts for each of three keys. Prints the mean of -ln p per token under the unmarked model with its
standard error, and the number of tokens after which half of the answers, and nine tenths, are found at p <= 1e-5, or
the share found if fewer are. A ROW is a part of a row's name.
"""

import concurrent.futures
import json
import math
import pathlib
import random
import re
import subprocess
import sys
import tempfile
import urllib.request

PROGRAM, MODEL, *ONLY = sys.argv[1:]
PROMPTS = pathlib.Path(__file__).resolve().parents[2] / "fixtures/prompts/chat.jsonl"
KEYS, TOKENS, LEVEL = 3, 200, -5
GREEN = "--gamma", ".25", "--delta"
# The name of a row, the options of its keys, and how many numbers their secrets have.
ROWS = [
    ("nothing", None, 0),
    ("native-gumbel, the default key", (), 0),
    ("native .25, delta 2", (*GREEN, "2"), 0),
    ("unigram .5, delta 2", ("--dialect", "unigram"), 1),
    ("kgw simple_1, .25, delta 2", ("--dialect", "kgw"), 1),
    ("hugging-face selfhash 4, .25, delta 2",
     ("--dialect", "hugging-face", "--seeding", "selfhash", "--width", "4"), 1),
    ("vllm", ("--dialect", "vllm"), 1),
    ("vllm-dual, alpha .1", ("--dialect", "vllm-dual"), 1),
    ("sglang-dual, mixing .5", ("--dialect", "sglang-dual"), 2),
    ("sbw selfhash, .25, delta 2", ("--dialect", "sbw", "--seeding", "gpu-fused-selfhash", "--gamma", ".25"), 1),
    ("synthid table", ("--dialect", "synthid", "--bits", "table"), 30),
]


def post(address, path, body):
    request = urllib.request.Request(address + path, json.dumps(body).encode(), {"content-type": "application/json"})
    with urllib.request.urlopen(request, timeout=3600) as answer:
        return json.load(answer)


def answers(key, prompts, seed):
    """The nats and tokens of each answer, and the number of tokens after which it is found."""
    options = ("--key", str(key)) if key else ()
    # Limits of time are for servers that are not as slow as a busy machine with twenty clients.
    limits = (part for name in ("request", "queue", "stall") for part in (f"--max-{name}-seconds", "36000"))
    command = [PROGRAM, "serve", "--model", MODEL, "--port", "0", "--max-tokens", str(TOKENS), *limits, *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as server:
        try:
            address = next(re.search(r"http://\S+", line)[0] for line in server.stdout if "listening" in line)

            def ask(number):
                body = {"messages": [{"role": "user", "content": prompts[number]}], "max_tokens": TOKENS,
                        "seed": seed + number, "logprobs": True}
                choice = post(address, "/v1/chat/completions", body)["choices"][0]
                return choice["message"]["content"], [-of["logprob"] for of in choice["logprobs"]["content"]]

            with concurrent.futures.ThreadPoolExecutor(len(prompts)) as pool:
                written = list(pool.map(ask, range(len(prompts))))
            texts = [text for text, _ in written]
            judged = post(address, "/detect", {"texts": texts, "course": True})["results"] if key else [{}] * len(texts)
        finally:
            server.terminate()
    found = [[point["tokens"] for point in of.get("course", ()) if point["log10_p"] <= LEVEL] for of in judged]
    return [(sum(nats), len(nats), min(at, default=math.inf)) for (_, nats), at in zip(written, found)]


def mean(pairs):
    """The ratio of two sums over answers, and its standard error."""
    ratio = sum(nats for nats, _ in pairs) / sum(tokens for _, tokens in pairs)
    spread = sum((nats - ratio * tokens) ** 2 for nats, tokens in pairs)
    return ratio, math.sqrt(spread) / sum(tokens for _, tokens in pairs)


def after(found, share):
    at = sorted(found)[math.ceil(share * len(found)) - 1]
    return "never" if at == math.inf else f"{at}"


prompts = [json.loads(line)["prompt"] for line in PROMPTS.read_text().splitlines()]
print("| marked with | answers | tokens | nats a token | found | half found at | nine tenths found at |")
print("|---|--:|--:|--:|--:|--:|--:|", flush=True)
for name, options, numbers in ROWS:
    if ONLY and not any(word in name for word in ONLY):
        continue
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for of in range(KEYS):
            key = pathlib.Path(folder) / f"{of}.key" if options is not None else None
            if key:
                chance, notation = random.Random(of), "x" if "sglang" in name else "d"
                secret = [format(chance.randrange(1 << 32, 1 << 63), notation) for _ in range(numbers)]
                given = ("--hash-key", ",".join(secret)) if secret else ()
                command = [PROGRAM, "key", "new", key, "--model", MODEL, *options, *given]
                subprocess.run(command, check=True, capture_output=True, text=True)
            rows += answers(key, prompts[of::KEYS], 1000 * of)
    ratio, error = mean([(nats, tokens) for nats, tokens, _ in rows])
    found = [at for *_, at in rows]
    cells = [name, len(rows), f"{sum(tokens for _, tokens, _ in rows) / len(rows):.0f}", f"{ratio:.2f} ± {error:.2f}"]
    if options is not None:
        share = sum(at < math.inf for at in found) / len(found)
        cells += [f"{100 * share:.0f} %", after(found, .5), after(found, .9)]
    print("| " + " | ".join(map(str, cells)) + " |", flush=True)
