// The parts of CUDA C++ that the kernels need. Each kernel takes one struct, which the Rust side has byte for byte, so
// that a launch is a name, a shape and some bytes. With VERDIGRIS_EMULATED the same source is C++ for a CPU: see
// emulator.h.
#pragma once

#include <cstdint>

#ifdef VERDIGRIS_EMULATED
#include "emulator.h"
#else
#include <cuda_fp16.h>
// Waits until the launches before this one are done, and lets the next one begin, which waits in the same way.
static __device__ inline void wait_for_inputs() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}
// A kernel for blocks of `THREADS` threads, of which a multiprocessor has room for `BLOCKS`. It must call
// `wait_for_inputs` in every thread, before it reads data of another kernel and before it writes anything.
#define EAGER_KERNEL(name, Args, THREADS, BLOCKS) \
  extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS) name(const __grid_constant__ Args a)
#define KERNEL(name, Args) BOUNDED_KERNEL(name, Args, )
// A kernel for blocks of at most `THREADS` threads.
#define KERNEL_OF(name, Args, THREADS) BOUNDED_KERNEL(name, Args, __launch_bounds__(THREADS))
#define BOUNDED_KERNEL(name, Args, BOUNDS)                                 \
  static __device__ void name##_body(const Args &a);                       \
  extern "C" __global__ void BOUNDS name(const __grid_constant__ Args a) { \
    wait_for_inputs();                                                     \
    name##_body(a);                                                        \
  }                                                                        \
  static __device__ inline void name##_body(const Args &a)
// Memory of the block, whose size is set by the launch, aligned as `multiply_wide` of tensor.cuh needs its tiles.
extern __shared__ __align__(1024) unsigned char shared_memory[];
#define SHARED(Type, name) Type *name = reinterpret_cast<Type *>(shared_memory)
#endif

constexpr unsigned WARP = 32;
constexpr unsigned ALL_LANES = 0xffffffff;
// Marks absent values.
constexpr uint32_t NONE = 0xffffffff;

// One row of a pass: a token, its location, and its mask.
struct TokenRow {
  uint32_t token;
  // Counted along its path in a token tree.
  uint32_t position;
  // The slot of its keys and values, counted in tokens of its sequence; NONE for a row that fills up a pass.
  uint32_t slot;
  // The index of its sequence's first page in the table.
  uint32_t table;
  // The number of tokens of its sequence before the pass.
  uint32_t held;
  // The index of the row at slot `held`.
  uint32_t first;
  // The index of its first word among the masks, which mark the rows from `first` that it sees. NONE: all up to itself.
  uint32_t mask;
  uint32_t unused;
  // The angle by which each pair of elements rotates per position, for all rotary embeddings.
  const float *angles;
};

static __device__ inline float warp_sum(float x) {
  for (unsigned lane = WARP / 2; lane > 0; lane /= 2) x += __shfl_xor_sync(ALL_LANES, x, lane);
  return x;
}

static __device__ inline float warp_max(float x) {
  for (unsigned lane = WARP / 2; lane > 0; lane /= 2) x = fmaxf(x, __shfl_xor_sync(ALL_LANES, x, lane));
  return x;
}
