#include "emulator.h"

#include <csetjmp>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <ucontext.h>
#include <vector>

namespace emulator {

const Kernel *kernels;
thread_local Index thread, block, block_size, grid_size;

namespace {

constexpr unsigned LANES = 32;
constexpr size_t STACK = 64 << 10;

enum class State { Runs, WaitsForWarp, WaitsForBlock, Done };

struct Fibre {
  std::unique_ptr<char[]> stack{new char[STACK]};
  ucontext_t begin;
  jmp_buf here;
  State state;
  bool has_begun;
  // The values that it gives to its warp, in alternating slots, so that consecutive exchanges do not interfere.
  uint64_t given[2];
  uint32_t fragments[2][6];
  unsigned turn;
};

thread_local std::vector<Fibre> fibres;
thread_local std::vector<char> memory;
thread_local jmp_buf scheduler;
thread_local const Kernel *kernel;
thread_local const void *arguments;
thread_local unsigned current;

void wait(State state) {
  Fibre &fibre = fibres[current];
  fibre.state = state;
  if (_setjmp(fibre.here) == 0) _longjmp(scheduler, 1);
}

void begin() {
  kernel->run(arguments);
  fibres[current].state = State::Done;
  _longjmp(scheduler, 1);
}

// Runs a fibre until it waits or is done.
void go_on(unsigned which) {
  Fibre &fibre = fibres[which];
  current = which;
  thread = {which, 0, 0};
  if (_setjmp(scheduler) != 0) return;
  if (fibre.has_begun) _longjmp(fibre.here, 1);
  fibre.has_begun = true;
  getcontext(&fibre.begin);
  fibre.begin.uc_stack.ss_sp = fibre.stack.get();
  fibre.begin.uc_stack.ss_size = STACK;
  fibre.begin.uc_link = nullptr;
  makecontext(&fibre.begin, begin, 0);
  setcontext(&fibre.begin);
}

// Resumes the fibres of a range if all that are not done wait in this state. Returns whether there were any.
bool release(unsigned from, unsigned to, State state) {
  bool any = false;
  for (unsigned i = from; i < to; i++) {
    if (fibres[i].state == State::Done) continue;
    if (fibres[i].state != state) return false;
    any = true;
  }
  for (unsigned i = from; i < to; i++) {
    if (fibres[i].state == state) fibres[i].state = State::Runs;
  }
  return any;
}

// Runs one warp as far as possible, then the next; every other block begins with the last one. So a warp is far ahead
// of another unless it must wait.
void run_block(unsigned count) {
  for (unsigned i = 0; i < count; i++) {
    fibres[i].state = State::Runs, fibres[i].has_begun = false, fibres[i].turn = 0;
  }
  unsigned warps = (count + LANES - 1) / LANES;
  bool backward = (block.x + block.y + block.z) % 2;
  do {
    for (unsigned nth = 0; nth < warps; nth++) {
      unsigned from = (backward ? warps - 1 - nth : nth) * LANES, to = std::min(from + LANES, count);
      do {
        for (unsigned i = from; i < to; i++) {
          if (fibres[i].state == State::Runs) go_on(i);
        }
      } while (release(from, to, State::WaitsForWarp));
    }
  } while (release(0, count, State::WaitsForBlock));
  for (unsigned i = 0; i < count; i++) {
    if (fibres[i].state == State::Done) continue;
    fprintf(stderr, "%s: threads of block %u %u %u wait at different positions\n", kernel->name, block.x, block.y,
            block.z);
    abort();
  }
}

} // namespace

void *shared() { return memory.data(); }
void wait_for_block() { wait(State::WaitsForBlock); }
void wait_for_warp() { wait(State::WaitsForWarp); }

uint64_t exchange(uint64_t bits, unsigned lane) {
  unsigned turn = fibres[current].turn++ % 2;
  fibres[current].given[turn] = bits;
  wait(State::WaitsForWarp);
  return fibres[current / LANES * LANES + lane].given[turn];
}

void multiply(float (&c)[4], uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3, uint32_t b0, uint32_t b1) {
  unsigned turn = fibres[current].turn++ % 2, lane = current % LANES, first = current - lane, g = lane / 4,
           t = lane % 4;
  const uint32_t given[6] = {a0, a1, a2, a3, b0, b1};
  memcpy(fibres[current].fragments[turn], given, sizeof given);
  wait(State::WaitsForWarp);
  auto number = [](uint32_t pair, unsigned i) { return bits_as<float>((i ? pair >> 16 : pair & 0xffff) << 16); };
  for (unsigned i = 0; i < 4; i++) {
    unsigned row = g * 4, column = (2 * t + i % 2) * 4;
    for (unsigned k = 0; k < 16; k++) {
      // Lane k / 2 % 4 of a row or a column has two columns, or rows, of each half of the sixteen.
      unsigned of = k / 2 % 4, half = k / 8;
      uint32_t a = fibres[first + row + of].fragments[turn][2 * half + i / 2],
               b = fibres[first + column + of].fragments[turn][4 + half];
      c[i] += number(a, k % 2) * number(b, k % 2);
    }
  }
}

} // namespace emulator

// Runs a kernel. Returns 1 if there is no kernel of this name.
extern "C" int verdigris_emulate(const char *name, const unsigned grid[3], unsigned threads, size_t shared,
                                 const void *args) {
  using namespace emulator;
  kernel = kernels;
  while (kernel && strcmp(kernel->name, name) != 0) kernel = kernel->next;
  if (!kernel) return 1;
  if (fibres.size() < threads) fibres = std::vector<Fibre>(threads);
  // Blocks share this memory without a reset: values left by another block are as invalid as unset ones, and neither
  // may be read.
  memory.assign(shared, static_cast<char>(0xff));
  arguments = args;
  grid_size = {grid[0], grid[1], grid[2]}, block_size = {threads, 1, 1};
  for (unsigned z = 0; z < grid[2]; z++) {
    for (unsigned y = 0; y < grid[1]; y++) {
      for (unsigned x = 0; x < grid[0]; x++) {
        block = {x, y, z};
        run_block(threads);
      }
    }
  }
  return 0;
}
