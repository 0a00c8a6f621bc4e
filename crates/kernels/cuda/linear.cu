// Rows times matrices of weights: `out = x * w^T`.
//
// A sum over columns is always added up in the same order, so a row has the same bits whichever rows are computed with
// it, by whichever kernel. On tensor cores the columns are `SEGMENTS` segments. In each, the products of sixteen
// columns with the first pieces of activations are added, then those with the second pieces, then those of the next
// sixteen; the sums of the segments are added in order.
#include "linear.cuh"
#include "packed.cuh"

constexpr unsigned SEGMENTS = 8, SLAB = 128;

// Where a segment of some slabs of 128 columns begins.
static __device__ inline unsigned segment_begin(unsigned segment, unsigned slabs) { return segment * slabs / SEGMENTS; }

// The numbers of `N` fragments of rows of `x` in a group of columns: of each piece, two pairs of the first sixteen
// columns, then of the last.
template <unsigned N> struct GroupOfX {
  Pairs half[N][2][2];
};

// The numbers of `M` fragments of a matrix in a group of columns, and their scales and minimums.
template <class W, unsigned M> struct GroupOfMatrix {
  Numbers numbers[M][W::PIECES];
  float scale[M][2][2], least[M][2][2];
  __device__ inline GroupOfMatrix(const typename W::Raw (&raw)[M], unsigned group) {
#pragma unroll
    for (unsigned m = 0; m < M; m++) {
      W::expand(raw[m], group, numbers[m]);
      W::scales(raw[m], group, scale[m], least[m]);
    }
  }
};

static __device__ inline Pairs upper(const Numbers &of, unsigned half) {
  return {of.pairs[0][2 * half], of.pairs[0][2 * half + 1]};
}
static __device__ inline Pairs lower(const Numbers &of, unsigned half) {
  return {of.pairs[1][2 * half], of.pairs[1][2 * half + 1]};
}

// Multiplies fragments of sixteen columns, piece by piece. Sums that do not depend on each other come in turn, because
// each waits for the one before it.
template <unsigned PIECES, unsigned M, unsigned N>
static __device__ inline void multiply_half(float (&c)[N][M][4], const Numbers (&w)[M][PIECES], unsigned half,
                                            const GroupOfX<N> &x, unsigned pieces) {
#pragma unroll
  for (unsigned p = 0; p < PIECES; p++) {
#pragma unroll
    for (unsigned n = 0; n < N; n++) {
#pragma unroll
      for (unsigned m = 0; m < M; m++)
        multiply(c[n][m], upper(w[m][p], half), lower(w[m][p], half), x.half[n][0][half]);
    }
  }
  if (pieces == 2) {
#pragma unroll
    for (unsigned n = 0; n < N; n++) {
#pragma unroll
      for (unsigned m = 0; m < M; m++)
        multiply(c[n][m], upper(w[m][0], half), lower(w[m][0], half), x.half[n][1][half]);
    }
  }
}

// Adds the activations of sixteen columns, piece by piece, as products with ones.
template <unsigned N>
static __device__ inline void sum_half(float (&c)[N][1][4], unsigned half, const GroupOfX<N> &x, unsigned pieces) {
  const Numbers ones[1][1] = {{{{{ONES, ONES, ONES, ONES}, {ONES, ONES, ONES, ONES}}}}};
  multiply_half(c, ones, half, x, pieces);
}

// Adds a scaled sum of a group, and a minimum times the sum of the activations.
template <class W> static __device__ inline float scaled(float sum, float scale, float c, float least, float of_x) {
  sum = fmaf(scale, c, sum);
  return W::LEAST ? fmaf(least, of_x, sum) : sum;
}

