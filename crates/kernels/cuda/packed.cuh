// Weights as tensor cores read them: fragments of sixteen rows and 32 columns.
//
// packed.rs puts matrices into the order in which the lanes of a warp read them: in bf16 and f16 row by row, in block
// formats as a record for each sixteen rows and 128 columns. The integers of a block are exact in bf16, and sums of
// products with them are multiplied by the scale of their group in f32.
#pragma once

#include "formats.cuh"
#include "tensor.cuh"

constexpr unsigned TILE = 16;
constexpr unsigned GROUP = 32;

// The numbers of both rows of a lane in one group: two pairs of the first sixteen columns, then two of the last.
struct Numbers {
  uint32_t pairs[2][4];
};

// A kind of weights has: `SLAB` columns per step, in `Raw`; the pieces of each weight; whether sums are scaled,
// whether for each sixteen columns, and whether a minimum is added. `rows` finds the rows of a tile, `load` reads
// a slab of them, `expand` gives the numbers of a group.

static __device__ inline uint32_t word(const uint4 &x, unsigned i) {
  return i == 0 ? x.x : i == 1 ? x.y : i == 2 ? x.z : x.w;
}

// Weights of sixteen bits, row by row, each group of columns in the order `BY_LANE`. Rows are padded with zeros to
// whole tiles of 64 columns.
struct Halves {
  static constexpr unsigned SLAB = 32;
  static constexpr bool SCALED = false, BY_16 = false, LEAST = false;
  struct Rows {
    const uint8_t *at[2];
  };
  struct Raw {
    uint4 half[2];
  };
  static __device__ inline unsigned padded(unsigned columns) {
    return (columns + TILE_COLUMNS - 1) / TILE_COLUMNS * TILE_COLUMNS;
  }
  static __device__ inline unsigned steps(unsigned columns) { return padded(columns) / SLAB; }
  static __device__ inline const uint8_t *row(const uint8_t *weights, unsigned rows, unsigned columns, unsigned i) {
    return weights + static_cast<size_t>(min(i, rows - 1)) * padded(columns) * 2;
  }
  static __device__ inline Rows rows(const uint8_t *weights, unsigned rows, unsigned columns, unsigned tile,
                                     unsigned lane) {
    Rows of;
#pragma unroll
    for (unsigned h = 0; h < 2; h++)
      of.at[h] = row(weights, rows, columns, tile * TILE + h * 8 + lane / 4) + lane % 4 * 16;
    return of;
  }
  static __device__ inline void load(Raw &raw, const Rows &rows, unsigned slab, unsigned) {
#pragma unroll
    for (unsigned h = 0; h < 2; h++) raw.half[h] = once_16(rows.at[h] + static_cast<size_t>(slab) * 64);
  }
  static __device__ inline void scales(const Raw &, unsigned, float (&)[2][2], float (&)[2][2]) {}

  // Copies of tiles of 64 columns of sixteen rows to shared memory, in the background, by one warp.
  struct Copied {
    static constexpr unsigned EACH = TILE * 8 / WARP;
    const uint8_t *from[EACH];
    unsigned to[EACH];
  };
  // Sixteen bytes are moved so that two rows do not conflict.
  static __device__ inline unsigned at(unsigned row, unsigned chunk) {
    return row * TILE_BYTES + (chunk ^ row % 2 * 4) * 16;
  }
  static __device__ inline Copied copied(const uint8_t *weights, unsigned rows, unsigned columns, unsigned tile,
                                         unsigned lane) {
    Copied of;
#pragma unroll
    for (unsigned i = 0; i < Copied::EACH; i++) {
      unsigned r = i * 4 + lane / 8, chunk = lane % 8;
      of.from[i] = row(weights, rows, columns, tile * TILE + r) + chunk * 16, of.to[i] = at(r, chunk);
    }
    return of;
  }
  static __device__ inline void copy(const Copied &of, uint8_t *to, unsigned stage) {
#pragma unroll
    for (unsigned i = 0; i < Copied::EACH; i++)
      copy_16(to + of.to[i], of.from[i] + static_cast<size_t>(stage) * TILE_BYTES);
  }
  static __device__ inline void read(Raw &raw, const uint8_t *from, unsigned group, unsigned lane) {
#pragma unroll
    for (unsigned h = 0; h < 2; h++)
      raw.half[h] = *reinterpret_cast<const uint4 *>(from + at(h * 8 + lane / 4, group * 4 + lane % 4));
  }
};

