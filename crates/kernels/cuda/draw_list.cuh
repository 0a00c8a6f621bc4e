// The list of the tokens that are left of a row after its first cut, which one block handles.
#pragma once

#include "draw.cuh"

// The tokens that are left of a row, in increasing order.
struct List {
  uint32_t *tokens;
  // -INFINITY if the token is not allowed any more.
  float *logits;
  unsigned count;
};

// The part of the list that belongs to a warp of this block.
static __device__ inline Range own_part(const List &list) { return part(threadIdx.x / WARP, WARPS, list.count); }

// The total of weights over the list, and in `memory->sums` that of each warp's part.
template <class Weight>
static __device__ inline Sum total_of(const List &list, const Weight &weight, BlockMemory *memory) {
  Sum sum = 0, before;
  each(own_part(list), list.logits, [&](unsigned, float z) { sum += weight(z); });
  sum = warp_upto(sum);
  __syncthreads();
  if (threadIdx.x % WARP == WARP - 1) memory->sums[threadIdx.x / WARP] = sum;
  __syncthreads();
  return warps_total(memory, &before);
}

// The index of the first element of the list at which the sum of weights exceeds `want`, after `total_of` with the same
// weights, which must exceed it.
template <class Weight>
static __device__ inline unsigned find_in_list(const List &list, Sum want, const Weight &weight, BlockMemory *memory) {
  Sum before;
  warps_total(memory, &before);
  if (want >= before && want - before < memory->sums[threadIdx.x / WARP]) {
    unsigned found = find_in(own_part(list), list.logits, want - before, weight);
    if (threadIdx.x % WARP == 0) memory->found = found;
  }
  __syncthreads();
  unsigned found = memory->found;
  __syncthreads();
  return found;
}

// The key at which the sum of weights, from the least key up, reaches `need`. It is among the keys of the tokens that
// `here` selects; `above` is the sum of the weights before these, and becomes the sum before the found key.
template <class Here, class Key, class Weight>
static __device__ inline Sum crossing(const List &list, Sum need, Sum *above, const Here &here, const Key &key,
                                      const Weight &weight, BlockMemory *memory) {
  Sum least = ENDLESS, most = 0;
  each(own_part(list), list.logits, [&](unsigned, float z) {
    if (z != -INFINITY && here(z)) least = min(least, key(z)), most = max(most, key(z));
  });
  least = block_min(least, memory), most = ~block_min(~most, memory);
  while (least < most) {
    // Eleven digits at a time, which select a bucket.
    const int length = 64 - __clzll(static_cast<long long>(most - least)), shift = length > 11 ? length - 11 : 0;
    clear_bins(memory);
    each(own_part(list), list.logits, [&](unsigned, float z) {
      const Sum of = key(z);
      if (z != -INFINITY && of >= least && of <= most) add_to_bin(memory, (of - least) >> shift, weight(z));
    });
    __syncthreads();
    Sum sums[BUCKETS_A_THREAD], sum = 0, all;
    for (unsigned i = 0; i < BUCKETS_A_THREAD; i++) sum += sums[i] = bin(memory, threadIdx.x * BUCKETS_A_THREAD + i);
    const Sum from = *above + before(sum, memory, &all);
    find(sums, BUCKETS_A_THREAD, threadIdx.x * BUCKETS_A_THREAD, from, need - 1, memory);
    __syncthreads();
    least += static_cast<Sum>(memory->found) << shift;
    most = min(most, least + ((Sum(1) << shift) - 1));
    *above = memory->above;
  }
  return least;
}

// Applies top-k or top-p to the list. If `state` is given, `need` is reached in its bucket.
static __device__ inline void cut(const List &list, const Step &step, float largest, const DrawState *state,
                                  BlockMemory *memory) {
  const bool counts = step.kind == TOP_K;
  const auto weight = [&](float z) { return counts ? z != -INFINITY : mass(z, largest); };
  const Sum need = state ? state->need : needed(step, total_of(list, weight, memory));
  if (need == ENDLESS) return;
  Sum above = state ? state->above : 0;
  const auto here = [&](float z) { return !state || bucket_of(z, largest) == state->bucket; };
  const auto key = [](float z) -> Sum { return ~rank(z); };
  const uint32_t bound = ~static_cast<uint32_t>(crossing(list, need, &above, here, key, weight, memory));
  // Equal logits: top-k keeps all of them, top-p as many as are needed, the lowest tokens first.
  const float edge = logit_of(bound);
  unsigned last = NONE;
  if (!counts) {
    const auto is_equal = [&](float z) -> Sum { return rank(z) == bound; };
    const Sum one = mass(edge, largest), kept = one == 0 ? 1 : (need - above + one - 1) / one;
    if (kept < total_of(list, is_equal, memory)) last = find_in_list(list, kept - 1, is_equal, memory);
  }
  each(own_part(list), list.logits, [&](unsigned index, float z) {
    if (z == -INFINITY) return;
    if (counts ? z < edge : rank(z) < bound || (rank(z) == bound && index > last)) list.logits[index] = -INFINITY;
  });
  __syncthreads();
}

