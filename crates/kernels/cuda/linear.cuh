// All kernels that multiply rows by matrices: their arguments, and what happens to the results.
#pragma once

#include "tensor.cuh"

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

// The uses of results, as numbered in linear.rs: they are stored, added to the existing ones, or become
// activations, of which those of the first matrix may be factors of those of the second.
enum { STORE, ADD, ACTIVATE, GATE };

struct Linear {
  Activations x;
  MatrixProduct products[PRODUCTS];
  Activations out;
  // The number of rows of `x` and of the results.
  uint32_t rows;
  uint32_t columns;
  uint32_t count;
  uint32_t results;
  // As numbered in elements.rs.
  uint32_t activation;
  // The number of rows that `sums_of_x` has room for.
  uint32_t x_rows;
  // Null, or the sums of activations in each group of columns, or in each sixteen: a row for each.
  const float *sums_of_x;
};

static __device__ inline float activated(uint32_t activation, float x) {
  switch (activation) {
  case 0:
    return x / (1 + expf(-x));
  case 1:
    return 0.5f * x * (1 + erff(x * 0.70710678f));
  case 2:
    return 0.5f * x * (1 + tanhf(0.79788456f * (x + 0.044715f * x * x * x)));
  case 3:
    return fmaxf(x, 0);
  default:
    return x > 0 ? x * x : 0;
  }
}

static __device__ inline unsigned product_of(const Linear &a, unsigned block) {
  unsigned which = 0;
  while (which + 1 < a.count && block >= a.products[which + 1].from) which++;
  return which;
}

// Finishes a sum of row `row` of `x` and a row of a matrix.
static __device__ inline void finish(const Linear &a, const MatrixProduct &product, unsigned row, unsigned at,
                                     float sum) {
  if (product.bias) sum += product.bias[at];
  if (a.results == ACTIVATE) {
    a.out.set(row, at, activated(a.activation, sum));
  } else {
    float *out = product.out + static_cast<size_t>(row) * product.rows + at;
    *out = a.results == ADD ? *out + sum : sum;
  }
}

static __device__ inline float gated_value(const Linear &a, unsigned at, float gate, float up) {
  if (a.products[0].bias) gate += a.products[0].bias[at];
  if (a.products[1].bias) up += a.products[1].bias[at];
  return activated(a.activation, gate) * up;
}

static __device__ inline void finish_gate(const Linear &a, unsigned row, unsigned at, float gate, float up) {
  a.out.set(row, at, gated_value(a, at, gate, up));
}
