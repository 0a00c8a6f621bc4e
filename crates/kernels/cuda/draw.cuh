// The parts that the kernels of draw.cu share: steps, masses, ranges of tokens, and sums over a block.
#pragma once

#include "device.cuh"

// A sum of masses, or of ones.
using Sum = unsigned long long;

constexpr unsigned DRAW_THREADS = 512;
constexpr unsigned WARPS = DRAW_THREADS / WARP;
// The most blocks that share a row, and the most ranges of a row.
constexpr unsigned DRAW_BLOCKS = 64;
constexpr unsigned RANGES = DRAW_BLOCKS * WARPS;
// Each thread handles adjacent ranges, and adjacent buckets.
constexpr unsigned RANGES_A_THREAD = RANGES / DRAW_THREADS;
constexpr unsigned BUCKETS = 2048;
constexpr unsigned BUCKETS_A_THREAD = BUCKETS / DRAW_THREADS;
// The number of logits that a thread reads at once.
constexpr unsigned AT_ONCE = 4;
// More than any mass.
constexpr Sum ENDLESS = ~0ull;

struct Step {
  uint32_t kind;
  float number;
  // The index of the step's first word, and the number of its words.
  uint32_t from;
  uint32_t count;
};

// As numbered in draw.rs.
enum { RESTRICT, BIAS, DIVIDE, REPETITION, SUBTRACT, TOP_K, TOP_P, MIN_P, EPSILON, ETA, TOP_A, XTC, TYPICAL };

struct DrawItem {
  // The row of the logits.
  uint32_t row;
  // The range of its steps.
  uint32_t from;
  uint32_t to;
  // Whether the largest logit is taken, whatever the number.
  uint32_t greedy;
  // In [0, 1): determines the sampled token.
  double number;
};

// The progress of one row.
struct DrawState {
  // The mass, or the number, of the tokens of each bucket; without cuts the mass of each range. For cuts that depend on
  // the entropy or the normalizer, the moments.
  Sum sums[BUCKETS];
  // The mass, or the number, of the tokens that the first cut keeps at least; ENDLESS if it keeps all.
  Sum need;
  // The same of the buckets before the one in which `need` is reached.
  Sum above;
  // The largest logit of each block.
  float largest[DRAW_BLOCKS];
  // The number of listed tokens of each range.
  uint32_t listed[RANGES];
  // The bucket in which `need` is reached.
  uint32_t bucket;
  // The number of blocks that are done with `tally`, and with `choose`.
  uint32_t done[2];
  uint32_t unused;
};

struct Draw {
  const float *logits;
  // A working row for each item: the changed logits, and then those of the list.
  float *rows;
  // The listed tokens of each item.
  uint32_t *lists;
  DrawState *states;
  const DrawItem *items;
  const Step *steps;
  const uint64_t *words;
  // For each item, its token; NONE if no token is allowed.
  uint32_t *tokens;
  uint32_t vocabulary;
};

// The 64-bit number of a step without words.
static __device__ inline double exact(const Step &step) {
  return __longlong_as_double(static_cast<long long>(static_cast<uint64_t>(step.count) << 32 | step.from));
}

static __device__ inline bool is_cut(const Step &step) { return step.kind >= TOP_K; }

// Whether a cut depends on the entropy or the normalizer.
static __device__ inline bool takes_moments(const Step &step) { return step.kind >= EPSILON; }

// The end of the steps from `from` on that change each token separately.
static __device__ inline uint32_t edits_end(const Draw &a, const DrawItem &item, uint32_t from) {
  while (from < item.to && !is_cut(a.steps[from])) from++;
  return from;
}

static __device__ inline bool in_set(const Draw &a, const Step &step, uint32_t token) {
  return token / 64 < step.count && (a.words[step.from + token / 64] >> token % 64 & 1);
}

