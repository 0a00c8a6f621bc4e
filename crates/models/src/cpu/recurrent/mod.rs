//! Layers with a state of fixed size, and the states of a sequence.
//!
//! A state cannot be cut back, so a sequence has two of each layer: `base`, and `now` after the last batch. For the
//! tokens between the two it keeps what each added (see [`recur`]): from `base`, any of them is reached again with the
//! same bits, which costs no product with a weight. That makes it cheap to reject drafts, and to keep one branch of a
//! tree. To go back further, the tokens after the last snapshot are read again. A fork for later texts has one state of
//! each layer, and none if its tokens must be read again.
//!
//! | module | holds |
//! |---|---|
//! | `convolution` | causal convolutions, also over a tree |
//! | `mixers` | the layers: gated convolution, gated delta net, Mamba-2 |
//! | `saved` | states as bytes |

mod convolution;
mod mixers;
mod saved;

use std::sync::Arc;

use verdigris_kernels::{Recurrence, RecurrentHeads, Step, recur};
use verdigris_logits::TokenId;

use crate::description::config::{DecoderConfig, Mixer};
use crate::language_model::Batch;
use convolution::Window;
pub(super) use mixers::{RecurrentWork, StatefulText, mix};

/// The most tokens of a chain whose additions are kept. Drafts are shorter.
const KEPT: usize = 32;

/// The length of the first snapshot. Each further one is at least twice as long.
const FIRST_SNAPSHOT: usize = 512;

/// More than any number of tokens.
const NEVER: usize = usize::MAX;

/// The states of a sequence.
#[derive(Clone, Debug, Default)]
pub(super) struct Recurrent {
    /// By layer; `None` for layers with keys and values.
    layers: Vec<Option<Memory>>,
    /// The number of tokens before `base`.
    base: usize,
    /// The number of tokens before `now`, unless the last batch was a tree.
    now: Option<usize>,
    /// The kept tokens after `base`, each an index of the additions.
    kept: Vec<usize>,
    /// All tokens, to read them again.
    tokens: Vec<TokenId>,
    snapshots: Vec<Snapshot>,
}

/// The states after some tokens.
#[derive(Clone, Debug)]
struct Snapshot {
    length: usize,
    states: Vec<Option<Arc<LayerState>>>,
}

/// The state of a layer; empty where its tokens must be read again.
#[derive(Clone, Debug, Default)]
struct LayerState {
    /// The last inputs of the convolution: `(taps - 1) x columns`.
    history: Vec<f32>,
    /// The matrices of all heads.
    matrices: Vec<f32>,
}

/// The states of a layer of a sequence, and what the tokens after `base` added.
#[derive(Clone, Debug)]
struct Memory {
    shape: Shape,
    base: Arc<LayerState>,
    now: Arc<LayerState>,
    additions: Additions,
}

/// The shape of a layer's state.
#[derive(Clone, Copy, Debug)]
struct Shape {
    taps: usize,
    columns: usize,
    /// The heads with a matrix, and whether they follow the delta rule.
    heads: Option<(RecurrentHeads, bool)>,
}

/// The additions of some tokens to a state.
#[derive(Clone, Debug, Default)]
struct Additions {
    /// The inputs of the convolution: `m x columns`.
    rows: Vec<f32>,
    key: Vec<f32>,
    decay: Vec<f32>,
    /// `heads x m x value_dim`.
    added: Vec<f32>,
}

impl Shape {
    fn of(mixer: &Mixer, width: usize) -> Option<Self> {
        Some(match mixer {
            Mixer::Attention(_) | Mixer::Latent(_) => return None,
            Mixer::Convolution(of) => Self { taps: of.taps, columns: width, heads: None },
            Mixer::DeltaNet(of) => Self { taps: of.taps, columns: of.columns(), heads: Some((of.heads, true)) },
            Mixer::Mamba(of) => Self { taps: of.taps, columns: of.columns(), heads: Some((of.heads, false)) },
        })
    }

    fn zero(&self) -> LayerState {
        let matrices = self.heads.map_or(0, |(heads, _)| heads.state());
        LayerState { history: vec![0.0; (self.taps - 1) * self.columns], matrices: vec![0.0; matrices] }
    }

    /// Whether a state has its memory.
    fn fits(&self, state: &LayerState) -> bool {
        let matrices = self.heads.map_or(0, |(heads, _)| heads.state());
        state.history.len() == (self.taps - 1) * self.columns && state.matrices.len() == matrices
    }
}

impl Recurrent {
    /// The states before the first token.
    pub(super) fn new(config: &DecoderConfig) -> Self {
        if !config.is_recurrent() {
            return Self::default();
        }
        let memory = |shape: Shape| {
            let zero = Arc::new(shape.zero());
            Memory { shape, base: zero.clone(), now: zero, additions: Additions::default() }
        };
        let layers = config.blocks.iter().map(|block| Shape::of(&block.mixer, config.width).map(memory)).collect();
        Self { layers, ..Self::default() }
    }

    fn is_empty(&self) -> bool {
        self.layers.is_empty()
    }

    /// Whether tokens must be read again before a sequence that was cut back to `length` can continue.
    pub(super) fn must_read_again(&self, length: usize) -> bool {
        !self.is_empty() && self.base > length
    }

    /// The tokens that must be read again before a sequence that was cut back to `length` can continue; the states are
    /// those before them.
    pub(super) fn tokens_to_read_again(&mut self, length: usize) -> Option<Vec<TokenId>> {
        if !self.must_read_again(length) {
            return None;
        }
        self.snapshots.retain(|snapshot| snapshot.length <= length);
        let from = match self.snapshots.last() {
            Some(Snapshot { length, states }) => {
                for (memory, state) in self.layers.iter_mut().flatten().zip(states.iter().flatten()) {
                    memory.base = state.clone();
                }
                *length
            }
            None => {
                self.layers.iter_mut().flatten().for_each(|memory| memory.base = Arc::new(memory.shape.zero()));
                0
            }
        };
        (self.base, self.now) = (from, None);
        self.kept.clear();
        let tokens = self.tokens[from..length].to_vec();
        self.tokens.truncate(from);
        Some(tokens)
    }

