// Times the sampling kernels on a GPU, at 128,256 tokens:
//
//     nvcc -std=c++17 -O3 -arch=sm_90 -cudart static tests/scripts/gpu-draw.cu -o target/gpu-draw && target/gpu-draw
//
// Prints microseconds per call (all launches that draw.rs makes), inside a CUDA graph of REPEATS calls, and as separate
// launches on a stream; and whether the tokens are those of a plain CPU implementation of the same integer masses.
#include "../../crates/kernels/cuda/draw.cu"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#define CHECK(x)                                                                     \
  do {                                                                               \
    cudaError_t error = (x);                                                         \
    if (error != cudaSuccess) {                                                      \
      fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, cudaGetErrorString(error)); \
      exit(1);                                                                       \
    }                                                                                \
  } while (0)

constexpr unsigned VOCABULARY = 128256;
constexpr int REPEATS = 20, ROUNDS = 20;

static Step exact_step(uint32_t kind, double number) {
  uint64_t bits;
  memcpy(&bits, &number, 8);
  return {kind, 0.0f, static_cast<uint32_t>(bits), static_cast<uint32_t>(bits >> 32)};
}
static Step top_k(uint32_t k) { return {TOP_K, 0.0f, k, 0}; }
static Step top_p(double p) { return exact_step(TOP_P, p); }
static Step min_p(double p) { return exact_step(MIN_P, std::log(p)); }
static Step typical(double p) { return exact_step(TYPICAL, p); }
static Step xtc(double threshold) { return exact_step(XTC, std::log(threshold)); }
static Step eta(double epsilon) { return exact_step(ETA, std::log(epsilon)); }
static Step temperature(float by) { return {DIVIDE, by, 0, 0}; }

static double number_of(const Step &step) {
  uint64_t bits = static_cast<uint64_t>(step.count) << 32 | step.from;
  double number;
  memcpy(&number, &bits, 8);
  return number;
}

// The same on the CPU by sorting. expf may differ by a unit in the last digit: a few tokens per thousand may differ.
// Cuts that depend on the entropy are not checked here.
static uint32_t reference(std::vector<float> z, const std::vector<Step> &steps, bool greedy, double number) {
  auto mass_of = [](float z, float max) -> unsigned long long {
    return z == -INFINITY ? 0 : static_cast<unsigned long long>(llrintf(expf(z - max) * 1099511627776.0f));
  };
  for (const Step &step : steps) {
    if (step.kind == DIVIDE) {
      for (float &x : z) x /= step.number;
      continue;
    }
    float max = *std::max_element(z.begin(), z.end());
    if (step.kind == MIN_P) {
      for (float &x : z)
        if (x < max + number_of(step)) x = -INFINITY;
      continue;
    }
    std::vector<uint32_t> order;
    for (uint32_t t = 0; t < z.size(); t++)
      if (z[t] != -INFINITY) order.push_back(t);
    std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) { return z[a] > z[b]; });
    size_t kept = order.size();
    if (step.kind == TOP_K) {
      if (step.from < kept) {
        kept = step.from;
        while (kept < order.size() && z[order[kept]] == z[order[kept - 1]]) kept++;
      }
    } else {
      unsigned long long all = 0, sum = 0;
      for (uint32_t t : order) all += mass_of(z[t], max);
      unsigned long long need = static_cast<unsigned long long>(std::ceil(number_of(step) * static_cast<double>(all)));
      if (need < all) {
        for (kept = 0; sum < std::max(need, 1ull); kept++) sum += mass_of(z[order[kept]], max);
      }
    }
    for (size_t i = kept; i < order.size(); i++) z[order[i]] = -INFINITY;
  }
  float max = *std::max_element(z.begin(), z.end());
  if (greedy) return static_cast<uint32_t>(std::find(z.begin(), z.end(), max) - z.begin());
  unsigned long long total = 0, from = 0;
  for (float x : z) total += mass_of(x, max);
  unsigned long long want = std::min(static_cast<unsigned long long>(number * static_cast<double>(total)), total - 1);
  for (uint32_t t = 0; t < z.size(); t++) {
    from += mass_of(z[t], max);
    if (want < from) return t;
  }
  return NONE;
}

