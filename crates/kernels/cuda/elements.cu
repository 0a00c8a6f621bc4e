// Element-wise operations of a layer: embeddings, norms, activations, rotary position embeddings, and writes to the
// cache.
#include "linear.cuh"
#include "packed.cuh"

struct Embed {
  const TokenRow *rows;
  const uint8_t *embedding;
  float *out;
  uint32_t vocabulary;
  uint32_t width;
  float scale;
  // Whether this embeds positions, which are added; that of position 0 is row `offset`.
  uint32_t adds;
  uint32_t offset;
};

static __device__ inline void embed_one(const Embed &a, unsigned column, float x) {
  float *out = a.out + static_cast<size_t>(blockIdx.x) * a.width + column;
  *out = a.adds ? *out + x * a.scale : x * a.scale;
}

static __device__ inline uint32_t embedded(const Embed &a) {
  const TokenRow row = a.rows[blockIdx.x];
  return min(a.adds ? row.position + a.offset : row.token, a.vocabulary - 1);
}

template <class F> static __device__ inline void embed(const Embed &a) {
  const uint8_t *from = a.embedding + static_cast<size_t>(embedded(a)) * a.width * F::BYTES;
  for (unsigned i = threadIdx.x; i < a.width; i += blockDim.x) embed_one(a, i, F::one(from, i));
}

// Rows of whole groups are in the order in which tensor cores read them.
template <class F> static __device__ inline void embed_halves(const Embed &a) {
  if (a.width % GROUP != 0) return embed<F>(a);
  const uint8_t *from = Halves::row(a.embedding, a.vocabulary, a.width, embedded(a));
  for (unsigned i = threadIdx.x; i < a.width; i += blockDim.x) embed_one(a, i, F::one(from, position_of(BY_LANE, i)));
}

// A thread has the numbers that one lane reads of a slab, for one of its two rows.
template <class W> static __device__ inline void embed_packed(const Embed &a) {
  unsigned row = embedded(a), slabs = (a.width + W::SLAB - 1) / W::SLAB;
  bool lower = row / 8 % 2;
  for (unsigned i = threadIdx.x; i < slabs * 4; i += blockDim.x) {
    unsigned t = i % 4, lane = row % 8 * 4 + t;
    typename W::Raw raw;
    W::load(raw, W::rows(a.embedding, a.vocabulary, a.width, row / TILE, lane), i / 4, lane);
#pragma unroll
    for (unsigned group = 0; group < W::SLAB / GROUP; group++) {
      Numbers numbers[1];
      float scale[2][2], least[2][2] = {};
      W::expand(raw, group, numbers);
      W::scales(raw, group, scale, least);
#pragma unroll
      for (unsigned j = 0; j < 8; j++) {
        uint32_t pair = lower ? numbers[0].pairs[1][j / 2] : numbers[0].pairs[0][j / 2];
        float d = lower ? scale[1][j / 4] : scale[0][j / 4], m = lower ? least[1][j / 4] : least[0][j / 4];
        unsigned column = i / 4 * W::SLAB + group * GROUP + j / 4 * 16 + t * 4 + j % 4;
        float q = bf16_number(pair >> j % 2 * 16 & 0xffff);
        if (column < a.width) embed_one(a, column, W::LEAST ? fmaf(d, q, m) : d * q);
      }
    }
  }
}

KERNEL(embed_f32, Embed) { embed<F32>(a); }
KERNEL(embed_f16, Embed) { embed_halves<F16>(a); }
KERNEL(embed_bf16, Embed) { embed_halves<Bf16>(a); }
KERNEL(embed_q8_0, Embed) { embed_packed<TensorQ8_0>(a); }
KERNEL(embed_q4_0, Embed) { embed_packed<TensorQ4_0>(a); }
KERNEL(embed_q4_1, Embed) { embed_packed<TensorQ4_1>(a); }
KERNEL(embed_q5_0, Embed) { embed_packed<TensorQ5_0>(a); }
KERNEL(embed_q5_1, Embed) { embed_packed<TensorQ5_1>(a); }
KERNEL(embed_q2k, Embed) { embed_packed<TensorQ2K>(a); }
KERNEL(embed_q3k, Embed) { embed_packed<TensorQ3K>(a); }
KERNEL(embed_q4k, Embed) { embed_packed<TensorQ4K>(a); }
KERNEL(embed_q5k, Embed) { embed_packed<TensorQ5K>(a); }
KERNEL(embed_q6k, Embed) { embed_packed<TensorQ6K>(a); }
KERNEL(embed_iq4_nl, Embed) { embed_packed<TensorIq4Nl>(a); }
KERNEL(embed_iq4_xs, Embed) { embed_packed<TensorIq4Xs>(a); }
KERNEL(embed_mxfp4, Embed) { embed_packed<TensorMxfp4>(a); }