    /// Drops all states but those of snapshots: see [`Sequence::forget_states`](crate::Sequence::forget_states).
    pub(super) fn forget(&mut self) {
        if self.is_empty() {
            return;
        }
        self.kept.clear();
        (self.base, self.now) = (NEVER, None);
        for Memory { base, now, additions, .. } in self.layers.iter_mut().flatten() {
            (*base, *now, *additions) = (Arc::default(), Arc::default(), Additions::default());
        }
    }

    /// Keeps some of the tokens after the first `from`: see [`Sequence::keep`](crate::Sequence::keep).
    pub(super) fn keep(&mut self, from: usize, path: &[usize]) {
        if self.is_empty() {
            return;
        }
        let path_of = |first: usize| path.iter().map(move |at| first + at);
        self.tokens = self.tokens[..from].iter().copied().chain(path_of(from).map(|at| self.tokens[at])).collect();
        if let Some(first) = from.checked_sub(self.base) {
            self.kept = self.kept[..first].iter().copied().chain(path_of(first).map(|at| self.kept[at])).collect();
            let is_chain = path.iter().enumerate().all(|(i, at)| i == *at);
            // Otherwise `now` has read what was cut off.
            self.now = self.now.filter(|now| is_chain && *now == from + path.len());
        }
    }

    /// The states after the first `length` tokens, if they can be reached, and no others: see
    /// [`Sequence::fork_at`](crate::Sequence::fork_at).
    pub(super) fn fork_at(&self, length: usize) -> Self {
        let Self { layers, base, now, kept, tokens, snapshots } = self;
        if self.is_empty() {
            return Self::default();
        }
        let after = length.checked_sub(*base);
        let of_layer = |memory: &Memory| {
            let state = match after {
                _ if *now == Some(length) => memory.now.clone(),
                Some(0) => memory.base.clone(),
                Some(after) => {
                    let mut own = memory.clone();
                    own.replay(&kept[..after]);
                    own.base
                }
                None => Arc::default(),
            };
            Memory { shape: memory.shape, base: state.clone(), now: state, additions: Additions::default() }
        };
        Self {
            layers: layers.iter().map(|memory| memory.as_ref().map(of_layer)).collect(),
            // Past `length` if the tokens must be read again.
            base: after.map_or(*base, |_| length),
            now: after.map(|_| length),
            kept: Vec::new(),
            tokens: tokens[..length].to_vec(),
            snapshots: snapshots.iter().filter(|snapshot| snapshot.length <= length).cloned().collect(),
        }
    }

    /// Counts the tokens of a batch that all layers have taken after `length` others.
    pub(super) fn count(&mut self, length: usize, batch: &Batch<'_>) {
        if self.is_empty() {
            return;
        }
        let (m, kept, is_tree) = (batch.tokens.len(), kept(batch), batch.parents.is_some());
        self.tokens.truncate(length);
        self.tokens.extend_from_slice(batch.tokens);
        (self.base, self.now) = (length + m - kept, (!is_tree).then_some(length + m));
        self.kept.clear();
        self.kept.extend(0..kept);
        let due = self.snapshots.last().map_or(FIRST_SNAPSHOT, |last| 2 * last.length);
        if self.base >= due {
            let states = self.layers.iter().map(|memory| memory.as_ref().map(|memory| memory.base.clone())).collect();
            self.snapshots.push(Snapshot { length: self.base, states });
        }
    }

    /// The memory of a layer, with `base` at `length`, which is not before it.
    fn at(&mut self, layer: usize, length: usize) -> &mut Memory {
        let Self { layers, base, now, kept, .. } = self;
        let memory = layers[layer].as_mut().expect("a layer with a state");
        if *now == Some(length) {
            std::mem::swap(&mut memory.base, &mut memory.now);
        } else {
            memory.replay(&kept[..length - *base]);
        }
        memory
    }
}

impl Memory {
    /// Takes `base` to the last of some of the kept tokens.
    fn replay(&mut self, kept: &[usize]) {
        if kept.is_empty() {
            return;
        }
        let Self { shape, base, additions: Additions { rows, key, decay, added }, .. } = self;
        let base = Arc::make_mut(base);
        base.history =
            Window { history: &base.history, rows, columns: shape.columns }.history_after(kept.iter().copied());
        if let Some((heads, is_delta)) = shape.heads {
            let steps: Vec<Step> = kept.iter().map(|&at| Step::Replay(at)).collect();
            recur(&Recurrence { heads, is_delta, key, decay }, None, &steps, &[], &mut base.matrices, added, &mut []);
        }
    }
}

/// The number of a batch's tokens whose additions are kept.
fn kept(batch: &Batch<'_>) -> usize {
    let m = batch.tokens.len();
    if batch.parents.is_some() { m } else { m.min(KEPT) }
}

/// The steps of a tree: each token continues from its parent.
fn steps_of_tree(parents: &[Option<usize>]) -> Vec<Step> {
    let mut steps = vec![Step::Restart];
    let mut last = None;
    for (at, &parent) in parents.iter().enumerate() {
        if parent != last {
            let mut path: Vec<usize> = std::iter::successors(parent, |&at| parents[at]).collect();
            path.reverse();
            steps.push(Step::Restart);
            steps.extend(path.into_iter().map(Step::Replay));
        }
        steps.push(Step::Run(at));
        last = Some(at);
    }
    steps
}
