// For tensor cores: products of fragments of bf16, copies to shared memory in the background, and loads of data
// that is read once.
#pragma once

#include "numbers.cuh"

// A fragment of 16 x 16 numbers in bf16: lane (g, t) = (lane / 4, lane % 4) has two pairs of adjacent columns of row g
// and of row g + 8. As the hardware numbers columns, they are 2 t and 2 t + 8; here they are the columns 4 t to 4 t +
// 3, in the fragments of both factors, so that a lane has eight bytes of a row of sixteen columns.
struct Pairs {
  uint32_t first;
  uint32_t second;
};

// The columns of rows of activations are in one of two orders, in which tensor cores read them. In each group of 32
// columns, either all numbers of a lane are adjacent, or the pairs of all lanes, as the hardware numbers them.
enum Order { BY_LANE, BY_PAIR };

static __device__ inline unsigned position_of(Order order, unsigned column) {
  unsigned sixteen = column >> 4 & 1, lane = column >> 2 & 3, pair = column >> 1 & 1, one = column & 1;
  unsigned at = order == BY_LANE ? lane * 8 + sixteen * 4 + pair * 2 + one : sixteen * 16 + pair * 8 + lane * 2 + one;
  return (column & ~31u) + at;
}

static __device__ inline unsigned column_of(Order order, unsigned at) {
  unsigned one = at & 1, column = order == BY_LANE ? (at >> 2 & 1) * 16 + (at >> 3 & 3) * 4 + (at >> 1 & 1) * 2
                                                   : (at >> 4 & 1) * 16 + (at >> 1 & 3) * 4 + (at >> 3 & 1) * 2;
  return (at & ~31u) + column + one;
}

// Rows of a tile of activations in shared memory: 64 columns in 128 bytes, of which each sixteen are moved to where
// those of the next rows are not, so that tensor cores read eight rows at once.
constexpr unsigned TILE_COLUMNS = 64, TILE_BYTES = 128;

static __device__ inline unsigned in_tile(unsigned row, unsigned chunk) {
  return row * TILE_BYTES + (chunk ^ row % 8) * 16;
}

#ifdef VERDIGRIS_EMULATED
#define HAS_WIDE
static inline void multiply(float (&c)[4], Pairs upper, Pairs lower, Pairs b) {
  emulator::multiply(c, upper.first, lower.first, upper.second, lower.second, b.first, b.second);
}
static inline void copy_16(void *to, const void *from) { memcpy(to, from, 16); }
static inline void end_of_copies() {}
template <unsigned LATER> static inline void wait_for_copies() {}
static inline void touch(const void *) {}
static inline void make_visible() {}
static inline void read_fragments(uint32_t (&to)[4], const uint8_t *tile, unsigned chunk, unsigned lane) {
  for (unsigned i = 0; i < 4; i++) memcpy(&to[i], tile + in_tile(lane / 4, chunk + i) + lane % 4 * 4, 4);
}
template <unsigned N> static inline void begin_wide(float (&)[N][4]) {}
template <unsigned N>
static inline void multiply_wide(float (&c)[N][4], Pairs upper, Pairs lower, const uint8_t *tile, unsigned chunk,
                                 bool adds) {
  unsigned lane = threadIdx.x % WARP;
  for (unsigned n = 0; n < N; n++) {
    Pairs b;
    memcpy(&b.first, tile + in_tile(n * 8 + lane / 4, chunk) + lane % 4 * 4, 4);
    memcpy(&b.second, tile + in_tile(n * 8 + lane / 4, chunk + 1) + lane % 4 * 4, 4);
    if (!adds) c[n][0] = c[n][1] = c[n][2] = c[n][3] = 0;
    multiply(c[n], upper, lower, b);
  }
}
static inline void end_wide() {}
static inline void wait_for_earlier() {}
template <unsigned N> static inline void wait_for_wide(float (&)[N][4]) {}
static inline uint4 once_16(const void *from) { return *static_cast<const uint4 *>(from); }
static inline uint2 once_8(const void *from) { return *static_cast<const uint2 *>(from); }
static inline uint32_t once_4(const void *from) { return *static_cast<const uint32_t *>(from); }
#else
// Adds the product of a fragment of 16 rows (those of index g in `upper`, of g + 8 in `lower`) and one of 8 columns.
static __device__ inline void multiply(float (&c)[4], Pairs upper, Pairs lower, Pairs b) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(upper.first), "r"(lower.first), "r"(upper.second), "r"(lower.second), "r"(b.first), "r"(b.second));
}

// Copies sixteen bytes to shared memory in the background.
static __device__ inline void copy_16(void *to, const void *from) {
  uint32_t at = static_cast<uint32_t>(__cvta_generic_to_shared(to));
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16;" ::"r"(at), "l"(from));
}

// Ends a group of copies.
static __device__ inline void end_of_copies() { asm volatile("cp.async.commit_group;"); }

// Waits for all groups of copies but the `LATER` last ones.
template <unsigned LATER> static __device__ inline void wait_for_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(LATER) : "memory");
}

// Brings memory that another kernel has written into the first-level cache.
static __device__ inline void touch(const void *at) {
  asm volatile("{.reg .b32 unused; ld.global.ca.b32 unused, [%0];}" ::"l"(at));
}

