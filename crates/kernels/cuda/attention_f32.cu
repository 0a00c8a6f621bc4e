// Attention in f32, without tensor cores, for keys and values in f32.
#include "attention.cuh"

// The number of keys that are processed together: one per lane.
constexpr unsigned F32_KEYS = WARP;

// Loads a head of some tokens into `to`, whose rows have one extra number so that lanes do not conflict in one bank.
template <class F>
static __device__ inline void load_in_f32(const Attend &a, uint64_t at, uint32_t table, unsigned head, unsigned begin,
                                          unsigned count, float *to) {
  // Pages are whole tokens, and heads whole blocks.
  size_t a_head = a.dim / F::BLOCK * F::BYTES, a_token = a_head * a.kv_heads;
  for (unsigned i = threadIdx.x; i < count * a.dim; i += blockDim.x) {
    unsigned key = begin + i / a.dim;
    const uint8_t *token = a.pages[table + key / a.page] + at + key % a.page * a_token;
    to[i / a.dim * (a.dim + 1) + i % a.dim] = F::one(token + head * a_head, i % a.dim);
  }
}

template <class F> static __device__ inline void attend_in_f32(const Attend &a) {
  const Tile tile = a.tiles[blockIdx.z];
  if (tile.count == 0) return;
  const TokenRow first = a.rows[tile.first];
  unsigned begin = split_begin(blockIdx.x);
  unsigned end = min(split_begin(blockIdx.x + 1), a.rows[tile.first + tile.count - 1].slot + 1);
  if (begin >= end) return;
  unsigned group = a.heads / a.kv_heads, queries = tile.count * group, most = a.queries;
  unsigned lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
  SHARED(float, memory);
  float *query = memory, *sums = query + most * a.dim, *held = sums + most * a.dim;
  float *weights = held + F32_KEYS * (a.dim + 1), *largest = weights + most * F32_KEYS, *totals = largest + most;
  // Query q is for row q / group of the tile, and head q % group of those that share keys.
  for (unsigned i = threadIdx.x; i < queries * a.dim; i += blockDim.x) {
    unsigned q = i / a.dim, row = tile.first + q / group, head = blockIdx.y * group + q % group;
    query[i] = a.query[(static_cast<size_t>(row) * a.heads + head) * a.dim + i % a.dim];
    sums[i] = 0;
  }
  for (unsigned q = threadIdx.x; q < queries; q += blockDim.x) largest[q] = -INFINITY, totals[q] = 0;
  for (unsigned from = begin; from < end; from += F32_KEYS) {
    unsigned count = min(F32_KEYS, end - from);
    __syncthreads();
    load_in_f32<F>(a, a.keys, first.table, blockIdx.y, from, count, held);
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
      weights[q * F32_KEYS + lane] = weight;
      for (unsigned i = lane; i < a.dim; i += WARP) sums[q * a.dim + i] *= keeps;
      __syncwarp();
      if (lane == 0) largest[q] = now, totals[q] = totals[q] * keeps + total;
    }
    __syncthreads();
    load_in_f32<F>(a, a.values, first.table, blockIdx.y, from, count, held);
    __syncthreads();
    for (unsigned q = warp; q < queries; q += ATTEND_WARPS) {
      for (unsigned i = lane; i < a.dim; i += WARP) {
        float sum = sums[q * a.dim + i];
        for (unsigned key = 0; key < count; key++)
          sum = fmaf(weights[q * F32_KEYS + key], held[key * (a.dim + 1) + i], sum);
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

KERNEL(attend_f32, Attend) { attend_in_f32<F32>(a); }
