// Attention of the rows of a pass over the pages of their sequences, on tensor cores, split along the keys (Dao et al.
// 2023, "Flash-Decoding"): each split yields its visible values, weighted against its own largest score, and the
// numbers with which it is merged with the others.
//
// Queries, keys, values and weights are two bf16 pieces, which are the halves of a word in shared memory. Every sum is
// added up in one order, so a query has the same bits whichever others are computed with it.
#include "attention.cuh"

// The most queries of a block: fragments of sixteen.
template <unsigned DIM> constexpr unsigned MOST_QUERIES = DIM > 128 ? 32 : 64;
// The number of keys that are processed together.
template <unsigned DIM> constexpr unsigned KEYS = DIM > 128 ? 32 : 64;
// Words of a row in shared memory: lanes that read along rows do not conflict, nor do those that read along columns of
// values.
template <unsigned WIDTH> constexpr unsigned ALONG_ROWS = WIDTH + 8;
template <unsigned WIDTH> constexpr unsigned ALONG_COLUMNS = WIDTH + 4;

static __device__ inline void words_of(float x, float y, uint32_t *words) {
  uint32_t first, second;
  split_pair(x, y, first, second);
  words[0] = __byte_perm(first, second, 0x5410), words[1] = __byte_perm(first, second, 0x7632);
}

// Words of the numbers of a cache, whether they may have a second piece, and whether eight numbers are sixteen bytes.
template <class F> struct Words;

template <> struct Words<F16> {
  static constexpr bool TWO = true, IN_16_BYTES = true;
  static __device__ inline void of(uint4 four, uint32_t (&words)[8]) {
#pragma unroll
    for (unsigned j = 0; j < 4; j++) words_of(half_of(word(four, j), 0), half_of(word(four, j), 1), words + 2 * j);
  }
};

template <> struct Words<Bf16> {
  static constexpr bool TWO = false, IN_16_BYTES = true;
  static __device__ inline void of(uint4 four, uint32_t (&words)[8]) {
#pragma unroll
    for (unsigned j = 0; j < 8; j++) words[j] = j % 2 ? word(four, j / 2) >> 16 : word(four, j / 2) & 0xffff;
  }
};

template <> struct Words<Q8_0> {
  static constexpr bool TWO = true, IN_16_BYTES = false;
};

// A head of some tokens, which threads load in eights.
template <class F, unsigned DIM> struct Head {
  static constexpr unsigned EACH = KEYS<DIM> * DIM / 8 / (ATTEND_WARPS * WARP);
  const Attend &a;
  uint64_t at;
  uint32_t table;
  unsigned head;

  // Where the numbers of a token are. Pages are whole tokens, and heads whole blocks.
  __device__ inline const uint8_t *from(unsigned key) const {
    size_t a_head = a.dim / F::BLOCK * F::BYTES, a_token = a_head * a.kv_heads;
    return a.pages[table + key / a.page] + at + key % a.page * a_token + head * a_head;
  }
  static __device__ inline unsigned number(unsigned i) { return i * ATTEND_WARPS * WARP + threadIdx.x; }
  static __device__ inline void put(const uint32_t (&words)[8], uint32_t *to, unsigned row, unsigned eight,
                                    unsigned stride) {
    uint4 *into = reinterpret_cast<uint4 *>(to + row * stride + eight * 8);
    into[0] = {words[0], words[1], words[2], words[3]}, into[1] = {words[4], words[5], words[6], words[7]};
  }
  // Loads sixteen bytes each.
  __device__ inline void fetch(uint4 (&raw)[EACH], unsigned begin, unsigned count) const {
#pragma unroll
    for (unsigned i = 0; i < EACH; i++) {
      unsigned row = number(i) / (DIM / 8), eight = number(i) % (DIM / 8);
      raw[i] = uint4{0, 0, 0, 0};
      if (row < count && eight * 8 < a.dim) raw[i] = reinterpret_cast<const uint4 *>(from(begin + row))[eight];
    }
  }
  // Stores rows of `stride` words, and zeros up to `KEYS` rows.
  __device__ inline void store(const uint4 (&raw)[EACH], uint32_t *to, unsigned stride) const {
    if constexpr (Words<F>::IN_16_BYTES) {
#pragma unroll
      for (unsigned i = 0; i < EACH; i++) {
        uint32_t words[8];
        Words<F>::of(raw[i], words);
        put(words, to, number(i) / (DIM / 8), number(i) % (DIM / 8), stride);
      }
    }
  }
  // Does both, where eight numbers are not sixteen bytes at a multiple of sixteen.
  __device__ inline void load(unsigned begin, unsigned count, uint32_t *to, unsigned stride) const {
    for (unsigned i = 0; i < EACH; i++) {
      unsigned row = number(i) / (DIM / 8), eight = number(i) % (DIM / 8);
      uint32_t words[8] = {};
      if (row < count && eight * 8 < a.dim) {
        const uint8_t *at_key = from(begin + row);
        float numbers[8] = {};
        if constexpr (Words<F>::IN_16_BYTES) {
#pragma unroll
          for (unsigned j = 0; j < 8; j++) numbers[j] = eight * 8 + j < a.dim ? F::one(at_key, eight * 8 + j) : 0;
        } else {
          F::eight(at_key, eight, numbers);
        }
#pragma unroll
        for (unsigned j = 0; j < 8; j += 2) words_of(numbers[j], numbers[j + 1], words + j);
      }
      put(words, to, row, eight, stride);
    }
  }
};