struct Norm {
  const float *x;
  const float *weight;
  // Null: division by the root mean square. Otherwise the mean is subtracted first, and this is added.
  const float *bias;
  Activations out;
  // Null, or the rows of `x` to normalise.
  const uint32_t *which;
  uint32_t width;
  float epsilon;
};

// The sum over the threads of a block, for all of them.
static __device__ inline float block_sum(float x, float *memory) {
  unsigned warps = blockDim.x / WARP;
  x = warp_sum(x);
  __syncthreads();
  if (threadIdx.x % WARP == 0) memory[threadIdx.x / WARP] = x;
  __syncthreads();
  float sum = 0;
  for (unsigned i = 0; i < warps; i++) sum += memory[i];
  return sum;
}

// The elements that a thread holds, if a row is not longer.
constexpr unsigned HELD = 8;

KERNEL(normalize, Norm) {
  SHARED(float, memory);
  size_t row = a.which ? a.which[blockIdx.x] : blockIdx.x;
  const float *x = a.x + row * a.width;
  float held[HELD];
#pragma unroll
  for (unsigned k = 0; k < HELD; k++) {
    unsigned i = k * blockDim.x + threadIdx.x;
    held[k] = i < a.width ? x[i] : 0;
  }
  auto each = [&](auto of) {
#pragma unroll
    for (unsigned k = 0; k < HELD; k++) {
      unsigned i = k * blockDim.x + threadIdx.x;
      if (i < a.width) of(i, held[k]);
    }
    for (unsigned i = HELD * blockDim.x + threadIdx.x; i < a.width; i += blockDim.x) of(i, x[i]);
  };
  float mean = 0, squares = 0;
  if (a.bias) {
    each([&](unsigned, float z) { mean += z; });
    mean = block_sum(mean, memory) / a.width;
  }
  each([&](unsigned, float z) { squares = fmaf(z - mean, z - mean, squares); });
  float scale = 1 / sqrtf(block_sum(squares, memory) / a.width + a.epsilon);
  each([&](unsigned i, float z) {
    float y = (z - mean) * scale;
    a.out.set(blockIdx.x, i, a.bias ? fmaf(y, a.weight[i], a.bias[i]) : y * a.weight[i]);
  });
}

struct Heads {
  float *query;
  const float *key;
  const float *value;
  const TokenRow *rows;
  uint8_t *const *pages;
  uint64_t keys;
  uint64_t values;
  uint32_t heads;
  uint32_t kv_heads;
  uint32_t dim;
  uint32_t page;
  // The number of pairs of elements that are rotated; 0 without rotary embeddings.
  uint32_t pairs;
  // Whether pairs are adjacent elements, instead of one element of each half.
  uint32_t neighbours;
  // The offset in the angles of a sequence.
  uint32_t angles;
  float magnitude;
};

// Stores numbers, by the threads of one warp.
template <class F> static __device__ inline void store(const float *from, unsigned count, uint8_t *to) {
  for (unsigned i = threadIdx.x; i < count; i += WARP) F::set(to, i, from[i]);
}

template <> __device__ inline void store<Q8_0>(const float *from, unsigned count, uint8_t *to) {
  for (unsigned i = threadIdx.x; i < count; i += WARP) {
    float scale = warp_max(fabsf(from[i])) / 127;
    uint8_t *block = to + i / Q8_0::BLOCK * Q8_0::BYTES;
    if (threadIdx.x == 0) F16::set(block, 0, scale);
    block[2 + threadIdx.x] = static_cast<uint8_t>(static_cast<int8_t>(scale > 0 ? roundf(from[i] * (1 / scale)) : 0));
  }
}

