// Attention of the rows of a pass over the pages of their sequences, split along the keys (Dao et al. 2023,
// "Flash-Decoding"): each split yields its visible values, weighted against its own largest score, and what is needed
// to merge it with the others.
#include "formats.cuh"
#include "tensor.cuh"

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
  // The most rows of a tile.
  uint32_t rows_a_tile;
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

// The number of keys that are processed together: one per lane.
constexpr unsigned KEYS = WARP;
constexpr unsigned ATTEND_WARPS = 4;

// Loads a head of some tokens into `to`, whose rows have one extra number so that lanes do not conflict in one bank.
template <class F>
static __device__ inline void load(const Attend &a, uint64_t at, uint32_t table, unsigned head, unsigned begin, unsigned count,
                                   float *to) {
  // Pages are whole tokens, and heads whole blocks.
  size_t a_head = a.dim / F::BLOCK * F::BYTES, a_token = a_head * a.kv_heads;
  for (unsigned i = threadIdx.x; i < count * a.dim; i += blockDim.x) {
    unsigned key = begin + i / a.dim;
    const uint8_t *token = a.pages[table + key / a.page] + at + key % a.page * a_token;
    to[i / a.dim * (a.dim + 1) + i % a.dim] = F::one(token + head * a_head, i % a.dim);
  }
}

// Whether a row sees the token at a slot, and how far back that is.
static __device__ inline bool sees(const Attend &a, const TokenRow &row, unsigned slot, float *back) {
  uint32_t position = slot;
  if (slot >= row.held) {
    unsigned nth = slot - row.held;
    if (slot > row.slot) return false;
    if (row.mask != NONE && !(a.masks[row.mask + nth / 64] >> nth % 64 & 1)) return false;
    position = a.rows[row.first + nth].position;
  }
  *back = static_cast<float>(row.position) - static_cast<float>(position);
  return a.window == 0 || *back < static_cast<float>(a.window);
}

template <class F> static __device__ inline void attend(const Attend &a) {
  const Tile tile = a.tiles[blockIdx.z];
  if (tile.count == 0) return;
  const TokenRow first = a.rows[tile.first];
  unsigned begin = split_begin(blockIdx.x);
  unsigned end = min(split_begin(blockIdx.x + 1), a.rows[tile.first + tile.count - 1].slot + 1);
  if (begin >= end) return;
  unsigned group = a.heads / a.kv_heads, queries = tile.count * group, most = a.rows_a_tile * group;
  unsigned lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
  SHARED(float, memory);
  float *query = memory, *sums = query + most * a.dim, *held = sums + most * a.dim;
  float *weights = held + KEYS * (a.dim + 1), *largest = weights + most * KEYS, *totals = largest + most;
  // Query q is for row q / group of the tile, and head q % group of those that share keys.
  for (unsigned i = threadIdx.x; i < queries * a.dim; i += blockDim.x) {
    unsigned q = i / a.dim, row = tile.first + q / group, head = blockIdx.y * group + q % group;
    query[i] = a.query[(static_cast<size_t>(row) * a.heads + head) * a.dim + i % a.dim];
    sums[i] = 0;
  }
  for (unsigned q = threadIdx.x; q < queries; q += blockDim.x) largest[q] = -INFINITY, totals[q] = 0;
  for (unsigned from = begin; from < end; from += KEYS) {
    unsigned count = min(KEYS, end - from);
    __syncthreads();
    load<F>(a, a.keys, first.table, blockIdx.y, from, count, held);
    __syncthreads();
    for (unsigned q = warp; q < queries; q += ATTEND_WARPS) {
      const TokenRow row = a.rows[tile.first + q / group];
      float score = -INFINITY, back;
      if (lane < count && sees(a, row, from + lane, &back)) {
        const float *one = query + q * a.dim, *key = held + lane * (a.dim + 1);
        float dot = 0;
        for (unsigned i = 0; i < a.dim; i++) dot = fmaf(one[i], key[i], dot);
        score = dot * a.scale;
        if (a.cap > 0) score = a.cap * tanhf(score / a.cap);
        if (a.slopes) score -= a.slopes[blockIdx.y * group + q % group] * back;
      }
      float before = largest[q], now = fmaxf(before, warp_max(score));
      float weight = score == -INFINITY ? 0 : expf(score - now), keeps = before == -INFINITY ? 0 : expf(before - now);
      float total = warp_sum(weight);
      weights[q * KEYS + lane] = weight;
      for (unsigned i = lane; i < a.dim; i += WARP) sums[q * a.dim + i] *= keeps;
      __syncwarp();
      if (lane == 0) largest[q] = now, totals[q] = totals[q] * keeps + total;
    }
    __syncthreads();
    load<F>(a, a.values, first.table, blockIdx.y, from, count, held);
    __syncthreads();
    for (unsigned q = warp; q < queries; q += ATTEND_WARPS) {
      for (unsigned i = lane; i < a.dim; i += WARP) {
        float sum = sums[q * a.dim + i];
        for (unsigned key = 0; key < count; key++) sum = fmaf(weights[q * KEYS + key], held[key * (a.dim + 1) + i], sum);
        sums[q * a.dim + i] = sum;
      }
    }
  }
  __syncthreads();
  for (unsigned i = threadIdx.x; i < queries * a.dim; i += blockDim.x) {
    unsigned q = i / a.dim, row = tile.first + q / group, head = blockIdx.y * group + q % group;
    size_t at = (static_cast<size_t>(row - a.from) * a.heads + head) * a.splits + blockIdx.x;
    a.sums[at * a.dim + i % a.dim] = sums[i];
    if (i % a.dim == 0) a.totals[2 * at] = largest[q], a.totals[2 * at + 1] = totals[q];
  }
}

KERNEL(attend_f32, Attend) { attend<F32>(a); }
KERNEL(attend_f16, Attend) { attend<F16>(a); }
KERNEL(attend_bf16, Attend) { attend<Bf16>(a); }
KERNEL(attend_q8_0, Attend) { attend<Q8_0>(a); }

struct Merge {
  const float *sums;
  const float *totals;
  const TokenRow *rows;
  Activations out;
  uint32_t heads;
  uint32_t dim;
  uint32_t splits;
  // The row whose sums come first.
  uint32_t from;
};

// Merges the splits of a row and a head.
KERNEL(merge, Merge) {
  const TokenRow row = a.rows[a.from + blockIdx.y];
  if (row.slot == NONE) return;
  size_t at = static_cast<size_t>(blockIdx.y) * a.heads + blockIdx.x;
  const float *totals = a.totals + at * a.splits * 2, *sums = a.sums + at * a.splits * a.dim;
  // Later splits saw nothing.
  unsigned count = 1;
  while (count < a.splits && split_begin(count) <= row.slot) count++;
  float largest = -INFINITY, total = 0;
  for (unsigned split = 0; split < count; split++) largest = fmaxf(largest, totals[2 * split]);
  for (unsigned split = 0; split < count; split++) {
    if (totals[2 * split] != -INFINITY) total += totals[2 * split + 1] * expf(totals[2 * split] - largest);
  }
  for (unsigned i = threadIdx.x; i < a.dim; i += blockDim.x) {
    float sum = 0;
    for (unsigned split = 0; split < count; split++) {
      if (totals[2 * split] != -INFINITY) sum = fmaf(sums[split * a.dim + i], expf(totals[2 * split] - largest), sum);
    }
    a.out.set(a.from + blockIdx.y, blockIdx.x * a.dim + i, sum / total);
  }
}