// The first, or the second, pieces of two words as a pair.
static __device__ inline uint32_t pieces_of(uint32_t x, uint32_t y, unsigned piece) {
  return __byte_perm(x, y, piece ? 0x7632 : 0x5410);
}

// The fragment of sixteen rows at `row`, and sixteen columns.
struct Fragment {
  Pairs upper[2], lower[2];
  __device__ inline Fragment(const uint32_t *row, unsigned stride, unsigned g, unsigned t) {
#pragma unroll
    for (unsigned h = 0; h < 2; h++) {
      const uint32_t *at = row + (g + 8 * h) * stride + 2 * t;
      uint2 first = *reinterpret_cast<const uint2 *>(at), second = *reinterpret_cast<const uint2 *>(at + 8);
#pragma unroll
      for (unsigned p = 0; p < 2; p++) {
        Pairs pairs = {pieces_of(first.x, first.y, p), pieces_of(second.x, second.y, p)};
        if (h)
          lower[p] = pairs;
        else
          upper[p] = pairs;
      }
    }
  }
};

// Adds the product of a fragment and one whose numbers have two pieces, or one.
template <bool TWO>
static __device__ inline void multiply_pieces(float (&c)[4], const Fragment &a, Pairs first, Pairs second) {
  multiply(c, a.upper[0], a.lower[0], first);
  multiply(c, a.upper[1], a.lower[1], first);
  if (TWO) multiply(c, a.upper[0], a.lower[0], second);
}

