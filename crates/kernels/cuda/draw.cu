// Sampling of tokens from rows of logits: steps that apply a number to a set of tokens, cuts, and the draw itself. Only
// the tokens leave the GPU.
//
// Masses are integers, `exp(z - max)` in units of 2^-40, so sums do not depend on the order of threads, and a draw is
// always the same. With a vocabulary below 2^23 they cannot overflow.
#include "device.cuh"

struct Step {
  uint32_t kind;
  float number;
  // The index of the step's first word, and the number of its words.
  uint32_t from;
  uint32_t count;
};

// As numbered in draw.rs.
enum { RESTRICT, BIAS, DIVIDE, REPETITION, SUBTRACT, TOP_K, TOP_P, MIN_P };

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

struct Draw {
  const float *logits;
  // A working row for each item.
  float *rows;
  const DrawItem *items;
  const Step *steps;
  const uint64_t *words;
  // For each item, the index of its next step.
  uint32_t *taken;
  // For each item, its token; NONE if no token is allowed.
  uint32_t *tokens;
  uint32_t vocabulary;
  // Whether rows are still to be copied from the logits.
  uint32_t fresh;
};

// The 64-bit number of a step without words.
static __device__ inline double exact(const Step &step) {
  return __longlong_as_double(static_cast<long long>(static_cast<uint64_t>(step.count) << 32 | step.from));
}

static __device__ inline bool is_cut(const Step &step) { return step.kind >= TOP_K; }

// The end of the steps from `from` on that change each token separately.
static __device__ inline uint32_t edits_end(const Draw &a, const DrawItem &item, uint32_t from) {
  while (from < item.to && !is_cut(a.steps[from])) from++;
  return from;
}

static __device__ inline bool in_set(const Draw &a, const Step &step, uint32_t token) {
  return token / 64 < step.count && (a.words[step.from + token / 64] >> token % 64 & 1);
}

// Applies the steps up to the next cut, to each token separately.
KERNEL(edit, Draw) {
  const DrawItem item = a.items[blockIdx.y];
  uint32_t begin = a.fresh ? item.from : a.taken[blockIdx.y], end = edits_end(a, item, begin);
  if (!a.fresh && begin == end) return;
  const float *logits = a.logits + static_cast<size_t>(item.row) * a.vocabulary;
  float *row = a.rows + static_cast<size_t>(blockIdx.y) * a.vocabulary;
  for (unsigned token = blockIdx.x * blockDim.x + threadIdx.x; token < a.vocabulary; token += gridDim.x * blockDim.x) {
    float z = a.fresh ? logits[token] : row[token];
    for (uint32_t i = begin; i < end; i++) {
      const Step step = a.steps[i];
      switch (step.kind) {
      case RESTRICT: z = in_set(a, step, token) ? z : -INFINITY; break;
      case BIAS: z += in_set(a, step, token) ? step.number : 0; break;
      case DIVIDE: z /= step.number; break;
      default: {
        // One word per token, in increasing order: the token, and a number.
        uint32_t low = 0, high = step.count;
        while (low < high) {
          uint32_t middle = (low + high) / 2;
          if (a.words[step.from + middle] >> 32 < token) low = middle + 1; else high = middle;
        }
        uint64_t word = low < step.count ? a.words[step.from + low] : ~uint64_t(0);
        if (word >> 32 != token || z == -INFINITY) break;
        if (step.kind == REPETITION) z = z > 0 ? z / step.number : z * step.number;
        else z -= __uint_as_float(static_cast<uint32_t>(word));
      }
      }
    }
    row[token] = z;
  }
}

constexpr unsigned DRAW_THREADS = 512;
constexpr unsigned DIGITS = 256;

struct BlockMemory {
  unsigned long long bins[DIGITS];
  unsigned long long sums[DRAW_THREADS / WARP];
  float largest[DRAW_THREADS / WARP];
  unsigned long long above;
  uint32_t prefix;
};