struct TensorBf16 : Halves {
  static constexpr unsigned PIECES = 1;
  static __device__ inline void expand(const Raw &raw, unsigned, Numbers (&n)[PIECES]) {
#pragma unroll
    for (unsigned h = 0; h < 2; h++) {
#pragma unroll
      for (unsigned i = 0; i < 4; i++) n[0].pairs[h][i] = word(raw.half[h], i);
    }
  }
};

// Eleven significant bits are two pieces.
struct TensorF16 : Halves {
  static constexpr unsigned PIECES = 2;
  static __device__ inline void expand(const Raw &raw, unsigned, Numbers (&n)[PIECES]) {
#pragma unroll
    for (unsigned h = 0; h < 2; h++) {
#pragma unroll
      for (unsigned i = 0; i < 4; i++) {
        uint32_t two = word(raw.half[h], i);
        split_pair(half_of(two, 0), half_of(two, 1), n[0].pairs[h][i], n[1].pairs[h][i]);
      }
    }
  }
};

// The layout of scales in a record: planes, in which both rows of a lane are adjacent.

// Half precision for each group; then minimums, if there are any.
template <bool HAS_LEAST> struct OfGroups {
  static constexpr bool BY_16 = false, LEAST = HAS_LEAST;
  static constexpr unsigned BYTES = TILE * 8 * (LEAST ? 2 : 1);
  struct Raw {
    uint4 scale, least[1];
  };
  static __device__ inline void load(Raw &raw, const uint8_t *at, unsigned lane) {
    raw.scale = once_16(at + lane / 4 * 16);
    if (LEAST) raw.least[0] = once_16(at + TILE * 8 + lane / 4 * 16);
  }
  static __device__ inline void scales(const Raw &raw, unsigned group, float (&scale)[2][2], float (&least)[2][2]) {
#pragma unroll
    for (unsigned h = 0; h < 2; h++) {
      scale[h][0] = scale[h][1] = half_of(word(raw.scale, 2 * h + group / 2), group % 2);
      if (LEAST) least[h][0] = least[h][1] = half_of(word(raw.least[0], 2 * h + group / 2), group % 2);
    }
  }
};

// For each group the exponent of a power of two in a byte.
struct OfPowers {
  static constexpr bool BY_16 = false, LEAST = false;
  static constexpr unsigned BYTES = TILE * 4;
  struct Raw {
    uint2 power;
  };
  static __device__ inline void load(Raw &raw, const uint8_t *at, unsigned lane) {
    raw.power = once_8(at + lane / 4 * 8);
  }
  static __device__ inline void scales(const Raw &raw, unsigned group, float (&scale)[2][2], float (&)[2][2]) {
#pragma unroll
    for (unsigned h = 0; h < 2; h++) {
      uint32_t power = (h ? raw.power.y : raw.power.x) >> 8 * group & 0xff;
      scale[h][0] = scale[h][1] = __uint_as_float(power < 2 ? 0x00200000u << power : (power - 1) << 23);
    }
  }
};

// A factor of a scale in a signed byte for each group or each sixteen columns; the same for minimums, if there are any,
// in unsigned bytes, which are subtracted; then the other factors, in half precision.
template <bool FOR_16, bool HAS_LEAST> struct OfBlocks {
  static constexpr bool BY_16 = FOR_16, LEAST = HAS_LEAST;
  static constexpr unsigned WORDS = BY_16 ? 2 : 1, FINE = 4 * WORDS, COARSE = LEAST ? 4 : 2;
  static constexpr unsigned BYTES = TILE * (COARSE + FINE * (LEAST ? 2 : 1));
  struct Raw {
    uint32_t coarse[LEAST ? 2 : 1], fine[2 * WORDS], least[LEAST ? 2 * WORDS : 1];
  };
  static __device__ inline void bytes(uint32_t *to, const uint8_t *at) {
    if constexpr (BY_16) {
      uint4 four = once_16(at);
      to[0] = four.x, to[1] = four.y, to[2] = four.z, to[3] = four.w;
    } else {
      uint2 two = once_8(at);
      to[0] = two.x, to[1] = two.y;
    }
  }
  static __device__ inline void load(Raw &raw, const uint8_t *at, unsigned lane) {
    unsigned g = lane / 4;
    const uint8_t *coarse = at + TILE * FINE * (LEAST ? 2 : 1);
    bytes(raw.fine, at + g * 2 * FINE);
    if constexpr (LEAST) {
      bytes(raw.least, at + TILE * FINE + g * 2 * FINE);
      uint2 two = once_8(coarse + g * 8);
      raw.coarse[0] = two.x, raw.coarse[1] = two.y;
    } else {
      raw.coarse[0] = once_4(coarse + g * 4);
    }
  }
  static __device__ inline void scales(const Raw &raw, unsigned group, float (&scale)[2][2], float (&least)[2][2]) {
#pragma unroll
    for (unsigned h = 0; h < 2; h++) {
      float coarse = LEAST ? half_of(raw.coarse[h], 0) : half_of(raw.coarse[0], h),
            below = LEAST ? half_of(raw.coarse[h], 1) : 0;
#pragma unroll
      for (unsigned i = 0; i < 2; i++) {
        unsigned at = BY_16 ? 2 * group + i : group;
        scale[h][i] = coarse * static_cast<int8_t>(raw.fine[h * WORDS + at / 4] >> at % 4 * 8 & 0xff);
        if constexpr (LEAST)
          least[h][i] = -below * static_cast<uint8_t>(raw.least[h * WORDS + at / 4] >> at % 4 * 8 & 0xff);
      }
    }
  }
};

