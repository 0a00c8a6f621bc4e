// Times the products of rows of activations and matrices on a GPU, in the shapes of 1B and 8B models:
//
//     nvcc -std=c++17 -O3 -gencode=arch=compute_90a,code=sm_90a -cudart static tests/scripts/gpu-products.cu \
//       -o target/gpu-products && target/gpu-products
//
// Prints for each format, shape and number of rows the microseconds of a launch in a CUDA graph; up to 64 rows also the
// GB/s of packed weights, from 128 rows on the TFLOP/s, with activations in two pieces and in one. Several copies of a
// matrix take turns, so that no cache helps. Numbers are random; the tests of the kernels check results.
#include "../../crates/kernels/cuda/linear.cu"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>

#define CHECK(x)                                                                     \
  do {                                                                               \
    cudaError_t error = (x);                                                         \
    if (error != cudaSuccess) {                                                      \
      fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, cudaGetErrorString(error)); \
      exit(1);                                                                       \
    }                                                                                \
  } while (0)

// Pairs of bf16 numbers between -2 and 2.
__global__ void fill(uint32_t *to, size_t count, uint32_t seed) {
  for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < count; i += size_t(gridDim.x) * blockDim.x) {
    uint32_t x = uint32_t(i) * 2654435761u ^ seed;
    x ^= x >> 15, x *= 2246822519u, x ^= x >> 13, x *= 3266489917u, x ^= x >> 16;
    to[i] = (x & 0x807f807f) | 0x3f003f00;
  }
}

using Kernel = void (*)(const Linear);

struct Kind {
  const char *name;
  // The bytes of sixteen rows and 128 columns.
  unsigned record;
  Kernel few[3], wide;
};

#define KIND(name, record) \
  {#name, record, {linear_##name##_8, linear_##name##_16, linear_##name##_32}, linear_##name##_wide}

struct Shape {
  unsigned rows, columns;
  // Whether two matrices of this shape are a gate and its factors.
  bool gated;
};

int main() {
  const Kind kinds[] = {KIND(bf16, 4096), KIND(q8_0, TensorQ8_0::RECORD), KIND(q4k, TensorQ4K::RECORD),
                        KIND(mxfp4, TensorMxfp4::RECORD)};
  const Shape shapes[] = {{6144, 4096, false},   {4096, 4096, false}, {14336, 4096, true}, {4096, 14336, false},
                          {128256, 4096, false}, {3072, 2048, false}, {8192, 2048, true},  {2048, 8192, false}};
  cudaDeviceProp device;
  CHECK(cudaGetDeviceProperties(&device, 0));
  printf("%s\n", device.name);
  cudaStream_t stream;
  CHECK(cudaStreamCreate(&stream));
  const size_t pool = size_t(3) << 30, most = size_t(2048) * 14336 * 4;
  uint8_t *weights;
  uint16_t *x, *activated;
  float *out;
  CHECK(cudaMalloc(&weights, pool));
  CHECK(cudaMalloc(&x, most));
  CHECK(cudaMalloc(&activated, most));
  CHECK(cudaMalloc(&out, most));
  fill<<<4096, 256, 0, stream>>>(reinterpret_cast<uint32_t *>(weights), pool / 4, 1);
  fill<<<4096, 256, 0, stream>>>(reinterpret_cast<uint32_t *>(x), most / 4, 2);
  cudaEvent_t begin, end;
  CHECK(cudaEventCreate(&begin));
  CHECK(cudaEventCreate(&end));
  for (const Kind &kind : kinds) {
    for (Kernel kernel : {kind.few[0], kind.few[1], kind.few[2], kind.wide}) {
      CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, 200 << 10));
    }
    for (const Shape &shape : shapes) {
      const size_t one = size_t(shape.rows) / 16 * (shape.columns / 128) * kind.record,
                   all = one * (shape.gated ? 2 : 1);
      const unsigned copies = std::min<size_t>(pool / all, 40);
      printf("%-7s %6ux%-6u", kind.name, shape.rows * (shape.gated ? 2 : 1), shape.columns);
      for (unsigned m : {1, 4, 8, 16, 32, 64, 128, 512, 2048}) {
        const bool few = m <= 64;
        if (size_t(m) * shape.rows * 4 > most) continue;
        for (unsigned pieces = 2; pieces >= (m >= 512 ? 1 : 2); pieces--) {
          Linear a = {};
          a.x = {nullptr, x, uint64_t(m) * shape.columns, shape.columns, shape.columns, pieces, few ? 0u : 1u};
          a.out = {nullptr, activated, uint64_t(m) * shape.rows, shape.rows, shape.rows, pieces, few ? 0u : 1u};
          a.rows = m, a.columns = shape.columns, a.count = shape.gated ? 2 : 1, a.results = shape.gated ? GATE : STORE;
          // The values of these sums do not matter.
          a.sums_of_x = out, a.x_rows = m;
          const unsigned matrix_rows = (few ? 32 : 128) / (shape.gated ? 2 : 1), width = m <= 8 ? 8 : m <= 16 ? 16 : 32;
          const Kernel kernel = few ? kind.few[m <= 8 ? 0 : m <= 16 ? 1 : 2] : kind.wide;
          cudaLaunchAttribute early = {};
          early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
          early.val.programmaticStreamSerializationAllowed = 1;
          cudaLaunchConfig_t config = {};
          config.gridDim = dim3(few ? (m + 31) / 32 : (m + 127) / 128, (shape.rows + matrix_rows - 1) / matrix_rows);
          config.blockDim = 256;
          config.dynamicSmemBytes = few ? 8 * 32 * (width + 1) * 4 : 192 << 10;
          config.stream = stream, config.attrs = &early, config.numAttrs = 1;
          const int repeats = m >= 128 ? 6 : 24;
          cudaGraph_t graph;
          cudaGraphExec_t ready;
          CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
          for (int i = 0; i < repeats; i++) {
            const uint8_t *from = weights + i % copies * all;
            a.products[0] = {from, nullptr, out, shape.rows, 0};
            a.products[1] = {from + one, nullptr, out, shape.rows, 0};
            CHECK(cudaLaunchKernelEx(&config, kernel, a));
          }
          CHECK(cudaStreamEndCapture(stream, &graph));
          CHECK(cudaGraphInstantiate(&ready, graph, 0));
          float best = INFINITY;
          for (int round = 0; round < 4; round++) {
            float milliseconds;
            CHECK(cudaEventRecord(begin, stream));
            CHECK(cudaGraphLaunch(ready, stream));
            CHECK(cudaEventRecord(end, stream));
            CHECK(cudaEventSynchronize(end));
            CHECK(cudaEventElapsedTime(&milliseconds, begin, end));
            best = std::min(best, milliseconds);
          }
          const double us = best * 1e3 / repeats,
                       products = 2.0 * m * shape.rows * shape.columns * (shape.gated ? 2 : 1);
          if (few)
            printf(" | %u: %.1fus %.0f", m, us, all / us / 1e3);
          else
            printf(" | %u/%u: %.0fus %.0fTF", m, pieces, us, products / us / 1e6);
          fflush(stdout);
          CHECK(cudaGraphExecDestroy(ready));
          CHECK(cudaGraphDestroy(graph));
        }
      }
      printf("\n");
    }
  }
}