static __device__ inline float block_max(float x, BlockMemory *memory) {
  x = warp_max(x);
  __syncthreads();
  if (threadIdx.x % WARP == 0) memory->largest[threadIdx.x / WARP] = x;
  __syncthreads();
  for (unsigned i = 0; i < DRAW_THREADS / WARP; i++) x = fmaxf(x, memory->largest[i]);
  return x;
}

// The sum over the threads before this one; `total` becomes the sum over all.
static __device__ inline unsigned long long before(unsigned long long x, BlockMemory *memory, unsigned long long *total) {
  unsigned lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
  unsigned long long upto = x;
  for (unsigned back = 1; back < WARP; back *= 2) {
    unsigned long long other = __shfl_up_sync(ALL_LANES, upto, back);
    if (lane >= back) upto += other;
  }
  __syncthreads();
  if (lane == WARP - 1) memory->sums[warp] = upto;
  __syncthreads();
  unsigned long long sum = 0, all = 0;
  for (unsigned i = 0; i < DRAW_THREADS / WARP; i++) {
    if (i == warp) sum = all;
    all += memory->sums[i];
  }
  *total = all;
  return sum + upto - x;
}

static __device__ inline unsigned long long mass(float z, float largest) {
  return z == -INFINITY ? 0 : __float2ull_rn(expf(z - largest) * 1099511627776.0f);
}

// An integer that increases with the logit.
static __device__ inline uint32_t rank(float z) {
  uint32_t bits = __float_as_uint(z);
  return bits >> 31 ? ~bits : bits | 0x80000000;
}

// The largest logit. If one is NaN or +infinity, the row is not a distribution: -INFINITY, as if no token were allowed.
static __device__ inline float largest_of(const Draw &a, const float *row, BlockMemory *memory) {
  float largest = -INFINITY;
  for (unsigned token = threadIdx.x; token < a.vocabulary; token += DRAW_THREADS) {
    float z = row[token];
    largest = z < INFINITY ? fmaxf(largest, z) : INFINITY;
  }
  largest = block_max(largest, memory);
  return largest < INFINITY ? largest : -INFINITY;
}

// The rank of the logit at which the sum of masses (or of ones, with `counts`), from the largest logit down, reaches
// `need`, which the total must reach. `above` becomes the sum above that rank. Found digit by digit, from the highest.
static __device__ inline uint32_t crossing(const Draw &a, const float *row, float largest, bool counts, unsigned long long need,
                                           BlockMemory *memory, unsigned long long *above) {
  if (threadIdx.x == 0) memory->above = 0, memory->prefix = 0;
  for (int shift = 24; shift >= 0; shift -= 8) {
    for (unsigned i = threadIdx.x; i < DIGITS; i += DRAW_THREADS) memory->bins[i] = 0;
    __syncthreads();
    uint32_t prefix = memory->prefix;
    for (unsigned token = threadIdx.x; token < a.vocabulary; token += DRAW_THREADS) {
      float z = row[token];
      uint32_t of = rank(z);
      if (z == -INFINITY || (shift < 24 && of >> (shift + 8) != prefix)) continue;
      atomicAdd(&memory->bins[of >> shift & (DIGITS - 1)], counts ? 1ull : mass(z, largest));
    }
    __syncthreads();
    if (threadIdx.x == 0) {
      unsigned digit = DIGITS - 1;
      while (digit > 0 && memory->above + memory->bins[digit] < need) memory->above += memory->bins[digit--];
      memory->prefix = prefix << 8 | digit;
    }
    __syncthreads();
  }
  *above = memory->above;
  uint32_t found = memory->prefix;
  __syncthreads();
  return found;
}

