// Formats of weights, and of keys and values, read eight numbers at a time: those of GGML's `ggml-common.h`, as in
// decode.rs.
#pragma once

#include "device.cuh"

static __device__ inline float half_at(const uint8_t *at) {
  return __half2float(__ushort_as_half(*reinterpret_cast<const unsigned short *>(at)));
}

static __device__ inline float from_bf16(uint32_t bits) { return __uint_as_float(bits << 16); }

// A format has `BLOCK` numbers in `BYTES` bytes. `eight(row, i, w)` reads numbers 8 i to 8 i + 7 of a row;
// `one(row, i)` a single one. In formats without blocks a row's alignment depends on its length, so eight numbers are
// read at once only if the length is a multiple of eight (`whole` of linear.cu).

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
      w[2 * j] = __half2float(__ushort_as_half(four[j] & 0xffff));
      w[2 * j + 1] = __half2float(__ushort_as_half(four[j] >> 16));
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
      w[2 * j] = from_bf16(four[j] & 0xffff);
      w[2 * j + 1] = from_bf16(four[j] >> 16);
    }
  }
  static __device__ inline float one(const uint8_t *row, unsigned i) {
    return from_bf16(reinterpret_cast<const unsigned short *>(row)[i]);
  }
  // To the nearest, ties to even.
  static __device__ inline void set(uint8_t *row, unsigned i, float x) {
    uint32_t bits = __float_as_uint(x);
    uint32_t rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
    reinterpret_cast<unsigned short *>(row)[i] = x == x ? rounded : 0x7fc0;
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

// A single number of a format is one of the eight that are read with it.
template <class F> struct ByEight {
  static __device__ inline float one(const uint8_t *row, unsigned i) {
    float w[8];
    F::eight(row, i / 8, w);
    return w[i % 8];
  }
};

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

// A scale and 32 numbers of four bits: the first half in the lower bits.
struct Q4_0 : ByEight<Q4_0> {
  static constexpr unsigned BLOCK = 32, BYTES = 18;
  static __device__ inline void eight(const uint8_t *row, unsigned i, float *w) {
    const uint8_t *block = row + i / 4 * BYTES;
    float scale = half_at(block);
    uint8_t q[8];
    eight_bytes(block + 2 + i % 2 * 8, q);
    unsigned shift = i % 4 / 2 * 4;
#pragma unroll
    for (unsigned j = 0; j < 8; j++) w[j] = scale * (static_cast<int>(q[j] >> shift & 15) - 8);
  }
};

// A scale, a minimum, and 32 numbers of four bits.
struct Q4_1 : ByEight<Q4_1> {
  static constexpr unsigned BLOCK = 32, BYTES = 20;
  static __device__ inline void eight(const uint8_t *row, unsigned i, float *w) {
    const uint8_t *block = row + i / 4 * BYTES;
    float scale = half_at(block), least = half_at(block + 2);
    uint8_t q[8];
    eight_bytes(block + 4 + i % 2 * 8, q);
    unsigned shift = i % 4 / 2 * 4;
#pragma unroll
    for (unsigned j = 0; j < 8; j++) w[j] = fmaf(scale, q[j] >> shift & 15, least);
  }
};

// Numbers 8 i to 8 i + 7 of 32 with five bits: the fifth bits of all in four bytes, then the lower four.
static __device__ inline void five_bits(const uint8_t *from, unsigned i, uint8_t *q) {
  eight_bytes(from + 4 + i % 2 * 8, q);
  unsigned shift = i / 2 * 4, fifth = from[i];
#pragma unroll
  for (unsigned j = 0; j < 8; j++) q[j] = (q[j] >> shift & 15) | (fifth >> j & 1) << 4;
}

// A scale and 32 numbers of five bits.
struct Q5_0 : ByEight<Q5_0> {
  static constexpr unsigned BLOCK = 32, BYTES = 22;
  static __device__ inline void eight(const uint8_t *row, unsigned i, float *w) {
    const uint8_t *block = row + i / 4 * BYTES;
    float scale = half_at(block);
    uint8_t q[8];
    five_bits(block + 2, i % 4, q);
#pragma unroll
    for (unsigned j = 0; j < 8; j++) w[j] = scale * (static_cast<int>(q[j]) - 16);
  }
};

// A scale, a minimum, and 32 numbers of five bits.
struct Q5_1 : ByEight<Q5_1> {
  static constexpr unsigned BLOCK = 32, BYTES = 24;
  static __device__ inline void eight(const uint8_t *row, unsigned i, float *w) {
    const uint8_t *block = row + i / 4 * BYTES;
    float scale = half_at(block), least = half_at(block + 2);
    uint8_t q[8];
    five_bits(block + 4, i % 4, q);
#pragma unroll
    for (unsigned j = 0; j < 8; j++) w[j] = fmaf(scale, q[j], least);
  }
};

// 256 numbers of two bits in sixteen parts, each with a scale and a minimum of four bits.
struct Q2K : ByEight<Q2K> {
  static constexpr unsigned BLOCK = 256, BYTES = 84;
  static __device__ inline void eight(const uint8_t *row, unsigned i, float *w) {
    const uint8_t *block = row + i / 32 * BYTES;
    unsigned half = i % 32 / 16, quarter = i % 16 / 4, fine = block[i % 32 / 2];
    uint8_t q[8];
    eight_bytes(block + 16 + half * 32 + i % 4 * 8, q);
    float scale = half_at(block + 80) * (fine & 15), below = half_at(block + 82) * (fine >> 4);
#pragma unroll
    for (unsigned j = 0; j < 8; j++) w[j] = fmaf(scale, q[j] >> quarter * 2 & 3, -below);
  }
};

// 256 numbers of three bits in sixteen parts, each with a scale of six bits.
struct Q3K : ByEight<Q3K> {
  static constexpr unsigned BLOCK = 256, BYTES = 110;
  static __device__ inline void eight(const uint8_t *row, unsigned i, float *w) {
    const uint8_t *block = row + i / 32 * BYTES, *scales = block + 96;
    unsigned half = i % 32 / 16, quarter = i % 16 / 4, part = i % 32 / 2;
    uint8_t low[8], high[8];
    eight_bytes(block + 32 + half * 32 + i % 4 * 8, low);
    eight_bytes(block + i % 4 * 8, high);
    int fine = (scales[part % 8] >> part / 8 * 4 & 15) | (scales[8 + part % 4] >> part / 4 * 2 & 3) << 4;
    float scale = half_at(block + 108) * (fine - 32);
#pragma unroll
    for (unsigned j = 0; j < 8; j++) {
      int q = (low[j] >> quarter * 2 & 3) | (high[j] >> (half * 4 + quarter) & 1) << 2;
      w[j] = scale * (q - 4);
    }
  }
};

// The scale and the minimum of part `part` of eight, from the beginning of a block with six-bit ones.
static __device__ inline void of_each_32(const uint8_t *block, unsigned part, float *d, float *below) {
  const uint8_t *scales = block + 4;
  uint32_t scale, least;
  if (part < 4) {
    scale = scales[part] & 63, least = scales[part + 4] & 63;
  } else {
    scale = (scales[part + 4] & 15) | scales[part - 4] >> 6 << 4;
    least = scales[part + 4] >> 4 | scales[part] >> 6 << 4;
  }
  *d = half_at(block) * scale, *below = half_at(block + 2) * least;
}

// 256 numbers of four bits in eight parts, each with a scale and a minimum of six bits.
struct Q4K : ByEight<Q4K> {
  static constexpr unsigned BLOCK = 256, BYTES = 144;
  static __device__ inline void eight(const uint8_t *row, unsigned i, float *w) {
    const uint8_t *block = row + i / 32 * BYTES, *numbers = block + 16;
    unsigned part = i % 32 / 4;
    float d, below;
    of_each_32(block, part, &d, &below);
    uint8_t q[8];
    eight_bytes(numbers + part / 2 * 32 + i % 4 * 8, q);
    unsigned shift = part % 2 * 4;
#pragma unroll
    for (unsigned j = 0; j < 8; j++) w[j] = d * (q[j] >> shift & 15) - below;
  }
};

// Like `Q4K`, with numbers of five bits.
struct Q5K : ByEight<Q5K> {
  static constexpr unsigned BLOCK = 256, BYTES = 176;
  static __device__ inline void eight(const uint8_t *row, unsigned i, float *w) {
    const uint8_t *block = row + i / 32 * BYTES;
    unsigned part = i % 32 / 4;
    float d, below;
    of_each_32(block, part, &d, &below);
    uint8_t low[8], high[8];
    eight_bytes(block + 48 + part / 2 * 32 + i % 4 * 8, low);
    eight_bytes(block + 16 + i % 4 * 8, high);
    unsigned shift = part % 2 * 4;
#pragma unroll
    for (unsigned j = 0; j < 8; j++) {
      int q = (low[j] >> shift & 15) | (high[j] >> part & 1) << 4;
      w[j] = d * q - below;
    }
  }
};

// 256 numbers of six bits in sixteen parts, each with a scale of eight bits.
struct Q6K : ByEight<Q6K> {
  static constexpr unsigned BLOCK = 256, BYTES = 210;
  static __device__ inline void eight(const uint8_t *row, unsigned i, float *w) {
    const uint8_t *block = row + i / 32 * BYTES;
    // The half of 128 numbers, the quarter of 32 in it, and the first of eight in that.
    unsigned half = i % 32 / 16, quarter = i % 16 / 4, at = i % 4 * 8;
    uint8_t low[8], high[8];
    eight_bytes(block + half * 64 + quarter % 2 * 32 + at, low);
    eight_bytes(block + 128 + half * 32 + at, high);
    float scale = half_at(block + 208) * static_cast<int8_t>(block[192 + i % 32 / 2]);
#pragma unroll
    for (unsigned j = 0; j < 8; j++) {
      int q = (low[j] >> quarter / 2 * 4 & 15) | (high[j] >> quarter * 2 & 3) << 4;
      w[j] = scale * (q - 32);
    }
  }
};

// One of sixteen signed bytes, which are packed four per word.
static __device__ inline int listed(uint4 list, unsigned at) {
  uint32_t low = at & 4 ? list.y : list.x, high = at & 4 ? list.w : list.z;
  return static_cast<int8_t>((at & 8 ? high : low) >> at % 4 * 8 & 0xff);
}

// -127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113.
static __device__ inline int non_linear(unsigned at) {
  return listed(uint4{0xbfad9881, 0xf6eaddcf, 0x26190d01, 0x71594535}, at);
}

// 0, 1, 2, 3, 4, 6, 8, 12 and their negatives.
static __device__ inline int micro_float(unsigned at) {
  return listed(uint4{0x03020100, 0x0c080604, 0xfdfeff00, 0xf4f8fafc}, at);
}

// A scale and 32 four-bit indices into a list.
struct Iq4Nl : ByEight<Iq4Nl> {
  static constexpr unsigned BLOCK = 32, BYTES = 18;
  static __device__ inline void eight(const uint8_t *row, unsigned i, float *w) {
    const uint8_t *block = row + i / 4 * BYTES;
    float scale = half_at(block);
    uint8_t q[8];
    eight_bytes(block + 2 + i % 2 * 8, q);
    unsigned shift = i % 4 / 2 * 4;
#pragma unroll
    for (unsigned j = 0; j < 8; j++) w[j] = scale * non_linear(q[j] >> shift & 15);
  }
};

// Like `Iq4Nl`, for 256 numbers in eight parts, each with a scale of six bits.
struct Iq4Xs : ByEight<Iq4Xs> {
  static constexpr unsigned BLOCK = 256, BYTES = 136;
  static __device__ inline void eight(const uint8_t *row, unsigned i, float *w) {
    const uint8_t *block = row + i / 32 * BYTES;
    unsigned part = i % 32 / 4, upper = block[2] | block[3] << 8;
    int fine = (block[4 + part / 2] >> part % 2 * 4 & 15) | (upper >> 2 * part & 3) << 4;
    float scale = half_at(block) * (fine - 32);
    uint8_t q[8];
    eight_bytes(block + 8 + part * 16 + i % 2 * 8, q);
    unsigned shift = i % 4 / 2 * 4;
#pragma unroll
    for (unsigned j = 0; j < 8; j++) w[j] = scale * non_linear(q[j] >> shift & 15);
  }
};

// A power of two and 32 floats of four bits. Blocks begin at any byte.
struct Mxfp4 : ByEight<Mxfp4> {
  static constexpr unsigned BLOCK = 32, BYTES = 17;
  static __device__ inline void eight(const uint8_t *row, unsigned i, float *w) {
    const uint8_t *block = row + i / 4 * BYTES, *pairs = block + 1 + i % 2 * 8;
    uint32_t power = block[0];
    float scale = __uint_as_float(power < 2 ? 0x00200000u << power : (power - 1) << 23);
    unsigned shift = i % 4 / 2 * 4;
#pragma unroll
    for (unsigned j = 0; j < 8; j++) w[j] = scale * micro_float(pairs[j] >> shift & 15);
  }
};