// Adds the products of a group of columns.
template <class W, unsigned M, unsigned N>
static __device__ inline void multiply_group(float (&sums)[N][M][4], const GroupOfMatrix<W, M> &w, const GroupOfX<N> &x,
                                             unsigned pieces) {
  if constexpr (!W::SCALED) {
#pragma unroll
    for (unsigned half = 0; half < 2; half++) multiply_half(sums, w.numbers, half, x, pieces);
  } else {
    constexpr unsigned PARTS = W::BY_16 ? 2 : 1, HALVES = 2 / PARTS;
#pragma unroll
    for (unsigned part = 0; part < PARTS; part++) {
      float c[N][M][4] = {}, of_x[N][1][4] = {};
#pragma unroll
      for (unsigned half = part * HALVES; half < (part + 1) * HALVES; half++) {
        if constexpr (W::LEAST) sum_half(of_x, half, x, pieces);
        multiply_half(c, w.numbers, half, x, pieces);
      }
#pragma unroll
      for (unsigned n = 0; n < N; n++) {
#pragma unroll
        for (unsigned m = 0; m < M; m++) {
#pragma unroll
          for (unsigned e = 0; e < 4; e++) {
            sums[n][m][e] =
                scaled<W>(sums[n][m][e], w.scale[m][e / 2][part], c[n][m][e], w.least[m][e / 2][part], of_x[n][0][e]);
          }
        }
      }
    }
  }
}

// The rows of fragments number `tile * M` and the next ones of a matrix, or of fragment `tile` of both if results are
// gated.
template <class W, unsigned M>
static __device__ inline void find_rows(typename W::Rows (&rows)[M], const Linear &a, unsigned which, unsigned tile,
                                        unsigned lane) {
  bool gated = a.results == GATE;
#pragma unroll
  for (unsigned m = 0; m < M; m++) {
    const MatrixProduct &of = a.products[gated ? m : which];
    rows[m] = W::rows(of.weights, of.rows, a.columns, gated ? tile : tile * M + m, lane);
  }
}

constexpr unsigned FEW_WARPS = SEGMENTS;
// Fragments of a matrix that a warp handles.
constexpr unsigned FEW_TILES = 2;

// Up to 8 N rows, in the order `BY_LANE`: a block reads 32 rows of the matrix once, each warp a segment of the columns.
// Weights are loaded `AHEAD` steps before they are needed, the first of them while earlier launches still run.
template <class W, unsigned N> static __device__ inline void few_rows(const Linear &a) {
  constexpr unsigned M = FEW_TILES, AHEAD = W::SLAB == GROUP ? 4 : 2, STEPS = SLAB / W::SLAB, WIDTH = 8 * N + 1;
  SHARED(float, parts);
  unsigned lane = threadIdx.x % WARP, warp = threadIdx.x / WARP, g = lane / 4, t = lane % 4;
  bool gated = a.results == GATE;
  unsigned which = gated ? 0 : product_of(a, blockIdx.y), pieces = a.x.count;
  unsigned block = blockIdx.y - a.products[which].from, row = blockIdx.x * 8 * N;
  unsigned slabs = (a.columns + SLAB - 1) / SLAB, steps = W::steps(a.columns);
  unsigned begin = segment_begin(warp, slabs) * STEPS, end = min(segment_begin(warp + 1, slabs) * STEPS, steps);
  typename W::Rows weights[M];
  find_rows<W>(weights, a, which, block, lane);
  typename W::Raw raw[AHEAD][M];
#pragma unroll
  for (unsigned d = 0; d < AHEAD; d++) {
#pragma unroll
    for (unsigned m = 0; m < M; m++) W::load(raw[d][m], weights[m], min(begin + d, steps - 1), lane);
  }
  wait_for_inputs();
  const uint16_t *x[N];
#pragma unroll
  for (unsigned n = 0; n < N; n++)
    x[n] = a.x.pieces + static_cast<size_t>(min(row + n * 8 + g, a.rows - 1)) * a.x.stride + t * 8;
  if constexpr (N == 1) {
    // The activations of a few rows are on their way while the first weights are.
    unsigned lines = (end - min(begin, end)) * W::SLAB / 64, rows = min(a.rows - row, 8u);
    if (lines * rows * pieces <= 2 * WARP) {
      for (unsigned i = lane; i < lines * rows * pieces; i += WARP) {
        unsigned line = i % lines, piece = i / lines % pieces, of = row + i / lines / pieces;
        touch(a.x.pieces + static_cast<size_t>(of) * a.x.stride + piece * a.x.plane + begin * W::SLAB + line * 64);
      }
    }
  }
  float sums[N][M][4] = {};
  for (unsigned from = begin; from < end; from += AHEAD) {
#pragma unroll
    for (unsigned d = 0; d < AHEAD; d++) {
      unsigned step = from + d;
      if (step >= end) break;
#pragma unroll
      for (unsigned group = 0; group < W::SLAB / GROUP; group++) {
        GroupOfX<N> of_x;
#pragma unroll
        for (unsigned n = 0; n < N; n++) {
#pragma unroll
          for (unsigned p = 0; p < 2; p++) {
            if (p >= pieces) break;
            uint4 four = *reinterpret_cast<const uint4 *>(x[n] + p * a.x.plane + step * W::SLAB + group * GROUP);
            of_x.half[n][p][0] = {four.x, four.y}, of_x.half[n][p][1] = {four.z, four.w};
          }
        }
        multiply_group(sums, GroupOfMatrix<W, M>(raw[d], group), of_x, pieces);
      }
#pragma unroll
      for (unsigned m = 0; m < M; m++) W::load(raw[d][m], weights[m], min(step + AHEAD, steps - 1), lane);
    }
  }
#pragma unroll
  for (unsigned m = 0; m < M; m++) {
#pragma unroll
    for (unsigned n = 0; n < N; n++) {
#pragma unroll
      for (unsigned e = 0; e < 4; e++) {
        parts[(warp * M * TILE + m * TILE + g + e / 2 * 8) * WIDTH + n * 8 + t * 2 + e % 2] = sums[n][m][e];
      }
    }
  }
  __syncthreads();
  auto sum_of = [&](unsigned i, unsigned column) {
    float sum = 0;
#pragma unroll
    for (unsigned segment = 0; segment < SEGMENTS; segment++) sum += parts[(segment * M * TILE + i) * WIDTH + column];
    return sum;
  };
  if (gated) {
    for (unsigned i = threadIdx.x; i < TILE * 8 * N; i += FEW_WARPS * WARP) {
      unsigned at = block * TILE + i % TILE, column = i / TILE;
      if (at >= a.products[0].rows || row + column >= a.rows) continue;
      finish_gate(a, row + column, at, sum_of(i % TILE, column), sum_of(TILE + i % TILE, column));
    }
  } else {
    const MatrixProduct &product = a.products[which];
    for (unsigned i = threadIdx.x; i < M * TILE * 8 * N; i += FEW_WARPS * WARP) {
      unsigned at = block * M * TILE + i % (M * TILE), column = i / (M * TILE);
      if (at >= product.rows || row + column >= a.rows) continue;
      finish(a, product, row + column, at, sum_of(i % (M * TILE), column));
    }
  }
}

