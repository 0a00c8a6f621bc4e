//! One row of logits and the scratch space that the steps on it share.

use std::cell::Cell;

use crate::blocks::{BLOCK, Bias, Collect, Largest, is_forbidden, reached_by, restrict};
use crate::dispatch::dispatch;
use crate::steps::{Step, Steps, Words};
use crate::{TokenId, TokenSet};

/// The logits of the next token: one `f32` for each token of the vocabulary. `-inf` forbids a token.
///
/// A row owns scratch space along with its logits, so steps on a row that is reused do not allocate. Most steps apply
/// *a number to a set of tokens*: [`Row::restrict`] and [`Row::bias`] express exactly that, so that a backend can apply
/// them without moving the row.
#[doc(alias = "logits")]
#[doc(alias = "scores")]
#[derive(Clone, Debug, Default)]
pub struct Row {
    logits: Vec<f32>,
    /// Scratch space for steps that rank tokens.
    order: Vec<TokenId>,
    /// Scratch space for the best logits of blocks.
    maxima: Vec<f32>,
    /// Scratch space for steps that build a set of tokens.
    set: TokenSet,
    /// The steps on the row, while they are recorded instead of applied.
    recorded: Option<Steps>,
    /// Whether the logits were accessed, which do not exist while steps are recorded.
    looked: Cell<bool>,
}

impl From<Vec<f32>> for Row {
    fn from(logits: Vec<f32>) -> Self {
        Self { logits, ..Self::default() }
    }
}

impl Row {
    /// Replaces the logits by a copy of `logits`. While steps are recorded this ends the recording: see
    /// [`Row::record`].
    pub fn load(&mut self, logits: &[f32]) {
        self.recorded = None;
        self.logits.clear();
        self.logits.extend_from_slice(logits);
    }