// Two sums of products of bf16 numbers, `a * b + c`, rounded once.
static __device__ inline uint32_t multiply_add(uint32_t a, uint32_t b, uint32_t c) {
#ifdef VERDIGRIS_EMULATED
  uint32_t low = bf16_bits(fmaf(bf16_number(a & 0xffff), bf16_number(b & 0xffff), bf16_number(c & 0xffff)));
  return low | bf16_bits(fmaf(bf16_number(a >> 16), bf16_number(b >> 16), bf16_number(c >> 16))) << 16;
#else
  uint32_t sum;
  asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(sum) : "r"(a), "r"(b), "r"(c));
  return sum;
#endif
}

// 1, and -1, in both halves.
constexpr uint32_t ONES = 0x3f803f80, MINUS_ONES = 0xbf80bf80;

// The two differences `a - b`, which must be exact.
static __device__ inline uint32_t minus(uint32_t a, uint32_t b) { return multiply_add(b, MINUS_ONES, a); }

// `(a & b) | c` in one instruction.
static __device__ inline uint32_t and_or(uint32_t a, uint32_t b, uint32_t c) {
#ifdef VERDIGRIS_EMULATED
  return (a & b) | c;
#else
  uint32_t d;
  asm("lop3.b32 %0, %1, %2, %3, 0xea;" : "=r"(d) : "r"(a), "r"(b), "r"(c));
  return d;
#endif
}

// A word moved left, or right if that is negative.
template <int BY> static __device__ inline uint32_t moved(uint32_t x) {
  if constexpr (BY >= 0)
    return x << BY;
  else
    return x >> -BY;
}

// Bits of the two integers of pair `PAIR` of sixteen, of which each has `BITS` in `words`: moved to bit `TO` of the
// halves of a word, whose other bits are those of `others`.
template <unsigned BITS, unsigned PAIR, unsigned TO>
static __device__ inline uint32_t pair_at(const uint32_t *words, uint32_t others) {
  constexpr unsigned IN_A_WORD = 16 / BITS, FROM = PAIR % IN_A_WORD * BITS, BOTH = 0x10001;
  return and_or(moved<static_cast<int>(TO) - static_cast<int>(FROM)>(words[PAIR / IN_A_WORD]),
                (((1u << BITS) - 1) << TO) * BOTH, others);
}

// The meaning of the integers of a block format. `pair` gives the numbers of pair `PAIR` of sixteen, of which each has
// `LOW` bits and above them `HIGH` bits. A number that minimums are added to may be larger by `MORE`.

// Integers below 2^BITS in the highest bits of a bf16 number whose first bit is 2^BITS.
template <unsigned LOW, unsigned HIGH, unsigned PAIR, unsigned BITS>
static __device__ inline uint32_t with_first(const uint32_t *low, const uint32_t *high) {
  constexpr unsigned AT = 7 - BITS, FIRST = (127 + BITS) << 7;
  uint32_t others = FIRST * 0x10001;
  if constexpr (HIGH > 0) others = pair_at<HIGH, PAIR, AT + LOW>(high, others);
  return pair_at<LOW, PAIR, AT>(low, others);
}