// Rotates queries and keys by their positions (Su et al. 2021), and writes keys and values to the cache. A warp handles
// one head.
template <class F> static __device__ inline void heads(const Heads &a) {
  const TokenRow row = a.rows[blockIdx.x];
  if (row.slot == NONE) return;
  SHARED(float, head);
  unsigned which = blockIdx.y, lane = threadIdx.x;
  bool is_query = which < a.heads, is_key = !is_query && which < a.heads + a.kv_heads;
  unsigned number = is_query ? which : is_key ? which - a.heads : which - a.heads - a.kv_heads;
  size_t at = (static_cast<size_t>(blockIdx.x) * (is_query ? a.heads : a.kv_heads) + number) * a.dim;
  const float *from = is_query ? a.query : is_key ? a.key : a.value;
  for (unsigned i = lane; i < a.dim; i += WARP) head[i] = from[at + i];
  __syncwarp();
  if (is_query || is_key) {
    for (unsigned pair = lane; pair < a.pairs; pair += WARP) {
      float sine, cosine;
      sincosf(static_cast<float>(row.position) * row.angles[a.angles + pair], &sine, &cosine);
      sine *= a.magnitude, cosine *= a.magnitude;
      unsigned one = a.neighbours ? 2 * pair : pair, other = a.neighbours ? one + 1 : pair + a.pairs;
      float x = head[one], y = head[other];
      head[one] = x * cosine - y * sine, head[other] = y * cosine + x * sine;
    }
    __syncwarp();
  }
  if (is_query) {
    for (unsigned i = lane; i < a.dim; i += WARP) a.query[at + i] = head[i];
    return;
  }
  size_t a_head = a.dim / F::BLOCK * F::BYTES;
  uint8_t *token =
      a.pages[row.table + row.slot / a.page] + (is_key ? a.keys : a.values) + row.slot % a.page * a_head * a.kv_heads;
  store<F>(head, a.dim, token + number * a_head);
}

KERNEL(heads_f32, Heads) { heads<F32>(a); }
KERNEL(heads_f16, Heads) { heads<F16>(a); }
KERNEL(heads_bf16, Heads) { heads<Bf16>(a); }
KERNEL(heads_q8_0, Heads) { heads<Q8_0>(a); }

struct Activate {
  const float *x;
  // Null, or the factors of the elements.
  const float *up;
  Activations out;
  uint32_t width;
  // As numbered in elements.rs, or NONE: the elements themselves.
  uint32_t activation;
};

// Each block handles a row.
KERNEL(activate, Activate) {
  for (unsigned i = threadIdx.x; i < a.width; i += blockDim.x) {
    size_t at = static_cast<size_t>(blockIdx.x) * a.width + i;
    float y = a.activation == NONE ? a.x[at] : activated(a.activation, a.x[at]);
    a.out.set(blockIdx.x, i, a.up ? y * a.up[at] : y);
  }
}

struct Add {
  float *to;
  const float *from;
  uint64_t count;
};

KERNEL(add, Add) {
  for (uint64_t i = static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < a.count;
       i += static_cast<uint64_t>(gridDim.x) * blockDim.x)
    a.to[i] += a.from[i];
}

struct Cap {
  float *x;
  uint64_t count;
  float cap;
};

// `cap * tanh(x / cap)` (Gemma 2).
KERNEL(cap, Cap) {
  for (uint64_t i = static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < a.count;
       i += static_cast<uint64_t>(gridDim.x) * blockDim.x)
    a.x[i] = a.cap * tanhf(a.x[i] / a.cap);
}

struct Move {
  uint8_t *const *pages;
  // Pairs of slots, source and destination, both increasing; each destination is before its source.
  const uint32_t *slots;
  uint32_t moves;
  uint32_t page;
  // The number of bytes of a token in the keys, or in the values, of a layer.
  uint64_t bytes;
};

// Moves keys and values of some tokens to earlier slots: those that remain of a token tree. A block handles the keys,
// or the values, of one layer.
KERNEL(move_back, Move) {
  size_t half = static_cast<size_t>(blockIdx.x) * a.page * a.bytes;
  for (unsigned move = 0; move < a.moves; move++) {
    unsigned from = a.slots[2 * move], to = a.slots[2 * move + 1];
    const uint8_t *source = a.pages[from / a.page] + half + from % a.page * a.bytes;
    uint8_t *target = a.pages[to / a.page] + half + to % a.page * a.bytes;
    for (uint64_t i = threadIdx.x; i < a.bytes; i += blockDim.x) target[i] = source[i];
    __syncthreads();
  }
}
