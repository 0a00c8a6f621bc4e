#!/usr/bin/env python3
"""Writes a GGUF file with random weights in the shape of a real model, for measuring speed:

    tests/scripts/random-gguf.py SHAPE BF16|Q8_0|Q4_K FILE

SHAPE is smollm2-135m, qwen2.5-0.5b, llama-3.2-1b, lfm2-1.2b, qwen3.5-2b, gpt-oss-20b (experts in MXFP4 whatever the
format), qwen3-30b-a3b (LAYERS=N for fewer than 48 layers) or gemma-4-e2b. Needs: pip install gguf numpy. Most of its
tokens are placeholders, so it is not for generating text. The file is written tensor by tensor, so memory does not grow
with it.
"""

import os
import sys

import gguf
import numpy as np

KINDS = gguf.GGMLQuantizationType
random = np.random.default_rng(1)


def block(kind, count):
    """Random blocks of a format, with weights of about 0.02."""
    size, length = gguf.GGML_QUANT_SIZES[kind]
    raw = random.integers(0, 256, (count, length), dtype=np.uint8)
    half = lambda number: np.frombuffer(np.float16(number).tobytes(), np.uint8)
    if kind == KINDS.Q4_K:
        raw[:, :2], raw[:, 2:4] = half(1e-4), half(7e-4)
    elif kind == KINDS.Q8_0:
        raw[:, :2] = half(2.7e-4)
    elif kind == KINDS.MXFP4:
        raw[:, 0] = 120
    else:
        numbers = (0.02 * random.standard_normal((count, size))).astype(np.float32)
        return gguf.quantize(numbers, kind).view(np.uint8).reshape(count, -1)
    return raw