// Many rows, in the order `BY_PAIR`: a block handles 128 rows of the matrix and 128 of `x`, of which it copies tiles of
// 64 columns to shared memory some stages ahead. It adds up one segment after the other.
constexpr unsigned MANY_WARPS = 8, MANY_ROWS = 128, PIECE_BYTES = MANY_ROWS * TILE_BYTES, STAGE_BYTES = 2 * PIECE_BYTES;

// The copies of a block. A thread copies four times sixteen bytes of each piece.
template <unsigned STAGES> struct Copies {
  static constexpr unsigned EACH = MANY_ROWS * 8 / (MANY_WARPS * WARP);
  uint8_t *memory;
  const uint16_t *from[EACH];
  size_t plane;
  unsigned pieces, tiles;

  __device__ inline Copies(const Linear &a, unsigned row, unsigned tiles, uint8_t *memory)
      : memory(memory), plane(a.x.plane), pieces(a.x.count), tiles(tiles) {
#pragma unroll
    for (unsigned i = 0; i < EACH; i++) {
      unsigned at = i * MANY_WARPS * WARP + threadIdx.x;
      from[i] = a.x.pieces + static_cast<size_t>(min(row + at / 8, a.rows - 1)) * a.x.stride + at % 8 * 8;
    }
  }
  __device__ inline uint8_t *stage(unsigned tile) const { return memory + tile % STAGES * STAGE_BYTES; }
  __device__ inline void begin(unsigned tile) const {
    if (tile < tiles) {
#pragma unroll
      for (unsigned i = 0; i < EACH; i++) {
        unsigned at = i * MANY_WARPS * WARP + threadIdx.x, to = in_tile(at / 8, at % 8);
        copy_16(stage(tile) + to, from[i] + tile * TILE_COLUMNS);
        if (pieces == 2) copy_16(stage(tile) + PIECE_BYTES + to, from[i] + tile * TILE_COLUMNS + plane);
      }
    }
    end_of_copies();
  }
};

