//! How many tokens to draft for a call of the target model, which of them side by side, and in which way of several.
//!
//! With `a(d, r)` the chance that, of the drafts of a token at depth `d`, the one of rank `r` stands where all before it
//! did, a tree gives
//!
//! ```text
//! E = 1 + sum over its nodes of the product of a(d, r) over the path to the node
//! ```
//!
//! tokens for `v(m + 1) + d c` seconds, where `v` is a call with so many rows, `m` the number of nodes, `d` the depth of
//! the tree and `c` a level of drafts (Leviathan, Kalman and Matias 2023, section 3.3, with measured costs and a rate for
//! each place). A tree grows by the most probable node that can be added, which is the best tree of each size where
//! places are independent (Cai et al., *Medusa*, section 2.3.3; Li et al., *EAGLE-2*), and the best size may be 0, which
//! is plain decoding. Of several ways to draft the one is taken whose best tree gives most tokens a second.
//!
//! A drafter that has not read the text must read it first. That is paid once and gains as long as the text goes on, so
//! it is spread over the tokens that are still to be expected: no more than the limit of the text, and no more than
//! texts have had on the mean.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::drafter::WAYS;
use crate::tree::{MAX_NODES, TreeShape};

/// How many drafts to ask for.
#[doc(alias = "num_assistant_tokens")]
#[doc(alias = "num_speculative_tokens")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DraftLength {
    /// As many as pay, from what acceptance and time are measured to be while the text is written; none where
    /// drafting does not pay.
    Auto,
    /// This many for each call, one after the other.
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

/// The most drafts that [`DraftLength::Auto`] asks for, side by side or one after the other.
pub const MAX_AUTO: usize = 16;

/// Drafting must promise this much more speed than plain decoding, for times are never quite what they were.
const MARGIN: f64 = 1.05;

/// How much a new measurement of time counts.
const FRESH: f64 = 0.2;

/// How much of a count is left after each new one.
const KEPT: f64 = 0.95;

/// How many drafts the rate of the place before counts for.
const PRIOR: f64 = 2.0;

/// For how many drafts all of those of earlier texts count.
const REMEMBERED: f64 = 8.0;

/// A draft of which nothing is known is taken to stand so often as the one of the rank before.
const NEXT_RANK: f64 = 0.3;

/// The most drafts of one token that are told apart.
const MAX_RANKS: usize = 4;

/// The lengths of the first calls, so that there is something to compare.
pub(crate) const TRIALS: [usize; 5] = [0, 0, 3, 0, 2];

/// The same for another way of drafting, when plain decoding is known.
const MORE_TRIALS: [usize; 2] = [3, 2];

/// The same after an experiment without drafts.
const PLAIN_AGAIN: [usize; 1] = [0];

/// The first experiment comes after so many calls; each that changes nothing doubles the time to the next.
const FIRST_EXPERIMENT: usize = 128;

/// Of the time since the last experiment, what may be spent on reading for the next one.
const FOR_EXPERIMENTS: f64 = 0.02;

/// With more tokens to read than these, a draft tells what reading costs, and with fewer what drafting does.
const MANY: usize = 16;

/// A draft that was decided, for it followed the text or drafts that stood.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Judged {
    /// The number of drafts above it.
    pub(crate) above: usize,
    /// The number of siblings before it.
    pub(crate) rank: usize,
    pub(crate) stood: bool,
}

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

/// What drafting cost and gained in earlier texts, for those to come. Without it each text finds out anew what pays, for
/// which its first calls are spent. It is for texts of one model and one drafter, one at a time: what a call costs that
/// several share is another matter. Copies are one memory.
#[derive(Clone, Debug, Default)]
pub struct DraftMemory(Arc<Mutex<Option<Learned>>>);

/// What is known of a place.
#[derive(Clone, Copy, Debug, Default)]
struct Rate {
    tried: f64,
    stood: f64,
}

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

