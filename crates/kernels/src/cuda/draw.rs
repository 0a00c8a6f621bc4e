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
    items: u64,
    steps: u64,
    words: u64,
    taken: u64,
    tokens: u64,
    vocabulary: u32,
    fresh: u32,
}

/// Threads of a block, which has a row to itself, and the bytes that they share, as in `draw.cu`.
const THREADS: u32 = 512;
const SHARED: usize = 256 * 8 + 16 * 8 + 16 * 4 + 8 + 8;

/// Samples tokens, in memory that is reused.
#[derive(Debug)]
pub struct Drawer {
    vocabulary: usize,
    rows: Buffer,
    /// Items, steps and words.
    input: Buffer,
    /// The index of the next step of each item, then tokens.
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
        let (rows, input, output) = (nothing.clone(), nothing.clone(), nothing);
        Ok(Self { vocabulary, rows, input, output, bytes: Vec::new() })
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
        grow(gpu, &mut self.input, self.bytes.len())?;
        grow(gpu, &mut self.output, items.len() * 8)?;
        self.input.write(0, &self.bytes)?;
        let args = Args {
            logits: logits.numbers((last + 1) * size),
            rows: self.rows.numbers(items.len() * size),
            items: self.input.address(),
            steps: self.input.address() + steps_at as u64,
            words: self.input.address() + words_at as u64,
            taken: self.output.address(),
            tokens: self.output.address() + items.len() as u64 * 4,
            vocabulary: small(size),
            fresh: 1,
        };
        let buffers = [logits, &self.rows, &self.input, &self.output];
        let rounds = items.iter().map(|item| rounds(item.steps.steps())).max().unwrap_or(1);
        for round in 0..rounds {
            let args = Args { fresh: (round == 0).into(), ..args };
            let grid = [size.div_ceil(256), items.len(), 1];
            // SAFETY: the struct matches that of `draw.cu`, all buffers have the lengths that it expects, and sets
            // refer to the words of their steps; also below.
            unsafe { gpu.launch("edit", grid, (256, 0), &args, &buffers)? };
            // SAFETY: as above.
            unsafe { gpu.launch("cut", [items.len(), 1, 1], (THREADS, SHARED), &args, &buffers)? };
        }
        // SAFETY: as above.
        unsafe { gpu.launch("choose", [items.len(), 1, 1], (THREADS, SHARED), &args, &buffers)? };
        let mut tokens = vec![0; items.len() * 4];
        self.output.0.read(items.len() * 4, &mut tokens)?;
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
    };
    StepArgs { kind, number, from: small(others + set.from), count: small(set.count) }
}

/// The number of rounds of edits followed by cuts until no step is left: at least one.
fn rounds(steps: &[Step]) -> usize {
    let is_cut = |step: &Step| matches!(step, Step::TopK(_) | Step::TopP(_) | Step::MinP(_));
    // Each round after the first begins with an edit that follows a cut.
    1 + steps.windows(2).filter(|pair| is_cut(&pair[0]) && !is_cut(&pair[1])).count()
}

fn grow(gpu: &Gpu, buffer: &mut Buffer, bytes: usize) -> Result<(), CudaError> {
    if buffer.len() < bytes {
        *buffer = gpu.allocate(bytes.next_power_of_two())?;
    }
    Ok(())
}
