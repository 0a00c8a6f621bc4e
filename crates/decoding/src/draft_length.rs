//! How many tokens to draft for a call of the target model.
//!
//! With `a_i` the chance that draft `i` is accepted when those before it were, `g` drafts give
//!
//! ```text
//! E(g) = 1 + sum over i <= g of a_1 ... a_i
//! ```
//!
//! tokens for `v(g + 1) + g c` seconds, where `v(m)` is a call with `m` rows and `c` a drafted token (Leviathan,
//! Kalman and Matias 2023, section 3.3, with measured costs and a rate for each index). The best `g` may be 0,
//! which is plain decoding.

use std::time::Duration;

use crate::tree::TreeShape;

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
    /// The most tokens that drafts take up in a cache beside those of one path.
    pub(crate) fn most_beside(self) -> usize {
        match self {
            Self::Tree(shape) => shape.len(),
            Self::Auto | Self::Fixed(_) => 0,
        }
    }
}

/// The most drafts that [`DraftLength::Auto`] asks for.
pub const MAX_AUTO: usize = 16;

/// Drafting must promise this much more speed than plain decoding, for times are never quite what they were.
const MARGIN: f64 = 1.05;

/// How much a new measurement of time counts.
const FRESH: f64 = 0.2;

/// How much of a count is left after each new one.
const KEPT: f64 = 0.95;

/// How many drafts the rate of the index before counts for.
const PRIOR: f64 = 2.0;

/// The lengths of the first calls, so that there is something to compare.
pub(crate) const TRIALS: [usize; 5] = [0, 0, 3, 0, 2];

/// The first experiment comes after so many calls; each that changes nothing doubles the time to the next.
const FIRST_EXPERIMENT: usize = 128;

/// How one call went.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call {
    /// Tokens that the target read.
    pub(crate) rows: usize,
    pub(crate) drafted: usize,
    pub(crate) accepted: usize,
    pub(crate) drafting: Duration,
    pub(crate) verifying: Duration,
}

/// Chooses a length for each call from how those before it went.
///
/// The choice rests on the text so far and on time, never on a draft that is not decided yet.
#[derive(Clone, Debug)]
pub(crate) struct Chooser {
    length: DraftLength,
    /// By their index in a call: drafts that were decided there, and those accepted.
    tried: [f64; MAX_AUTO],
    accepted: [f64; MAX_AUTO],
    /// Seconds for a drafted token.
    drafting: Option<f64>,
    /// Seconds for a call, by its rows less one.
    verifying: [Option<f64>; MAX_AUTO + 1],
    calls: usize,
    next_experiment: usize,
    wait: usize,
    best: usize,
}

impl Chooser {
    pub(crate) fn new(length: DraftLength) -> Self {
        Self {
            length,
            tried: [0.0; MAX_AUTO],
            accepted: [0.0; MAX_AUTO],
            drafting: None,
            verifying: [None; MAX_AUTO + 1],
            calls: 0,
            next_experiment: TRIALS.len() + FIRST_EXPERIMENT,
            wait: FIRST_EXPERIMENT,
            best: 0,
        }
    }

    /// What to draft for the next call.
    pub(crate) fn choose(&mut self) -> TreeShape {
        match self.length {
            DraftLength::Auto => TreeShape::chain(self.length()),
            DraftLength::Fixed(length) => TreeShape::chain(length),
            DraftLength::Tree(shape) => shape,
        }
    }

    /// The number of drafts for the next call, where it is chosen.
    fn length(&mut self) -> usize {
        if let Some(&trial) = TRIALS.get(self.calls) {
            return trial;
        }
        let best = self.solve();
        if best != self.best {
            (self.best, self.wait) = (best, FIRST_EXPERIMENT);
            self.next_experiment = self.next_experiment.min(self.calls + self.wait);
        }
        if self.calls >= self.next_experiment {
            self.wait = (2 * self.wait).min(1024);
            self.next_experiment = self.calls + self.wait;
            // Something else than usual: a little drafting for one who does without, plain decoding for others.
            return if best == 0 { 3 } else { 0 };
        }
        best
    }