    /// Records in `steps` what `work` does to a row of `size` logits that are elsewhere. Returns `false` if that
    /// depends on the logits: `work` has accessed them, or has replaced them by [`Row::load`] or by assigning a row.
    /// Then `steps` is not what `work` does.
    ///
    /// Afterwards, and after a panic of `work`, steps apply to the row again.
    pub fn record(&mut self, size: usize, steps: &mut Steps, work: impl FnOnce(&mut Self)) -> bool {
        /// Ends the recording, even after a panic.
        struct Recording<'a>(&'a mut Row);
        impl Drop for Recording<'_> {
            fn drop(&mut self) {
                self.0.recorded = None;
            }
        }
        self.logits.clear();
        self.logits.resize(size, 0.0);
        steps.clear();
        self.recorded = Some(std::mem::take(steps));
        self.looked.set(false);
        let recording = Recording(self);
        work(recording.0);
        // A row that was loaded or assigned is not recording.
        let Some(recorded) = recording.0.recorded.take() else { return false };
        *steps = recorded;
        !recording.0.looked.get()
    }

    /// The recording that a step is added to instead of being applied, if there is one.
    pub(crate) fn recorded(&mut self) -> Option<&mut Steps> {
        self.recorded.as_mut()
    }

    fn look(&self) {
        self.looked.set(true);
    }

    /// Whether the logits exist. They do not while steps are [recorded](Row::record): then a step that depends on them
    /// may do nothing, since this call makes the recording fail.
    pub fn has_logits(&self) -> bool {
        self.look();
        self.recorded.is_none()
    }

    /// The size of the vocabulary.
    pub fn len(&self) -> usize {
        self.logits.len()
    }

    /// Whether the row has no tokens.
    pub fn is_empty(&self) -> bool {
        self.logits.is_empty()
    }

    /// The logits by token.
    pub fn logits(&self) -> &[f32] {
        self.look();
        &self.logits
    }

    /// The logits by token, mutable, for steps that need the whole row.
    pub fn logits_mut(&mut self) -> &mut [f32] {
        self.look();
        &mut self.logits
    }

    /// Forbids every token outside `set`. Tokens past the capacity of the set are forbidden too.
    pub fn restrict(&mut self, set: &TokenSet) {
        if let Some(steps) = self.recorded() {
            return steps.restrict(set);
        }
        restrict(&mut self.logits, set.words());
    }

    /// Adds `delta` to every token of `set`.
    pub fn bias(&mut self, set: &TokenSet, delta: f32) {
        if let Some(steps) = self.recorded() {
            return steps.bias(set, delta);
        }
        dispatch(Bias(&mut self.logits, set.words(), delta));
    }

    /// Lends the row's scratch set, emptied and with the given capacity, together with the row.
    pub fn with_set<R>(&mut self, capacity: usize, f: impl FnOnce(&mut Self, &mut TokenSet) -> R) -> R {
        let mut set = std::mem::take(&mut self.set);
        set.reset(capacity);
        let result = f(self, &mut set);
        self.set = set;
        result
    }

    /// Lends the ids of all allowed tokens, which may be reordered, together with the logits. There are no ids if the
    /// row [is broken](Row::is_broken), which thus stays unchanged.
    pub fn with_allowed<R>(&mut self, f: impl FnOnce(&mut [TokenId], &mut [f32]) -> R) -> R {
        let least = if self.is_broken() { f32::INFINITY } else { f32::NEG_INFINITY };
        self.with_those_from(least, f)
    }

    /// As [`Row::with_allowed`], for the tokens with at least this logit: none for infinity.
    pub(crate) fn with_those_from<R>(&mut self, least: f32, f: impl FnOnce(&mut [TokenId], &mut [f32]) -> R) -> R {
        let mut order = std::mem::take(&mut self.order);
        order.clear();
        if least < f32::INFINITY {
            dispatch(Collect(&self.logits, least, &mut order));
        }
        let result = f(&mut order, &mut self.logits);
        self.order = order;
        result
    }

    /// Returns a logit that at least `count` tokens reach, and not many more in rows where probable tokens are far
    /// apart; and the largest logit. The first is minus infinity if none is known; both are infinite if the row [is
    /// broken](Row::is_broken).
    pub(crate) fn reached_by(&mut self, count: usize) -> (f32, f32) {
        self.look();
        if 2 * count <= self.len() / BLOCK {
            return reached_by(count, &self.logits, &mut self.maxima);
        }
        // The bound would be too low to be worth a pass.
        match dispatch(Largest(&self.logits)) {
            f32::INFINITY => (f32::INFINITY, f32::INFINITY),
            largest => (f32::NEG_INFINITY, largest),
        }
    }

    /// Lends the ids of the `count` most probable tokens (of all allowed ones if there are fewer), in no particular
    /// order, together with the logits. Ties go to the lower id.
    pub fn with_best<R>(&mut self, count: usize, f: impl FnOnce(&[TokenId], &mut [f32]) -> R) -> R {
        let (least, _) = self.reached_by(count);
        self.with_those_from(least, |order, logits| {
            let count = count.min(order.len());
            if 0 < count && count < order.len() {
                order.select_nth_unstable_by(count - 1, |&a, &b| descending(logits, a, b));
            }
            f(&order[..count], logits)
        })
    }

    /// Whether a logit is `NaN` or `+inf`, as from a damaged model: such a row is not a distribution, and no token is
    /// sampled from it.
    pub fn is_broken(&self) -> bool {
        self.look();
        dispatch(Largest(&self.logits)) == f32::INFINITY
    }

    /// The largest logit, or `None` if no token can be sampled: all are forbidden, or the row [is
    /// broken](Row::is_broken).
    pub fn max(&self) -> Option<f32> {
        self.look();
        Some(dispatch(Largest(&self.logits))).filter(|max| max.is_finite())
    }

    /// The natural logarithm of the sum of all `exp(logit)`: a logit minus this is the logarithm of its token's
    /// probability. `None` if no token can be sampled.
    #[doc(alias = "log_softmax")]
    #[doc(alias = "logsumexp")]
    pub fn log_sum_exp(&self) -> Option<f64> {
        let max = self.max()?;
        let total: f64 = self.logits.iter().map(|&z| weight(z, max)).sum();
        Some(f64::from(max) + total.ln())
    }

    /// The surprise of a token, in nats: minus the natural logarithm of its probability. `None` if it has none.
    pub fn surprise(&self, token: TokenId) -> Option<f64> {
        let logit = self.logits.get(token as usize).copied().filter(|logit| logit.is_finite())?;
        Some(self.log_sum_exp()? - f64::from(logit))
    }

    /// The entropy of the distribution of the next token, in nats; `None` if no token can be sampled.
    pub fn entropy(&self) -> Option<f64> {
        let max = self.max()?;
        let (mut total, mut moment) = (0.0, 0.0);
        for &z in self.logits.iter().filter(|&&z| z > f32::NEG_INFINITY) {
            let w = weight(z, max);
            total += w;
            moment += w * f64::from(z - max);
        }
        Some(total.ln() - moment / total)
    }

    /// The distribution of the next token: `softmax(logits)` in `f64`. All zero if no token can be sampled.
    pub fn distribution(&self) -> Vec<f64> {
        let mut distribution = Vec::new();
        self.distribution_into(&mut distribution);
        distribution
    }

    /// As [`Row::distribution`], replacing the contents of `distribution`.
    pub fn distribution_into(&self, distribution: &mut Vec<f64>) {
        distribution.clear();
        let Some(max) = self.max() else { return distribution.resize(self.len(), 0.0) };
        distribution.resize(self.len(), 0.0);
        let mut total = 0.0;
        for (distribution, logits) in allowed(distribution, &self.logits) {
            for (w, &z) in distribution.iter_mut().zip(logits) {
                *w = weight(z, max);
                total += *w;
            }
        }
        allowed(distribution, &self.logits)
            .for_each(|(distribution, _)| distribution.iter_mut().for_each(|w| *w /= total));
    }
}