// Applies the next cuts; each block handles one row.
KERNEL(cut, Draw) {
  SHARED(BlockMemory, memory);
  const DrawItem item = a.items[blockIdx.x];
  float *row = a.rows + static_cast<size_t>(blockIdx.x) * a.vocabulary;
  uint32_t at = edits_end(a, item, a.fresh ? item.from : a.taken[blockIdx.x]);
  unsigned long long all, above;
  for (; at < item.to && is_cut(a.steps[at]); at++) {
    const Step step = a.steps[at];
    float largest = largest_of(a, row, memory);
    if (largest == -INFINITY) continue;
    if (step.kind == MIN_P) {
      double bound = largest + exact(step);
      for (unsigned token = threadIdx.x; token < a.vocabulary; token += DRAW_THREADS) {
        if (row[token] < bound) row[token] = -INFINITY;
      }
      __syncthreads();
      continue;
    }
    bool counts = step.kind == TOP_K;
    unsigned long long mine = 0;
    for (unsigned token = threadIdx.x; token < a.vocabulary; token += DRAW_THREADS) {
      float z = row[token];
      mine += counts ? z != -INFINITY : mass(z, largest);
    }
    before(mine, memory, &all);
    unsigned long long need = counts ? step.from : static_cast<unsigned long long>(ceil(exact(step) * static_cast<double>(all)));
    if (need >= all) continue;
    if (need == 0) need = 1;
    uint32_t bound = crossing(a, row, largest, counts, need, memory, &above);
    // Equal logits: top-k keeps all of them, top-p as many as are needed, the lowest tokens first.
    unsigned a_thread = (a.vocabulary + DRAW_THREADS - 1) / DRAW_THREADS;
    unsigned begin = min(threadIdx.x * a_thread, a.vocabulary), end = min(begin + a_thread, a.vocabulary);
    unsigned long long equals = 0, wanted = ~0ull;
    for (unsigned token = begin; token < end; token++) equals += row[token] != -INFINITY && rank(row[token]) == bound;
    unsigned long long nth = before(equals, memory, &all);
    for (unsigned token = begin; token < end; token++) {
      float z = row[token];
      if (z == -INFINITY) continue;
      bool stays = rank(z) > bound;
      if (rank(z) == bound) {
        unsigned long long one = mass(z, largest);
        if (!counts) wanted = one == 0 ? 1 : (need - above + one - 1) / one;
        stays = nth++ < wanted;
      }
      if (!stays) row[token] = -INFINITY;
    }
    __syncthreads();
  }
  if (threadIdx.x == 0) a.taken[blockIdx.x] = at;
}

// The token of each row: the largest logit (the lowest token among equals), or by inverting the cumulative distribution
// over increasing tokens.
KERNEL(choose, Draw) {
  SHARED(BlockMemory, memory);
  const DrawItem item = a.items[blockIdx.x];
  const float *row = a.rows + static_cast<size_t>(blockIdx.x) * a.vocabulary;
  float largest = largest_of(a, row, memory);
  if (threadIdx.x == 0) a.tokens[blockIdx.x] = NONE;
  if (largest == -INFINITY) return;
  unsigned a_thread = (a.vocabulary + DRAW_THREADS - 1) / DRAW_THREADS;
  unsigned begin = min(threadIdx.x * a_thread, a.vocabulary), end = min(begin + a_thread, a.vocabulary);
  unsigned long long mine = 0, total;
  for (unsigned token = begin; token < end; token++) mine += item.greedy ? row[token] == largest : mass(row[token], largest);
  unsigned long long from = before(mine, memory, &total);
  unsigned long long want = item.greedy ? 0 : static_cast<unsigned long long>(item.number * static_cast<double>(total));
  if (want >= total) want = total - 1;
  if (want < from || want >= from + mine) return;
  for (unsigned token = begin; token < end; token++) {
    unsigned long long one = item.greedy ? row[token] == largest : mass(row[token], largest);
    if (want < from + one) {
      a.tokens[blockIdx.x] = token;
      return;
    }
    from += one;
  }
}