/// What is known of a way of drafting, and tried.
#[derive(Clone, Debug)]
struct Way {
    /// The lengths of its first calls that are still to come.
    trials: &'static [usize],
    /// By depth and rank.
    rates: [[Rate; MAX_RANKS]; MAX_AUTO],
    /// Seconds for a level of drafts.
    drafting: Option<f64>,
    /// Whether that is what a draft took that read many tokens.
    is_rough: bool,
    /// Seconds for a token that is read before a draft.
    reading: Option<f64>,
    /// Calls in which it could draft, and had no trials to make.
    calls: usize,
    last_experiment: usize,
    next_experiment: usize,
    wait: usize,
    /// What it last drafted where it promised most of all ways, and nothing where it did not.
    best: TreeShape,
}

impl Default for Way {
    fn default() -> Self {
        Self {
            trials: &TRIALS,
            rates: Default::default(),
            drafting: None,
            is_rough: false,
            reading: None,
            calls: 0,
            last_experiment: 0,
            next_experiment: FIRST_EXPERIMENT,
            wait: FIRST_EXPERIMENT,
            best: TreeShape::EMPTY,
        }
    }
}

impl Way {
    /// Goes on in another text, where drafts may stand more or less often.
    fn begin_text(&mut self) {
        for rate in self.rates.iter_mut().flatten().filter(|rate| rate.tried > REMEMBERED) {
            (rate.tried, rate.stood) = (REMEMBERED, REMEMBERED * rate.stood / rate.tried);
        }
    }

    /// The seconds for which it would read so many tokens; 0 as long as nothing is known of that.
    fn entry(&self, unread: usize) -> f64 {
        unread as f64 * self.reading.unwrap_or(0.0)
    }

    /// Counts a call for which this is best; at times it asks for something else than that. To draft would take so many
    /// seconds of reading before, as multiples of a plain call.
    fn experiment(&mut self, best: TreeShape, ranks: usize, entry: f64) -> Option<TreeShape> {
        if best.is_empty() != self.best.is_empty() {
            self.wait = FIRST_EXPERIMENT;
            self.next_experiment = self.next_experiment.min(self.calls + self.wait);
        }
        self.best = best;
        let since = self.calls - self.last_experiment;
        let is_due = self.calls >= self.next_experiment && entry <= FOR_EXPERIMENTS * since as f64;
        self.calls += 1;
        if !is_due {
            return None;
        }
        self.last_experiment = self.calls;
        self.wait = (2 * self.wait).min(1024);
        self.next_experiment = self.calls + self.wait;
        // A little drafting for one who does without, plain decoding for others, or drafts side by side for those who
        // have not met any.
        let is_narrow = ranks > 1 && self.rates.iter().all(|ranks| ranks[1].tried < PRIOR);
        Some(match (best.is_empty(), is_narrow) {
            (true, _) => TreeShape::chain(3),
            (false, true) => TreeShape::levels(&[2, 1, 1]),
            (false, false) => {
                // The second of two plain calls tells what they cost.
                self.trials = &PLAIN_AGAIN;
                TreeShape::EMPTY
            }
        })
    }