struct Plan {
  const char *name;
  std::vector<Step> steps;
  bool greedy;
};

int main() {
  cudaDeviceProp device;
  CHECK(cudaGetDeviceProperties(&device, 0));
  printf("%s, %d multiprocessors; microseconds per call at %u tokens\n", device.name, device.multiProcessorCount,
         VOCABULARY);
  const std::vector<Plan> plans = {
      {"greedy", {}, true},
      {"none", {}, false},
      {"temperature", {temperature(0.8f)}, false},
      {"top-k 50", {top_k(50)}, false},
      {"top-p .9", {top_p(0.9)}, false},
      {"top-k 50, top-p .9", {top_k(50), top_p(0.9)}, false},
      {"top-k 50, top-p .9, min-p .05", {top_k(50), top_p(0.9), min_p(0.05)}, false},
      {"min-p .05", {min_p(0.05)}, false},
      {"temperature .7, top-p .9", {temperature(0.7f), top_p(0.9)}, false},
      {"temperature 1.5, top-p .95", {temperature(1.5f), top_p(0.95)}, false},
      {"temperature .2, top-k 50", {temperature(0.2f), top_k(50)}, false},
      {"top-k 50, temperature .7, top-p .9", {top_k(50), temperature(0.7f), top_p(0.9)}, false},
      {"top-k 20000, top-p .9", {top_k(20000), top_p(0.9)}, false},
      {"eta .001", {eta(0.001)}, false},
      {"top-p .95, typical .9, xtc .1", {top_p(0.95), typical(0.9), xtc(0.1)}, false},
      {"typical .9", {typical(0.9)}, false},
  };
  // peaked: a language model's row, normal logits and a tail of probable ones. flat: noise without probable tokens.
  // equal: all logits the same. steps: logits rounded to halves, so that many are equal at each cut.
  for (const std::string kind : {"peaked", "flat", "steps", "equal"}) {
    for (unsigned rows : {1u, 8u, 64u}) {
      if (kind != "peaked" && rows == 8) continue;
      std::mt19937_64 random(7);
      std::normal_distribution<float> normal;
      std::exponential_distribution<float> tail(0.55f);
      std::vector<float> logits(static_cast<size_t>(rows) * VOCABULARY);
      for (float &z : logits) {
        z = 2.2f * normal(random);
        if (kind == "peaked" && random() % 400 == 0) z += 6 + tail(random);
        if (kind == "flat") z *= 0.3f;
        if (kind == "steps") z = std::round(z * 2) / 2;
        if (kind == "equal") z = 1.5f;
      }
      for (const Plan &plan : plans) {
        std::vector<DrawItem> items;
        std::vector<Step> steps;
        for (unsigned i = 0; i < rows; i++) {
          uint32_t from = static_cast<uint32_t>(steps.size());
          steps.insert(steps.end(), plan.steps.begin(), plan.steps.end());
          double number = static_cast<double>(random() >> 11) / 9007199254740992.0;
          items.push_back({i, from, static_cast<uint32_t>(steps.size()), plan.greedy, number});
        }
        auto upload = [](const void *from, size_t bytes) {
          void *to;
          CHECK(cudaMalloc(&to, std::max<size_t>(bytes, 8)));
          if (from && bytes) CHECK(cudaMemcpy(to, from, bytes, cudaMemcpyHostToDevice));
          return to;
        };
        const size_t all = static_cast<size_t>(rows) * VOCABULARY * 4;
        Draw a = {};
        a.logits = static_cast<float *>(upload(logits.data(), all));
        a.rows = static_cast<float *>(upload(nullptr, all));
        a.lists = static_cast<uint32_t *>(upload(nullptr, all));
        a.states = static_cast<DrawState *>(upload(nullptr, rows * sizeof(DrawState)));
        a.items = static_cast<DrawItem *>(upload(items.data(), rows * sizeof(DrawItem)));
        a.steps = static_cast<Step *>(upload(steps.data(), steps.size() * sizeof(Step)));
        a.words = nullptr;
        a.tokens = static_cast<uint32_t *>(upload(nullptr, rows * 4));
        a.vocabulary = VOCABULARY;
        // As draw.rs.
        const unsigned blocks =
            std::min(std::clamp(256 / rows, 4u, DRAW_BLOCKS), (VOCABULARY + 4 * DRAW_THREADS - 1) / (4 * DRAW_THREADS));
        const bool has_cuts =
            std::any_of(steps.begin(), steps.end(), [](const Step &step) { return step.kind >= TOP_K; });
        const dim3 grid(blocks, rows);
        cudaStream_t stream;
        CHECK(cudaStreamCreate(&stream));
        cudaEvent_t begin, end;
        CHECK(cudaEventCreate(&begin));
        CHECK(cudaEventCreate(&end));
        // What is launched: 0 all, else only the first kernels.
        auto launch = [&](int kernels) {
          edit<<<grid, DRAW_THREADS, sizeof(BlockMemory), stream>>>(a);
          if (kernels >= 2) tally<<<grid, DRAW_THREADS, sizeof(BlockMemory), stream>>>(a);
          if (kernels >= 3 && has_cuts) choose<<<grid, DRAW_THREADS, sizeof(BlockMemory), stream>>>(a);
        };
        auto time = [&](auto work) {
          std::vector<float> times;
          for (int i = 0; i < ROUNDS + 3; i++) {
            CHECK(cudaEventRecord(begin, stream));
            work();
            CHECK(cudaEventRecord(end, stream));
            CHECK(cudaEventSynchronize(end));
            float milliseconds;
            CHECK(cudaEventElapsedTime(&milliseconds, begin, end));
            if (i >= 3) times.push_back(milliseconds * 1000 / REPEATS);
          }
          std::sort(times.begin(), times.end());
          return times[times.size() / 2];
        };
        float graphs[4];
        for (int kernels = 1; kernels <= 3; kernels++) {
          cudaGraph_t graph;
          cudaGraphExec_t ready;
          CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
          for (int i = 0; i < REPEATS; i++) launch(kernels);
          CHECK(cudaStreamEndCapture(stream, &graph));
          CHECK(cudaGraphInstantiate(&ready, graph, 0));
          graphs[kernels] = time([&] { CHECK(cudaGraphLaunch(ready, stream)); });
          CHECK(cudaGraphExecDestroy(ready));
          CHECK(cudaGraphDestroy(graph));
        }
        float separate = time([&] {
          for (int i = 0; i < REPEATS; i++) launch(3);
        });
        CHECK(cudaGetLastError());
        std::vector<uint32_t> tokens(rows), listed(RANGES);
        CHECK(cudaMemcpy(tokens.data(), a.tokens, rows * 4, cudaMemcpyDeviceToHost));
        CHECK(cudaMemcpy(listed.data(), a.states->listed, RANGES * 4, cudaMemcpyDeviceToHost));
        unsigned long list = 0;
        for (unsigned i = 0; i < blocks * WARPS; i++) list += has_cuts ? listed[i] : 0;
        const bool known =
            std::none_of(plan.steps.begin(), plan.steps.end(), [](const Step &step) { return step.kind > MIN_P; });
        unsigned same = 0, checked = known ? std::min(rows, 4u) : 0;
        for (unsigned i = 0; i < checked; i++) {
          const float *row = logits.data() + static_cast<size_t>(i) * VOCABULARY;
          same += tokens[i] ==
                  reference(std::vector<float>(row, row + VOCABULARY), plan.steps, plan.greedy, items[i].number);
        }
        printf("%-7s %2u rows  %-36s graph %8.1f  (edit %6.1f, with tally %6.1f)  launches %8.1f  list %6lu  same %u "
               "of %u\n",
               kind.c_str(), rows, plan.name, graphs[3], graphs[1], graphs[2], separate, list, same, checked);
        for (const void *pointer :
             {(const void *)a.logits, (const void *)a.rows, (const void *)a.lists, (const void *)a.states,
              (const void *)a.items, (const void *)a.steps, (const void *)a.tokens}) {
          CHECK(cudaFree(const_cast<void *>(pointer)));
        }
        CHECK(cudaEventDestroy(begin));
        CHECK(cudaEventDestroy(end));
        CHECK(cudaStreamDestroy(stream));
      }
    }
  }
}
