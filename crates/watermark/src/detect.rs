//! The detector: reads tokens and returns evidence.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use verdigris_logits::TokenId;

use crate::distinct::{Distinct, Sum};
use crate::level::Level;
use crate::real::{exp, ln};
use crate::scheme::{Observation, Scheme};
use crate::score_distribution::ScoreDistribution;
use crate::statistics::ln_corrected;

/// Observations that are looked up together.
pub(crate) const BATCH: usize = 32;

/// The most counted observations that are kept with their positions, for windows and plots.
pub const MAX_RECORD: usize = 1 << 24;

/// The rule by which evidence counts as a repeat.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Repeats {
    /// A context that occurred before, whatever follows it. The safest rule, since the text after equal words is rarely
    /// independent of what followed them the first time. An observation that occurred before in another context is not
    /// counted either.
    #[default]
    Context,
    /// The same token after the same context. Counts more of a text.
    Observation,
    /// Nothing: every position counts, as in some other detectors. The p-value is then too small wherever a text
    /// repeats itself. The colours of a single list are then binomial, since a token may occur again.
    Nothing,
}

/// The detector's result for one token.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Mark {
    /// Too few tokens come before it, or it belongs to another part of the key.
    Unscored,
    /// A constraint allowed only this token.
    Forced,
    /// Not counted: a repeat, or left out of the sample of a very long text.
    Repeated {
        /// Whether its score is above the mean.
        green: bool,
        /// Its score.
        score: f32,
    },
    /// Counted.
    Counted {
        /// Whether its score is above the mean of unmarked text: green, where there are colours.
        green: bool,
        /// Its score.
        score: f32,
    },
}

/// A counted observation and its position in the text.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scored {
    /// The index of the judged token in the text.
    pub token: u32,
    /// Its score.
    pub score: f32,
}

/// Reads the tokens of one text, in any number of pieces, and adds up their scores.
///
/// The work per token is constant (the dialects that permute the vocabulary need `V * gamma` steps for each new pair of
/// context and token), and the memory is at most some 70 MiB unless a record is kept.
#[doc(alias = "WatermarkDetector")]
pub struct Detector {
    scheme: Arc<dyn Scheme>,
    distribution: ScoreDistribution,
    mean: f64,
    repeats: Repeats,
    /// The last tokens read, as context for the next ones.
    tail: Vec<TokenId>,
    tokens: u64,
    names: Names,
    observations: Vec<Observation>,
    marks: Vec<Mark>,
    record: Option<Vec<Scored>>,
}

/// The names of the counted contexts and observations.
struct Names {
    /// Contexts, where they decide what is a repeat and observations have separate names.
    contexts: Option<Distinct>,
    observations: Distinct,
    /// The sum of the scores of the counted observations.
    sum: Sum,
    /// Where every position counts: the number of observations, and their sum.
    all: Option<(u64, f64)>,
}

/// The evidence of a text.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Evidence {
    /// The number of tokens that were read.
    pub tokens: u64,
    /// The number of counted observations.
    pub scored: u64,
    /// The sum of their scores: the number of green tokens, where there are colours.
    pub score: f64,
    /// The sum that unmarked text has on average.
    pub expected: f64,
    /// Whether scores are colours: 1 for green, 0 for red.
    pub colours: bool,
    /// 1 where every observation was counted; for very long texts the share that was sampled.
    pub sampled: f64,
    /// Standard deviations above the expected sum. Shown because it is well known; the verdict depends on the p-value
    /// alone. NaN for scores whose deviation is not known.
    pub z: f64,
    /// The natural logarithm of the p-value of this one look: the probability that a text independent of the key has
    /// this sum or more.
    pub ln_p: f64,
    /// The number of looks (keys, dialects, offsets) of which this is the best; 1 for a single look.
    pub tried: f64,
    /// The least possible `ln_p` of `scored` observations, and of one.
    least: [f64; 2],
}

/// A text so short that even the highest scores would not reach the level.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("too short to decide: {scored} tokens can be scored, and a verdict takes at least {needed}")]
pub struct TooShort {
    /// The number of observations that the text has.
    pub scored: u64,
    /// The fewest with which a verdict 'marked' is possible.
    pub needed: u64,
}