// The logit of a token after a step that is not a cut.
static __device__ inline float changed(const Draw &a, const Step &step, uint32_t token, float z) {
  switch (step.kind) {
  case RESTRICT: return in_set(a, step, token) ? z : -INFINITY;
  case BIAS: return z + (in_set(a, step, token) ? step.number : 0);
  case DIVIDE: return z / step.number;
  }
  // One word per token, in increasing order: the token, and a number.
  uint32_t low = 0, high = step.count;
  while (low < high) {
    uint32_t middle = (low + high) / 2;
    if (a.words[step.from + middle] >> 32 < token) low = middle + 1; else high = middle;
  }
  uint64_t word = low < step.count ? a.words[step.from + low] : ~uint64_t(0);
  if (word >> 32 != token || z == -INFINITY) return z;
  if (step.kind == REPETITION) return z > 0 ? z / step.number : z * step.number;
  return z - __uint_as_float(static_cast<uint32_t>(word));
}

static __device__ inline Sum mass(float z, float largest) {
  return z == -INFINITY ? 0 : __float2ull_rn(expf(z - largest) * 1099511627776.0f);
}

// An integer that increases with the logit.
static __device__ inline uint32_t rank(float z) {
  uint32_t bits = __float_as_uint(z);
  return bits >> 31 ? ~bits : bits | 0x80000000;
}

// The logit of a rank.
static __device__ inline float logit_of(uint32_t rank) {
  return __uint_as_float(rank >> 31 ? rank & 0x7fffffff : ~rank);
}

// An integer that does not decrease with the distance to the largest logit: 128 for each octave of the distance plus 1.
static __device__ inline uint32_t bucket_of(float z, float largest) {
  return min((__float_as_uint(largest - z + 1.0f) - __float_as_uint(1.0f)) >> 16, BUCKETS - 1);
}

// Sums of `w = exp(z - max)` and of `w * (max - z)` in units of 2^-62, each as that of the upper 32 bits and that of
// the lower ones. Finer than masses, since their logarithm is compared with logits.
constexpr unsigned MOMENTS = 4;

static __device__ inline void add_moments(Sum *moments, float z, float largest) {
  const double distance = largest - z, weight = exp(-distance);
  // Too little for a unit, also if the distance is infinite.
  if (weight < 1e-30) return;
  const Sum one = static_cast<Sum>(weight * 0x1p62), moment = static_cast<Sum>(weight * distance * 0x1p62);
  moments[0] += one >> 32, moments[1] += one & 0xffffffff;
  moments[2] += moment >> 32, moments[3] += moment & 0xffffffff;
}

struct Information {
  // The logarithm of the sum of all `exp(z)`: the log-probability of a token is its logit minus this.
  double normalizer;
  double entropy;
};

static __device__ inline Information information_of(const Sum *moments, float largest) {
  const double total = static_cast<double>(moments[0]) * 0x1p-30 + static_cast<double>(moments[1]) * 0x1p-62;
  const double moment = static_cast<double>(moments[2]) * 0x1p-30 + static_cast<double>(moments[3]) * 0x1p-62;
  return {largest + log(total), log(total) + moment / total};
}

// The logit that a token must have to be kept; for XTC, to be excluded.
static __device__ inline double bound_of(const Step &step, float largest, const Information &of) {
  switch (step.kind) {
  case EPSILON: return fmin(exact(step) + of.normalizer, static_cast<double>(largest));
  case ETA: return fmin(fmin(exact(step), exact(step) / 2 - of.entropy) + of.normalizer, static_cast<double>(largest));
  case TOP_A: return exact(step) + 2.0 * largest - of.normalizer;
  case XTC: return of.normalizer + exact(step);
  }
  return largest + exact(step);
}

// The tokens of one warp.
struct Range {
  // The index of the warp among those that share the row.
  unsigned index;
  unsigned begin;
  unsigned end;
};

