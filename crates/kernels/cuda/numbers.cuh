// Conversions of numbers in half precision and in bf16.
#pragma once

#include "device.cuh"

static __device__ inline float half_at(const uint8_t *at) {
  return __half2float(__ushort_as_half(*reinterpret_cast<const unsigned short *>(at)));
}

// One of the two numbers of a word.
static __device__ inline float half_of(uint32_t two, unsigned i) {
  return __half2float(__ushort_as_half(static_cast<unsigned short>(two >> i * 16)));
}

// The bits of a number in bf16: to the nearest, ties to even.
static __device__ inline uint32_t bf16_bits(float x) {
#ifdef VERDIGRIS_EMULATED
  uint32_t bits = __float_as_uint(x);
  uint32_t rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
  return x == x ? rounded : 0x7fff;
#else
  unsigned short bits;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(x));
  return bits;
#endif
}

// Those of two numbers, the first in the lower half.
static __device__ inline uint32_t bf16_pair(float x, float y) {
#ifdef VERDIGRIS_EMULATED
  return bf16_bits(x) | bf16_bits(y) << 16;
#else
  uint32_t bits;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(y), "f"(x));
  return bits;
#endif
}

static __device__ inline float bf16_number(uint32_t bits) { return __uint_as_float(bits << 16); }

// The pieces of two numbers, each the number rounded and then the rounded rest: the first pieces of both, and the
// second ones.
static __device__ inline void split_pair(float x, float y, uint32_t &first, uint32_t &second) {
  first = bf16_pair(x, y);
  second = bf16_pair(x - bf16_number(first & 0xffff), y - bf16_number(first >> 16));
}

// Both pieces of a number, the first in the lower half.
static __device__ inline uint32_t both_pieces(float x) {
  uint32_t first = bf16_bits(x);
  return first | bf16_bits(x - bf16_number(first)) << 16;
}