// The queries of a block from `first` on: `TILES` fragments, of which a warp has one, with a share of the keys and of
// the elements of values.
template <class F, unsigned DIM, unsigned TILES>
static __device__ inline void attend_tiles(const Attend &a, const Tile &tile, unsigned kv_head, unsigned first,
                                           unsigned queries) {
  constexpr unsigned COUNT = KEYS<DIM>, PARTS = ATTEND_WARPS / TILES, N_KEYS = COUNT / 8 / PARTS,
                     N_DIM = DIM / 8 / PARTS;
  constexpr unsigned QUERY = ALONG_ROWS<DIM>, KEY = ALONG_ROWS<DIM>, VALUE = ALONG_COLUMNS<DIM>,
                     SCORE = ALONG_ROWS<COUNT>;
  constexpr unsigned THREADS = ATTEND_WARPS * WARP, ROWS = TILES * 16, A_ROW = THREADS / ROWS;
  SHARED(uint32_t, memory);
  uint32_t *query = memory, *held = query + ROWS * QUERY, *scores = held + COUNT * KEY;
  float *keeps = reinterpret_cast<float *>(scores + ROWS * SCORE);
  unsigned lane = threadIdx.x % WARP, warp = threadIdx.x / WARP, g = lane / 4, t = lane % 4;
  unsigned group = a.heads / a.kv_heads, own = warp % TILES, part = warp / TILES;
  unsigned begin = split_begin(blockIdx.x);
  const TokenRow first_row = a.rows[tile.first];
  unsigned end = min(split_begin(blockIdx.x + 1), a.rows[tile.first + tile.count - 1].slot + 1);
  // Query q is for row q / group of the tile, and head q % group of those that share keys.
  for (unsigned i = threadIdx.x; i < ROWS * DIM; i += THREADS) {
    unsigned q = i / DIM, of = first + q, element = i % DIM;
    float x = 0;
    if (q < queries && element < a.dim) {
      size_t at = static_cast<size_t>(tile.first + of / group) * a.heads + kv_head * group + of % group;
      x = a.query[at * a.dim + element];
    }
    query[q * QUERY + element] = both_pieces(x);
  }
  // Some adjacent threads share a query: its largest score and its total.
  unsigned q = threadIdx.x / A_ROW, nth = threadIdx.x % A_ROW, of = first + min(q, queries - 1);
  const TokenRow row = a.rows[tile.first + of / group];
  float slope = a.slopes ? a.slopes[kv_head * group + of % group] : 0, largest = -INFINITY, total = 0;
  float sums[N_DIM][4] = {};
  // Keys are on their way while earlier values are multiplied, and values while keys are.
  using H = Head<F, DIM>;
  const H keys{a, a.keys, first_row.table, kv_head}, values{a, a.values, first_row.table, kv_head};
  bool early = Words<F>::IN_16_BYTES && a.dim % 8 == 0;
  uint4 raw_keys[H::EACH], raw_values[H::EACH];
  if (early) keys.fetch(raw_keys, begin, min(COUNT, end - begin));
  for (unsigned from = begin; from < end; from += COUNT) {
    unsigned count = min(COUNT, end - from);
    __syncthreads();
    if (early) {
      values.fetch(raw_values, from, count);
      keys.store(raw_keys, held, KEY);
    } else {
      keys.load(from, count, held, KEY);
    }
    __syncthreads();
    if (own * 16 < queries) {
      float c[N_KEYS][4] = {};
#pragma unroll
      for (unsigned k = 0; k < DIM / 16; k++) {
        if (k * 16 >= a.dim) break;
        Fragment fragment(query + own * 16 * QUERY + k * 16, QUERY, g, t);
#pragma unroll
        for (unsigned n = 0; n < N_KEYS; n++) {
          const uint32_t *at = held + ((part * N_KEYS + n) * 8 + g) * KEY + k * 16 + 2 * t;
          uint2 x = *reinterpret_cast<const uint2 *>(at), y = *reinterpret_cast<const uint2 *>(at + 8);
          Pairs ones = {pieces_of(x.x, x.y, 0), pieces_of(y.x, y.y, 0)},
                twos = {pieces_of(x.x, x.y, 1), pieces_of(y.x, y.y, 1)};
          multiply_pieces<Words<F>::TWO>(c[n], fragment, ones, twos);
        }
      }
#pragma unroll
      for (unsigned n = 0; n < N_KEYS; n++) {
#pragma unroll
        for (unsigned e = 0; e < 4; e++) {
          scores[(own * 16 + g + e / 2 * 8) * SCORE + (part * N_KEYS + n) * 8 + 2 * t + e % 2] =
              __float_as_uint(c[n][e]);
        }
      }
    }
    __syncthreads();
    if (early) {
      if (from + COUNT < end) keys.fetch(raw_keys, from + COUNT, min(COUNT, end - from - COUNT));
      values.store(raw_values, held, VALUE);
    } else {
      values.load(from, count, held, VALUE);
    }
    float before = largest;
    uint32_t *own_scores = scores + q * SCORE;
    // A thread has some of each eight keys.
    constexpr unsigned EACH = 8 / A_ROW;
    // All rows see all keys of most blocks of a long text.
    bool all = count == COUNT && from + COUNT <= min(first_row.slot + 1, row.held) && a.window == 0 && !a.slopes;
#pragma unroll 2
    for (unsigned i = 0; i < COUNT / 8; i++) {
#pragma unroll
      for (unsigned j = 0; j < EACH; j++) {
        unsigned key = i * 8 + nth * EACH + j;
        float score = -INFINITY, back = 0;
        if (q < queries && (all || (key < count && sees(a, row, from + key, &back)))) {
          score = __uint_as_float(own_scores[key]) * a.scale;
          if (a.cap > 0) score = a.cap * tanhf(score / a.cap);
          if (a.slopes) score -= slope * back;
        }
        own_scores[key] = __float_as_uint(score);
        largest = fmaxf(largest, score);
      }
    }
#pragma unroll
    for (unsigned apart = A_ROW / 2; apart > 0; apart /= 2)
      largest = fmaxf(largest, __shfl_xor_sync(ALL_LANES, largest, apart));
    float keep = before == -INFINITY ? 0 : expf(before - largest);
    // Eight sums, each of every eighth key, in pairs: the same for any number of threads.
    float eighths[EACH] = {};
#pragma unroll
    for (unsigned i = 0; i < COUNT / 8; i++) {
#pragma unroll
      for (unsigned j = 0; j < EACH; j++) {
        unsigned key = i * 8 + nth * EACH + j;
        float score = __uint_as_float(own_scores[key]), weight = score == -INFINITY ? 0 : expf(score - largest);
        own_scores[key] = both_pieces(weight);
        eighths[j] += weight;
      }
    }
#pragma unroll
    for (unsigned j = 1; j < EACH; j *= 2) {
#pragma unroll
      for (unsigned i = 0; i < EACH; i += 2 * j) eighths[i] += eighths[i + j];
    }
#pragma unroll
    for (unsigned apart = 1; apart < A_ROW; apart *= 2) eighths[0] += __shfl_xor_sync(ALL_LANES, eighths[0], apart);
    total = fmaf(total, keep, eighths[0]);
    if (nth == 0) keeps[q] = keep;
    __syncthreads();
    if (own * 16 < queries) {
      float upper = keeps[own * 16 + g], lower = keeps[own * 16 + g + 8];
#pragma unroll
      for (unsigned n = 0; n < N_DIM; n++)
        sums[n][0] *= upper, sums[n][1] *= upper, sums[n][2] *= lower, sums[n][3] *= lower;
#pragma unroll
      for (unsigned k = 0; k < COUNT / 16; k++) {
        Fragment fragment(scores + own * 16 * SCORE + k * 16, SCORE, g, t);
#pragma unroll
        for (unsigned n = 0; n < N_DIM; n++) {
          const uint32_t *at = held + (k * 16 + 2 * t) * VALUE + (part * N_DIM + n) * 8 + g;
          uint32_t x = at[0], y = at[VALUE], z = at[8 * VALUE], w = at[9 * VALUE];
          Pairs ones = {pieces_of(x, y, 0), pieces_of(z, w, 0)}, twos = {pieces_of(x, y, 1), pieces_of(z, w, 1)};
          multiply_pieces<Words<F>::TWO>(sums[n], fragment, ones, twos);
        }
      }
    }
  }
  auto result = [&](unsigned q) {
    unsigned of = first + q;
    size_t at = static_cast<size_t>(tile.first + of / group - a.from) * a.heads + kv_head * group + of % group;
    return at * a.splits + blockIdx.x;
  };
#pragma unroll
  for (unsigned n = 0; n < N_DIM; n++) {
#pragma unroll
    for (unsigned e = 0; e < 4; e++) {
      unsigned q = own * 16 + g + e / 2 * 8, element = (part * N_DIM + n) * 8 + 2 * t + e % 2;
      if (q < queries && element < a.dim) a.sums[result(q) * a.dim + element] = sums[n][e];
    }
  }
  if (q < queries && nth == 0) a.totals[2 * result(q)] = largest, a.totals[2 * result(q) + 1] = total;
}