impl Detector {
    /// A detector for `scheme`'s mark, with [`Repeats::Context`].
    pub fn new(scheme: Arc<dyn Scheme>) -> Self {
        let distribution = scheme.distribution();
        let mean = distribution.mean();
        let rules = scheme.embed_rules();
        let padding = rules.padding.filter(|_| rules.judges_beginning);
        let tail = padding.map_or(Vec::new(), |padding| vec![padding; scheme.context_width()]);
        let names = Names { contexts: None, observations: Distinct::new(), sum: Sum::new(), all: None };
        let (observations, marks) = (Vec::new(), Vec::new());
        let repeats = Repeats::default();
        Self { scheme, distribution, mean, repeats, tail, tokens: 0, names, observations, marks, record: None }
            .repeats(repeats)
    }

    /// Sets the rule for repeats; must be called before anything is read.
    #[must_use]
    pub fn repeats(mut self, repeats: Repeats) -> Self {
        self.repeats = repeats;
        let by_context = repeats == Repeats::Context && !self.scheme.context_decides();
        self.names.contexts = by_context.then(Distinct::new);
        self.names.all = (repeats == Repeats::Nothing).then_some((0, 0.0));
        let distribution = self.scheme.distribution();
        self.distribution = if repeats == Repeats::Nothing { distribution.with_replacement() } else { distribution };
        self
    }

    /// Keeps the counted observations with their positions, up to [`MAX_RECORD`] of them.
    #[must_use]
    pub fn recording(mut self) -> Self {
        self.record = Some(Vec::new());
        self
    }

    /// Reads the next tokens of the text and returns one mark for each of them.
    pub fn push(&mut self, tokens: &[TokenId]) -> &[Mark] {
        self.push_if(tokens, |_| true)
    }

    /// Like [`Detector::push`], but scores only tokens with a choice: those where `choices`, one number per token, is 2
    /// or more. The others only serve as context: a forced token is no evidence for or against a mark, and a context
    /// that occurred before a forced token is not a repeat when it occurs before another.
    ///
    /// The p-value stays exact as long as `choices` does not depend on the key.
    ///
    /// # Panics
    /// If `tokens` and `choices` have different lengths.
    pub fn push_choices(&mut self, tokens: &[TokenId], choices: &[u32]) -> &[Mark] {
        assert_eq!(tokens.len(), choices.len(), "one number a token");
        self.push_if(tokens, |i| choices[i] > 1)
    }

    /// Makes room for the names of this number of tokens if nothing was read yet.
    pub(crate) fn reserve(&mut self, tokens: usize) {
        let Names { contexts, observations, all, .. } = &mut self.names;
        if all.is_none() {
            contexts.iter_mut().chain([observations]).for_each(|names| names.reserve(tokens));
        }
    }

    /// Like [`Detector::push`], without the marks.
    pub(crate) fn count(&mut self, tokens: &[TokenId]) {
        self.read::<false>(tokens, |_| true);
    }

    /// Scores the tokens of the piece for whose index `is_free` returns true.
    fn push_if(&mut self, tokens: &[TokenId], is_free: impl Fn(usize) -> bool) -> &[Mark] {
        self.read::<true>(tokens, is_free);
        &self.marks
    }

    fn read<const MARKS: bool>(&mut self, tokens: &[TokenId], is_free: impl Fn(usize) -> bool) {
        let width = self.scheme.context_width();
        self.observations.clear();
        self.tail.extend_from_slice(tokens);
        if self.tail.len() > width {
            self.scheme.observe(&self.tail, &mut self.observations);
        }
        self.marks.clear();
        let unscored = tokens.len() - self.observations.len();
        if MARKS {
            self.marks.resize(unscored, Mark::Unscored);
        }
        let mut index = unscored;
        let by_draw = self.repeats == Repeats::Observation || self.names.contexts.is_some();
        let name = |observation: &Observation| if by_draw { observation.identity } else { observation.context };
        let before = self.tokens;
        self.reserve(self.observations.len());
        for batch in self.observations.chunks(BATCH) {
            if self.names.all.is_none() {
                self.names.observations.expect(batch.iter().map(name));
            }
            if let Some(contexts) = &self.names.contexts {
                contexts.expect(batch.iter().map(|observation| observation.context));
            }
            for observation in batch {
                let (score, at) = (observation.score, index);
                index += 1;
                if score.is_nan() || !is_free(at) {
                    if MARKS {
                        self.marks.push(if score.is_nan() { Mark::Unscored } else { Mark::Forced });
                    }
                    continue;
                }
                let counted = match &mut self.names {
                    Names { all: Some((count, sum)), .. } => {
                        *count += 1;
                        *sum += f64::from(score);
                        true
                    }
                    Names { contexts, observations, sum, .. } => {
                        let is_new = |contexts: &mut Distinct| contexts.insert(observation.context).is_some();
                        let zeros = match contexts.as_mut().is_none_or(is_new) {
                            true => observations.insert(name(observation)),
                            false => None,
                        };
                        zeros.inspect(|&zeros| sum.add(zeros, score)).is_some()
                    }
                };
                if MARKS {
                    let green = f64::from(score) > self.mean;
                    self.marks.push(if counted {
                        Mark::Counted { green, score }
                    } else {
                        Mark::Repeated { green, score }
                    });
                }
                if let Some(record) = self.record.as_mut().filter(|record| counted && record.len() < MAX_RECORD) {
                    record.push(Scored { token: (before + at as u64) as u32, score });
                }
            }
        }
        self.tail.drain(..self.tail.len().saturating_sub(width));
        self.tokens += tokens.len() as u64;
    }

