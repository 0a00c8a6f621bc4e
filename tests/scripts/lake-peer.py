"""What a lake is judged by elsewhere: a Python loop over the watermark detector of Hugging Face transformers.

    lake-peer.py sample LAKE FILE COUNT      the first documents of a lake as one file
    lake-peer.py detect FILE FOUND TOKENIZER KEY

The second prints how many documents a second the loop judges on one thread, and holds the numbers of tokens that it
read against FOUND, the folder that verdigris-scan has written of the same file: both do the same work.
"""

import json
import pathlib
import sys
import time

import pyarrow.dataset
import pyarrow.parquet


def sample(lake, file, count):
    first = sorted(pathlib.Path(lake).glob("*.parquet"))[0]
    pyarrow.parquet.write_table(pyarrow.parquet.read_table(first).slice(0, int(count)), file)


def detect(file, found, tokenizer, key):
    import torch
    from transformers import LlamaConfig, PreTrainedTokenizerFast, WatermarkDetector, WatermarkingConfig

    torch.set_num_threads(1)
    tokenizer = PreTrainedTokenizerFast(tokenizer_file=tokenizer)
    fields = json.loads(pathlib.Path(key).read_text())
    secret = int(fields["secret"], 16)
    config = WatermarkingConfig(greenlist_ratio=0.25, bias=2.0, hashing_key=secret, seeding_scheme="lefthash",
                                context_width=1)
    model = LlamaConfig(vocab_size=len(tokenizer), bos_token_id=None)
    detector = WatermarkDetector(model, "cpu", config, ignore_repeated_ngrams=True)
    texts = pyarrow.parquet.read_table(file, columns=["text"])["text"].to_pylist()
    began, bytes_read, tokens = time.perf_counter(), 0, []
    for text in texts:
        ids = tokenizer(text, add_special_tokens=False, return_tensors="pt")["input_ids"]
        detector(ids, return_dict=True)
        tokens.append(ids.shape[-1])
        bytes_read += len(text.encode())
    took = time.perf_counter() - began
    print(f"loop       {len(texts) / took:,.0f} documents/s, {bytes_read / 1e6 / took:.2f} MB/s, {took:.1f} s")
    ours = pyarrow.dataset.dataset(found).to_table(columns=["tokens"])["tokens"].to_pylist()
    assert ours == tokens, "the same texts have other tokens"
    print(f"           both read the same {sum(tokens):,} tokens")


{"sample": sample, "detect": detect}[sys.argv[1]](*sys.argv[2:])
