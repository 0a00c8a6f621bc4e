#!/usr/bin/env python3
"""Writes a GGUF file with random weights in the shape of a real model, for measuring speed:
    tests/scripts/random-gguf.py smollm2-135m|qwen2.5-0.5b|llama-3.2-1b BF16|Q8_0|Q4_K FILE

Needs: pip install gguf numpy. Most of its tokens are placeholders, so it is not for generating text.
"""

import sys

import gguf
import numpy as np

shapes = {
    "smollm2-135m": ("llama", dict(vocabulary=49152, width=576, layers=30, heads=9, kv_heads=3, head_dim=64, inner=1536, theta=1e5)),
    "qwen2.5-0.5b": ("qwen2", dict(vocabulary=151936, width=896, layers=24, heads=14, kv_heads=2, head_dim=64, inner=4864, theta=1e6)),
    "llama-3.2-1b": ("llama", dict(vocabulary=128256, width=2048, layers=16, heads=32, kv_heads=8, head_dim=64, inner=8192, theta=5e5)),
}
shape, kind, path = sys.argv[1:]
model, of = shapes[shape]
kind = gguf.GGMLQuantizationType[kind]
random = np.random.default_rng(1)
writer = gguf.GGUFWriter(path, model)
writer.add_name(shape)
writer.add_context_length(4096)
writer.add_embedding_length(of["width"])
writer.add_block_count(of["layers"])
writer.add_feed_forward_length(of["inner"])
writer.add_head_count(of["heads"])
writer.add_head_count_kv(of["kv_heads"])
writer.add_layer_norm_rms_eps(1e-5)
writer.add_rope_freq_base(of["theta"])
writer.add_rope_dimension_count(of["head_dim"])
writer.add_vocab_size(of["vocabulary"])
writer.add_tokenizer_model("gpt2")
writer.add_tokenizer_pre("qwen2" if model == "qwen2" else "llama-bpe")
# GPT-2's characters for bytes, so that any text can be tokenized.
shown = [*range(33, 127), *range(161, 173), *range(174, 256)]
signs = [chr(byte) for byte in shown] + [chr(256 + i) for i in range(256 - len(shown))]
writer.add_token_list(signs + [f"t{i}" for i in range(of["vocabulary"] - len(signs))])
writer.add_token_types([gguf.TokenType.NORMAL] * of["vocabulary"])
writer.add_token_merges(["t 1"])


def put(name, rows, columns):
    if kind == gguf.GGMLQuantizationType.Q4_K:
        size, length = gguf.GGML_QUANT_SIZES[kind]
        raw = random.integers(0, 256, (rows, columns // size, length), dtype=np.uint8)
        # Scales for weights of about 0.02.
        raw[..., :2] = np.float16(1e-4).view(np.uint16).astype(np.uint16).tobytes()[0], np.float16(1e-4).tobytes()[1]
        raw[..., 2:4] = np.float16(7e-4).tobytes()[0], np.float16(7e-4).tobytes()[1]
        data = raw.reshape(rows, -1)
    else:
        data = gguf.quantize((0.02 * random.standard_normal((rows, columns))).astype(np.float32), kind)
    writer.add_tensor(name, data, raw_dtype=kind)


def ones(name, length):
    writer.add_tensor(name, np.ones(length, np.float32))


width, inner = of["width"], of["inner"]
put("token_embd.weight", of["vocabulary"], width)
ones("output_norm.weight", width)
for i in range(of["layers"]):
    ones(f"blk.{i}.attn_norm.weight", width)
    ones(f"blk.{i}.ffn_norm.weight", width)
    of_query, of_key = of["heads"] * of["head_dim"], of["kv_heads"] * of["head_dim"]
    for part, rows in [("q", of_query), ("k", of_key), ("v", of_key)]:
        put(f"blk.{i}.attn_{part}.weight", rows, width)
        if model == "qwen2":
            writer.add_tensor(f"blk.{i}.attn_{part}.bias", np.zeros(rows, np.float32))
    put(f"blk.{i}.attn_output.weight", width, of_query)
    put(f"blk.{i}.ffn_gate.weight", inner, width)
    put(f"blk.{i}.ffn_up.weight", inner, width)
    put(f"blk.{i}.ffn_down.weight", width, inner)
writer.write_header_to_file()
writer.write_kv_data_to_file()
writer.write_tensors_to_file()
writer.close()