// Makes copies of this thread visible to the tensor cores, once all threads have passed a barrier.
static __device__ inline void make_visible() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// The fragments of eight rows and 32 columns of a tile, from sixteen bytes number `chunk` on.
static __device__ inline void read_fragments(uint32_t (&to)[4], const uint8_t *tile, unsigned chunk, unsigned lane) {
  uint32_t at = static_cast<uint32_t>(__cvta_generic_to_shared(tile + in_tile(lane % 8, chunk + lane / 8)));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(at)
               : "memory");
}

#ifdef __CUDA_ARCH_FEAT_SM90_ALL
#define HAS_WIDE
// Products of the fragments of four warps, each with sixteen rows of its own, and N tiles of eight rows in shared
// memory: begun one after the other, and done in the background.
template <unsigned N> static __device__ inline void begin_wide(float (&)[N][4]) {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

#define SUMS_8(c, n)                                                                                                   \
  "+f"(c[n][0]), "+f"(c[n][1]), "+f"(c[n][2]), "+f"(c[n][3]), "+f"(c[n + 1][0]), "+f"(c[n + 1][1]), "+f"(c[n + 1][2]), \
      "+f"(c[n + 1][3])
static __device__ inline void multiply_wide(float (&c)[16][4], Pairs upper, Pairs lower, const uint8_t *tile,
                                            unsigned chunk, bool adds) {
  // Rows of 128 bytes in the layout of `in_tile`; eight of them are 1,024 bytes.
  uint32_t at = static_cast<uint32_t>(__cvta_generic_to_shared(tile + chunk * 16));
  uint64_t layout = uint64_t(1) << 62 | uint64_t(1024 >> 4) << 32 | uint64_t(1) << 16 | (at & 0x3ffff) >> 4;
  asm volatile("{.reg .pred p; setp.ne.b32 p, %69, 0;"
               "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 "
               "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,"
               "%28,%29,%30,%31,"
               "%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56,%"
               "57,%58,%59,%60,%61,%62,%63},"
               "{%64,%65,%66,%67}, %68, p, 1, 1, 0;}"
               : SUMS_8(c, 0), SUMS_8(c, 2), SUMS_8(c, 4), SUMS_8(c, 6), SUMS_8(c, 8), SUMS_8(c, 10), SUMS_8(c, 12),
                 SUMS_8(c, 14)
               : "r"(upper.first), "r"(lower.first), "r"(upper.second), "r"(lower.second), "l"(layout),
                 "r"(static_cast<int>(adds)));
}

// Ends a group of such products.
static __device__ inline void end_wide() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }

// Waits for all groups but the last one.
static __device__ inline void wait_for_earlier() { asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory"); }

// Waits for all groups.
template <unsigned N> static __device__ inline void wait_for_wide(float (&c)[N][4]) {
  asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
  // The sums are not read before.
#pragma unroll
  for (unsigned n = 0; n < N; n++) {
#pragma unroll
    for (unsigned e = 0; e < 4; e++) asm volatile("" : "+f"(c[n][e])::"memory");
  }
}
#endif

// Weights, which no kernel changes, are read once: they do not pass through the first-level cache. Without `volatile`,
// the compiler may move these loads ahead of others.
static __device__ inline uint4 once_16(const void *from) {
  uint4 x;
  asm("ld.global.nc.L1::no_allocate.L2::128B.v4.u32 {%0,%1,%2,%3}, [%4];"
      : "=r"(x.x), "=r"(x.y), "=r"(x.z), "=r"(x.w)
      : "l"(from));
  return x;
}
static __device__ inline uint2 once_8(const void *from) {
  uint2 x;
  asm("ld.global.nc.L1::no_allocate.L2::128B.v2.u32 {%0,%1}, [%2];" : "=r"(x.x), "=r"(x.y) : "l"(from));
  return x;
}
static __device__ inline uint32_t once_4(const void *from) {
  uint32_t x;
  asm("ld.global.nc.L1::no_allocate.L2::128B.u32 %0, [%1];" : "=r"(x) : "l"(from));
  return x;
}
#endif

// Rows of activations as products read them: as they are, or as two bf16 pieces, the number rounded and then the
// rounded rest. Together the pieces have sixteen significant bits.
struct Activations {
  // Null, or the numbers: `columns` per row.
  float *numbers;
  // Null, or the first pieces, `stride` per row, in the order `order`; past the columns they are zero.
  uint16_t *pieces;
  // The number of elements from a first piece to the second one of the same number.
  uint64_t plane;
  uint32_t stride;
  uint32_t columns;
  // The number of pieces: 1 or 2.
  uint32_t count;
  uint32_t order;

  __device__ inline void set_at(size_t row, unsigned column, unsigned position, float x) const {
    if (numbers) numbers[row * columns + column] = x;
    if (pieces) {
      uint32_t both = both_pieces(x);
      size_t at = row * stride + position;
      pieces[at] = static_cast<uint16_t>(both);
      if (count == 2) pieces[at + plane] = static_cast<uint16_t>(both >> 16);
    }
  }
  __device__ inline void set(size_t row, unsigned column, float x) const {
    set_at(row, column, position_of(static_cast<Order>(order), column), x);
  }
};
