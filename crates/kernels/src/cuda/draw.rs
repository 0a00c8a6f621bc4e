//! Sampling of tokens from rows of logits, on the GPU.

use verdigris_logits::steps::{Step, Steps};
use verdigris_logits::{Sampler, TokenId};

use super::{Buffer, CudaError, Gpu, small};

/// A token to be sampled.
#[derive(Clone, Copy, Debug)]
pub struct DrawItem<'a> {
    /// The row of the logits.
    pub row: usize,
    /// The steps that are applied to the row first.
    pub steps: &'a Steps,
    /// The way in which the token is selected.
    pub sampler: Sampler,
    /// The number in [0, 1) that determines the token of a categorical sample.
    pub number: f64,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct Args {
    logits: u64,
    rows: u64,
    lists: u64,
    states: u64,
    items: u64,
    steps: u64,
    words: u64,
    tokens: u64,
    vocabulary: u32,
}

/// The numbers of `draw.cuh`: the threads of a block, the most blocks that share a row, the buckets of sums, and the
/// bytes that the threads of a block share.
const THREADS: usize = 512;
const BLOCKS: usize = 64;
const BUCKETS: usize = 2048;
const SHARED: usize = (THREADS / 32) * 8 + 8 + 2 * BUCKETS * 4 + (BLOCKS + 1) * (THREADS / 32) * 4 + 2 * 4;

/// The bytes of the progress of a row, in `draw.cuh`.
const STATE: usize = BUCKETS * 8 + 2 * 8 + BLOCKS * 4 + BLOCKS * (THREADS / 32) * 4 + 4 * 4;

/// The number of blocks that a GPU runs at the same time, about: more rows have fewer blocks each.
const AT_ONCE: usize = 256;

/// Samples tokens, in memory that is reused.
#[derive(Debug)]
pub struct Drawer {
    vocabulary: usize,
    rows: Buffer,
    /// The tokens of each item that are left after its first cut.
    lists: Buffer,
    states: Buffer,
    /// Items, steps and words.
    input: Buffer,
    /// Tokens.
    output: Buffer,
    bytes: Vec<u8>,
}

fn padded(bytes: &mut Vec<u8>) -> usize {
    bytes.resize(bytes.len().next_multiple_of(8), 0);
    bytes.len()
}

impl Drawer {
    /// A sampler for rows of `vocabulary` logits.
    ///
    /// # Errors
    /// [`CudaError`] if the GPU has no memory for it, or the driver fails.
    pub fn new(gpu: &Gpu, vocabulary: usize) -> Result<Self, CudaError> {
        assert!((1..1 << 23).contains(&vocabulary), "a vocabulary of {vocabulary}");
        let nothing = gpu.allocate(0)?;
        let [rows, lists, states, input, output] = [(); 5].map(|()| nothing.clone());
        Ok(Self { vocabulary, rows, lists, states, input, output, bytes: Vec::new() })
    }