template <class F, unsigned DIM> static __device__ inline void attend(const Attend &a) {
  const Tile tile = a.tiles[blockIdx.z];
  if (tile.count == 0 || split_begin(blockIdx.x) > a.rows[tile.first + tile.count - 1].slot) return;
  // Heads that share keys may have more queries than a block.
  constexpr unsigned MOST = MOST_QUERIES<DIM>;
  unsigned blocks = (a.queries + MOST - 1) / MOST, first = blockIdx.y % blocks * MOST,
           all = tile.count * (a.heads / a.kv_heads);
  if (first >= all) return;
  unsigned queries = min(all - first, MOST), kv_head = blockIdx.y / blocks;
  if (queries <= 16)
    attend_tiles<F, DIM, 1>(a, tile, kv_head, first, queries);
  else if (queries <= 32)
    attend_tiles<F, DIM, 2>(a, tile, kv_head, first, queries);
  else if constexpr (MOST > 32)
    attend_tiles<F, DIM, 4>(a, tile, kv_head, first, queries);
}

#define ATTEND(F, name)                                      \
  KERNEL(attend_##name##_64, Attend) { attend<F, 64>(a); }   \
  KERNEL(attend_##name##_128, Attend) { attend<F, 128>(a); } \
  KERNEL(attend_##name##_256, Attend) { attend<F, 256>(a); }

ATTEND(F16, f16)
ATTEND(Bf16, bf16)
ATTEND(Q8_0, q8_0)

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
