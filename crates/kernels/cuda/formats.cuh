// Formats of keys and values, and of weights whose numbers are read as they are stored. `Q8_0` is GGML's
// (`ggml-common.h`).
#pragma once

#include "numbers.cuh"

// A format has `BLOCK` numbers in `BYTES` bytes. `eight(row, i, w)` reads numbers 8 i to 8 i + 7 of a row;
// `one(row, i)` a single one. In formats without blocks a row's alignment depends on its length, so eight numbers are
// read at once only if the length is a multiple of eight (`whole` of linear_f32.cu).

struct F32 {
  static constexpr unsigned BLOCK = 1, BYTES = 4;
  static __device__ inline void eight(const uint8_t *row, unsigned i, float *w) {
    const float4 *from = reinterpret_cast<const float4 *>(row) + 2 * i;
    float4 a = from[0], b = from[1];
    w[0] = a.x, w[1] = a.y, w[2] = a.z, w[3] = a.w, w[4] = b.x, w[5] = b.y, w[6] = b.z, w[7] = b.w;
  }
  static __device__ inline float one(const uint8_t *row, unsigned i) { return reinterpret_cast<const float *>(row)[i]; }
  static __device__ inline void set(uint8_t *row, unsigned i, float x) { reinterpret_cast<float *>(row)[i] = x; }
};

struct F16 {
  static constexpr unsigned BLOCK = 1, BYTES = 2;
  static __device__ inline void eight(const uint8_t *row, unsigned i, float *w) {
    uint4 words = reinterpret_cast<const uint4 *>(row)[i];
    const uint32_t four[4] = {words.x, words.y, words.z, words.w};
#pragma unroll
    for (unsigned j = 0; j < 4; j++) {
      w[2 * j] = half_of(four[j], 0);
      w[2 * j + 1] = half_of(four[j], 1);
    }
  }
  static __device__ inline float one(const uint8_t *row, unsigned i) { return half_at(row + 2 * i); }
  static __device__ inline void set(uint8_t *row, unsigned i, float x) {
    reinterpret_cast<unsigned short *>(row)[i] = __half_as_ushort(__float2half_rn(x));
  }
};

struct Bf16 {
  static constexpr unsigned BLOCK = 1, BYTES = 2;
  static __device__ inline void eight(const uint8_t *row, unsigned i, float *w) {
    uint4 words = reinterpret_cast<const uint4 *>(row)[i];
    const uint32_t four[4] = {words.x, words.y, words.z, words.w};
#pragma unroll
    for (unsigned j = 0; j < 4; j++) {
      w[2 * j] = bf16_number(four[j] & 0xffff);
      w[2 * j + 1] = bf16_number(four[j] >> 16);
    }
  }
  static __device__ inline float one(const uint8_t *row, unsigned i) {
    return bf16_number(reinterpret_cast<const unsigned short *>(row)[i]);
  }
  static __device__ inline void set(uint8_t *row, unsigned i, float x) {
    reinterpret_cast<unsigned short *>(row)[i] = static_cast<unsigned short>(bf16_bits(x));
  }
};

// Reads bytes from an address that is a multiple of two only.
static __device__ inline void eight_bytes(const uint8_t *from, uint8_t *to) {
#pragma unroll
  for (unsigned j = 0; j < 4; j++) {
    uint32_t two = reinterpret_cast<const unsigned short *>(from)[j];
    to[2 * j] = two & 0xff, to[2 * j + 1] = two >> 8;
  }
}

// A scale and 32 signed bytes.
struct Q8_0 {
  static constexpr unsigned BLOCK = 32, BYTES = 34;
  static __device__ inline void eight(const uint8_t *row, unsigned i, float *w) {
    const uint8_t *block = row + i / 4 * BYTES;
    float scale = half_at(block);
    uint8_t q[8];
    eight_bytes(block + 2 + i % 4 * 8, q);
#pragma unroll
    for (unsigned j = 0; j < 8; j++) w[j] = scale * static_cast<int8_t>(q[j]);
  }
  static __device__ inline float one(const uint8_t *row, unsigned i) {
    const uint8_t *block = row + i / BLOCK * BYTES;
    return half_at(block) * static_cast<int8_t>(block[2 + i % BLOCK]);
  }
};