    /// Takes in the seconds that so many levels of drafts took, with the tokens that were read before.
    fn took(&mut self, seconds: f64, depth: usize, unread: usize) {
        let levels = depth as f64;
        if unread > MANY {
            let drafting = if self.is_rough { 0.0 } else { levels * self.drafting.unwrap_or(0.0) };
            blend(&mut self.reading, (seconds - drafting).max(0.0) / unread as f64);
            if self.drafting.is_none() {
                (self.drafting, self.is_rough) = (Some(seconds / levels), true);
            }
            return;
        }
        let each = (seconds - self.entry(unread)).max(0.0) / levels;
        match std::mem::take(&mut self.is_rough) {
            true => self.drafting = Some(each),
            false => blend(&mut self.drafting, each),
        }
    }
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
            let way = &mut self.learned.ways[number];
            if is_plain_known && way.trials.len() == TRIALS.len() {
                way.trials = &MORE_TRIALS;
            }
            if let Some((&trial, later)) = way.trials.split_first() {
                way.trials = later;
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
        for judged in call.judged.iter().filter(|judged| judged.above < MAX_AUTO && judged.rank < MAX_RANKS) {
            let rate = &mut way.rates[judged.above][judged.rank];
            rate.tried = rate.tried * KEPT + 1.0;
            rate.stood = rate.stood * KEPT + f64::from(u8::from(judged.stood));
        }
        // An experiment that went well is worth another one soon.
        if way.best.is_empty() && call.depth > 0 && stood == call.depth {
            (way.wait, way.next_experiment) = (FIRST_EXPERIMENT, way.calls + 2);
        }
        if call.depth > 0 {
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

    /// How often a draft of each place stands. A place of which little is known is much like the one above it, and a
    /// rank much like the one before it.
    fn rates(&self, way: usize) -> [[f64; MAX_RANKS]; MAX_AUTO] {
        let mut rates = [[0.0; MAX_RANKS]; MAX_AUTO];
        let mut above = 0.5;
        for (rates, known) in rates.iter_mut().zip(&self.learned.ways[way].rates) {
            let mut prior = above;
            for (rate, known) in rates.iter_mut().zip(known).take(self.ranks) {
                *rate = (known.stood + PRIOR * prior) / (known.tried + PRIOR);
                prior = NEXT_RANK * *rate;
            }
            above = rates[0];
        }
        rates
    }

    /// The shape with the most tokens a second in a way, and how many; 0 where nothing is drafted. Each token takes so
    /// many seconds more.
    fn solve(&self, way: usize, more: f64) -> (TreeShape, f64) {
        let known = (self.verifying(0), self.learned.ways[way].drafting);
        let (Some(plain), Some(drafting)) = known else { return (TreeShape::EMPTY, 0.0) };
        let rates = self.rates(way);
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

/// Lets a running mean follow a measurement; one that is far off counts as one that is not quite so far.
fn blend(mean: &mut Option<f64>, value: f64) {
    *mean = Some(match *mean {
        None => value,
        Some(mean) => mean + FRESH * (value.min(3.0 * mean) - mean),
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use verdigris_logits::{Purpose, Random};

    /// In a long text that the drafter has read.
    const ANYWHERE: Place = Place { left: 1_000_000, unread: [0; WAYS] };

    /// A call that read a chain of drafts, of which the first ones stood.
    fn observe_chain(chooser: &mut Chooser, read: usize, stood: usize, drafting: Duration, verifying: Duration) {
        let judge = |above| Judged { above, rank: 0, stood: above < stood };
        let judged: Vec<Judged> = (0..read.min(stood + 1)).map(judge).collect();
        chooser.observe(0, Call { read, is_usual: true, depth: read, unread: 0, judged: &judged, drafting, verifying });
    }

    /// A world in which rows cost little and a level of drafts much, and the first, second and third draft of a token
    /// are right so often: the tree that is found, and what it gains over the best chain.
    #[test]
    fn drafts_stand_side_by_side_where_that_pays() {
        let rates = [0.45, 0.25, 0.12, 0.0];
        let speed = |shape: &TreeShape| {
            let reach = |node: usize| -> f64 {
                std::iter::successors(Some(node), |&node| shape.parent(node))
                    .map(|node| rates[shape.children(shape.parent(node)).position(|child| child == node).unwrap()])
                    .product()
            };
            let expected = 1.0 + (0..shape.len()).map(reach).sum::<f64>();
            expected / (1.0 + 0.01 * shape.len() as f64 + 0.1 * shape.depth() as f64)
        };
        let chains = (0..=MAX_AUTO).map(|length| speed(&TreeShape::chain(length))).fold(0.0, f64::max);
        let (mut chooser, random) = (Chooser::new(DraftLength::Auto, 3), Random::new(2));
        for call in 0..6000 {
            let shape = chooser.choose(&[0], ANYWHERE).1;
            let (mut judged, mut at, mut above) = (Vec::new(), None, 0);
            loop {
                let mut number = random.uniform_of(call, Purpose::Accept, above as u32);
                let mut stands = None;
                for (rank, child) in shape.children(at).enumerate() {
                    let stood = (0.0..rates[rank]).contains(&number);
                    stands = stands.or(stood.then_some(child));
                    judged.push(Judged { above, rank, stood });
                    number -= rates[rank];
                }
                let Some(child) = stands else { break };
                (at, above) = (Some(child), above + 1);
            }
            let seconds = [0.1 * shape.depth() as f64, 1.0 + 0.01 * shape.len() as f64];
            let [drafting, verifying] = seconds.map(Duration::from_secs_f64);
            let (read, depth) = (shape.len(), shape.depth());
            chooser.observe(0, Call { read, is_usual: true, depth, unread: 0, judged: &judged, drafting, verifying });
        }
        let found = chooser.solve(0, 0.0).0;
        assert!(!found.is_chain(), "{found:?}");
        assert!(speed(&found) > 1.05 * chains, "{found:?}: {} and {chains}", speed(&found));
    }

    /// Lets a chooser work in a world of given acceptance and costs; returns its last choice, and its time as a
    /// multiple of plain decoding's.
    fn live(acceptance: f64, draft_cost: f64, verify_cost: impl Fn(usize) -> f64, tokens: usize) -> (usize, f64) {
        let (mut chooser, random) = (Chooser::new(DraftLength::Auto, 1), Random::new(1));
        let (mut written, mut seconds) = (0, 0.0);
        while written < tokens {
            let drafted = chooser.choose(&[0], ANYWHERE).1.len();
            let coin = |i: usize| random.uniform((written + i) as u64, Purpose::Accept) < acceptance;
            let accepted = (0..drafted).take_while(|&i| coin(i)).count();
            let noise = 1.0 + 0.1 * random.uniform(written as u64, Purpose::Weight);
            let (drafting, verifying) = (drafted as f64 * draft_cost, verify_cost(drafted + 1) * noise);
            (written, seconds) = (written + accepted + 1, seconds + drafting + verifying);
            let [drafting, verifying] = [drafting, verifying].map(Duration::from_secs_f64);
            observe_chain(&mut chooser, drafted, accepted, drafting, verifying);
        }
        (chooser.solve(0, 0.0).0.len(), seconds / (written as f64 * verify_cost(1) * 1.05))
    }

    /// The table of the best lengths for calls that cost the same however many rows they have.
    #[test]
    fn finds_the_best_length_of_the_formula() {
        let formula = |a: f64, c: f64| {
            let speed = |g: usize| (1.0 - a.powi(g as i32 + 1)) / (1.0 - a) / (1.0 + g as f64 * c);
            (0..=MAX_AUTO).max_by(|&x, &y| speed(x).total_cmp(&speed(y))).map(|g| (g, speed(g))).unwrap()
        };
        for (a, c) in [(0.5, 0.05), (0.6, 0.1), (0.7, 0.1), (0.8, 0.05), (0.8, 0.2), (0.9, 0.3)] {
            let (best, speed) = formula(a, c);
            let (found, time) = live(a, c, |_| 1.0, 20_000);
            assert!(found.abs_diff(best) <= 1 + best / 3, "a {a}, c {c}: {found}, not {best}");
            assert!(1.0 / time > 0.93 * speed, "a {a}, c {c}: {:.2} times as fast, not {speed:.2}", 1.0 / time);
        }
    }

    #[test]
    fn drafts_nothing_where_that_does_not_pay() {
        // Few drafts are accepted; drafts cost as much as the target; rows are computed one after the other.
        for (a, c, row) in [(0.1, 0.2, 0.1), (0.8, 1.0, 0.1), (0.8, 0.1, 1.0)] {
            let (found, time) = live(a, c, |m| 1.0 + row * (m - 1) as f64, 5_000);
            assert_eq!(found, 0, "a {a}, c {c}, row {row}");
            assert!(time < 1.03, "{time}");
        }
    }

    /// A world in which a draft takes a twentieth of a call, a token that is read before it a tenth, all drafts stand,
    /// and calls cost nothing more with them. Returns how many tokens it drafted, call by call.
    fn live_with_prompts(chooser: &mut Chooser, prompt: usize, tokens: usize, limit: usize, good: bool) -> Vec<usize> {
        let (mut written, mut held, mut drafted) = (0, 0, Vec::new());
        while written < tokens {
            let unread = prompt + written - held;
            let shape = chooser.choose(&[0], Place { left: limit - written, unread: [unread; WAYS] }).1;
            let read = shape.len().min(limit - written - 1);
            let stood = if good { read } else { 0 };
            let judged: Vec<Judged> =
                (0..read.min(stood + 1)).map(|above| Judged { above, rank: 0, stood: above < stood }).collect();
            let seconds = if read > 0 { 0.05 * read as f64 + 0.1 * unread as f64 } else { 0.0 };
            let [drafting, verifying] = [seconds, 1.0].map(Duration::from_secs_f64);
            chooser
                .observe(0, Call { read, is_usual: true, depth: read, unread, judged: &judged, drafting, verifying });
            written += stood + 1;
            held = if read > 0 { prompt + written - 1 } else { held };
            drafted.push(read);
        }
        drafted
    }

    #[test]
    fn a_prompt_is_no_price_of_drafts() {
        let mut chooser = Chooser::new(DraftLength::Auto, 1);
        live_with_prompts(&mut chooser, 600, 20, 10_000, true);
        assert!(chooser.solve(0, 0.0).0.len() > 3, "{:?}", chooser.solve(0, 0.0).0);
        let drafting = chooser.learned.ways[0].drafting.unwrap();
        assert!((drafting - 0.05).abs() < 0.01, "{drafting}");
    }

    /// A prompt is read for drafts where what is left of the text pays for it: for 600 tokens, which take as long as 60
    /// calls, not where there are but 40 to be saved.
    #[test]
    fn a_prompt_is_read_where_the_text_is_long_enough() {
        let memory = DraftMemory::default();
        live_with_prompts(&mut Chooser::new(DraftLength::Auto, 1).remembering(&memory), 10, 2000, 2000, true);
        let begin = |prompt: usize, limit: usize| {
            let mut chooser = Chooser::new(DraftLength::Auto, 1).remembering(&memory);
            live_with_prompts(&mut chooser, prompt, limit, limit, true)
        };
        assert!(begin(600, 2000)[0] > 3);
        assert!(begin(600, 40).iter().all(|&drafted| drafted == 0));
        assert!(begin(10, 40).iter().any(|&drafted| drafted > 3));
        // And where texts have been short, whatever their limit allows.
        for _ in 0..40 {
            begin(10, 30);
        }
        assert!(begin(600, 2000).iter().all(|&drafted| drafted == 0));
    }

    /// Where drafts do not stand, long prompts are read for experiments only as time allows.
    #[test]
    fn experiments_take_their_share_and_no_more() {
        let memory = DraftMemory::default();
        let [mut plain, mut spent] = [0.0; 2];
        for text in 0..200 {
            let mut chooser = Chooser::new(DraftLength::Auto, 1).remembering(&memory);
            let drafted = live_with_prompts(&mut chooser, 300, 64, 64, false);
            if text > 0 {
                plain += drafted.len() as f64;
                spent += drafted.iter().map(|&read| 0.05 * read as f64).sum::<f64>();
                spent += if drafted.iter().any(|&read| read > 0) { 30.0 } else { 0.0 };
            }
        }
        assert!(spent > 0.0 && spent < 0.025 * plain, "{spent} of {plain}");
    }

    /// What one text has found out the next one knows from its first call on.
    #[test]
    fn texts_learn_from_those_before_them() {
        let memory = DraftMemory::default();
        let live = |calls: usize| {
            let mut chooser = Chooser::new(DraftLength::Auto, 1).remembering(&memory);
            let mut lengths = Vec::new();
            for _ in 0..calls {
                let drafted = chooser.choose(&[0], ANYWHERE).1.len();
                let drafting = Duration::from_secs_f64(0.05 * drafted as f64);
                observe_chain(&mut chooser, drafted, drafted.min(6), drafting, Duration::from_secs(1));
                lengths.push(drafted);
            }
            lengths
        };
        let of_first = live(100);
        assert_eq!(of_first[..5], TRIALS);
        let usual = *of_first.last().unwrap();
        assert!((5..=7).contains(&usual), "{of_first:?}");
        let of_second = live(30);
        assert!(of_second.iter().all(|length| length.abs_diff(usual) <= 1), "{of_second:?} after {usual}");
        // A text that teaches nothing takes nothing away, and fixed lengths are not concerned.
        drop(Chooser::new(DraftLength::Fixed(2), 1).remembering(&memory));
        assert_eq!(live(1), [usual]);
        // Where drafts stand no more that is seen soon.
        let mut chooser = Chooser::new(DraftLength::Auto, 1).remembering(&memory);
        assert_eq!(chooser.choose(&[0], ANYWHERE).1.len(), usual);
        for _ in 0..200 {
            let drafted = chooser.choose(&[0], ANYWHERE).1.len();
            let drafting = Duration::from_secs_f64(0.05 * drafted as f64);
            observe_chain(&mut chooser, drafted, 0, drafting, Duration::from_secs(1));
        }
        assert!(chooser.solve(0, 0.0).0.is_empty(), "{:?}", chooser.solve(0, 0.0).0);
    }

    #[test]
    fn follows_a_change() {
        let mut chooser = Chooser::new(DraftLength::Auto, 1);
        let mut go = |calls: usize, good: bool| {
            for _ in 0..calls {
                let drafted = chooser.choose(&[0], ANYWHERE).1.len();
                let accepted = if good { drafted } else { 0 };
                let [drafting, verifying] = [0.1 * drafted as f64, 1.0].map(Duration::from_secs_f64);
                observe_chain(&mut chooser, drafted, accepted, drafting, verifying);
            }
            chooser.solve(0, 0.0).0.len()
        };
        assert!(go(200, true) > 8);
        assert_eq!(go(200, false), 0);
        assert!(go(3000, true) > 2);
    }

    /// Two ways that are free and stand so often, where both can draft: the way that is taken in the end, while a third
    /// has most of the calls.
    #[test]
    fn of_two_ways_the_better_one_drafts() {
        let taken = |rates: [f64; 2], changed: [f64; 2]| {
            let (mut chooser, random) = (Chooser::new(DraftLength::Auto, 1), Random::new(3));
            let mut counts = [[0; 2]; 2];
            for call in 0..6000u64 {
                let ways: &[usize] = if call % 3 == 0 { &[2, 0] } else { &[1] };
                let (way, shape) = chooser.choose(ways, ANYWHERE);
                assert!(ways.contains(&way));
                let late = call >= 3000;
                let rates = if late { changed } else { rates };
                let rate = [rates[1], 0.3, rates[0]][way];
                let coin = |above: &usize| random.uniform_of(call, Purpose::Accept, *above as u32) < rate;
                let stood = (0..shape.len()).take_while(coin).count();
                let judged: Vec<Judged> = (0..shape.len().min(stood + 1))
                    .map(|above| Judged { above, rank: 0, stood: above < stood })
                    .collect();
                let drafting = Duration::from_secs_f64(0.02 * shape.len() as f64);
                let verifying = Duration::from_secs_f64(1.0 + 0.02 * shape.len() as f64);
                let (read, depth) = (shape.len(), shape.depth());
                chooser.observe(
                    way,
                    Call { read, is_usual: true, depth, unread: 0, judged: &judged, drafting, verifying },
                );
                if way != 1 && !shape.is_empty() {
                    counts[usize::from(late)][usize::from(way == 0)] += 1;
                }
            }
            counts
        };
        for (better, other) in [(0, 1), (1, 0)] {
            let mut rates = [0.3; 2];
            rates[better] = 0.8;
            let counts = taken(rates, rates);
            assert!(counts[0][other] < 100 && counts[1][other] < 50, "{counts:?}");
            assert!(counts[0][better] > 850 && counts[1][better] > 900, "{counts:?}");
            // And it is seen when that changes.
            let counts = taken(rates, [rates[1], rates[0]]);
            assert!(counts[0][better] > 850 && counts[1][other] > 600, "{counts:?}");
        }
    }

    #[test]
    fn a_fixed_length_stays() {
        let mut chooser = Chooser::new(DraftLength::Fixed(5), 1);
        observe_chain(&mut chooser, 5, 0, Duration::from_secs(9), Duration::ZERO);
        assert_eq!(chooser.choose(&[0], ANYWHERE).1, TreeShape::chain(5));
    }
}
