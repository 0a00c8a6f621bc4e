//! Measurements of one way of drafting, and its trials.

use crate::tree::TreeShape;

/// The maximum number of drafts that [`DraftLength::Auto`](super::DraftLength::Auto) asks for.
pub const MAX_AUTO: usize = 16;

/// The weight of a new measurement of time.
const FRESH: f64 = 0.2;

/// The factor by which a count decays with each new draft.
const KEPT: f64 = 0.95;

/// The weight, in drafts, of the rate of the previous depth or rank as a prior.
const PRIOR: f64 = 2.0;

/// The maximum number of drafts that earlier texts count for.
const REMEMBERED: f64 = 8.0;

/// The rate of a draft without observations, relative to that of the previous rank.
const NEXT_RANK: f64 = 0.3;

/// The maximum number of drafts of one token with separate rates.
pub(super) const MAX_RANKS: usize = 4;

/// The draft lengths of the first calls, which provide times to compare.
pub(crate) const TRIALS: [usize; 5] = [0, 0, 3, 0, 2];

/// The same for another way of drafting, once the cost of plain decoding is known.
const MORE_TRIALS: [usize; 2] = [3, 2];

/// The same after an experiment without drafts.
const PLAIN_AGAIN: [usize; 1] = [0];

/// The number of calls before the first experiment. Each experiment that changes nothing doubles the interval.
const FIRST_EXPERIMENT: usize = 128;

/// The share of the time since the last experiment that reading for the next one may take.
const FOR_EXPERIMENTS: f64 = 0.02;

/// Drafts that read more tokens than this measure the cost of reading, others that of drafting.
const MANY: usize = 16;

/// A draft that was judged, because it follows the text or accepted drafts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Judged {
    /// The number of drafts above it.
    pub(crate) above: usize,
    /// The number of siblings before it.
    pub(crate) rank: usize,
    pub(crate) stood: bool,
}

/// The observations of one depth and rank.
#[derive(Clone, Copy, Debug, Default)]
struct Rate {
    tried: f64,
    stood: f64,
}

/// The observations and experiments of a way of drafting.
#[derive(Clone, Debug)]
pub(super) struct Way {
    /// The draft lengths of the remaining trials.
    trials: &'static [usize],
    /// By depth and rank.
    rates: [[Rate; MAX_RANKS]; MAX_AUTO],
    /// Seconds per level of drafts.
    pub(super) drafting: Option<f64>,
    /// Whether `drafting` comes from a draft that also read many tokens.
    is_rough: bool,
    /// Seconds per token that is read before a draft.
    reading: Option<f64>,
    /// The number of calls in which this way could draft and had no trials left.
    calls: usize,
    last_experiment: usize,
    next_experiment: usize,
    wait: usize,
    /// The latest shape chosen for this way, or an empty one if another way was chosen.
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
    /// Starts another text, in which acceptance may differ.
    pub(super) fn begin_text(&mut self) {
        for rate in self.rates.iter_mut().flatten().filter(|rate| rate.tried > REMEMBERED) {
            (rate.tried, rate.stood) = (REMEMBERED, REMEMBERED * rate.stood / rate.tried);
        }
    }

    /// The number of drafts to try for this call, while trials remain.
    pub(super) fn trial(&mut self, is_plain_known: bool) -> Option<usize> {
        if is_plain_known && self.trials.len() == TRIALS.len() {
            self.trials = &MORE_TRIALS;
        }
        let (&trial, later) = self.trials.split_first()?;
        self.trials = later;
        Some(trial)
    }

    /// The seconds that reading `unread` tokens would take, or 0 as long as nothing has been measured.
    pub(super) fn entry(&self, unread: usize) -> f64 {
        unread as f64 * self.reading.unwrap_or(0.0)
    }

    /// Counts a call for which `best` is the best shape, and occasionally returns another shape to try. `entry` is the
    /// time to read the tokens before a draft, in plain calls.
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
        // Try a short chain if this way drafts nothing, siblings if it has hardly tried any, and plain decoding
        // otherwise.
        let is_narrow = ranks > 1 && self.rates.iter().all(|ranks| ranks[1].tried < PRIOR);
        Some(match (best.is_empty(), is_narrow) {
            (true, _) => TreeShape::chain(3),
            (false, true) => TreeShape::levels(&[2, 1, 1]),
            (false, false) => {
                // The second of two plain calls measures their cost.
                self.trials = &PLAIN_AGAIN;
                TreeShape::EMPTY
            }
        })
    }

    /// Records which drafts of a call were accepted.
    pub(super) fn count(&mut self, judged: &[Judged]) {
        for judged in judged.iter().filter(|judged| judged.above < MAX_AUTO && judged.rank < MAX_RANKS) {
            let rate = &mut self.rates[judged.above][judged.rank];
            rate.tried = rate.tried * KEPT + 1.0;
            rate.stood = rate.stood * KEPT + f64::from(u8::from(judged.stood));
        }
    }

    /// Records that all drafts of a call were accepted. If that was an experiment, another one soon is worthwhile.
    pub(super) fn all_stood(&mut self) {
        if self.best.is_empty() {
            (self.wait, self.next_experiment) = (FIRST_EXPERIMENT, self.calls + 2);
        }
    }

    /// Records the seconds that `depth` levels of drafts took, and the number of tokens read before them.
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

    /// The acceptance rate of each depth and rank. With few observations a depth is assumed to be like the one above
    /// it, and a rank like a fraction of the one before it.
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

/// Moves a running mean towards a measurement. Outliers count as three times the mean.
pub(super) fn blend(mean: &mut Option<f64>, value: f64) {
    *mean = Some(match *mean {
        None => value,
        Some(mean) => mean + FRESH * (value.min(3.0 * mean) - mean),
    });
}
