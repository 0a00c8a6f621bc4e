"""Compares the scores of SynthID's marks: python tests/scripts/synthid-scores.py PROGRAM MODEL [TEXTS [OPTIONS ..]].

Writes answers with a SynthID key, trains the Bayesian score on half of them, and prints the share of the other half
that each score finds after some tokens. OPTIONS are those of `batch`, such as --chat.
"""

import json
import pathlib
import subprocess
import sys
import tempfile

PROGRAM, MODEL, TEXTS, *OPTIONS = [*sys.argv[1:], *["200"] * (len(sys.argv) < 4)]
LENGTHS = (50, 100, 200)
LEVELS = ("1e-3", "1e-5")
SUBJECTS = ["the sea", "a small town", "bread", "a lost key", "winter", "an old teacher", "trains", "the moon",
            "a garden", "music", "a long journey", "a market", "rain", "a first day at work", "mountains", "a letter",
            "dogs", "time"]
KINDS = ["Write a short story about {}.", "Explain to a child why people like {}.",
         "Write a letter to a friend about {}.", "Give some advice on {}.", "Describe {} in detail."]


def run(*arguments, fine=(0,)):
    done = subprocess.run([PROGRAM, *map(str, arguments)], capture_output=True, text=True)
    if done.returncode not in fine:
        raise SystemExit(f"{arguments}: {done.stderr}")
    return done.stdout


def begin(text, tokens, length):
    """The words of a text that are about some of its tokens."""
    words = text.split(" ")
    return " ".join(words[:max(1, round(len(words) * length / tokens))])


with tempfile.TemporaryDirectory() as folder:
    folder = pathlib.Path(folder)
    prompts = [kind.format(subject) for kind in KINDS for subject in SUBJECTS]
    lines = [json.dumps({"prompt": prompts[i % len(prompts)]}) for i in range(int(TEXTS))]
    (folder / "prompts.jsonl").write_text("\n".join(lines) + "\n")
    keys = ",".join(str(1000 + 37 * i) for i in range(30))
    common = ("--model", MODEL, "--dialect", "synthid", "--bits", "hash", "--hash-key", keys, "--id", "s")
    for score in ("mean", "weighted-mean"):
        run("key", "new", folder / f"{score}.key", *common, "--score", score)
    run("batch", folder / "prompts.jsonl", folder / "texts.jsonl", "--model", MODEL, "--key", folder / "mean.key",
        "--seed", 1, "--max-tokens", LENGTHS[-1], "--quiet", *OPTIONS, fine=(0, 3))
    texts = [json.loads(line) for line in (folder / "texts.jsonl").read_text().splitlines()]
    texts.sort(key=lambda text: text["line"])
    halves = texts[::2], texts[1::2]
    (folder / "training.jsonl").write_text("".join(json.dumps({"text": text["text"]}) + "\n" for text in halves[0]))
    trained = json.loads(run("train", "synthid-detector", folder / "training.jsonl", "--key", folder / "mean.key",
                             "--output", folder / "bayesian.key", "--model", MODEL, "--json"))
    print(f"{len(halves[0])} texts to train on, {trained['tokens'] + trained['held_out_tokens']} tokens, "
          f"gain {trained['gain']:.4f} nats a token\n")
    print("| score | " + " | ".join(f"{length} tokens, {level}" for length in LENGTHS for level in LEVELS) + " |")
    print("|---|" + "--:|" * len(LENGTHS) * len(LEVELS))
    for score in ("mean", "weighted-mean", "bayesian"):
        cells = []
        for length in LENGTHS:
            # Texts that end before have no such part.
            long = [text for text in halves[1] if len(text["tokens"]) >= length]
            parts = [begin(text["text"], len(text["tokens"]), length) for text in long]
            (folder / "parts.jsonl").write_text("".join(json.dumps({"text": part}) + "\n" for part in parts))
            judged = run("detect", folder / "parts.jsonl", "--key", folder / f"{score}.key", "--model", MODEL, "--json",
                         fine=(0, 1, 2))
            logs = [json.loads(line)["log10_p"] for line in judged.splitlines()]
            for level in (-3, -5):
                cells.append(f"{100 * sum(log <= level for log in logs) / len(logs):.0f} % of {len(logs)}")
        print(f"| {score} | " + " | ".join(cells) + " |")