// Applies typical sampling: keeps the tokens whose information is nearest to the entropy, with ties.
static __device__ inline void keep_typical(const List &list, const Step &step, float largest, const Information &of,
                                           BlockMemory *memory) {
  const auto weight = [&](float z) { return mass(z, largest); };
  const Sum need = needed(step, total_of(list, weight, memory));
  if (need == ENDLESS) return;
  const double centre = of.normalizer - of.entropy;
  const auto key = [&](float z) { return static_cast<Sum>(__double_as_longlong(fabs(centre - z))); };
  Sum above = 0;
  const Sum bound = crossing(list, need, &above, [](float) { return true; }, key, weight, memory);
  each(own_part(list), list.logits, [&](unsigned index, float z) {
    if (z != -INFINITY && key(z) > bound) list.logits[index] = -INFINITY;
  });
  __syncthreads();
}

// Applies XTC: forbids the tokens from a bound on, except the least probable; of equal ones the last is kept.
static __device__ inline void exclude_from(const List &list, double bound, BlockMemory *memory) {
  Sum kept = ENDLESS;
  each(own_part(list), list.logits, [&](unsigned index, float z) {
    if (z != -INFINITY && z >= bound) kept = min(kept, static_cast<Sum>(rank(z)) << 32 | ~index);
  });
  kept = block_min(kept, memory);
  each(own_part(list), list.logits, [&](unsigned index, float z) {
    if (z != -INFINITY && z >= bound && index != ~static_cast<uint32_t>(kept)) list.logits[index] = -INFINITY;
  });
  __syncthreads();
}

// Forbids the tokens of the list whose logits are below a bound.
static __device__ inline void keep_from(const List &list, double bound) {
  each(own_part(list), list.logits, [&](unsigned index, float z) {
    if (z != -INFINITY && z < bound) list.logits[index] = -INFINITY;
  });
  __syncthreads();
}

// The largest logit of the list.
static __device__ inline float largest_in(const List &list, BlockMemory *memory) {
  float largest = -INFINITY;
  each(own_part(list), list.logits, [&](unsigned, float z) { largest = larger(largest, z); });
  return sound(block_max(largest, memory));
}

// Applies a cut to the list, and returns the largest logit that is left. `state` is given for the first cut.
static __device__ inline float apply_cut(const List &list, const Step &step, float largest, const DrawState *state,
                                         BlockMemory *memory) {
  if (step.kind <= TOP_P) {
    cut(list, step, largest, state, memory);
    return largest;
  }
  Information of = {};
  if (takes_moments(step)) {
    Sum mine[MOMENTS] = {}, moments[MOMENTS];
    if (!state) each(own_part(list), list.logits, [&](unsigned, float z) { add_moments(mine, z, largest); });
    for (unsigned i = 0; i < MOMENTS; i++) {
      if (state) moments[i] = state->sums[i];
      else before(mine[i], memory, &moments[i]);
    }
    of = information_of(moments, largest);
  }
  switch (step.kind) {
  case TYPICAL: keep_typical(list, step, largest, of, memory); break;
  case XTC: exclude_from(list, bound_of(step, largest, of), memory); break;
  default: keep_from(list, bound_of(step, largest, of)); return largest;
  }
  // The most probable token may be excluded.
  return largest_in(list, memory);
}

// Stores the listed tokens of all ranges, and their logits, one after the other. Returns their number.
static __device__ inline unsigned gather(const Draw &a, const float *row, const DrawState *state, float *logits,
                                         uint32_t *tokens, BlockMemory *memory) {
  const unsigned ranges = gridDim.x * WARPS, first = threadIdx.x * RANGES_A_THREAD;
  uint32_t counts[RANGES_A_THREAD], mine = 0;
  for (unsigned i = 0; i < RANGES_A_THREAD; i++) mine += counts[i] = first + i < ranges ? state->listed[first + i] : 0;
  Sum count;
  uint32_t from = static_cast<uint32_t>(before(mine, memory, &count));
  for (unsigned i = 0; i < RANGES_A_THREAD; i++) memory->offsets[first + i] = from, from += counts[i];
  __syncthreads();
  for (unsigned begin = 0; begin < count; begin += AT_ONCE * DRAW_THREADS) {
    uint32_t token[AT_ONCE];
    float z[AT_ONCE];
#pragma unroll
    for (unsigned i = 0; i < AT_ONCE; i++) {
      const unsigned index = begin + i * DRAW_THREADS + threadIdx.x;
      if (index >= count) continue;
      // The last range that begins no later.
      unsigned low = 0, high = ranges;
      while (low < high) {
        unsigned middle = (low + high) / 2;
        if (memory->offsets[middle] <= index) low = middle + 1; else high = middle;
      }
      token[i] = tokens[part(low - 1, ranges, a.vocabulary).begin + index - memory->offsets[low - 1]];
      z[i] = row[token[i]];
    }
    // Elements move to the front, and those of a later turn are not yet overwritten.
    __syncthreads();
#pragma unroll
    for (unsigned i = 0; i < AT_ONCE; i++) {
      const unsigned index = begin + i * DRAW_THREADS + threadIdx.x;
      if (index < count) tokens[index] = token[i], logits[index] = z[i];
    }
  }
  __syncthreads();
  return static_cast<unsigned>(count);
}