    /// The counted observations, where a record is kept.
    pub fn record(&self) -> &[Scored] {
        self.record.as_deref().unwrap_or_default()
    }

    /// The distribution of one observation's score.
    pub fn distribution(&self) -> &ScoreDistribution {
        &self.distribution
    }

    /// The evidence of all tokens read so far.
    pub fn evidence(&self) -> Evidence {
        let Names { contexts, observations, sum, all } = &self.names;
        let (scored, score) = all.unwrap_or((observations.len() as u64, sum.at(observations.level())));
        let level = contexts.as_ref().map_or(0, Distinct::level) + observations.level();
        Evidence {
            sampled: 0.5f64.powi(level as i32),
            tokens: self.tokens,
            ..Evidence::from_sum(&self.distribution, scored, score)
        }
    }
}

impl Evidence {
    /// The evidence of a whole text.
    pub fn of(scheme: Arc<dyn Scheme>, tokens: &[TokenId]) -> Self {
        let mut detector = Detector::new(scheme);
        detector.push(tokens);
        detector.evidence()
    }

    /// The evidence of `scored` observations whose scores sum to `score`.
    pub fn from_sum(distribution: &ScoreDistribution, scored: u64, score: f64) -> Self {
        let unit = if let ScoreDistribution::Integer(distribution) = distribution { distribution.unit } else { 1.0 };
        let mean = distribution.mean();
        Self {
            tokens: scored,
            scored,
            score: score * unit,
            expected: if mean.is_nan() { 0.0 } else { scored as f64 * mean * unit },
            colours: distribution.is_of_colours(),
            sampled: 1.0,
            z: distribution.z_score(scored, score),
            ln_p: distribution.ln_tail(scored, score),
            tried: 1.0,
            least: [distribution.ln_least(scored), distribution.ln_least(1)],
        }
    }

    /// The same evidence with another number of tokens read.
    #[must_use]
    pub fn of_tokens(self, tokens: u64) -> Self {
        Self { tokens, ..self }
    }

    /// The same evidence with another sampled share.
    #[must_use]
    pub fn of_sample(self, sampled: f64) -> Self {
        Self { sampled, ..self }
    }

    /// The same observations with a weighted sum of their scores instead of a plain one.
    pub(crate) fn with_sum(self, tokens: u64, score: f64, expected: f64, z: f64, ln_p: f64) -> Self {
        // Such a sum is not a number of green tokens, even where it is an integer.
        Self { tokens, score, expected, colours: false, z, ln_p, ..self }
    }

    /// The same evidence as the best of `tried` looks.
    #[must_use]
    pub fn best_of(self, tried: f64) -> Self {
        Self { tried, ..self }
    }

    /// The logarithm of the p-value, corrected for all looks.
    pub fn ln_p_corrected(&self) -> f64 {
        ln_corrected(self.ln_p, self.tried)
    }

    /// The p-value, corrected for all looks; may underflow to zero, unlike its logarithm.
    pub fn p(&self) -> f64 {
        exp(self.ln_p_corrected())
    }

    /// Whether the p-value is at or under a level.
    ///
    /// # Errors
    /// [`TooShort`] if no text with this number of observations could reach the level.
    pub fn is_marked(&self, level: Level) -> Result<bool, TooShort> {
        let bound = level.ln() - ln(self.tried);
        if self.least[0] > bound {
            let needed = (bound / self.least[1]).ceil().max(1.0) as u64;
            return Err(TooShort { scored: self.scored, needed: needed.max(self.scored + 1) });
        }
        Ok(self.reaches(level))
    }

