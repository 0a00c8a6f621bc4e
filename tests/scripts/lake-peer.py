"""The measurements of tests/scripts/lake.

    lake-peer.py run PARTS FOLDER COMMAND...     a scan that writes to FOLDER: its speed, its CPU time, and its memory
    lake-peer.py sample LAKE FILE COUNT          the first documents of a lake as one file
    lake-peer.py loop FILE FOUND TOKENIZER KEY   a Python loop over the watermark detector of Hugging Face transformers

The loop runs on one thread. Its token counts are compared with those in FOUND, the folder that verdigris-scan wrote for
the same file, to check that both do the same work.
"""

import json
import pathlib
import resource
import subprocess
import sys
import time


def line(name, documents, size, wall, cpu, more=""):
    print(f"{name:<11}{documents / wall:,.0f} documents/s, {size / wall:.2f} MB/s, {wall:.1f} s; "
          f"{documents / cpu:,.0f} documents and {size / cpu:.2f} MB a second of CPU time{more}", flush=True)


def run(parts, folder, *command):
    folder = pathlib.Path(folder)
    done = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    quarter = held = 0
    while done.poll() is None:
        status = pathlib.Path(f"/proc/{done.pid}/status").read_text()
        held = next((int(row.split()[1]) // 1024 for row in status.splitlines() if row.startswith("VmRSS")), held)
        if not quarter and sum(1 for _ in folder.glob("part-*")) >= int(parts) / 4:
            quarter = held
        time.sleep(0.05)
    assert done.returncode == 0, done.returncode
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    found = json.loads(done.stdout.read())
    wall, size = found["seconds"], found["megabytes_per_second"] * found["seconds"]
    memory = f"; {quarter} MB held after a quarter, {held} at the end, {used.ru_maxrss // 1024} at most"
    line(folder.name, found["documents"], size, wall, used.ru_utime + used.ru_stime, memory)


def sample(lake, file, count):
    import pyarrow.parquet

    first = sorted(pathlib.Path(lake).glob("*.parquet"))[0]
    pyarrow.parquet.write_table(pyarrow.parquet.read_table(first).slice(0, int(count)), file)


def loop(file, found, tokenizer, key):
    import pyarrow.dataset
    import pyarrow.parquet
    import torch
    from transformers import LlamaConfig, PreTrainedTokenizerFast, WatermarkDetector, WatermarkingConfig

    torch.set_num_threads(1)
    # Names of control tokens in a text are plain text here, too.
    tokenizer = PreTrainedTokenizerFast(tokenizer_file=tokenizer, split_special_tokens=True)
    secret = int(json.loads(pathlib.Path(key).read_text())["secret"], 16)
    config = WatermarkingConfig(greenlist_ratio=0.25, bias=2.0, hashing_key=secret, seeding_scheme="lefthash",
                                context_width=1)
    model = LlamaConfig(vocab_size=len(tokenizer), bos_token_id=tokenizer.convert_tokens_to_ids("<|endoftext|>"))
    detector = WatermarkDetector(model, "cpu", config, ignore_repeated_ngrams=True)
    texts = pyarrow.parquet.read_table(file, columns=["text"])["text"].to_pylist()
    wall, cpu, tokens = time.perf_counter(), time.process_time(), []
    for text in texts:
        ids = tokenizer(text, add_special_tokens=False, return_tensors="pt")["input_ids"]
        detector(ids, return_dict=True)
        tokens.append(ids.shape[-1])
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    line("the loop", len(texts), sum(len(text.encode()) for text in texts) / 1e6, wall, cpu)
    ours = pyarrow.dataset.dataset(found).to_table(columns=["tokens", "looks"]).to_pylist()
    # A text whose characters were repaired was read twice, and only one of the readings is reported.
    once = [(row["tokens"], theirs) for row, theirs in zip(ours, tokens, strict=True) if row["looks"] == 1]
    assert all(one == other for one, other in once), "the same texts have other tokens"
    print(f"           {sum(tokens):,} tokens; in {len(once)} documents, those without a repair, both counted the same")


{"run": run, "sample": sample, "loop": loop}[sys.argv[1]](*sys.argv[2:])
