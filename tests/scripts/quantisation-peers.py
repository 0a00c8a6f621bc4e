#!/usr/bin/env python3
"""Prints llama.cpp's quantisation errors for normally distributed numbers, for comparison with
`cargo test -p verdigris-kernels encode -- --nocapture`.

Needs: pip install llama-cpp-python gguf numpy.
"""

import ctypes
import os

import gguf
import llama_cpp
import numpy as np

library = ctypes.CDLL(os.path.join(os.path.dirname(llama_cpp.__file__), "lib", "libggml-base.so"))
library.ggml_quantize_chunk.restype = ctypes.c_size_t
library.ggml_quantize_chunk.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p]
numbers = (np.random.default_rng(1).normal(size=256 * 200) * 0.02).astype(np.float32)
for name in ["Q8_0", "Q6_K", "Q4_K", "Q4_0"]:
    kind = gguf.GGMLQuantizationType[name]
    size, length = gguf.GGML_QUANT_SIZES[kind]
    stored = np.zeros(numbers.size // size * length, dtype=np.uint8)
    library.ggml_quantize_chunk(int(kind), numbers.ctypes.data, stored.ctypes.data, 0, 1, numbers.size, None)
    back = gguf.dequantize(stored.reshape(-1, length), kind).reshape(-1)
    print(f"{name}: {np.sqrt(((numbers - back) ** 2).sum() / (numbers ** 2).sum()):.2e}")