// By products of single warps: each has two fragments of the matrix and eight of `x`.
constexpr unsigned MANY_ACROSS = 2, MANY_STAGES = 3;

template <class W> static __device__ inline void many_rows(const Linear &a) {
  constexpr unsigned M = 2, N = 8, TOGETHER = W::SCALED ? 2 : 4, STEPS = SLAB / W::SLAB, GROUPS = W::SLAB / GROUP;
  SHARED(uint8_t, memory);
  unsigned lane = threadIdx.x % WARP, warp = threadIdx.x / WARP, g = lane / 4, t = lane % 4;
  bool gated = a.results == GATE;
  unsigned which = gated ? 0 : product_of(a, blockIdx.y), pieces = a.x.count;
  unsigned block = blockIdx.y - a.products[which].from, row = blockIdx.x * MANY_ROWS;
  unsigned across = warp % MANY_ACROSS, tile = block * (MANY_WARPS / MANY_ACROSS) + warp / MANY_ACROSS;
  unsigned slabs = (a.columns + SLAB - 1) / SLAB, steps = W::steps(a.columns);
  typename W::Rows weights[M];
  find_rows<W>(weights, a, which, tile, lane);
  typename W::Raw next[M];
#pragma unroll
  for (unsigned m = 0; m < M; m++) W::load(next[m], weights[m], 0, lane);
  wait_for_inputs();
  Copies<MANY_STAGES> copies(a, row, (steps * W::SLAB + TILE_COLUMNS - 1) / TILE_COLUMNS, memory);
#pragma unroll
  for (unsigned stage = 0; stage + 1 < MANY_STAGES; stage++) copies.begin(stage);
  float sums[N][M][4] = {}, totals[N][M][4] = {};
  auto end_segment = [&]() {
#pragma unroll
    for (unsigned n = 0; n < N; n++) {
#pragma unroll
      for (unsigned m = 0; m < M; m++) {
#pragma unroll
        for (unsigned e = 0; e < 4; e++) totals[n][m][e] += sums[n][m][e], sums[n][m][e] = 0;
      }
    }
  };
  unsigned segment = 0;
  for (unsigned step = 0; step < steps; step++) {
    typename W::Raw raw[M];
#pragma unroll
    for (unsigned m = 0; m < M; m++) raw[m] = next[m], W::load(next[m], weights[m], min(step + 1, steps - 1), lane);
    while (segment + 1 < SEGMENTS && step >= segment_begin(segment + 1, slabs) * STEPS) end_segment(), segment++;
#pragma unroll
    for (unsigned i = 0; i < GROUPS; i++) {
      unsigned group = step * GROUPS + i;
      if (group % 2 == 0) {
        wait_for_copies<MANY_STAGES - 2>();
        __syncthreads();
        copies.begin(group / 2 + MANY_STAGES - 1);
      }
      GroupOfMatrix<W, M> of_matrix(raw, i);
      const uint8_t *x = copies.stage(group / 2) + across * N * 8 * TILE_BYTES;
#pragma unroll
      for (unsigned n = 0; n < N; n += TOGETHER) {
        GroupOfX<TOGETHER> of_x;
#pragma unroll
        for (unsigned j = 0; j < TOGETHER; j++) {
#pragma unroll
          for (unsigned p = 0; p < 2; p++) {
            if (p >= pieces) break;
            uint32_t four[4];
            read_fragments(four, x + (n + j) * 8 * TILE_BYTES + p * PIECE_BYTES, group % 2 * 4, lane);
            of_x.half[j][p][0] = {four[0], four[1]}, of_x.half[j][p][1] = {four[2], four[3]};
          }
        }
        multiply_group(reinterpret_cast<float(&)[TOGETHER][M][4]>(sums[n]), of_matrix, of_x, pieces);
      }
    }
  }
  end_segment();
  wait_for_copies<0>();
#pragma unroll
  for (unsigned n = 0; n < N; n++) {
#pragma unroll
    for (unsigned e = 0; e < 4; e++) {
      unsigned column = row + (across * N + n) * 8 + t * 2 + e % 2;
      if (column >= a.rows) continue;
      if (gated) {
        unsigned at = tile * TILE + g + e / 2 * 8;
        if (at < a.products[0].rows) finish_gate(a, column, at, totals[n][0][e], totals[n][1][e]);
      } else {
#pragma unroll
        for (unsigned m = 0; m < M; m++) {
          unsigned at = (tile * M + m) * TILE + g + e / 2 * 8;
          if (at < a.products[which].rows) finish(a, a.products[which], column, at, totals[n][m][e]);
        }
      }
    }
  }
}

