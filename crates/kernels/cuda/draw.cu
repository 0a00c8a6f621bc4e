// Sampling of tokens from rows of logits: steps that apply a number to a set of tokens, cuts, and the choice of a
// token. Only the tokens leave the GPU.
//
// Many blocks share a row, each warp of them a range of its tokens. `edit` applies the steps before the first cut and
// finds the largest logit. `tally` adds up the row: by warps for a row without cuts, whose token it then chooses, else
// by the distance to the largest logit, which shows about where the first cut is. `choose` lists the tokens that may be
// above this cut, usually few. The block of a row that is done last does the rest on this list, or on the sums.
//
// Masses are integers, `exp(z - max)` in units of 2^-40, so sums do not depend on the order of threads or blocks, and a
// sample is always the same. With a vocabulary below 2^23 they cannot overflow.
#include "draw_list.cuh"

// Applies the steps up to the first cut, to each token separately.
KERNEL_OF(edit, Draw, DRAW_THREADS) {
  SHARED(BlockMemory, memory);
  const DrawItem item = a.items[blockIdx.y];
  DrawState *state = a.states + blockIdx.y;
  const unsigned thread = blockIdx.x * DRAW_THREADS + threadIdx.x;
  for (unsigned i = thread; i < BUCKETS; i += gridDim.x * DRAW_THREADS) state->sums[i] = 0;
  if (blockIdx.x == 0 && threadIdx.x < 2) state->done[threadIdx.x] = 0;
  const uint32_t end = edits_end(a, item, item.from);
  const float *logits = a.logits + static_cast<size_t>(item.row) * a.vocabulary;
  float *row = a.rows + static_cast<size_t>(blockIdx.y) * a.vocabulary;
  const Range range = own_range(a);
  float largest = -INFINITY;
  each(range, logits, [&](unsigned token, float z) {
    if (token >= range.end) return;
    for (uint32_t i = item.from; i < end; i++) z = changed(a, a.steps[i], token, z);
    if (end > item.from) row[token] = z;
    largest = larger(largest, z);
  });
  largest = block_max(largest, memory);
  if (threadIdx.x == 0) state->largest[blockIdx.x] = largest;
}

// Adds up a row without cuts and chooses its token.
static __device__ inline void choose_of_all(const Draw &a, const DrawItem &item, const float *row, float largest,
                                            DrawState *state, BlockMemory *memory) {
  const unsigned lane = threadIdx.x % WARP;
  const auto weight = [&](float z) { return share(item, z, largest); };
  Sum sum = 0, total;
  const Range range = own_range(a);
  each(range, row, [&](unsigned, float z) { sum += weight(z); });
  sum = __shfl_sync(ALL_LANES, warp_upto(sum), WARP - 1);
  if (lane == 0) state->sums[range.index] = sum;
  if (!is_last(&state->done[0], memory)) return;
  const unsigned ranges = gridDim.x * WARPS, first = threadIdx.x * RANGES_A_THREAD;
  Sum sums[RANGES_A_THREAD];
  sum = 0;
  for (unsigned i = 0; i < RANGES_A_THREAD; i++) sum += sums[i] = first + i < ranges ? state->sums[first + i] : 0;
  const Sum from = before(sum, memory, &total), want = wanted(item, total);
  find(sums, RANGES_A_THREAD, first, from, want, memory);
  __syncthreads();
  if (threadIdx.x >= WARP) return;
  const unsigned token = find_in(part(memory->found, ranges, a.vocabulary), row, want - memory->above, weight);
  if (lane == 0) a.tokens[blockIdx.y] = token;
}