// One of the equal parts of `count` elements; all but the last consist of whole warps of elements.
static __device__ inline Range part(unsigned index, unsigned parts, unsigned count) {
  unsigned size = (count + parts * WARP - 1) / (parts * WARP) * WARP;
  return {index, min(index * size, count), min((index + 1) * size, count)};
}

static __device__ inline Range own_range(const Draw &a) {
  return part(blockIdx.x * WARPS + threadIdx.x / WARP, gridDim.x * WARPS, a.vocabulary);
}

// Calls `use(index, z)` with each element of a range; the threads of a warp do so together, also for indices past its
// end, with -INFINITY.
template <class Use> static __device__ inline void each(Range range, const float *row, const Use &use) {
  unsigned lane = threadIdx.x % WARP;
  for (unsigned at = range.begin; at < range.end; at += AT_ONCE * WARP) {
    float z[AT_ONCE];
#pragma unroll
    for (unsigned i = 0; i < AT_ONCE; i++) {
      unsigned index = at + i * WARP + lane;
      z[i] = index < range.end ? row[index] : -INFINITY;
    }
#pragma unroll
    for (unsigned i = 0; i < AT_ONCE; i++) use(at + i * WARP + lane, z[i]);
  }
}

struct BlockMemory {
  Sum sums[WARPS];
  Sum above;
  // The lower and upper halves of sums of 64 bits: an atomic addition of 32 bits takes one instruction.
  uint32_t low[BUCKETS];
  uint32_t high[BUCKETS];
  // For each range, the number of listed tokens before it.
  uint32_t offsets[RANGES];
  float largest[WARPS];
  uint32_t found;
  uint32_t last;
};

static __device__ inline float block_max(float x, BlockMemory *memory) {
  x = warp_max(x);
  __syncthreads();
  if (threadIdx.x % WARP == 0) memory->largest[threadIdx.x / WARP] = x;
  __syncthreads();
  for (unsigned i = 0; i < WARPS; i++) x = fmaxf(x, memory->largest[i]);
  return x;
}

// The least number of the threads.
static __device__ inline Sum block_min(Sum x, BlockMemory *memory) {
  for (unsigned lane = WARP / 2; lane > 0; lane /= 2) x = min(x, __shfl_xor_sync(ALL_LANES, x, lane));
  __syncthreads();
  if (threadIdx.x % WARP == 0) memory->sums[threadIdx.x / WARP] = x;
  __syncthreads();
  for (unsigned i = 0; i < WARPS; i++) x = min(x, memory->sums[i]);
  return x;
}

// The sum over the threads of a warp up to this one.
static __device__ inline Sum warp_upto(Sum x) {
  for (unsigned back = 1; back < WARP; back *= 2) {
    Sum other = __shfl_up_sync(ALL_LANES, x, back);
    if (threadIdx.x % WARP >= back) x += other;
  }
  return x;
}

// The sum over the warps; those of each are in `memory->sums`. `before` becomes the sum over the warps before this one.
static __device__ inline Sum warps_total(const BlockMemory *memory, Sum *before) {
  Sum all = *before = 0;
  for (unsigned i = 0; i < WARPS; i++) {
    if (i == threadIdx.x / WARP) *before = all;
    all += memory->sums[i];
  }
  return all;
}

// The sum over the threads before this one; `total` becomes the sum over all.
static __device__ inline Sum before(Sum x, BlockMemory *memory, Sum *total) {
  Sum upto = warp_upto(x), warps;
  __syncthreads();
  if (threadIdx.x % WARP == WARP - 1) memory->sums[threadIdx.x / WARP] = upto;
  __syncthreads();
  *total = warps_total(memory, &warps);
  return warps + upto - x;
}

// Whether this block is the last that is done with its share of the row, whose results are then visible to it.
static __device__ inline bool is_last(uint32_t *done, BlockMemory *memory) {
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) memory->last = atomicAdd(done, 1u) == gridDim.x - 1;
  __syncthreads();
  __threadfence();
  return memory->last;
}