// By products of four warps, in the background (Hopper): each warp has one fragment of the matrix, and all of `x`. A
// fragment has the same bits as by products of single warps.
constexpr unsigned WIDE_STAGES = 4;

#ifdef HAS_WIDE
// The products of a tile of 64 columns, in the order of `multiply_half`.
template <class W, unsigned PIECES_OF_X, unsigned N>
static __device__ inline void multiply_wide_tile(float (&sums)[N][4], const Numbers (&w)[2][W::PIECES],
                                                 const uint8_t *x) {
#pragma unroll
  for (unsigned half = 0; half < 4; half++) {
    const Numbers(&of)[W::PIECES] = w[half / 2];
#pragma unroll
    for (unsigned p = 0; p < W::PIECES; p++)
      multiply_wide(sums, upper(of[p], half % 2), lower(of[p], half % 2), x, 2 * half, true);
    if (PIECES_OF_X == 2)
      multiply_wide(sums, upper(of[0], half % 2), lower(of[0], half % 2), x + PIECE_BYTES, 2 * half, true);
  }
}
#endif

template <class W> static __device__ inline void wide_rows(const Linear &a) {
#ifdef HAS_WIDE
  constexpr unsigned N = MANY_ROWS / 8;
  SHARED(uint8_t, memory);
  unsigned lane = threadIdx.x % WARP, warp = threadIdx.x / WARP, g = lane / 4, t = lane % 4;
  bool gated = a.results == GATE;
  unsigned which = gated ? warp / 4 : product_of(a, blockIdx.y), pieces = a.x.count;
  unsigned block = blockIdx.y - a.products[gated ? 0 : which].from, row = blockIdx.x * MANY_ROWS;
  // The first four warps have fragments of the gate, and the others the same ones of its factors.
  unsigned tile = gated ? block * 4 + warp % 4 : block * MANY_WARPS + warp;
  unsigned slabs = (a.columns + SLAB - 1) / SLAB;
  const MatrixProduct &product = a.products[which];
  typename W::Rows weights = W::rows(product.weights, product.rows, a.columns, tile, lane);
  // Stages of weights of sixteen bits may end within a slab.
  unsigned stages = W::SCALED ? slabs * 2 : W::steps(a.columns) / 2;
  // Weights of sixteen bits are copied to shared memory, each warp's for itself; those in block formats are loaded a
  // slab before they are needed.
  uint8_t *own = memory + WIDE_STAGES * STAGE_BYTES + warp * TILE * TILE_BYTES;
  constexpr unsigned OWN_BYTES = MANY_WARPS * TILE * TILE_BYTES;
  typename W::Raw next[1];
  typename W::Copied copied = W::copied(product.weights, product.rows, a.columns, tile, lane);
  if constexpr (W::SCALED) W::load(next[0], weights, 0, lane);
  wait_for_inputs();
  Copies<WIDE_STAGES> copies(a, row, stages, memory);
  auto begin = [&](unsigned stage) {
    if constexpr (!W::SCALED) {
      if (stage < stages) W::copy(copied, own + stage % WIDE_STAGES * OWN_BYTES, stage);
    }
    copies.begin(stage);
  };
#pragma unroll
  for (unsigned stage = 0; stage + 2 < WIDE_STAGES; stage++) begin(stage);
  float sums[N][4] = {}, totals[N][4] = {};
  auto end_segment = [&]() {
#pragma unroll
    for (unsigned n = 0; n < N; n++) {
#pragma unroll
      for (unsigned e = 0; e < 4; e++) totals[n][e] += sums[n][e], sums[n][e] = 0;
    }
  };
  unsigned segment = 0;
  for (unsigned slab = 0; slab < slabs; slab++) {
    if (segment + 1 < SEGMENTS && slab >= segment_begin(segment + 1, slabs)) {
      wait_for_wide(sums);
      while (segment + 1 < SEGMENTS && slab >= segment_begin(segment + 1, slabs)) end_segment(), segment++;
    }
    typename W::Raw raw[1];
    if constexpr (W::SCALED) raw[0] = next[0], W::load(next[0], weights, min(slab + 1, slabs - 1), lane);
#pragma unroll
    for (unsigned i = 0; i < 2; i++) {
      unsigned stage = slab * 2 + i;
      if (stage >= stages) break;
      wait_for_copies<WIDE_STAGES - 3>();
      make_visible();
      __syncthreads();
      begin(stage + WIDE_STAGES - 2);
      const uint8_t *x = copies.stage(stage);
      if constexpr (!W::SCALED) {
        Numbers w[2][W::PIECES];
#pragma unroll
        for (unsigned j = 0; j < 2; j++) {
          typename W::Raw raw;
          W::read(raw, own + stage % WIDE_STAGES * OWN_BYTES, j, lane);
          W::expand(raw, 0, w[j]);
        }
        begin_wide(sums);
        if (pieces == 2)
          multiply_wide_tile<W, 2>(sums, w, x);
        else
          multiply_wide_tile<W, 1>(sums, w, x);
        end_wide();
        wait_for_earlier();
      } else {
        constexpr unsigned PARTS = W::BY_16 ? 2 : 1, HALVES = 2 / PARTS;
#pragma unroll
        for (unsigned j = 0; j < 2; j++) {
          GroupOfMatrix<W, 1> w(raw, 2 * i + j);
#pragma unroll
          for (unsigned part = 0; part < PARTS; part++) {
            float c[N][4];
            begin_wide(c);
#pragma unroll
            for (unsigned half = part * HALVES; half < (part + 1) * HALVES; half++) {
              unsigned chunk = j * 4 + 2 * half;
              multiply_wide(c, upper(w.numbers[0][0], half), lower(w.numbers[0][0], half), x, chunk,
                            half > part * HALVES);
              if (pieces == 2)
                multiply_wide(c, upper(w.numbers[0][0], half), lower(w.numbers[0][0], half), x + PIECE_BYTES, chunk,
                              true);
            }
            end_wide();
            wait_for_wide(c);
#pragma unroll
            for (unsigned n = 0; n < N; n++) {
              float of_x[2] = {};
              if constexpr (W::LEAST) {
                const float *at =
                    a.sums_of_x + (static_cast<size_t>(stage * 2 + j) * PARTS + part) * a.x_rows + row + n * 8 + t * 2;
                of_x[0] = at[0], of_x[1] = at[1];
              }
#pragma unroll
              for (unsigned e = 0; e < 4; e++)
                sums[n][e] =
                    scaled<W>(sums[n][e], w.scale[0][e / 2][part], c[n][e], w.least[0][e / 2][part], of_x[e % 2]);
            }
          }
        }
      }
    }
  }
  wait_for_wide(sums);
  end_segment();
  wait_for_copies<0>();
  __syncthreads();
  if (!gated) {
#pragma unroll
    for (unsigned n = 0; n < N; n++) {
#pragma unroll
      for (unsigned e = 0; e < 4; e++) {
        unsigned column = row + n * 8 + t * 2 + e % 2, at = tile * TILE + g + e / 2 * 8;
        if (column < a.rows && at < product.rows) finish(a, product, column, at, totals[n][e]);
      }
    }
    return;
  }
  // Gates and their factors meet in shared memory: for each row of `x` those of 64 rows of the matrix.
  constexpr unsigned GATES = 4 * TILE, WIDTH = GATES + 1;
  float *results = reinterpret_cast<float *>(memory) + which * MANY_ROWS * WIDTH;
#pragma unroll
  for (unsigned n = 0; n < N; n++) {
#pragma unroll
    for (unsigned e = 0; e < 4; e++)
      results[(n * 8 + t * 2 + e % 2) * WIDTH + warp % 4 * TILE + g + e / 2 * 8] = totals[n][e];
  }
  __syncthreads();
  const float *gates = reinterpret_cast<const float *>(memory), *factors = gates + MANY_ROWS * WIDTH;
  for (unsigned i = threadIdx.x; i < MANY_ROWS * GATES; i += MANY_WARPS * WARP) {
    unsigned column = i / GATES, position = i % GATES, of = column_of(static_cast<Order>(a.out.order), position);
    unsigned at = block * GATES + of;
    if (row + column >= a.rows || at >= product.rows) continue;
    float y = gated_value(a, at, gates[column * WIDTH + of], factors[column * WIDTH + of]);
    a.out.set_at(row + column, at, block * GATES + position, y);
  }
#endif
}

