//! How many tokens to draft for a call of the target model, which of them side by side, and in which way of several.
//!
//! With `a(d, r)` the chance that, of the drafts of a token at depth `d`, the one of rank `r` stands where all before
//! it did, a tree gives
//!
//! ```text
//! E = 1 + sum over its nodes of the product of a(d, r) over the path to the node
//! ```
//!
//! tokens for `v(m + 1) + d c` seconds, where `v` is a call with so many rows, `m` the number of nodes, `d` the depth
//! of the tree and `c` a level of drafts (Leviathan, Kalman and Matias 2023, section 3.3, with measured costs and a
//! rate for each place). A tree grows by the most probable node that can be added, which is the best tree of each size
//! where places are independent (Cai et al., *Medusa*, section 2.3.3; Li et al., *EAGLE-2*), and the best size may be
//! 0, which is plain decoding. Of several ways to draft the one is taken whose best tree gives most tokens a second.
//!
//! A drafter that has not read the text must read it first. That is paid once and gains as long as the text goes on, so
//! it is spread over the tokens that are still to be expected: no more than the limit of the text, and no more than
//! texts have had on the mean.

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

/// How many drafts to ask for.
#[doc(alias = "num_assistant_tokens")]
#[doc(alias = "num_speculative_tokens")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DraftLength {
    /// As many as pay, from what acceptance and time are measured to be while the text is written; none where
    /// drafting does not pay.
    Auto,
    /// This many for each call, one after the other; [`MAX_NODES`] where it is more.
    Fixed(usize),
    /// A tree of this shape for each call.
    Tree(TreeShape),
}

impl DraftLength {
    /// The most drafts of one call.
    pub fn most(self) -> usize {
        match self {
            Self::Auto => MAX_AUTO,
            Self::Fixed(length) => length.min(MAX_NODES),
            Self::Tree(shape) => shape.len(),
        }
    }
}

/// Drafting must promise this much more speed than plain decoding, for times are never quite what they were.
const MARGIN: f64 = 1.05;

/// Where in a text a call is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    /// The most tokens that are still to be written.
    pub(crate) left: usize,
    /// For each way, how many tokens are to be read before a draft.
    pub(crate) unread: [usize; WAYS],
}

/// How one call went.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call<'a> {
    /// Drafts that the target read.
    pub(crate) read: usize,
    /// Whether it read nothing else that was new, but the last token of the text.
    pub(crate) is_usual: bool,
    /// The depth of what was drafted.
    pub(crate) depth: usize,
    /// How many tokens were read before that.
    pub(crate) unread: usize,
    pub(crate) judged: &'a [Judged],
    pub(crate) drafting: Duration,
    pub(crate) verifying: Duration,
}

/// What drafting cost and gained in earlier texts, for those to come. Without it each text finds out anew what pays,
/// for which its first calls are spent. It is for texts of one model and one drafter, one at a time: what a call costs
/// that several share is another matter. Copies are one memory.
#[derive(Clone, Debug, Default)]
pub struct DraftMemory(Arc<Mutex<Option<Learned>>>);

/// Chooses a shape for each call from how those before it went.
///
/// The choice rests on the text so far and on time, never on a draft that is not decided yet.
#[derive(Debug)]
pub(crate) struct Chooser {
    length: DraftLength,
    /// The most children of a node.
    ranks: usize,
    learned: Learned,
    /// Where that is kept for the next text.
    memory: Option<DraftMemory>,
    /// Tokens of this text.
    written: usize,
    /// Whether the last call had no drafts: one between drafts takes longer than one among its like.
    is_plain: bool,
}

#[derive(Clone, Debug, Default)]
struct Learned {
    /// Seconds for a call, by the drafts that it read.
    verifying: [Option<f64>; MAX_AUTO + 1],
    /// The mean length of texts.
    length: Option<f64>,
    ways: [Way; WAYS],
}

impl Chooser {
    /// For a drafter that gives a node so many children at most.
    pub(crate) fn new(length: DraftLength, most_children: usize) -> Self {
        let ranks = most_children.clamp(1, MAX_RANKS);
        Self { length, ranks, learned: Learned::default(), memory: None, written: 0, is_plain: false }
    }

    /// Goes on from what earlier texts have taught, and keeps it for the next one; to be called before the first call.
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

    /// In which of some ways to draft for the next call, and what.
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

    /// Takes in how a call went whose drafts were made in a way.
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

    /// The seconds of a call with so many drafts, on a line through what has been measured.
    fn verifying(&self, drafts: usize) -> Option<f64> {
        if let Some(known) = self.learned.verifying[drafts] {
            return Some(known);
        }
        let known = |range: std::ops::Range<usize>| range.filter_map(|i| Some((i as f64, self.learned.verifying[i]?)));
        let below = known(0..drafts).next_back()?;
        let (from, to) = match known(drafts + 1..MAX_AUTO + 1).next() {
            Some(above) => (below, above),
            // Past what has been measured the line goes on as from the first point to the last.
            None => (known(0..drafts).next()?, below),
        };
        let slope = if to.0 > from.0 { ((to.1 - from.1) / (to.0 - from.0)).max(0.0) } else { from.1 };
        Some(from.1 + slope * (drafts as f64 - from.0))
    }

    /// The shape with the most tokens a second in a way, and how many; 0 where nothing is drafted. Each token takes so
    /// many seconds more.
    fn solve(&self, way: usize, more: f64) -> (TreeShape, f64) {
        let known = (self.verifying(0), self.learned.ways[way].drafting);
        let (Some(plain), Some(drafting)) = known else { return (TreeShape::EMPTY, 0.0) };
        let rates = self.learned.ways[way].rates(self.ranks);
        let (mut best, mut best_speed) = (TreeShape::EMPTY, MARGIN / plain);
        let (mut shape, mut expected) = (TreeShape::EMPTY, 1.0);
        // What can be added: a node after a parent, with its rank, and how often it and its parent stand.
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
