// Rows times matrices of weights in f32, without tensor cores: for matrices in f32, and those whose rows cannot be read
// sixteen bytes at a time.
//
// A warp handles `N` rows of the matrix. Its lanes read eight adjacent numbers each, so the matrix is read once and in
// order, and sums over lanes are added in one order: a row's bits do not depend on the number of rows.
#include "linear.cuh"

constexpr unsigned F32_WARPS = 4;

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

template <class F, unsigned M, unsigned N> static __device__ inline void in_f32(const Linear &a) {
  const MatrixProduct product = a.products[product_of(a, blockIdx.x)];
  unsigned lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
  unsigned first = ((blockIdx.x - product.from) * F32_WARPS + warp) * N, row = blockIdx.y * M;
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
  for (unsigned m = 0; m < M; m++) x[m] = a.x.numbers + static_cast<size_t>(min(row + m, a.rows - 1)) * a.columns;
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
    finish(a, product, row + m, first + n, sum);
  }
}

#define IN_F32(F, name)                                     \
  KERNEL(in_f32_##name##_1, Linear) { in_f32<F, 1, 2>(a); } \
  KERNEL(in_f32_##name##_2, Linear) { in_f32<F, 2, 2>(a); } \
  KERNEL(in_f32_##name##_4, Linear) { in_f32<F, 4, 2>(a); } \
  KERNEL(in_f32_##name##_8, Linear) { in_f32<F, 8, 2>(a); } \
  KERNEL(in_f32_##name##_16, Linear) { in_f32<F, 16, 2>(a); }

IN_F32(F32, f32)
IN_F32(F16, f16)
IN_F32(Bf16, bf16)
