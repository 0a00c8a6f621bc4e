//! The number of tokens to draft for a call of the target model, their arrangement as a tree, and the choice between
//! several ways of drafting.
//!
//! Let `a(d, r)` be the probability that, among the drafts of a token at depth `d`, the one of rank `r` is accepted
//! given that all drafts before it on its path were. A tree then yields
//!
//! ```text
//! E = 1 + sum over its nodes of the product of a(d, r) over the path to the node
//! ```
//!
//! tokens in `v(m + 1) + d c` seconds, where `v(n)` is the cost of a call with `n` rows, `m` the number of nodes, `d`
//! the depth of the tree and `c` the cost of a level of drafts (Leviathan, Kalman and Matias 2023, section 3.3, with
//! measured costs and a rate for each depth and rank). A tree grows by the most probable node that can be added, which
//! gives the best tree of each size if depths and ranks are independent (Cai et al., *Medusa*, section 2.3.3; Li et
//! al., *EAGLE-2*). The best size may be 0, which is plain decoding. Of several ways of drafting, the one whose best
//! tree yields the most tokens per second is taken.
//!
//! A drafter that has not read the text must read it first. That cost is paid once and pays off for the rest of the
//! text, so it is spread over the number of tokens still expected: at most the limit of the text, and at most the mean
//! length of texts so far.

mod way;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::drafter::WAYS;
use crate::tree::{MAX_NODES, TreeShape};

pub(crate) use way::Judged;
pub use way::MAX_AUTO;
#[cfg(test)]
pub(crate) use way::TRIALS;
use way::{MAX_RANKS, Way, blend};

/// The number of drafts to ask for.
#[doc(alias = "num_assistant_tokens")]
#[doc(alias = "num_speculative_tokens")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DraftLength {
    /// As many as pay off, from the acceptance and the times measured while the text is written; none if drafting does
    /// not pay off.
    Auto,
    /// A chain of this length for each call, at most [`MAX_NODES`].
    Fixed(usize),
    /// A tree of this shape for each call.
    Tree(TreeShape),
}

impl DraftLength {
    /// The maximum number of drafts of one call.
    pub fn most(self) -> usize {
        match self {
            Self::Auto => MAX_AUTO,
            Self::Fixed(length) => length.min(MAX_NODES),
            Self::Tree(shape) => shape.len(),
        }
    }
}

/// The speed, relative to plain decoding, that drafting must promise: measured times are never exact.
const MARGIN: f64 = 1.05;

/// The position of a call in its text.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    /// The maximum number of tokens still to be written.
    pub(crate) left: usize,
    /// For each way of drafting, the number of tokens to read before a draft.
    pub(crate) unread: [usize; WAYS],
}

/// The result of one call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call<'a> {
    /// Drafts that the target read.
    pub(crate) read: usize,
    /// Whether the only other new token that it read was the last token of the text.
    pub(crate) is_usual: bool,
    /// The depth of the drafts.
    pub(crate) depth: usize,
    /// The number of tokens read before drafting.
    pub(crate) unread: usize,
    pub(crate) judged: &'a [Judged],
    pub(crate) drafting: Duration,
    pub(crate) verifying: Duration,
}

/// The costs and gains of drafting in earlier texts, for later ones. Without it, each text spends its first calls on
/// finding out what pays off. Valid for texts of one model and one drafter, written one at a time: calls shared by
/// several texts cost differently. Clones share one memory.
#[derive(Clone, Debug, Default)]
pub struct DraftMemory(Arc<Mutex<Option<Learned>>>);

/// Chooses a shape for each call from the results of earlier calls.
///
/// The choice depends on the text so far and on times, never on a draft that is still undecided.
#[derive(Debug)]
pub(crate) struct Chooser {
    length: DraftLength,
    /// The maximum number of children of a node.
    ranks: usize,
    learned: Learned,
    /// The memory that keeps `learned` for the next text.
    memory: Option<DraftMemory>,
    /// The number of tokens of this text.
    written: usize,
    /// Whether the last call had no drafts. A plain call after a call with drafts takes longer than after another plain
    /// call.
    is_plain: bool,
}

#[derive(Clone, Debug, Default)]
struct Learned {
    /// Seconds of a call, by the number of drafts that it read.
    verifying: [Option<f64>; MAX_AUTO + 1],
    /// The mean length of texts.
    length: Option<f64>,
    ways: [Way; WAYS],
}

impl Chooser {
    /// A chooser for a drafter that gives a node at most `most_children` children.
    pub(crate) fn new(length: DraftLength, most_children: usize) -> Self {
        let ranks = most_children.clamp(1, MAX_RANKS);
        Self { length, ranks, learned: Learned::default(), memory: None, written: 0, is_plain: false }
    }

    /// Starts from what earlier texts have learned, and saves to it for the next one. Must be called before the first
    /// call.
    pub(crate) fn remembering(mut self, memory: &DraftMemory) -> Self {
        if self.length != DraftLength::Auto {
            return self;
        }
        if let Some(learned) = &*memory.0.lock().unwrap_or_else(PoisonError::into_inner) {
            self.learned = learned.clone();
            self.learned.ways.iter_mut().for_each(Way::begin_text);
        }
        self.memory = Some(memory.clone());
        self
    }

