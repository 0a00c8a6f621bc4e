// Rows times a matrix of weights in their stored format, in f32: `out = x * w^T`.
//
// A warp handles `N` rows of the matrix. Its lanes read eight adjacent numbers each, so the matrix is read once and in
// order, and sums over lanes are added in one order: a row's bits do not depend on the number of rows.
#include "formats.cuh"

struct MatrixProduct {
  const uint8_t *weights;
  // Null, or a number for each row of the matrix.
  const float *bias;
  float *out;
  // The number of rows of the matrix.
  uint32_t rows;
  // The first block of threads that handles it.
  uint32_t from;
};

constexpr unsigned PRODUCTS = 3;

struct Linear {
  const float *x;
  MatrixProduct products[PRODUCTS];
  // The number of rows of `x` and of the results.
  uint32_t rows;
  uint32_t columns;
  uint32_t count;
  // Whether results are added to the existing ones.
  uint32_t adds;
};

constexpr unsigned LINEAR_WARPS = 4;

// Adds up `S` sums, of which each lane has a part, over all lanes: the first element of a lane becomes sum
// `lane / (WARP / S)`. Lanes half a warp apart exchange halves of what they have, and so on, so it takes few more
// exchanges than one sum does. Parts are added in the same order whatever `S` is.
template <unsigned S, unsigned APART = WARP / 2> static __device__ inline void add_lanes(float *sums, unsigned lane) {
  if constexpr (APART > 0) {
    if constexpr (S == 1) {
      sums[0] += __shfl_xor_sync(ALL_LANES, sums[0], APART);
    } else {
      bool upper = lane & APART;
#pragma unroll
      for (unsigned i = 0; i < S / 2; i++) {
        float given = upper ? sums[i] : sums[i + S / 2], kept = upper ? sums[i + S / 2] : sums[i];
        sums[i] = kept + __shfl_xor_sync(ALL_LANES, given, APART);
      }
    }
    add_lanes<(S > 1 ? S / 2 : 1), APART / 2>(sums, lane);
  }
}

template <class F, unsigned M, unsigned N> static __device__ inline void linear(const Linear &a) {
  unsigned which = 0;
  while (which + 1 < a.count && blockIdx.x >= a.products[which + 1].from) which++;
  const MatrixProduct product = a.products[which];
  unsigned lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
  unsigned first = ((blockIdx.x - product.from) * LINEAR_WARPS + warp) * N, row = blockIdx.y * M;
  if (first >= product.rows) return;
  // Past the end the last row is computed again, and not written.
  const uint8_t *weights[N];
  const float *x[M];
#pragma unroll
  for (unsigned n = 0; n < N; n++) {
    size_t at = min(first + n, product.rows - 1);
    weights[n] = product.weights + at * (a.columns / F::BLOCK * F::BYTES);
  }
#pragma unroll
  for (unsigned m = 0; m < M; m++) x[m] = a.x + static_cast<size_t>(min(row + m, a.rows - 1)) * a.columns;
  float sums[M][N] = {};
  // Unless the columns are a multiple of eight, rows after the first are not aligned to sixteen bytes.
  bool whole = a.columns % 8 == 0;
  if (whole) {
#pragma unroll 2
    for (unsigned i = lane; i < a.columns / 8; i += WARP) {
      float w[N][8];
#pragma unroll
      for (unsigned n = 0; n < N; n++) F::eight(weights[n], i, w[n]);
#pragma unroll
      for (unsigned m = 0; m < M; m++) {
        float eight[8];
        F32::eight(reinterpret_cast<const uint8_t *>(x[m]), i, eight);
#pragma unroll
        for (unsigned n = 0; n < N; n++) {
#pragma unroll
          for (unsigned j = 0; j < 8; j++) sums[m][n] = fmaf(eight[j], w[n][j], sums[m][n]);
        }
      }
    }
  } else {
    for (unsigned i = lane; i < a.columns; i += WARP) {
#pragma unroll
      for (unsigned n = 0; n < N; n++) {
        float w = F::one(weights[n], i);
#pragma unroll
        for (unsigned m = 0; m < M; m++) sums[m][n] = fmaf(x[m][i], w, sums[m][n]);
      }
    }
  }
  add_lanes<M * N>(sums[0], lane);
  float sum = sums[0][0];
  constexpr unsigned LANES_A_SUM = WARP / (M * N);
  unsigned m = lane / LANES_A_SUM / N, n = lane / LANES_A_SUM % N;
  if (lane % LANES_A_SUM == 0 && row + m < a.rows && first + n < product.rows) {
    float *out = product.out + static_cast<size_t>(row + m) * product.rows + first + n;
    if (product.bias) sum += product.bias[first + n];
    *out = a.adds ? *out + sum : sum;
  }
}

#define LINEAR(F, name)                                                                                                          \
  KERNEL(linear_##name##_1, Linear) { linear<F, 1, 2>(a); }                                                                        \
  KERNEL(linear_##name##_2, Linear) { linear<F, 2, 2>(a); }                                                                        \
  KERNEL(linear_##name##_4, Linear) { linear<F, 4, 2>(a); }                                                                        \
  KERNEL(linear_##name##_8, Linear) { linear<F, 8, 2>(a); }                                                                        \
  KERNEL(linear_##name##_16, Linear) { linear<F, 16, 2>(a); }

LINEAR(F32, f32)
LINEAR(F16, f16)
LINEAR(Bf16, bf16)
LINEAR(Q8_0, q8_0)
LINEAR(Q4_0, q4_0)
LINEAR(Q4_1, q4_1)
LINEAR(Q5_0, q5_0)
LINEAR(Q5_1, q5_1)
LINEAR(Q2K, q2k)
LINEAR(Q3K, q3k)
LINEAR(Q4K, q4k)
LINEAR(Q5K, q5k)
LINEAR(Q6K, q6k)
LINEAR(Iq4Nl, iq4_nl)
LINEAR(Iq4Xs, iq4_xs)
LINEAR(Mxfp4, mxfp4)
