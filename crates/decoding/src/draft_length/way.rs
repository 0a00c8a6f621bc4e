//! What is known of one way of drafting, and what is still to be tried.

use crate::tree::TreeShape;

/// The most drafts that [`DraftLength::Auto`](super::DraftLength::Auto) asks for, side by side or one after the other.
pub const MAX_AUTO: usize = 16;

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
pub(super) const MAX_RANKS: usize = 4;

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

/// What is known of a place.
#[derive(Clone, Copy, Debug, Default)]
struct Rate {
    tried: f64,
    stood: f64,
}

/// What is known of a way of drafting, and tried.
#[derive(Clone, Debug)]
pub(super) struct Way {
    /// The lengths of its first calls that are still to come.
    trials: &'static [usize],
    /// By depth and rank.
    rates: [[Rate; MAX_RANKS]; MAX_AUTO],
    /// Seconds for a level of drafts.
    pub(super) drafting: Option<f64>,
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
    pub(super) fn begin_text(&mut self) {
        for rate in self.rates.iter_mut().flatten().filter(|rate| rate.tried > REMEMBERED) {
            (rate.tried, rate.stood) = (REMEMBERED, REMEMBERED * rate.stood / rate.tried);
        }
    }

    /// How many drafts to try for this call, while there is something to try.
    pub(super) fn trial(&mut self, is_plain_known: bool) -> Option<usize> {
        if is_plain_known && self.trials.len() == TRIALS.len() {
            self.trials = &MORE_TRIALS;
        }
        let (&trial, later) = self.trials.split_first()?;
        self.trials = later;
        Some(trial)
    }

    /// The seconds for which it would read so many tokens; 0 as long as nothing is known of that.
    pub(super) fn entry(&self, unread: usize) -> f64 {
        unread as f64 * self.reading.unwrap_or(0.0)
    }

    /// Counts a call for which this is best; at times it asks for something else than that. What is to be read before a
    /// draft takes as long as so many plain calls.
    pub(super) fn experiment(&mut self, best: TreeShape, ranks: usize, entry: f64) -> Option<TreeShape> {
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

    /// Takes in which of the drafts of a call stood.
    pub(super) fn count(&mut self, judged: &[Judged]) {
        for judged in judged.iter().filter(|judged| judged.above < MAX_AUTO && judged.rank < MAX_RANKS) {
            let rate = &mut self.rates[judged.above][judged.rank];
            rate.tried = rate.tried * KEPT + 1.0;
            rate.stood = rate.stood * KEPT + f64::from(u8::from(judged.stood));
        }
    }

    /// All drafts of a call stood: if that was an experiment, it is worth another one soon.
    pub(super) fn all_stood(&mut self) {
        if self.best.is_empty() {
            (self.wait, self.next_experiment) = (FIRST_EXPERIMENT, self.calls + 2);
        }
    }

    /// Takes in the seconds that so many levels of drafts took, with the tokens that were read before.
    pub(super) fn took(&mut self, seconds: f64, depth: usize, unread: usize) {
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

    /// How often a draft of each place stands. A place of which little is known is much like the one above it, and a
    /// rank much like the one before it.
    pub(super) fn rates(&self, ranks: usize) -> [[f64; MAX_RANKS]; MAX_AUTO] {
        let mut rates = [[0.0; MAX_RANKS]; MAX_AUTO];
        let mut above = 0.5;
        for (rates, known) in rates.iter_mut().zip(&self.rates) {
            let mut prior = above;
            for (rate, known) in rates.iter_mut().zip(known).take(ranks) {
                *rate = (known.stood + PRIOR * prior) / (known.tried + PRIOR);
                prior = NEXT_RANK * *rate;
            }
            above = rates[0];
        }
        rates
    }
}

/// Lets a running mean follow a measurement; one that is far off counts as one that is not quite so far.
pub(super) fn blend(mean: &mut Option<f64>, value: f64) {
    *mean = Some(match *mean {
        None => value,
        Some(mean) => mean + FRESH * (value.min(3.0 * mean) - mean),
    });
}
