"""vLLM itself on a CPU, with the plug-in that it finds: `tests/scripts/wheel --vllm` installs it and runs this.

Each engine is a separate process, since keys are given by the environment. The results are compared with the built
program, and for tokens with `Mark.fill_bitmask`.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request

import numpy
import pytest
import verdigris
from conftest import PROMPTS, TALE

pytestmark = pytest.mark.skipif(os.environ.get("VERDIGRIS_VLLM") != "1",
                                reason="SKIPPED: vLLM is run only by tests/scripts/wheel --vllm")

# The beginning of every program: sampling options, and no compilation, which takes minutes on a CPU.
ENGINE = """
import json, os, sys, time
from vllm import LLM, SamplingParams
from vllm.sampling_params import BeamSearchParams
settings = {"model": os.environ["TALE"], "enforce_eager": True, "max_model_len": 512, "max_num_seqs": 16, "seed": 1,
            "disable_log_stats": True}
prompts = json.loads(os.environ["PROMPTS"])
def asks(**options):
    given = {"temperature": 0.9, "max_tokens": 200, "ignore_eos": True, **options}
    ours = {name: given.pop(name) for name in list(given) if name.lower().startswith("verdigris")}
    return SamplingParams(extra_args=ours or None, **given)
def texts(outputs):
    return [{"prompt": list(text.prompt_token_ids), "tokens": list(written.token_ids), "text": written.text}
            for text in outputs for written in text.outputs]
def answer(value):
    print("ANSWER " + json.dumps(value), flush=True)
"""


@pytest.fixture(scope="module")
def ring(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ring")
    for name, options in {"a": {}, "b": {"context": "all", "width": 2, "gamma": 0.5, "delta": 3.0},
                          "hard": {"context": "all", "width": 1, "delta": None},
                          "salted": {"context": "self-salted", "width": 3}}.items():
        verdigris.Key.lists(id=name, **options).save(folder / f"{name}.key")
    return folder


def environment(ring, **more):
    of_threads = {"OMP_NUM_THREADS": "2", "VLLM_CPU_KVCACHE_SPACE": "1", "TOKENIZERS_PARALLELISM": "false"}
    ours = {"VERDIGRIS_KEYS": str(ring), "VERDIGRIS_DEFAULT_KEY": "a"} if ring else {}
    return {**os.environ, **of_threads, "TALE": str(TALE), "PROMPTS": json.dumps(PROMPTS), "HF_HUB_OFFLINE": "1",
            "VLLM_ENABLE_V1_MULTIPROCESSING": "0", "VLLM_NO_USAGE_STATS": "1", **ours, **more}


def run(ring, program, **more):
    """Runs a program after `ENGINE`. Returns its answer, and all of its output."""
    done = subprocess.run([sys.executable, "-c", ENGINE + program], env=environment(ring, **more), text=True,
                          capture_output=True, timeout=1800)
    answers = [line[7:] for line in done.stdout.splitlines() if line.startswith("ANSWER ")]
    return (json.loads(answers[0]) if answers else None), done.stdout + done.stderr


def found(program, key, texts):
    """The number of texts that carry the mark of a key."""
    lines = [json.loads(program("detect", "--json", "--key", key, text=text["text"])) for text in texts]
    return sum(line["verdict"] == "marked" for line in lines)


def greens(key, text):
    """Whether each token of a text is green, by the lists of the library."""
    mark, all_tokens = verdigris.Mark(key), text["prompt"] + text["tokens"]
    contexts = numpy.array([all_tokens[at - 8 : at] for at in range(len(text["prompt"]), len(all_tokens))])
    mask = numpy.zeros((len(contexts), mark.bitmask_words), numpy.int32)
    mark.fill_bitmask(contexts, mask)
    words = mask.view(numpy.uint32)
    return [bool(words[row, token // 32] >> (token % 32) & 1) for row, token in enumerate(text["tokens"])]


def test_texts_are_marked_by_the_key_that_they_name(ring, program):
    """The first runner, the only one on a CPU: the default key, an opt-out, named keys in one batch, n and top-p."""
    made, printed = run(ring, """
llm = LLM(**settings)
every = prompts * 3
llm.generate(every, asks(max_tokens=8))
def timed(**options):
    begun = time.perf_counter()
    made = texts(llm.generate(every, asks(**options)))
    return made, sum(len(text["tokens"]) for text in made) / (time.perf_counter() - begun)
(marked, with_mark), (plain, without) = timed(), timed(verdigris_watermark=0)
named = [asks(verdigris_key_id=key) for key in ("b", "hard", "salted")]
mixed = [(named + [asks(verdigris_watermark=0)])[at % 4] for at in range(len(every))]
answer({"default": marked, "none": plain, "speeds": [with_mark, without],
        "mixed": texts(llm.generate(every, mixed)), "narrow": texts(llm.generate(every, asks(top_p=0.9, temperature=0.8))),
        "four": texts(llm.generate(prompts[:2], asks(n=4)))})