    /// Whether the p-value is at or under a level, also if no text of this length could reach it.
    pub fn reaches(&self, level: Level) -> bool {
        self.ln_p_corrected() <= level.ln()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialects::hugging_face::{Seeding, hugging_face};
    use crate::dialects::kgw::kgw;
    use crate::dialects::synthid::{Bits, Score, SynthId};
    use crate::dialects::unigram::Unigram;
    use crate::dialects::vllm::{vllm, vllm_dual};
    use crate::{Context, ContextFunction, Gamma, Native};
    use verdigris_logits::random::philox4x32;

    fn schemes() -> Vec<Arc<dyn Scheme>> {
        let native = |function, width| -> Arc<dyn Scheme> {
            let context = Context::new(function, width).unwrap();
            Arc::new(Native::new(&[9; 32], "id", "", Gamma::new(0.25).unwrap(), context, 1000))
        };
        let kgw = |scheme: &str| -> Arc<dyn Scheme> {
            Arc::new(kgw(15_485_863, scheme.parse().unwrap(), 0.25, 1000).unwrap())
        };
        vec![
            native(ContextFunction::All, 1),
            native(ContextFunction::All, 6),
            native(ContextFunction::Min, 4),
            native(ContextFunction::SelfSalted, 3),
            kgw("simple_1"),
            kgw("selfhash"),
            Arc::new(Unigram::new(0, 0.5, 1000).unwrap()),
            Arc::new(vllm(42, 4, 1000)),
            Arc::new(vllm_dual(42, 0.1, 4, 1000)),
            Arc::new(SynthId::new(&[1, 2, 3, 4], Bits::Table, 5, Score::WeightedMean, 1000).unwrap()),
        ]
    }

    fn noise(n: u32, seed: u32) -> Vec<TokenId> {
        (0..n).map(|i| philox4x32([i, 0, 0, 0], [seed, 0])[0] % 1000).collect()
    }

    #[test]
    fn pieces_give_what_the_whole_gives() {
        let tokens = noise(1000, 1);
        for scheme in schemes() {
            for repeats in [Repeats::Context, Repeats::Observation, Repeats::Nothing] {
                let detector = || Detector::new(scheme.clone()).repeats(repeats).recording();
                let mut whole = detector();
                let marks_whole = whole.push(&tokens).to_vec();
                let counted = marks_whole.iter().filter(|mark| matches!(mark, Mark::Counted { .. })).count();
                assert_eq!(counted, whole.record().len());
                assert_eq!(counted as u64, whole.evidence().scored);
                for size in [1, 2, 7, 64, 65, 333] {
                    let mut detector = detector();
                    let marks: Vec<Mark> =
                        tokens.chunks(size).flat_map(|piece| detector.push(piece).to_vec()).collect();
                    assert_eq!(detector.evidence(), whole.evidence(), "{scheme:?} in pieces of {size}");
                    assert_eq!(marks, marks_whole);
                    assert_eq!(detector.record(), whole.record());
                }
            }
        }
    }

    /// Forced tokens are only context: they are not counted, whatever their colour, and do not make a token with a
    /// choice after the same context a repeat.
    #[test]
    fn forced_tokens_are_no_evidence() {
        let tokens = noise(900, 5);
        for scheme in schemes() {
            let free: Vec<u32> = tokens.iter().map(|token| 1 + token % 3).collect();
            let mut whole = Detector::new(scheme.clone()).repeats(Repeats::Nothing);
            let every = whole.push(&tokens).to_vec();
            let mut detector = Detector::new(scheme.clone()).repeats(Repeats::Nothing).recording();
            let marks = detector.push_choices(&tokens, &free).to_vec();
            let mut sum = 0.0;
            for ((mark, every), &ways) in marks.iter().zip(&every).zip(&free) {
                match every {
                    Mark::Counted { score, .. } if ways > 1 => {
                        assert_eq!(mark, every);
                        sum += f64::from(*score);
                    }
                    Mark::Counted { .. } => assert_eq!(*mark, Mark::Forced),
                    other => assert_eq!(mark, other),
                }
            }
            let count = marks.iter().filter(|mark| matches!(mark, Mark::Counted { .. })).count();
            assert_eq!(
                detector.evidence(),
                Evidence::from_sum(detector.distribution(), count as u64, sum).of_tokens(900)
            );
            assert!(detector.record().iter().all(|scored| free[scored.token as usize] > 1));
            for size in [1, 7, 65] {
                let mut pieces = Detector::new(scheme.clone()).repeats(Repeats::Nothing);
                let pieces_of = tokens.chunks(size).zip(free.chunks(size));
                let read: Vec<Mark> =
                    pieces_of.flat_map(|(tokens, free)| pieces.push_choices(tokens, free).to_vec()).collect();
                assert_eq!(read, marks, "{scheme:?} in pieces of {size}");
            }
            // The same text twice: a token that is forced the first time and free the second is counted the second
            // time.
            let twice = [&tokens[..], &tokens].concat();
            let late: Vec<u32> = (0..1800).map(|i| 1 + u32::from(i >= 900)).collect();
            let (mut first, mut second) = (Detector::new(scheme.clone()), Detector::new(scheme.clone()));
            first.push(&tokens);
            second.push_choices(&twice, &late);
            let (first, second) = (first.evidence().scored, second.evidence().scored);
            assert!(second + 8 >= first && second <= first + 8, "{scheme:?}: {second}, and {first} without the first");
        }
    }

    #[test]
    fn repetition_is_no_evidence() {
        for scheme in schemes() {
            let once = noise(200, 2);
            let text = once.repeat(30);
            let evidence = Evidence::of(scheme.clone(), &text);
            let width = scheme.context_width() as u64;
            assert!(evidence.scored <= 200 + 2 * width, "{scheme:?}: {evidence:?}");
            assert_eq!(evidence.tokens, 6000);
            let mut all = Detector::new(scheme.clone()).repeats(Repeats::Nothing);
            all.push(&text);
            assert!(all.evidence().scored >= 6000 - width);
        }
    }

    /// Of the tokens after equal contexts, `Context` counts one and `Observation` each different one.
    #[test]
    fn repeats_are_told_by_context_or_by_draw() {
        let scheme = schemes().remove(0);
        let text = [5, 1, 5, 2, 5, 3, 5, 1, 5, 2];
        let count = |repeats| {
            let mut detector = Detector::new(scheme.clone()).repeats(repeats);
            detector.push(&text);
            detector.evidence().scored
        };
        // Contexts 5, 1, 2, 3; pairs 5-1, 5-2, 5-3, 1-5, 2-5, 3-5.
        assert_eq!([Repeats::Context, Repeats::Observation, Repeats::Nothing].map(count), [4, 6, 9]);
    }

    /// Tokens that do not decide a colour do not make a context another one: where a single token of the window
    /// decides, contexts differ by that token alone.
    #[test]
    fn contexts_are_those_that_decide() {
        let skipgram = |name: &str| kgw(7, name.parse().unwrap(), 0.25, 1000).unwrap();
        // The scheme, the distance from the judged token back to the deciding one, and whether the scheme calls itself
        // self-salted.
        let one_decides: [(Arc<dyn Scheme>, usize, bool); 3] = [
            (Arc::new(hugging_face(7, Seeding::LeftHash, 4, 0.25, 1000).unwrap()), 1, false),
            (Arc::new(skipgram("skipgram")), 5, false),
            // The candidate does not influence the list that judges it.
            (Arc::new(skipgram("ff-skipgram_prf-3-True")), 2, true),
        ];
        let tokens: Vec<TokenId> = noise(2000, 6).iter().map(|token| token % 40).collect();
        for (scheme, back, salted) in one_decides {
            let width = scheme.context_width();
            let different: std::collections::HashSet<TokenId> =
                (width..tokens.len()).map(|at| tokens[at - back]).collect();
            let scored = Evidence::of(scheme.clone(), &tokens).scored;
            assert_eq!(scored, different.len() as u64, "{scheme:?}");
            let mut observations = Vec::new();
            scheme.observe(&tokens[..=width], &mut observations);
            assert!(salted || observations[0].context == scheme.context_name(&tokens[..width]), "{scheme:?}");
        }
    }

    /// A word repeated three thousand times is one toss under a list whose tokens are drawn without replacement, and
    /// three thousand tosses with replacement.
    #[test]
    fn where_every_position_counts_one_list_is_drawn_from_again_and_again() {
        let scheme = Arc::new(Unigram::new(0, 0.5, 4096).unwrap());
        let mut detector = Detector::new(scheme.clone()).repeats(Repeats::Nothing).recording();
        let is_green = |token: TokenId| Evidence::of(scheme.clone(), &[token]).score == 1.0;
        let green = (0..).find(|&token| is_green(token)).unwrap();
        detector.push(&[green; 3000]);
        let evidence = detector.evidence();
        assert_eq!((evidence.scored, evidence.score), (3000, 3000.0));
        assert!((evidence.ln_p / (3000.0 * 0.5f64.ln()) - 1.0).abs() < 1e-12, "{evidence:?}");
        assert_eq!(evidence.is_marked(Level::DEFAULT), Ok(true));
        assert!(crate::windows::ln_p_anywhere(detector.distribution(), detector.record()).is_finite());
        let once = Detector::new(scheme.clone()).repeats(Repeats::Nothing).repeats(Repeats::Context);
        assert_eq!(
            *once.distribution(),
            scheme.distribution(),
            "a rule that is changed takes its distribution with it"
        );
    }

    /// p-values of unmarked texts are uniform (or larger, being discrete): checked over many keys.
    #[test]
    fn false_alarms_are_as_rare_as_claimed() {
        let (keys, length) = (4000u32, 120);
        // A text full of repetition, the hard case.
        let tokens: Vec<TokenId> = noise(length, 3).iter().map(|t| t % 12).collect();
        let native = |secret: &[u8; 32], function| -> Arc<dyn Scheme> {
            let (context, gamma) = (Context::new(function, 3).unwrap(), Gamma::new(0.25).unwrap());
            Arc::new(Native::new(secret, "", "", gamma, context, 1000))
        };
        type Make<'a> = Box<dyn Fn(&[u8; 32]) -> Arc<dyn Scheme> + 'a>;
        let number = |secret: &[u8; 32]| u64::from(u32::from_le_bytes([secret[0], secret[1], 7, 1]));
        let makers: [(&str, Make<'_>); 6] = [
            ("all", Box::new(|secret| native(secret, ContextFunction::All))),
            ("min", Box::new(|secret| native(secret, ContextFunction::Min))),
            ("self-salted", Box::new(|secret| native(secret, ContextFunction::SelfSalted))),
            ("vllm", Box::new(|secret| Arc::new(vllm(number(secret), 2, 1000)))),
            ("vllm dual", Box::new(|secret| Arc::new(vllm_dual(number(secret), 0.1, 2, 1000)))),
            (
                "synthid",
                Box::new(|secret| {
                    let keys = [0, 1, 2, 3].map(|i| (number(secret) * 977 + i * 7919) as i64);
                    Arc::new(SynthId::new(&keys, Bits::Hash, 3, Score::Mean, 1000).unwrap())
                }),
            ),
        ];
        for (name, make) in makers {
            let mut under = [0u32; 3];
            for key in 0..keys {
                let mut secret = [0; 32];
                secret[..4].copy_from_slice(&key.to_le_bytes());
                let p = Evidence::of(make(&secret), &tokens).p();
                for (count, level) in under.iter_mut().zip([0.5, 0.1, 0.01]) {
                    *count += u32::from(p <= level);
                }
            }
            for (count, level) in under.into_iter().zip([0.5, 0.1, 0.01]) {
                let expected = f64::from(keys) * level;
                let bound = expected + 4.0 * (expected * (1.0 - level)).sqrt();
                assert!(f64::from(count) <= bound, "{name}: {count} of {keys} under {level}");
                assert!(f64::from(count) >= 0.5 * expected, "{name}: only {count} of {keys} under {level}");
            }
        }
    }

    #[test]
    fn short_texts_are_undecided() {
        let scheme = schemes().remove(0);
        for n in 0..10 {
            let short = Evidence::of(scheme.clone(), &noise(n, 4)).is_marked(Level::DEFAULT).unwrap_err();
            assert_eq!((short.scored, short.needed), (u64::from(n.saturating_sub(1)), short.needed.max(9)));
        }
        assert_eq!(Evidence::of(scheme, &noise(100, 4)).is_marked(Level::DEFAULT), Ok(false));
    }

    #[test]
    fn every_look_is_paid_for() {
        let evidence = Evidence::from_sum(&ScoreDistribution::Green { gamma: 0.5 }, 40, 36.0);
        assert_eq!(evidence.is_marked(Level::DEFAULT), Ok(true));
        let best = evidence.best_of(1e6);
        assert!((best.p() / evidence.p() / 1e6 - 1.0).abs() < 1e-9);
        assert_eq!(best.is_marked(Level::DEFAULT), Ok(false));
        assert!(evidence.best_of(1e30).is_marked(Level::DEFAULT).is_err(), "40 tokens cannot pay for so many");
    }
}