// Chooses the token of a row without cuts. Else finds the bucket in which the first cut is, or the moments.
KERNEL_OF(tally, Draw, DRAW_THREADS) {
  SHARED(BlockMemory, memory);
  const DrawItem item = a.items[blockIdx.y];
  DrawState *state = a.states + blockIdx.y;
  const uint32_t first = edits_end(a, item, item.from);
  const float *row = source(a, item, first);
  const float largest = largest_of(state);
  if (largest == -INFINITY) {
    if (blockIdx.x == 0 && threadIdx.x == 0) a.tokens[blockIdx.y] = NONE;
    return;
  }
  if (first == item.to) return choose_of_all(a, item, row, largest, state, memory);
  const Step step = a.steps[first];
  if (step.kind == MIN_P) return;
  if (takes_moments(step)) {
    Sum moments[MOMENTS] = {};
    each(own_range(a), row, [&](unsigned, float z) { add_moments(moments, z, largest); });
    for (unsigned i = 0; i < MOMENTS; i++) {
      Sum total;
      before(moments[i], memory, &total);
      if (threadIdx.x == 0) atomicAdd(&state->sums[i], total);
    }
    return;
  }
  const bool counts = step.kind == TOP_K;
  clear_bins(memory);
  each(own_range(a), row, [&](unsigned, float z) {
    if (z == -INFINITY) return;
    add_to_bin(memory, bucket_of(z, largest), counts ? 1 : mass(z, largest));
  });
  __syncthreads();
  for (unsigned i = threadIdx.x; i < BUCKETS; i += DRAW_THREADS) {
    Sum sum = bin(memory, i);
    if (sum) atomicAdd(&state->sums[i], sum);
  }
  if (!is_last(&state->done[0], memory)) return;
  Sum sums[BUCKETS_A_THREAD], sum = 0, all;
  for (unsigned i = 0; i < BUCKETS_A_THREAD; i++) sum += sums[i] = state->sums[threadIdx.x * BUCKETS_A_THREAD + i];
  const Sum from = before(sum, memory, &all), need = needed(step, all);
  if (need != ENDLESS) find(sums, BUCKETS_A_THREAD, threadIdx.x * BUCKETS_A_THREAD, from, need - 1, memory);
  __syncthreads();
  if (threadIdx.x != 0) return;
  state->need = need;
  state->above = need == ENDLESS ? 0 : memory->above;
  state->bucket = need == ENDLESS ? BUCKETS - 1 : memory->found;
}

// Chooses the token of a row with cuts.
KERNEL_OF(choose, Draw, DRAW_THREADS) {
  SHARED(BlockMemory, memory);
  const DrawItem item = a.items[blockIdx.y];
  DrawState *state = a.states + blockIdx.y;
  const uint32_t first = edits_end(a, item, item.from);
  if (first == item.to) return;
  const float *row = source(a, item, first);
  float largest = largest_of(state);
  uint32_t *tokens = a.lists + static_cast<size_t>(blockIdx.y) * a.vocabulary;
  {
    const Step step = a.steps[first];
    // XTC and typical sampling may keep any token.
    const bool all = largest == -INFINITY || step.kind >= XTC, compares = step.kind > TOP_P;
    const uint32_t bucket = all || compares ? 0 : state->bucket;
    const Information of = !all && takes_moments(step) ? information_of(state->sums, largest) : Information{};
    const double bound = bound_of(step, largest, of);
    const Range range = own_range(a);
    const unsigned lane = threadIdx.x % WARP;
    unsigned count = 0;
    each(range, row, [&](unsigned token, float z) {
      const bool stays = z != -INFINITY && (all || (compares ? !(z < bound) : bucket_of(z, largest) <= bucket));
      const unsigned warp = __ballot_sync(ALL_LANES, stays);
      if (stays) tokens[range.begin + count + __popc(warp & ((1u << lane) - 1))] = token;
      count += __popc(warp);
    });
    if (lane == 0) state->listed[range.index] = count;
  }
  if (!is_last(&state->done[1], memory)) return;
  float *logits = a.rows + static_cast<size_t>(blockIdx.y) * a.vocabulary;
  const List list = {tokens, logits, gather(a, row, state, logits, tokens, memory)};
  for (uint32_t at = first; at < item.to;) {
    if (is_cut(a.steps[at])) {
      const Step step = a.steps[at];
      if (largest != -INFINITY) largest = apply_cut(list, step, largest, at == first ? state : nullptr, memory);
      at++;
      continue;
    }
    const uint32_t end = edits_end(a, item, at);
    largest = -INFINITY;
    each(own_part(list), list.logits, [&](unsigned index, float z) {
      if (z == -INFINITY) return;
      for (uint32_t i = at; i < end; i++) z = changed(a, a.steps[i], list.tokens[index], z);
      list.logits[index] = z;
      largest = larger(largest, z);
    });
    largest = sound(block_max(largest, memory));
    at = end;
  }
  uint32_t token = NONE;
  if (largest != -INFINITY) {
    const auto weight = [&](float z) { return share(item, z, largest); };
    const Sum want = wanted(item, total_of(list, weight, memory));
    token = list.tokens[find_in_list(list, want, weight, memory)];
  }
  if (threadIdx.x == 0) a.tokens[blockIdx.y] = token;
}