// The integers themselves, with minimums.
template <unsigned BITS> struct Plain {
  static constexpr unsigned MORE = 1 << BITS;
  template <unsigned LOW, unsigned HIGH, unsigned PAIR>
  static __device__ inline uint32_t pair(const uint32_t *low, const uint32_t *high) {
    return with_first<LOW, HIGH, PAIR, BITS>(low, high);
  }
};

// The integers less a number.
template <unsigned LESS> struct Less {
  static constexpr unsigned MORE = 0;
  template <unsigned LOW, unsigned HIGH, unsigned PAIR>
  static __device__ inline uint32_t pair(const uint32_t *low, const uint32_t *high) {
    return minus(with_first<LOW, HIGH, PAIR, 7>(low, high), (0x4300 + LESS) * 0x10001);
  }
};

// A signed byte in each half of a word, whose other bits do not matter: the lower seven bits, less 128 if the sign is
// set.
static __device__ inline uint32_t signed_bytes(uint32_t codes) {
  return minus(and_or(codes, 0x007f007f, 0x43004300), and_or(codes, 0x00800080, 0x43004300));
}

struct SignedBytes {
  static constexpr unsigned MORE = 0;
  template <unsigned LOW, unsigned HIGH, unsigned PAIR>
  static __device__ inline uint32_t pair(const uint32_t *low, const uint32_t *) {
    return signed_bytes(low[PAIR / 2] >> PAIR % 2 * 8);
  }
};

// Indices into a list of signed bytes: three bits select a byte of both halves of the list, and one selects the half.
template <uint32_t A, uint32_t B, uint32_t C, uint32_t D> struct Listed {
  static constexpr unsigned MORE = 0;
  template <unsigned LOW, unsigned HIGH, unsigned PAIR>
  static __device__ inline uint32_t pair(const uint32_t *low, const uint32_t *) {
    // The same for all pairs of a word: the first numbers in the lower half, the second ones in the upper half.
    uint32_t at = low[PAIR / 4] & 0x77777777, half = and_or(low[PAIR / 4] >> 1, 0x44444444, 0x32103210);
    uint32_t first = __byte_perm(__byte_perm(A, B, at), __byte_perm(C, D, at), half);
    uint32_t second = __byte_perm(__byte_perm(A, B, at >> 16), __byte_perm(C, D, at >> 16), half >> 16);
    return signed_bytes(__byte_perm(first, second, (4 + PAIR % 4) << 8 | PAIR % 4));
  }
};
using NonLinear = Listed<0xbfad9881, 0xf6eaddcf, 0x26190d01, 0x71594535>;

// Floats of four bits, times two: their exponent and mantissa are those of bf16 numbers that are smaller by a power of
// two.
struct MicroFloats {
  static constexpr unsigned MORE = 0;
  template <unsigned LOW, unsigned HIGH, unsigned PAIR>
  static __device__ inline uint32_t pair(const uint32_t *low, const uint32_t *) {
    constexpr int FROM = PAIR % 4 * 4;
    uint32_t sign = moved<12 - FROM>(low[PAIR / 4]) & 0x80008000;
    return multiply_add(and_or(moved<6 - FROM>(low[PAIR / 4]), 0x01c001c0, sign), 0x7f007f00, 0x80008000);
  }
};