// The sums of activations in each group of columns, or in each sixteen, which minimums are multiplied by: a warp adds
// up eight rows as products with ones, as all kernels do.
struct SumsOfX {
  Activations x;
  // A row for each group, or each sixteen columns.
  float *out;
  uint32_t rows;
  // The number of rows that there is room for.
  uint32_t most;
  uint32_t by_16;
  uint32_t unused;
};

KERNEL(sums_of_x, SumsOfX) {
  unsigned lane = threadIdx.x % WARP, g = lane / 4, t = lane % 4, first = blockIdx.x * 8;
  unsigned groups = a.x.stride / GROUP, parts = a.by_16 ? 2 : 1;
  const uint16_t *x = a.x.pieces + static_cast<size_t>(min(first + g, a.rows - 1)) * a.x.stride;
  for (unsigned group = blockIdx.y * (blockDim.x / WARP) + threadIdx.x / WARP; group < groups;
       group += gridDim.y * (blockDim.x / WARP)) {
    float c[1][1][4] = {};
    for (unsigned half = 0; half < 2; half++) {
      GroupOfX<1> of_x;
      for (unsigned p = 0; p < a.x.count; p++) {
        const uint32_t *at = reinterpret_cast<const uint32_t *>(x + p * a.x.plane + group * GROUP + half * 16);
        of_x.half[0][p][half] = {at[t], at[4 + t]};
      }
      sum_half(c, half, of_x, a.x.count);
      if (a.by_16 || half == 1) {
        unsigned at = group * parts + (a.by_16 ? half : 0);
        if (g == 0)
          a.out[static_cast<size_t>(at) * a.most + first + t * 2] = c[0][0][0], a.out[static_cast<size_t>(at) * a.most +
                                                                                      first + t * 2 + 1] = c[0][0][1];
        c[0][0][0] = c[0][0][1] = c[0][0][2] = c[0][0][3] = 0;
      }
    }
  }
}