class Tiles:
    """Bytes of a format for a tensor of any size: the same random blocks again and again."""

    def __init__(self):
        self.of = {}

    def bytes(self, kind, count):
        size, length = gguf.GGML_QUANT_SIZES[kind]
        if kind not in self.of:
            self.of[kind] = block(kind, (1 << 24) // length).reshape(-1)
        tile, total = self.of[kind], count // size * length
        return np.resize(tile, total)


class File:
    """The description and the tensors of a file: shapes are rows first."""

    def __init__(self, path, architecture, kind):
        self.writer, self.kind, self.tensors = gguf.GGUFWriter(path, architecture), kind, []
        self.architecture = architecture

    def values(self, **values):
        for name, value in values.items():
            name = f"{self.architecture}.{name.replace('__', '.')}"
            if isinstance(value, bool):
                self.writer.add_bool(name, value)
            elif isinstance(value, int):
                self.writer.add_uint32(name, value)
            elif isinstance(value, float):
                self.writer.add_float32(name, value)
            elif isinstance(value, str):
                self.writer.add_string(name, value)
            else:
                self.writer.add_array(name, value)

    def put(self, name, *shape, kind=None):
        kind = kind or self.kind
        # Rows that are not whole blocks of 256 have blocks of 32.
        if shape[-1] % gguf.GGML_QUANT_SIZES[kind][0]:
            kind = KINDS.Q8_0 if shape[-1] % 32 == 0 else KINDS.F16
        self.tensors.append((name, shape, kind))

    def numbers(self, name, *shape, value=1.0):
        self.tensors.append((name, shape, value))

    def layer(self, i, width, inner, network=True):
        self.numbers(f"blk.{i}.attn_norm.weight", width)
        if network:
            self.numbers(f"blk.{i}.ffn_norm.weight", width)
            self.network(i, width, inner)

    def network(self, i, width, inner):
        self.put(f"blk.{i}.ffn_gate.weight", inner, width)
        self.put(f"blk.{i}.ffn_up.weight", inner, width)
        self.put(f"blk.{i}.ffn_down.weight", width, inner)

    def attention(self, i, width, heads, kv_heads, head_dim, bias=(), norms=False, queries=1, values=True):
        rows = dict(q=queries * heads * head_dim, k=kv_heads * head_dim, v=kv_heads * head_dim, output=width)
        for part, count in rows.items():
            if part == "v" and not values:
                continue
            columns = heads * head_dim if part == "output" else width
            self.put(f"blk.{i}.attn_{part}.weight", count, columns)
            if part in bias:
                self.numbers(f"blk.{i}.attn_{part}.bias", count, value=0.0)
        for part in "qk" if norms else "":
            self.numbers(f"blk.{i}.attn_{part}_norm.weight", head_dim)

    def experts(self, i, width, inner, count, kind=None):
        self.numbers(f"blk.{i}.ffn_gate_inp.weight", count, width, value=None)
        self.put(f"blk.{i}.ffn_gate_exps.weight", count, inner, width, kind=kind)
        self.put(f"blk.{i}.ffn_up_exps.weight", count, inner, width, kind=kind)
        self.put(f"blk.{i}.ffn_down_exps.weight", count, width, inner, kind=kind)

    def write(self, name, vocabulary, pre):
        writer = self.writer
        writer.add_name(name)
        writer.add_vocab_size(vocabulary)
        writer.add_tokenizer_model("gpt2")
        writer.add_tokenizer_pre(pre)
        # GPT-2's characters for bytes, so that any text can be tokenized.
        shown = [*range(33, 127), *range(161, 173), *range(174, 256)]
        signs = [chr(byte) for byte in shown] + [chr(256 + i) for i in range(256 - len(shown))]
        writer.add_token_list(signs + [f"t{i}" for i in range(vocabulary - len(signs))])
        writer.add_token_types([gguf.TokenType.NORMAL] * vocabulary)
        writer.add_token_merges(["t 1"])
        for name, shape, kind in self.tensors:
            if isinstance(kind, gguf.GGMLQuantizationType):
                size, length = gguf.GGML_QUANT_SIZES[kind]
                count = int(np.prod(shape))
                rows = (*shape[:-1], shape[-1] // size * length)
                writer.add_tensor_info(name, rows, np.dtype(np.uint8), count // size * length, raw_dtype=kind)
            else:
                writer.add_tensor_info(name, shape, np.dtype(np.float32), 4 * int(np.prod(shape)))
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_ti_data_to_file()
        tiles = Tiles()
        for name, shape, kind in self.tensors:
            if isinstance(kind, gguf.GGMLQuantizationType):
                size, length = gguf.GGML_QUANT_SIZES[kind]
                writer.write_tensor_data(tiles.bytes(kind, int(np.prod(shape))))
            elif kind is None:
                writer.write_tensor_data(random.standard_normal(shape).astype(np.float32) * 0.02)
            else:
                writer.write_tensor_data(np.full(shape, kind, np.float32))
        writer.close()


def base(file, context, width, layers, inner, heads, kv_heads, head_dim, theta, epsilon):
    file.values(
        context_length=context, embedding_length=width, block_count=layers, feed_forward_length=inner,
        attention__head_count=heads, attention__head_count_kv=kv_heads, attention__key_length=head_dim,
        attention__value_length=head_dim, attention__layer_norm_rms_epsilon=epsilon, rope__freq_base=theta)


def ends(file, vocabulary, width, tied, norm="output_norm"):
    file.put("token_embd.weight", vocabulary, width)
    file.numbers(f"{norm}.weight", width)
    if not tied:
        file.put("output.weight", vocabulary, width)


def llama(path, kind, architecture, vocabulary, width, layers, heads, kv_heads, head_dim, inner, theta, pre):
    file = File(path, architecture, kind)
    base(file, 4096, width, layers, inner, heads, kv_heads, head_dim, theta, 1e-5)
    file.values(rope__dimension_count=head_dim)
    ends(file, vocabulary, width, True)
    for i in range(layers):
        file.layer(i, width, inner)
        file.attention(i, width, heads, kv_heads, head_dim, bias="qkv" if architecture == "qwen2" else "")
    return file, vocabulary, pre


def lfm2(path, kind):
    width, layers, heads, kv_heads, vocabulary = 2048, 16, 32, 8, 65536
    attends = [2, 5, 8, 10, 12, 14]
    file = File(path, "lfm2", kind)
    kv = [kv_heads if i in attends else 0 for i in range(layers)]
    base(file, 4096, width, layers, 8192, heads, kv, width // heads, 1e6, 1e-5)
    file.values(shortconv__l_cache=3)
    ends(file, vocabulary, width, True, "token_embd_norm")
    for i in range(layers):
        file.layer(i, width, 8192)
        if i in attends:
            file.attention(i, width, heads, kv_heads, width // heads, norms=True)
        else:
            file.numbers(f"blk.{i}.shortconv.conv.weight", width, 3, value=0.3)
            file.put(f"blk.{i}.shortconv.in_proj.weight", 3 * width, width)
            file.put(f"blk.{i}.shortconv.out_proj.weight", width, width)
    return file, vocabulary, "lfm2"


def qwen35(path, kind):
    width, layers, heads, kv_heads, head_dim, inner, vocabulary = 2048, 24, 8, 2, 256, 6144, 248320
    key_heads, value_heads, dim = 16, 16, 128
    keys, values = key_heads * dim, value_heads * dim
    file = File(path, "qwen35", kind)
    base(file, 4096, width, layers, inner, heads, kv_heads, head_dim, 1e7, 1e-6)
    file.values(
        rope__dimension_count=64, rope__dimension_sections=[11, 11, 10, 0], ssm__conv_kernel=4, ssm__state_size=dim,
        ssm__group_count=key_heads, ssm__time_step_rank=value_heads, ssm__inner_size=values, full_attention_interval=4,
        attention__recurrent_layers=[(i + 1) % 4 != 0 for i in range(layers)])
    ends(file, vocabulary, width, True)
    for i in range(layers):
        file.numbers(f"blk.{i}.attn_norm.weight", width)
        file.numbers(f"blk.{i}.post_attention_norm.weight", width)
        file.network(i, width, inner)
        if (i + 1) % 4 == 0:
            file.attention(i, width, heads, kv_heads, head_dim, norms=True, queries=2)
            continue
        file.put(f"blk.{i}.attn_qkv.weight", 2 * keys + values, width)
        file.put(f"blk.{i}.attn_gate.weight", values, width)
        file.put(f"blk.{i}.ssm_alpha.weight", value_heads, width)
        file.put(f"blk.{i}.ssm_beta.weight", value_heads, width)
        file.put(f"blk.{i}.ssm_out.weight", width, values)
        file.numbers(f"blk.{i}.ssm_conv1d.weight", 2 * keys + values, 4, value=0.25)
        file.numbers(f"blk.{i}.ssm_a", value_heads, value=-0.5)
        file.numbers(f"blk.{i}.ssm_dt.bias", value_heads, value=0.1)
        file.numbers(f"blk.{i}.ssm_norm.weight", dim)
    return file, vocabulary, "qwen35"


def gpt_oss(path, kind):
    width, layers, heads, kv_heads, head_dim, inner, vocabulary, count = 2880, 24, 64, 8, 64, 2880, 201088, 32
    file = File(path, "gpt-oss", kind)
    base(file, 4096, width, layers, inner, heads, kv_heads, head_dim, 150000.0, 1e-5)
    file.values(
        rope__scaling__type="yarn", rope__scaling__factor=32.0, rope__scaling__original_context_length=4096,
        rope__scaling__yarn_beta_fast=32.0, rope__scaling__yarn_beta_slow=1.0, expert_count=count,
        expert_used_count=4, attention__sliding_window=128, expert_feed_forward_length=inner)
    ends(file, vocabulary, width, False)
    for i in range(layers):
        file.numbers(f"blk.{i}.attn_norm.weight", width)
        file.numbers(f"blk.{i}.post_attention_norm.weight", width)
        file.attention(i, width, heads, kv_heads, head_dim, bias=("q", "k", "v", "output"))
        file.numbers(f"blk.{i}.attn_sinks.weight", heads, value=0.5)
        file.experts(i, width, inner, count, KINDS.MXFP4)
        file.numbers(f"blk.{i}.ffn_gate_inp.bias", count, value=0.0)
        for part, rows in [("gate", inner), ("up", inner), ("down", width)]:
            file.numbers(f"blk.{i}.ffn_{part}_exps.bias", count, rows, value=0.0)
    return file, vocabulary, "gpt-4o"


def qwen3moe(path, kind):
    width, heads, kv_heads, head_dim, inner, vocabulary, count = 2048, 32, 4, 128, 768, 151936, 128
    layers = int(os.environ.get("LAYERS", 48))
    file = File(path, "qwen3moe", kind)
    base(file, 4096, width, layers, 6144, heads, kv_heads, head_dim, 1e6, 1e-6)
    file.values(expert_count=count, expert_used_count=8, expert_feed_forward_length=inner)
    ends(file, vocabulary, width, False)
    for i in range(layers):
        file.layer(i, width, 6144, network=False)
        file.numbers(f"blk.{i}.ffn_norm.weight", width)
        file.attention(i, width, heads, kv_heads, head_dim, norms=True)
        file.experts(i, width, inner, count)
    return file, vocabulary, "qwen2"


def gemma4(path, kind):
    width, layers, heads, vocabulary, ple, shared = 1536, 35, 8, 262144, 256, 20
    local = [(i + 1) % 5 != 0 for i in range(layers)]
    inner = [6144 * (2 if i >= layers - shared else 1) for i in range(layers)]
    file = File(path, "gemma4", kind)
    base(file, 4096, width, layers, inner, heads, 1, 512, 1e6, 1e-6)
    file.values(
        rope__freq_base_swa=1e4, attention__sliding_window=512, attention__shared_kv_layers=shared,
        embedding_length_per_layer_input=ple, attention__sliding_window_pattern=local, attention__key_length_swa=256,
        attention__value_length_swa=256, rope__dimension_count=512, rope__dimension_count_swa=256,
        final_logit_softcapping=30.0)
    file.numbers("rope_freqs.weight", 256)
    ends(file, vocabulary, width, True)
    file.put("per_layer_token_embd.weight", vocabulary, layers * ple)
    file.put("per_layer_model_proj.weight", layers * ple, width)
    file.numbers("per_layer_proj_norm.weight", ple)
    for i in range(layers):
        head_dim = 256 if local[i] else 512
        for name in ["attn_norm", "post_attention_norm", "ffn_norm", "post_ffw_norm", "post_norm"]:
            file.numbers(f"blk.{i}.{name}.weight", width)
        file.numbers(f"blk.{i}.layer_output_scale.weight", 1)
        file.network(i, width, inner[i])
        file.put(f"blk.{i}.inp_gate.weight", ple, width)
        file.put(f"blk.{i}.proj.weight", width, ple)
        file.attention(i, width, heads, 1, head_dim, norms=True)
    return file, vocabulary, "gpt-2"


SHAPES = {
    "smollm2-135m": lambda *to: llama(*to, "llama", 49152, 576, 30, 9, 3, 64, 1536, 1e5, "llama-bpe"),
    "qwen2.5-0.5b": lambda *to: llama(*to, "qwen2", 151936, 896, 24, 14, 2, 64, 4864, 1e6, "qwen2"),
    "llama-3.2-1b": lambda *to: llama(*to, "llama", 128256, 2048, 16, 32, 8, 64, 8192, 5e5, "llama-bpe"),
    "lfm2-1.2b": lfm2,
    "qwen3.5-2b": qwen35,
    "gpt-oss-20b": gpt_oss,
    "qwen3-30b-a3b": qwen3moe,
    "gemma-4-e2b": gemma4,
}
shape, kind, path = sys.argv[1:]
file, vocabulary, pre = SHAPES[shape](path, KINDS[kind])
file.write(shape, vocabulary, pre)