// A row is not a distribution if a logit is NaN or +infinity, nor if no token is allowed: then this is -INFINITY.
static __device__ inline float sound(float largest) { return largest < INFINITY ? largest : -INFINITY; }

static __device__ inline float larger(float largest, float z) { return z < INFINITY ? fmaxf(largest, z) : INFINITY; }

// The largest logit of the row.
static __device__ inline float largest_of(const DrawState *state) {
  float largest = -INFINITY;
  for (unsigned i = threadIdx.x % WARP; i < gridDim.x; i += WARP) largest = fmaxf(largest, state->largest[i]);
  return sound(warp_max(largest));
}

// The changed logits of the row of this block.
static __device__ inline const float *source(const Draw &a, const DrawItem &item, uint32_t edited) {
  if (edited > item.from) return a.rows + static_cast<size_t>(blockIdx.y) * a.vocabulary;
  return a.logits + static_cast<size_t>(item.row) * a.vocabulary;
}

static __device__ inline void clear_bins(BlockMemory *memory) {
  __syncthreads();
  for (unsigned i = threadIdx.x; i < BUCKETS; i += DRAW_THREADS) memory->low[i] = 0, memory->high[i] = 0;
  __syncthreads();
}

static __device__ inline void add_to_bin(BlockMemory *memory, uint32_t bin, Sum number) {
  uint32_t low = static_cast<uint32_t>(number), high = static_cast<uint32_t>(number >> 32);
  if (low) high += atomicAdd(&memory->low[bin], low) > ~low;
  if (high) atomicAdd(&memory->high[bin], high);
}

static __device__ inline Sum bin(const BlockMemory *memory, uint32_t index) {
  return static_cast<Sum>(memory->high[index]) << 32 | memory->low[index];
}

// Finds the first element at which a sum exceeds `want`, if it starts at `from` in this thread and the elements are
// `sums`. Stores its index, counted from `first`, and the sum before it.
static __device__ inline void find(const Sum *sums, unsigned count, unsigned first, Sum from,
                                   Sum want, BlockMemory *memory) {
  for (unsigned i = 0; i < count; i++) {
    if (want >= from && want - from < sums[i]) memory->found = first + i, memory->above = from;
    from += sums[i];
  }
}

// The first element of a range at which the sum of weights exceeds `want`, which their total must do. All threads of a
// warp call this together.
template <class Weight>
static __device__ inline unsigned find_in(Range range, const float *row, Sum want, const Weight &weight) {
  unsigned lane = threadIdx.x % WARP;
  for (unsigned at = range.begin; at < range.end; at += WARP) {
    Sum one = at + lane < range.end ? weight(row[at + lane]) : 0, upto = warp_upto(one);
    unsigned there = __ballot_sync(ALL_LANES, want < upto);
    if (there) return at + __ffs(there) - 1;
    want -= __shfl_sync(ALL_LANES, upto, WARP - 1);
  }
  return NONE;
}

// The number that a sum must exceed at the token that is chosen.
static __device__ inline Sum wanted(const DrawItem &item, Sum total) {
  Sum want = item.greedy ? 0 : static_cast<Sum>(item.number * static_cast<double>(total));
  return want < total ? want : total - 1;
}

// The share of a token: the largest logit (the lowest token among equals) has all of a greedy choice; else the
// cumulative distribution over increasing tokens is inverted.
static __device__ inline Sum share(const DrawItem &item, float z, float largest) {
  return item.greedy ? z == largest : mass(z, largest);
}

// The mass, or the number, that top-p or top-k keeps at least of `all`; ENDLESS if it keeps all.
static __device__ inline Sum needed(const Step &step, Sum all) {
  Sum need = step.kind == TOP_K ? step.from : static_cast<Sum>(ceil(exact(step) * static_cast<double>(all)));
  return need >= all ? ENDLESS : need == 0 ? 1 : need;
}

// As in draw.rs.
static_assert(sizeof(BlockMemory) == 20688 && sizeof(DrawState) == 20768);