    /// Takes in how a call went.
    pub(crate) fn observe(&mut self, call: Call) {
        if self.length != DraftLength::Auto {
            return;
        }
        self.calls += 1;
        for index in 0..call.drafted.min(MAX_AUTO).min(call.accepted + 1) {
            self.tried[index] = self.tried[index] * KEPT + 1.0;
            self.accepted[index] = self.accepted[index] * KEPT + f64::from(u8::from(index < call.accepted));
        }
        // An experiment that went well is worth another one soon.
        if self.best == 0 && call.drafted > 0 && call.accepted == call.drafted {
            (self.wait, self.next_experiment) = (FIRST_EXPERIMENT, self.calls + 2);
        }
        if call.drafted > 0 {
            let each = call.drafting.as_secs_f64() / call.drafted as f64;
            blend(&mut self.drafting, each);
        }
        // A call that read a prompt says nothing about one that did not.
        if call.rows == call.drafted + 1
            && let Some(known) = self.verifying.get_mut(call.drafted)
        {
            blend(known, call.verifying.as_secs_f64());
        }
    }

    /// The seconds of a call with so many drafts, on a line through what has been measured.
    fn verifying(&self, drafts: usize) -> Option<f64> {
        if let Some(known) = self.verifying[drafts] {
            return Some(known);
        }
        let known = |range: std::ops::Range<usize>| range.filter_map(|i| Some((i as f64, self.verifying[i]?)));
        let below = known(0..drafts).next_back()?;
        let (from, to) = match known(drafts + 1..MAX_AUTO + 1).next() {
            Some(above) => (below, above),
            // Past what has been measured the line goes on as from the first point to the last.
            None => (known(0..drafts).next()?, below),
        };
        let slope = if to.0 > from.0 { ((to.1 - from.1) / (to.0 - from.0)).max(0.0) } else { from.1 };
        Some(from.1 + slope * (drafts as f64 - from.0))
    }

    /// The length with the most tokens a second.
    fn solve(&self) -> usize {
        let (Some(plain), Some(drafting)) = (self.verifying(0), self.drafting) else { return 0 };
        let (mut best, mut best_speed) = (0, MARGIN / plain);
        let (mut expected, mut reach, mut rate) = (1.0, 1.0, 0.5);
        for length in 1..=MAX_AUTO {
            // A place of which little is known is much like the one before it.
            rate = (self.accepted[length - 1] + PRIOR * rate) / (self.tried[length - 1] + PRIOR);
            reach *= rate;
            expected += reach;
            let Some(verifying) = self.verifying(length) else { break };
            let speed = expected / (verifying + length as f64 * drafting);
            if speed > best_speed {
                (best, best_speed) = (length, speed);
            }
        }
        best
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

    /// Lets a chooser work in a world of given acceptance and costs; returns its last choice, and its time as a
    /// multiple of plain decoding's.
    fn live(acceptance: f64, draft_cost: f64, verify_cost: impl Fn(usize) -> f64, tokens: usize) -> (usize, f64) {
        let (mut chooser, random) = (Chooser::new(DraftLength::Auto), Random::new(1));
        let (mut written, mut seconds) = (0, 0.0);
        while written < tokens {
            let drafted = chooser.choose().len();
            let coin = |i: usize| random.uniform((written + i) as u64, Purpose::Accept) < acceptance;
            let accepted = (0..drafted).take_while(|&i| coin(i)).count();
            let noise = 1.0 + 0.1 * random.uniform(written as u64, Purpose::Weight);
            let (drafting, verifying) = (drafted as f64 * draft_cost, verify_cost(drafted + 1) * noise);
            (written, seconds) = (written + accepted + 1, seconds + drafting + verifying);
            let [drafting, verifying] = [drafting, verifying].map(Duration::from_secs_f64);
            chooser.observe(Call { rows: drafted + 1, drafted, accepted, drafting, verifying });
        }
        (chooser.solve(), seconds / (written as f64 * verify_cost(1) * 1.05))
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

    #[test]
    fn follows_a_change() {
        let mut chooser = Chooser::new(DraftLength::Auto);
        let mut go = |calls: usize, good: bool| {
            for _ in 0..calls {
                let drafted = chooser.choose().len();
                let accepted = if good { drafted } else { 0 };
                let [drafting, verifying] = [0.1 * drafted as f64, 1.0].map(Duration::from_secs_f64);
                chooser.observe(Call { rows: drafted + 1, drafted, accepted, drafting, verifying });
            }
            chooser.solve()
        };
        assert!(go(200, true) > 8);
        assert_eq!(go(200, false), 0);
        assert!(go(3000, true) > 2);
    }

    #[test]
    fn a_fixed_length_stays() {
        let mut chooser = Chooser::new(DraftLength::Fixed(5));
        let call =
            Call { rows: 6, drafted: 5, accepted: 0, drafting: Duration::from_secs(9), verifying: Duration::ZERO };
        chooser.observe(call);
        assert_eq!(chooser.choose(), TreeShape::chain(5));
    }
}