impl Steps {
    /// Applies the steps to a row that has its logits.
    pub fn apply(&self, row: &mut Row) {
        let token_set = |set: Words| {
            let mut tokens = TokenSet::new(64 * set.count);
            tokens.fill_words(|all| all.copy_from_slice(self.words_of(set)));
            tokens
        };
        for step in self.steps() {
            match *step {
                Step::Restrict(set) => row.restrict(&token_set(set)),
                Step::Bias(set, delta) => row.bias(&token_set(set), delta),
                Step::Divide(by) => row.divide(by),
                Step::Repetition(set, by) => {
                    row.repetition(self.words_of(set).iter().map(|word| (word >> 32) as TokenId), by)
                }
                Step::Subtract(set) => {
                    let each = |word: &u64| ((word >> 32) as TokenId, f32::from_bits(*word as u32));
                    row.subtract(self.words_of(set).iter().map(each));
                }
                Step::TopK(k) => row.top_k(k),
                Step::TopP(p) => row.top_p(p),
                Step::MinP(p) => row.min_p(p),
                Step::EpsilonCutoff(epsilon) => row.epsilon_cutoff(epsilon),
                Step::EtaCutoff(epsilon) => row.eta_cutoff(epsilon),
                Step::TopA(factor) => row.top_a(factor),
                Step::Xtc(threshold) => row.exclude_top_choices(threshold),
                Step::TypicalP(mass) => row.typical_p(mass),
            }
        }
    }
}

/// The blocks of a row that allow a token, with the corresponding parts of a distribution.
fn allowed<'a>(distribution: &'a mut [f64], logits: &'a [f32]) -> impl Iterator<Item = (&'a mut [f64], &'a [f32])> {
    distribution.chunks_mut(BLOCK).zip(logits.chunks(BLOCK)).filter(|(_, logits)| !is_forbidden(logits))
}

/// The sum of the weights of tokens, added in the order of their ids.
pub(crate) fn total(logits: &[f32], max: f32) -> f64 {
    let mut total = 0.0;
    for block in logits.chunks(BLOCK).filter(|block| !is_forbidden(block)) {
        block.iter().for_each(|&z| total += weight(z, max));
    }
    total
}

/// The order of two tokens, most probable first.
pub(crate) fn descending(logits: &[f32], a: TokenId, b: TokenId) -> std::cmp::Ordering {
    logits[b as usize].total_cmp(&logits[a as usize]).then(a.cmp(&b))
}