#define LINEAR(W, name)                                                                \
  EAGER_KERNEL(linear_##name##_8, Linear, FEW_WARPS *WARP, 2) { few_rows<W, 1>(a); }   \
  EAGER_KERNEL(linear_##name##_16, Linear, FEW_WARPS *WARP, 2) { few_rows<W, 2>(a); }  \
  EAGER_KERNEL(linear_##name##_32, Linear, FEW_WARPS *WARP, 1) { few_rows<W, 4>(a); }  \
  EAGER_KERNEL(linear_##name##_many, Linear, MANY_WARPS *WARP, 1) { many_rows<W>(a); } \
  EAGER_KERNEL(linear_##name##_wide, Linear, MANY_WARPS *WARP, 1) { wide_rows<W>(a); }

LINEAR(TensorF16, f16)
LINEAR(TensorBf16, bf16)
LINEAR(TensorQ8_0, q8_0)
LINEAR(TensorQ4_0, q4_0)
LINEAR(TensorQ4_1, q4_1)
LINEAR(TensorQ5_0, q5_0)
LINEAR(TensorQ5_1, q5_1)
LINEAR(TensorQ2K, q2k)
LINEAR(TensorQ3K, q3k)
LINEAR(TensorQ4K, q4k)
LINEAR(TensorQ5K, q5k)
LINEAR(TensorQ6K, q6k)
LINEAR(TensorIq4Nl, iq4_nl)
LINEAR(TensorIq4Xs, iq4_xs)
LINEAR(TensorMxfp4, mxfp4)