// A block format with integers of `LOW` bits and `HIGH` more.
template <unsigned LOW, unsigned HIGH, class Meaning, class Scales> struct Packed {
  static constexpr unsigned SLAB = 128, PIECES = 1;
  static constexpr bool SCALED = true, BY_16 = Scales::BY_16, LEAST = Scales::LEAST;
  static constexpr unsigned LOW_BYTES = 256 * LOW, HIGH_BYTES = 256 * HIGH;
  static constexpr unsigned RECORD = LOW_BYTES + HIGH_BYTES + Scales::BYTES;
  static_assert(RECORD % 16 == 0, "records are aligned");
  struct Rows {
    const uint8_t *at;
  };
  struct Raw {
    uint32_t low[2][LOW], high[HIGH ? 2 : 1][HIGH ? HIGH : 1];
    typename Scales::Raw scales;
  };
  static __device__ inline unsigned steps(unsigned columns) { return (columns + SLAB - 1) / SLAB; }
  static __device__ inline Rows rows(const uint8_t *weights, unsigned rows, unsigned columns, unsigned tile, unsigned) {
    return {weights + static_cast<size_t>(min(tile, (rows - 1) / TILE)) * steps(columns) * RECORD};
  }
  // `BITS` words of a lane, at most four at once, those of all lanes together.
  template <unsigned BITS> static __device__ inline void words(uint32_t *to, const uint8_t *at, unsigned lane) {
    if constexpr (BITS >= 4) {
#pragma unroll
      for (unsigned i = 0; i < BITS / 4; i++) {
        uint4 four = once_16(at + i * 512 + lane * 16);
        to[4 * i] = four.x, to[4 * i + 1] = four.y, to[4 * i + 2] = four.z, to[4 * i + 3] = four.w;
      }
    } else if constexpr (BITS == 2) {
      uint2 two = once_8(at + lane * 8);
      to[0] = two.x, to[1] = two.y;
    } else {
      to[0] = once_4(at + lane * 4);
    }
  }
  struct Copied {};
  static __device__ inline Copied copied(const uint8_t *, unsigned, unsigned, unsigned, unsigned) { return {}; }
  static __device__ inline void load(Raw &raw, const Rows &rows, unsigned slab, unsigned lane) {
    const uint8_t *at = rows.at + static_cast<size_t>(slab) * RECORD;
#pragma unroll
    for (unsigned h = 0; h < 2; h++) {
      words<LOW>(raw.low[h], at + h * 128 * LOW, lane);
      if constexpr (HIGH > 0) words<HIGH>(raw.high[h], at + LOW_BYTES + h * 128 * HIGH, lane);
    }
    Scales::load(raw.scales, at + LOW_BYTES + HIGH_BYTES, lane);
  }
  template <unsigned GROUP> static __device__ inline void expand_group(const Raw &raw, Numbers &n) {
#pragma unroll
    for (unsigned h = 0; h < 2; h++) {
      n.pairs[h][0] = Meaning::template pair<LOW, HIGH, 4 * GROUP>(raw.low[h], raw.high[HIGH ? h : 0]);
      n.pairs[h][1] = Meaning::template pair<LOW, HIGH, 4 * GROUP + 1>(raw.low[h], raw.high[HIGH ? h : 0]);
      n.pairs[h][2] = Meaning::template pair<LOW, HIGH, 4 * GROUP + 2>(raw.low[h], raw.high[HIGH ? h : 0]);
      n.pairs[h][3] = Meaning::template pair<LOW, HIGH, 4 * GROUP + 3>(raw.low[h], raw.high[HIGH ? h : 0]);
    }
  }
  static __device__ inline void expand(const Raw &raw, unsigned group, Numbers (&n)[PIECES]) {
    switch (group) {
    case 0:
      return expand_group<0>(raw, n[0]);
    case 1:
      return expand_group<1>(raw, n[0]);
    case 2:
      return expand_group<2>(raw, n[0]);
    default:
      return expand_group<3>(raw, n[0]);
    }
  }
  static __device__ inline void scales(const Raw &raw, unsigned group, float (&scale)[2][2], float (&least)[2][2]) {
    Scales::scales(raw.scales, group, scale, least);
    if constexpr (Meaning::MORE > 0) {
#pragma unroll
      for (unsigned h = 0; h < 2; h++) {
#pragma unroll
        for (unsigned i = 0; i < 2; i++)
          least[h][i] = fmaf(-static_cast<float>(Meaning::MORE), scale[h][i], least[h][i]);
      }
    }
  }
};

using TensorQ8_0 = Packed<8, 0, SignedBytes, OfGroups<false>>;
using TensorQ4_0 = Packed<4, 0, Less<8>, OfGroups<false>>;
using TensorQ4_1 = Packed<4, 0, Plain<4>, OfGroups<true>>;
using TensorQ5_0 = Packed<4, 1, Less<16>, OfGroups<false>>;
using TensorQ5_1 = Packed<4, 1, Plain<5>, OfGroups<true>>;
using TensorQ2K = Packed<2, 0, Plain<2>, OfBlocks<true, true>>;
using TensorQ3K = Packed<2, 1, Less<4>, OfBlocks<true, false>>;
using TensorQ4K = Packed<4, 0, Plain<4>, OfBlocks<false, true>>;
using TensorQ5K = Packed<4, 1, Plain<5>, OfBlocks<false, true>>;
using TensorQ6K = Packed<4, 2, Less<32>, OfBlocks<true, false>>;
using TensorIq4Nl = Packed<4, 0, NonLinear, OfGroups<false>>;
using TensorIq4Xs = Packed<4, 0, NonLinear, OfBlocks<false, false>>;
using TensorMxfp4 = Packed<4, 0, MicroFloats, OfPowers>;