    /// Chooses one of `ways` of drafting for the next call, and the shape of the drafts.
    pub(crate) fn choose(&mut self, ways: &[usize], place: Place) -> (usize, TreeShape) {
        match self.length {
            DraftLength::Auto => self.promising(ways, place),
            DraftLength::Fixed(length) => (ways[0], TreeShape::chain(length)),
            DraftLength::Tree(shape) => (ways[0], shape),
        }
    }

    fn promising(&mut self, ways: &[usize], place: Place) -> (usize, TreeShape) {
        let is_plain_known = self.learned.verifying[0].is_some();
        for &number in ways {
            if let Some(trial) = self.learned.ways[number].trial(is_plain_known) {
                return (number, TreeShape::chain(trial));
            }
        }
        let mut best = (ways[0], TreeShape::EMPTY, 0.0);
        let left = self.learned.length.unwrap_or(f64::INFINITY).min(place.left as f64).max(1.0);
        for &number in ways {
            let (shape, speed) = self.solve(number, self.learned.ways[number].entry(place.unread[number]) / left);
            if speed > best.2 {
                best = (number, shape, speed);
            }
        }
        let (chosen, shape, _) = best;
        let mut experiment = None;
        let plain = self.learned.verifying[0];
        for &number in ways {
            let way = &mut self.learned.ways[number];
            let best = if number == chosen { shape } else { TreeShape::EMPTY };
            let entry = plain.map_or(0.0, |plain| way.entry(place.unread[number]) / plain);
            experiment = experiment.or(way.experiment(best, self.ranks, entry).map(|shape| (number, shape)));
        }
        experiment.unwrap_or((chosen, shape))
    }

    /// Records the result of a call whose drafts were made in the given way.
    pub(crate) fn observe(&mut self, way: usize, call: Call<'_>) {
        if self.length != DraftLength::Auto {
            return;
        }
        let stood = call.judged.iter().filter(|judged| judged.stood).count();
        self.written += stood + 1;
        let way = &mut self.learned.ways[way];
        way.count(call.judged);
        if call.depth > 0 {
            if stood == call.depth {
                way.all_stood();
            }
            way.took(call.drafting.as_secs_f64(), call.depth, call.unread);
        }
        let was_plain = std::mem::replace(&mut self.is_plain, call.depth == 0);
        // A call that read a prompt says nothing about one that did not.
        if call.is_usual
            && let Some(known) = self.learned.verifying.get_mut(call.read)
            && (call.depth > 0 || was_plain || known.is_none())
        {
            blend(known, call.verifying.as_secs_f64());
        }
    }

    /// The seconds of a call with `drafts` drafts, interpolated linearly between measurements.
    fn verifying(&self, drafts: usize) -> Option<f64> {
        if let Some(known) = self.learned.verifying[drafts] {
            return Some(known);
        }
        let known = |range: std::ops::Range<usize>| range.filter_map(|i| Some((i as f64, self.learned.verifying[i]?)));
        let below = known(0..drafts).next_back()?;
        let (from, to) = match known(drafts + 1..MAX_AUTO + 1).next() {
            Some(above) => (below, above),
            // Past the last measurement, extend the line from the first measurement to the last.
            None => (known(0..drafts).next()?, below),
        };
        let slope = if to.0 > from.0 { ((to.1 - from.1) / (to.0 - from.0)).max(0.0) } else { from.1 };
        Some(from.1 + slope * (drafts as f64 - from.0))
    }

    /// The shape with the most tokens per second for a way of drafting, and that speed, or 0 if drafting does not pay
    /// off. `more` is added to the seconds of each token.
    fn solve(&self, way: usize, more: f64) -> (TreeShape, f64) {
        let known = (self.verifying(0), self.learned.ways[way].drafting);
        let (Some(plain), Some(drafting)) = known else { return (TreeShape::EMPTY, 0.0) };
        let rates = self.learned.ways[way].rates(self.ranks);
        let (mut best, mut best_speed) = (TreeShape::EMPTY, MARGIN / plain);
        let (mut shape, mut expected) = (TreeShape::EMPTY, 1.0);
        // The nodes that can be added: the probability that the node is accepted, its parent, its rank, and the
        // probability that its parent is.
        let mut open = vec![(rates[0][0], None, 0, 1.0)];
        while shape.len() < MAX_AUTO {
            let likeliest = (0..open.len()).max_by(|&a, &b| open[a].0.total_cmp(&open[b].0));
            let Some((reach, parent, rank, of_parent)) = likeliest.map(|at| open.swap_remove(at)) else { break };
            shape = shape.with(parent);
            expected += reach;
            let (node, depth) = (shape.len() - 1, shape.depth_of(shape.len() - 1));
            if depth < MAX_AUTO {
                open.push((reach * rates[depth][0], Some(node), 0, reach));
            }
            if rank + 1 < self.ranks {
                open.push((of_parent * rates[depth - 1][rank + 1], parent, rank + 1, of_parent));
            }
            let Some(verifying) = self.verifying(shape.len()) else { break };
            let speed = expected / (verifying + shape.depth() as f64 * drafting + expected * more);
            if speed > best_speed {
                (best, best_speed) = (shape, speed);
            }
        }
        (best, if best.is_empty() { 0.0 } else { best_speed })
    }
}

impl Drop for Chooser {
    fn drop(&mut self) {
        if let Some(memory) = &self.memory {
            if self.written > 0 {
                blend(&mut self.learned.length, self.written as f64);
            }
            *memory.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(std::mem::take(&mut self.learned));
        }
    }
}

#[cfg(test)]
mod tests;