    /// Samples the token of each item; `None` if no token is allowed. The logits are unchanged.
    ///
    /// # Panics
    /// If a row or a set does not exist.
    ///
    /// # Errors
    /// [`CudaError::Driver`] if the driver fails.
    pub fn draw(
        &mut self,
        gpu: &Gpu,
        logits: &Buffer,
        items: &[DrawItem<'_>],
    ) -> Result<Vec<Option<TokenId>>, CudaError> {
        if items.is_empty() {
            return Ok(Vec::new());
        }
        let size = self.vocabulary;
        let last = items.iter().map(|item| item.row).max().unwrap_or(0);
        let (steps_at, words_at) = self.set(items);
        grow(gpu, &mut self.rows, items.len() * size * 4)?;
        grow(gpu, &mut self.lists, items.len() * size * 4)?;
        grow(gpu, &mut self.states, items.len() * STATE)?;
        grow(gpu, &mut self.input, self.bytes.len())?;
        grow(gpu, &mut self.output, items.len() * 4)?;
        self.input.write(0, &self.bytes)?;
        let args = Args {
            logits: logits.numbers((last + 1) * size),
            rows: self.rows.numbers(items.len() * size),
            lists: self.lists.numbers(items.len() * size),
            states: self.states.address(),
            items: self.input.address(),
            steps: self.input.address() + steps_at as u64,
            words: self.input.address() + words_at as u64,
            tokens: self.output.numbers(items.len()),
            vocabulary: small(size),
        };
        let buffers = [logits, &self.rows, &self.lists, &self.states, &self.input, &self.output];
        // At least four tokens for each thread, which reads that many at once.
        let blocks = (AT_ONCE / items.len()).clamp(4, BLOCKS).min(size.div_ceil(4 * THREADS));
        // A row without cuts has its token after `tally`.
        let has_cuts = items.iter().flat_map(|item| item.steps.steps()).any(Step::is_cut);
        for kernel in ["edit", "tally"].into_iter().chain(has_cuts.then_some("choose")) {
            let shape = (THREADS as u32, SHARED);
            // SAFETY: the struct matches that of `draw.cuh`, all buffers have the lengths that it expects, and sets
            // refer to the words of their steps.
            unsafe { gpu.launch(kernel, [blocks, items.len(), 1], shape, &args, &buffers)? };
        }
        let mut tokens = vec![0; items.len() * 4];
        self.output.0.read(0, &mut tokens)?;
        let token = |bytes: &[u8; 4]| Some(u32::from_le_bytes(*bytes)).filter(|&token| token != u32::MAX);
        Ok(tokens.as_chunks().0.iter().map(token).collect())
    }

    /// Converts items, steps and words to bytes; returns the offsets of the latter two.
    fn set(&mut self, items: &[DrawItem<'_>]) -> (usize, usize) {
        self.bytes.clear();
        let (mut first, mut words) = (0, 0);
        for item in items {
            let DrawItem { row, steps, sampler, number } = *item;
            let (from, to) = (small(first), small(first + steps.steps().len()));
            assert!((0.0..1.0).contains(&number), "a draw by {number}");
            for part in [small(row), from, to, (sampler == Sampler::Greedy).into()] {
                self.bytes.extend(part.to_le_bytes());
            }
            self.bytes.extend(number.to_le_bytes());
            first += steps.steps().len();
        }
        let steps_at = padded(&mut self.bytes);
        for item in items {
            for step in item.steps.steps() {
                let StepArgs { kind, number, from, count } = args_of(*step, words);
                self.bytes.extend([kind, number.to_bits(), from, count].into_iter().flat_map(u32::to_le_bytes));
            }
            words += item.steps.words().len();
        }
        let words_at = padded(&mut self.bytes);
        self.bytes.extend(items.iter().flat_map(|item| item.steps.words()).flat_map(|word| word.to_le_bytes()));
        (steps_at, words_at)
    }
}

#[derive(Clone, Copy)]
struct StepArgs {
    kind: u32,
    number: f32,
    from: u32,
    count: u32,
}

/// A step with a 64-bit number, in the fields where other steps have their words.
fn exact(kind: u32, number: f64) -> StepArgs {
    let bits = number.to_bits();
    StepArgs { kind, number: 0.0, from: bits as u32, count: (bits >> 32) as u32 }
}

/// A step in the layout of the kernels; its words follow `others` words of other items.
fn args_of(step: Step, others: usize) -> StepArgs {
    let (kind, number, set) = match step {
        Step::Restrict(set) => (0, 0.0, set),
        Step::Bias(set, number) => (1, number, set),
        Step::Divide(number) => return StepArgs { kind: 2, number, from: 0, count: 0 },
        Step::Repetition(set, number) => (3, number, set),
        Step::Subtract(set) => (4, 0.0, set),
        Step::TopK(k) => {
            return StepArgs { kind: 5, number: 0.0, from: u32::try_from(k).unwrap_or(u32::MAX), count: 0 };
        }
        Step::TopP(number) => return exact(6, number),
        // The kernel compares logits.
        Step::MinP(share) => return exact(7, share.ln()),
        Step::EpsilonCutoff(epsilon) => return exact(8, epsilon.ln()),
        Step::EtaCutoff(epsilon) => return exact(9, epsilon.ln()),
        Step::TopA(factor) => return exact(10, factor.ln()),
        Step::Xtc(threshold) => return exact(11, threshold.ln()),
        Step::TypicalP(mass) => return exact(12, mass),
    };
    StepArgs { kind, number, from: small(others + set.from), count: small(set.count) }
}

fn grow(gpu: &Gpu, buffer: &mut Buffer, bytes: usize) -> Result<(), CudaError> {
    if buffer.len() < bytes {
        *buffer = gpu.allocate(bytes.next_power_of_two())?;
    }
    Ok(())
}