/// `exp(logit - max)`. Most tokens of a warped row are forbidden, and need no exponential.
pub(crate) fn weight(logit: f32, max: f32) -> f64 {
    if logit == f32::NEG_INFINITY { 0.0 } else { f64::from(logit - max).exp() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn restrict_and_bias_touch_just_the_set() {
        let n = 130;
        let mut set = TokenSet::new(n);
        (0..n as u32).filter(|t| t % 7 == 2).for_each(|t| set.insert(t));
        let logits: Vec<f32> = (0..n).map(|t| t as f32).collect();
        let mut row = Row::from(logits.clone());
        row.bias(&set, 2.0);
        for (t, &z) in row.logits().iter().enumerate() {
            assert_eq!(z, logits[t] + if set.contains(t as u32) { 2.0 } else { 0.0 });
        }
        row.restrict(&set);
        for (t, &z) in row.logits().iter().enumerate() {
            assert_eq!(z, if set.contains(t as u32) { logits[t] + 2.0 } else { f32::NEG_INFINITY });
        }
    }

    /// Recorded steps give the same result as steps applied at once; steps that access the logits cannot be recorded.
    #[test]
    fn steps_are_kept_instead_of_done() {
        use crate::warp::{EpsilonCutoff, EtaCutoff, MinP, Temperature, TopA, TopK, TopP, TypicalP, Xtc};
        use crate::{Chain, CountPenalty, Forbid, Random, RepetitionPenalty, Transform};
        let chain = Chain::new()
            .then(RepetitionPenalty::new(1.5).unwrap())
            .then(CountPenalty::new(0.25, 0.125).unwrap())
            .then(Forbid::new(&[3], 50))
            .then(Temperature::new(0.7).unwrap())
            .then(TopK::new(30).unwrap())
            .then(TopP::new(0.8).unwrap())
            .then(MinP::new(0.05).unwrap())
            .then(EpsilonCutoff::new(0.01).unwrap())
            .then(EtaCutoff::new(0.03).unwrap())
            .then(TopA::new(0.2).unwrap())
            .then(TypicalP::new(0.9).unwrap())
            .then(Xtc::new(1.0, 0.1, Random::new(1)).unwrap())
            .then(Xtc::new(0.0, 0.1, Random::new(1)).unwrap());
        let mut state = chain.start(&[1, 2, 200]);
        [7, 2, 7].into_iter().for_each(|token| chain.advance(&mut state, token));
        let logits: Vec<f32> = (0..70).map(|t| ((t * 37 % 70) as f32 - 35.0) / 9.0).collect();
        let (mut there, mut steps) = (Row::default(), Steps::default());
        assert!(there.record(70, &mut steps, |row| chain.apply(&state, row)));
        // XTC is a step only where it excludes tokens.
        assert_eq!(steps.steps().len(), 12);
        let (mut now, mut later) = (Row::from(logits.clone()), Row::from(logits));
        chain.apply(&state, &mut now);
        steps.apply(&mut later);
        assert_eq!(later.logits(), now.logits());
        let kept = now.logits().iter().filter(|z| z.is_finite()).count();
        assert!((2..20).contains(&kept), "each step leaves something to the next: {kept}");
        let looks: [fn(&mut Row); 9] = [
            |row| assert!(!row.has_logits()),
            |row| assert!(row.max().is_some()),
            |row| assert!(!row.is_broken()),
            |row| assert_eq!(row.logits(), [0.0; 70]),
            |row| row.logits_mut().fill(0.0),
            |row| row.with_best(1, |_, _| ()),
            // Replacing the row cannot be recorded either.
            |row| row.load(&[5.0; 70]),
            |row| *row = Row::from(vec![5.0; 70]),
            |row| drop(std::mem::take(row)),
        ];
        for look in looks {
            assert!(!there.record(70, &mut steps, look));
            assert!(!there.record(70, &mut steps, |row| {
                row.restrict(&TokenSet::full(70));
                look(row);
                row.bias(&TokenSet::full(70), 1.0);
            }));
            assert!(there.record(70, &mut steps, |_| ()) && steps == Steps::default());
        }
    }

    /// A constraint that silently does nothing would be worse than the panic.
    #[test]
    fn a_row_does_what_it_is_told_after_a_panic_in_a_record() {
        let (mut row, mut steps, mut set) = (Row::default(), Steps::default(), TokenSet::new(4));
        set.insert(2);
        let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            row.record(4, &mut steps, |row| {
                row.restrict(&TokenSet::full(4));
                panic!("a step that fails");
            })
        }));
        assert!(caught.is_err());
        row.logits_mut().copy_from_slice(&[1.0, 2.0, 3.0, 4.0]);
        row.restrict(&set);
        assert_eq!(row.logits(), [f32::NEG_INFINITY, f32::NEG_INFINITY, 3.0, f32::NEG_INFINITY]);
        assert!(row.record(4, &mut steps, |row| row.restrict(&set)));
        assert_eq!(steps.steps().len(), 1);
    }

    /// After any steps, a row with a NaN or infinite logit is not a distribution, and yields no token.
    #[test]
    fn a_broken_row_gives_no_token() {
        use crate::warp::{
            DynamicTemperature, EpsilonCutoff, EtaCutoff, MinP, Temperature, TopA, TopK, TopP, TypicalP, Xtc,
        };
        use crate::{Chain, CountPenalty, Random, RepetitionPenalty, Sampler, Transform};
        let chains = [
            Chain::new(),
            Chain::new().then(Temperature::new(0.5).unwrap()),
            Chain::new().then(TopK::new(2).unwrap()),
            Chain::new().then(TopP::new(0.5).unwrap()),
            Chain::new().then(MinP::new(0.5).unwrap()),
            Chain::new().then(TypicalP::new(0.5).unwrap()),
            Chain::new().then(EpsilonCutoff::new(0.1).unwrap()),
            Chain::new().then(EtaCutoff::new(0.1).unwrap()),
            Chain::new().then(TopA::new(0.5).unwrap()),
            Chain::new().then(DynamicTemperature::new(1.0, 0.5, 1.0).unwrap()),
            Chain::new().then(Xtc::new(1.0, 0.1, Random::new(1)).unwrap()),
            Chain::new().then(RepetitionPenalty::new(2.0).unwrap()).then(CountPenalty::new(1.0, 1.0).unwrap()),
        ];
        for bad in [f32::NAN, -f32::NAN, f32::INFINITY] {
            for at in [0, 3, 40] {
                let mut logits: Vec<f32> = (0..41).map(|t| (t % 7) as f32).collect();
                logits[5] = f32::NEG_INFINITY;
                logits[at] = bad;
                for (i, chain) in chains.iter().enumerate() {
                    let mut state = chain.start(&[at as TokenId]);
                    chain.advance(&mut state, at as TokenId);
                    let mut row = Row::from(logits.clone());
                    chain.apply(&state, &mut row);
                    assert!(row.is_broken() && row.max().is_none(), "{bad} at {at} after chain {i}");
                    for sampler in [Sampler::Greedy, Sampler::Categorical] {
                        for u in [0.0, 0.5, 1.0 - f64::EPSILON] {
                            assert_eq!(sampler.sample(&row, u), None, "{bad} at {at} after chain {i}");
                        }
                        assert!(sampler.distribution(&row).iter().all(|&p| p == 0.0));
                    }
                }
            }
        }
        assert!(!Row::from(vec![f32::NEG_INFINITY, f32::MAX, f32::MIN]).is_broken());
    }

    #[test]
    fn entropy_and_normalizer_are_those_of_the_distribution() {
        let row = Row::from(vec![0.3, f32::NEG_INFINITY, -1.0, 2.0, 0.3]);
        let distribution = row.distribution();
        let entropy: f64 = distribution.iter().filter(|&&p| p > 0.0).map(|p| -p * p.ln()).sum();
        assert!((row.entropy().unwrap() - entropy).abs() < 1e-12);
        assert!((2.0 - row.log_sum_exp().unwrap() - distribution[3].ln()).abs() < 1e-12);
        let one = Row::from(vec![f32::NEG_INFINITY, 700.0]);
        assert_eq!((one.entropy(), one.log_sum_exp()), (Some(0.0), Some(700.0)));
        let none = Row::from(vec![f32::NEG_INFINITY; 2]);
        assert_eq!((none.entropy(), none.log_sum_exp()), (None, None));
    }

    #[test]
    fn restrict_forbids_what_a_shorter_set_does_not_know() {
        let mut row = Row::from(vec![0.0; 200]);
        row.restrict(&TokenSet::full(100));
        assert!(row.logits().iter().enumerate().all(|(t, z)| z.is_finite() == (t < 100)));
    }

    #[test]
    fn an_impossible_row_has_no_distribution() {
        let row = Row::from(vec![f32::NEG_INFINITY; 4]);
        assert_eq!(row.max(), None);
        assert_eq!(row.distribution(), [0.0; 4]);
    }
}
