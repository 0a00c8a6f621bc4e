// For attention with tensor cores and without: arguments, the split of keys, and visibility.
#pragma once

#include "formats.cuh"
#include "packed.cuh"

// Consecutive rows of one sequence that are computed together. If there are 0, there is nothing to do.
struct Tile {
  uint32_t first;
  uint32_t count;
};

struct Attend {
  const float *query;
  // For each row, head and split: `dim` sums; then a largest score and a total of weights.
  float *sums;
  float *totals;
  const TokenRow *rows;
  const Tile *tiles;
  // The addresses of pages.
  const uint8_t *const *pages;
  const uint64_t *masks;
  // For each query head (ALiBi), or null.
  const float *slopes;
  // The offsets of this layer's keys and values in a page.
  uint64_t keys;
  uint64_t values;
  uint32_t heads;
  uint32_t kv_heads;
  uint32_t dim;
  // The number of tokens in a page.
  uint32_t page;
  // The number of splits that a row has room for.
  uint32_t splits;
  // Tokens this many positions back are not visible; 0: all are.
  uint32_t window;
  // The most queries of a tile.
  uint32_t queries;
  float scale;
  // 0: scores are not capped.
  float cap;
  // The row whose sums come first.
  uint32_t from;
};

// The first token of a split: the same for every row of every pass, so that a sequence has the same bits in any batch.
// As in `attention.rs`.
static __device__ inline unsigned split_begin(unsigned split) {
  if (split < 16) return split * 128;
  return (8 + split % 8) * (256u << (split - 16) / 8);
}

constexpr unsigned ATTEND_WARPS = 4;

// Whether a row sees the token at a slot, and how far back that is.
static __device__ inline bool sees(const Attend &a, const TokenRow &row, unsigned slot, float *back) {
  uint32_t position = slot;
  if (slot > row.slot) return false;
  if (slot >= row.held) {
    unsigned nth = slot - row.held;
    if (row.mask == NONE) {
      // The tokens of a chain follow each other.
      position = row.position - (row.slot - slot);
    } else {
      if (!(a.masks[row.mask + nth / 64] >> nth % 64 & 1)) return false;
      position = a.rows[row.first + nth].position;
    }
  }
  *back = static_cast<float>(row.position) - static_cast<float>(position);
  return a.window == 0 || *back < static_cast<float>(a.window);
}