""")
    assert made, printed[-3000:]
    assert "verdigris: mode default, default key a, keys a (" in printed and "; first model runner on cpu" in printed
    keys = {name: ring / f"{name}.key" for name in ("a", "b", "hard", "salted")}
    counts = {name: found(program, keys["a"], made[name]) for name in ("default", "none", "narrow", "four")}
    assert counts == {"default": 12, "none": 0, "narrow": 12, "four": 8}
    for at, owner in enumerate(["b", "hard", "salted", None]):
        texts = made["mixed"][at::4]
        assert len(texts) == 3
        assert {name: found(program, key, texts) for name, key in keys.items()} == {
            name: 3 if name == owner else 0 for name in keys}
    hard = verdigris.Key.load(keys["hard"])
    assert all(all(greens(hard, text)) for text in made["mixed"][1::4])
    with_mark, without = made["speeds"]
    print(f"\nfound under the default key: {counts}, of 12, 12, 12 and 8 texts")
    print(f"3 of 3 texts under each of b, hard and salted in one batch; {3 * 200} of {3 * 200} tokens of hard are green")
    print(f"tokens/s of 12 texts at once: {with_mark:.0f} marked, {without:.0f} not ({with_mark / without:.2f})")


def test_a_request_that_cannot_be_followed_is_refused(ring):
    made, printed = run(ring, """
llm = LLM(**settings)
refused = {}
for name, options in {"case": {"Verdigris_key_id": "b"}, "dash": {"verdigris-key-id": "b"},
                      "unknown": {"verdigris_key_id": "c"}}.items():
    try:
        llm.generate(prompts[:1], SamplingParams(max_tokens=4, extra_args=options))
    except Exception as fault:
        refused[name] = str(fault)
try:
    llm.beam_search([{"prompt": prompts[0]}], BeamSearchParams(beam_width=2, max_tokens=8))
except Exception as fault:
    refused["beam"] = str(fault)
answer(refused)
""")
    assert made, printed[-3000:]
    assert "no option 'Verdigris_key_id'" in made["case"] and "no option 'verdigris-key-id'" in made["dash"]
    assert "no key 'c'" in made["unknown"] and "leave use_beam_search out" in made["beam"]


def test_an_engine_that_would_drop_marks_does_not_start(ring):
    program = """
settings["speculative_config"] = {"method": "ngram", "num_speculative_tokens": 3, "prompt_lookup_max": 3}
llm = LLM(**settings)
answer(texts(llm.generate(prompts[:1], asks(max_tokens=20))))
"""
    made, printed = run(ring, program, VLLM_USE_V2_MODEL_RUNNER="0")
    assert made is None and "drops plug-ins when it speculates" in printed
    # Without keys there are no marks to drop.
    made, printed = run(None, program, VLLM_USE_V2_MODEL_RUNNER="0")
    assert made and len(made[0]["tokens"]) == 20, printed[-3000:]


def test_a_server_marks_and_refuses(ring, program, tmp_path):
    """`vllm serve`: the default key, another one, none, a misspelt option, and beam search, which is refused."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--model", str(TALE), "--served-model-name",
               "tale", "--port", str(port), "--host", "127.0.0.1", "--enforce-eager", "--max-model-len", "512",
               "--max-num-seqs", "8"]
    log = tmp_path / "server.log"
    with log.open("w") as into:
        server = subprocess.Popen(command, env=environment(ring), stdout=into, stderr=subprocess.STDOUT)

    def ask(**fields):
        body = {"model": "tale", "prompt": PROMPTS[0], "max_tokens": 200, "temperature": 0.9, "ignore_eos": True, **fields}
        request = urllib.request.Request(f"http://127.0.0.1:{port}/v1/completions", json.dumps(body).encode(),
                                         {"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=300) as answer:
                return answer.status, [choice["text"] for choice in json.load(answer)["choices"]]
        except urllib.error.HTTPError as fault:
            return fault.code, fault.read().decode()

    try:
        until = time.monotonic() + 600
        while time.monotonic() < until:
            assert server.poll() is None, log.read_text()[-3000:]
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5)
                break
            except OSError:
                time.sleep(1)
        for options, marked_by in (({}, "a"), ({"verdigris_key_id": "b"}, "b"), ({"verdigris_watermark": 0}, None)):
            status, texts = ask(vllm_xargs=options) if options else ask()
            assert status == 200
            for name in ("a", "b"):
                line = json.loads(program("detect", "--json", "--key", ring / f"{name}.key", text=texts[0]))
                assert (line["verdict"] == "marked") == (name == marked_by)
        for fields, says in (({"vllm_xargs": {"verdigris_Key_id": "b"}}, "no option"),
                             ({"use_beam_search": True, "n": 2}, "leave use_beam_search out")):
            status, body = ask(**fields)
            assert status == 400 and says in body, (fields, status, body)
    finally:
        server.send_signal(signal.SIGINT)
        try:
            server.wait(60)
        except subprocess.TimeoutExpired:
            server.kill()
