// CUDA C++ on one thread of a CPU, so that kernels can be tested without a GPU. The threads of a block are fibres: one
// runs until it waits for the others, then the next. Blocks run one after the other. Faults that need real parallelism
// (races within a warp, memory order) are not found; threads of a block that wait at different positions end the
// program.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

#define __device__
#define __forceinline__ inline

namespace emulator {

struct Index {
  unsigned x, y, z;
};

struct Kernel {
  const char *name;
  void (*run)(const void *args);
  const Kernel *next;
};

extern const Kernel *kernels;
extern thread_local Index thread, block, block_size, grid_size;

struct Register {
  Kernel kernel;
  Register(const char *name, void (*run)(const void *)) : kernel{name, run, kernels} { kernels = &kernel; }
};

void *shared();
void wait_for_block();
void wait_for_warp();
// Returns the value that lane `lane` of this warp gave, once all lanes have given theirs.
uint64_t exchange(uint64_t bits, unsigned lane);

// Adds the product of two fragments whose parts the lanes of a warp have, as `mma.sync.m16n8k16` for bf16 does.
void multiply(float (&c)[4], uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3, uint32_t b0, uint32_t b1);

template <class T> T exchange_as(T x, unsigned lane) {
  uint64_t bits = 0;
  memcpy(&bits, &x, sizeof x);
  bits = exchange(bits, lane);
  memcpy(&x, &bits, sizeof x);
  return x;
}

} // namespace emulator

#define threadIdx emulator::thread
#define blockIdx emulator::block
#define blockDim emulator::block_size
#define gridDim emulator::grid_size

#define KERNEL(name, Args)                                                                    \
  static void name##_body(const Args &a);                                                     \
  static void name##_run(const void *args) { name##_body(*static_cast<const Args *>(args)); } \
  static emulator::Register name##_registered(#name, name##_run);                             \
  static void name##_body([[maybe_unused]] const Args &a)
#define KERNEL_OF(name, Args, THREADS) KERNEL(name, Args)
#define EAGER_KERNEL(name, Args, THREADS, BLOCKS) KERNEL(name, Args)
#define SHARED(Type, name) Type *name = static_cast<Type *>(emulator::shared())

static inline void wait_for_inputs() {}
static inline void __syncthreads() { emulator::wait_for_block(); }
static inline void __syncwarp() { emulator::wait_for_warp(); }

template <class T> static T __shfl_xor_sync(unsigned, T x, unsigned mask) {
  return emulator::exchange_as(x, threadIdx.x % 32 ^ mask);
}

template <class T> static T __shfl_up_sync(unsigned, T x, unsigned back) {
  unsigned lane = threadIdx.x % 32;
  return emulator::exchange_as(x, lane < back ? lane : lane - back);
}

template <class T> static T atomicAdd(T *to, T x) {
  T before = *to;
  *to += x;
  return before;
}

struct alignas(16) float4 {
  float x, y, z, w;
};

struct alignas(8) uint2 {
  unsigned x, y;
};

struct alignas(16) uint4 {
  unsigned x, y, z, w;
};

template <class To, class From> static To bits_as(From x) {
  To to;
  static_assert(sizeof to == sizeof x);
  memcpy(&to, &x, sizeof to);
  return to;
}

using half = _Float16;
static inline half __ushort_as_half(unsigned short x) { return bits_as<half>(x); }
static inline unsigned short __half_as_ushort(half x) { return bits_as<unsigned short>(x); }
static inline float __half2float(half x) { return x; }
static inline half __float2half_rn(float x) { return static_cast<half>(x); }
static inline float __uint_as_float(unsigned x) { return bits_as<float>(x); }
static inline unsigned __float_as_uint(float x) { return bits_as<unsigned>(x); }
static inline double __longlong_as_double(long long x) { return bits_as<double>(x); }
static inline unsigned long long __float2ull_rn(float x) { return static_cast<unsigned long long>(llrintf(x)); }

static inline unsigned min(unsigned x, unsigned y) { return std::min(x, y); }

// Four bytes of eight, by the lower three bits of four digits.
static inline unsigned __byte_perm(unsigned x, unsigned y, unsigned selector) {
  uint64_t all = static_cast<uint64_t>(y) << 32 | x;
  unsigned bytes = 0;
  for (unsigned i = 0; i < 4; i++) bytes |= static_cast<unsigned>(all >> (selector >> 4 * i & 7) * 8 & 0xff) << 8 * i;
  return bytes;
}

static inline unsigned max(unsigned x, unsigned y) { return std::max(x, y); }
static inline unsigned long long min(unsigned long long x, unsigned long long y) { return std::min(x, y); }
static inline unsigned long long max(unsigned long long x, unsigned long long y) { return std::max(x, y); }
static inline int __popc(unsigned x) { return __builtin_popcount(x); }
static inline int __ffs(int x) { return __builtin_ffs(x); }
static inline int __clzll(long long x) { return x == 0 ? 64 : __builtin_clzll(static_cast<unsigned long long>(x)); }
static inline long long __double_as_longlong(double x) { return bits_as<long long>(x); }

template <class T> static T __shfl_sync(unsigned, T x, unsigned lane) { return emulator::exchange_as(x, lane % 32); }

static inline unsigned __ballot_sync(unsigned lanes, bool bit) {
  unsigned bits = static_cast<unsigned>(bit) << threadIdx.x % 32;
  for (unsigned mask = 1; mask < 32; mask *= 2) bits |= __shfl_xor_sync(lanes, bits, mask);
  return bits;
}

// Blocks run one after the other, so a block sees all that earlier blocks have written.
static inline void __threadfence() {}
