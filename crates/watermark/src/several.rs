//! Detection under several schemes at once, such as the variants of a key.

use std::sync::Arc;

use verdigris_logits::TokenId;

use crate::detect::{BATCH, Detector, Evidence, Repeats};
use crate::distinct::{Distinct, Sum};
use crate::scheme::{Scheme, identity, name};
use crate::score_distribution::ScoreDistribution;

/// The number of tokens that are read at once, since they need a multiple of their memory meanwhile.
const AT_ONCE: usize = 1 << 16;

/// Reads the tokens of one text, in any number of pieces, for the marks of several schemes. The evidence is that of a
/// [`Detector`] for each.
///
/// Schemes whose repeats do not depend on the key ([`Scheme::by_position`]) count the same tokens, which are found
/// once, and only those are scored.
pub struct Detectors {
    way: Way,
}

enum Way {
    Shared(Box<Shared>),
    Each(Vec<Detector>),
}

impl Detectors {
    /// A detector for the marks of all schemes.
    pub fn new(schemes: Vec<Arc<dyn Scheme>>, repeats: Repeats) -> Self {
        let way = match Shared::new(&schemes, repeats) {
            Some(shared) => Way::Shared(Box::new(shared)),
            None => Way::Each(schemes.into_iter().map(|scheme| Detector::new(scheme).repeats(repeats)).collect()),
        };
        Self { way }
    }

    /// Reads the next tokens of the text.
    pub fn push(&mut self, tokens: &[TokenId]) {
        match &mut self.way {
            Way::Shared(shared) => {
                shared.names.reserve(tokens.len());
                tokens.chunks(AT_ONCE).for_each(|tokens| shared.push(tokens));
            }
            Way::Each(detectors) => {
                for detector in detectors {
                    detector.reserve(tokens.len());
                    tokens.chunks(AT_ONCE).for_each(|tokens| detector.count(tokens));
                }
            }
        }
    }

    /// The evidence of all tokens read so far, for each scheme in order.
    pub fn evidence(&self) -> Vec<Evidence> {
        match &self.way {
            Way::Shared(shared) => shared.evidence(),
            Way::Each(detectors) => detectors.iter().map(Detector::evidence).collect(),
        }
    }
}

/// A detector for schemes that count the same tokens.
struct Shared {
    marks: Vec<Summed>,
    width: usize,
    repeats: Repeats,
    /// The last tokens read, as context for the next ones.
    tail: Vec<TokenId>,
    tokens: u64,
    names: Distinct,
    /// The counted positions of the piece, and the leading zeros of their names.
    positions: Vec<u32>,
    zeros: Vec<u32>,
    scores: Vec<f32>,
}

/// The sum of the scores under one scheme.
struct Summed {
    scheme: Arc<dyn Scheme>,
    distribution: ScoreDistribution,
    sum: Sum,
}

impl Shared {
    /// Returns `None` if the schemes may count different tokens.
    fn new(schemes: &[Arc<dyn Scheme>], repeats: Repeats) -> Option<Self> {
        let width = schemes.first()?.context_width();
        let is_alike = |scheme: &Arc<dyn Scheme>| {
            scheme.by_position().is_some() && scheme.context_width() == width && !scheme.embed_rules().judges_beginning
        };
        if repeats == Repeats::Nothing || !schemes.iter().all(is_alike) {
            return None;
        }
        let summed = |scheme: &Arc<dyn Scheme>| {
            let distribution = scheme.distribution();
            Summed { scheme: scheme.clone(), distribution, sum: Sum::new() }
        };
        let marks = schemes.iter().map(summed).collect();
        let (tail, positions, zeros, scores) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        Some(Self { marks, width, repeats, tail, tokens: 0, names: Distinct::new(), positions, zeros, scores })
    }

    fn push(&mut self, tokens: &[TokenId]) {
        let Self { marks, width, repeats, tail, names, positions, zeros, scores, .. } = self;
        tail.extend_from_slice(tokens);
        positions.clear();
        zeros.clear();
        let judged = tail.len().saturating_sub(*width);
        let mut batch = [0; BATCH];
        for start in (0..judged).step_by(BATCH) {
            let batch = &mut batch[..BATCH.min(judged - start)];
            for (of_token, window) in batch.iter_mut().zip(tail[start..].windows(*width + 1)) {
                let context = name(&window[..*width]);
                *of_token = if *repeats == Repeats::Context { context } else { identity(context, window[*width]) };
            }
            names.expect(batch.iter().copied());
            for (at, &name) in (start + *width..).zip(&*batch) {
                if let Some(zero) = names.insert(name) {
                    positions.push(at as u32);
                    zeros.push(zero);
                }
            }
        }
        for Summed { scheme, sum, .. } in marks {
            scores.clear();
            let by_position = scheme.by_position().expect("checked when the detector was made");
            by_position.scores(tail, positions, scores);
            zeros.iter().zip(&*scores).for_each(|(&zeros, &score)| sum.add(zeros, score));
        }
        tail.drain(..tail.len().saturating_sub(*width));
        self.tokens += tokens.len() as u64;
    }

    fn evidence(&self) -> Vec<Evidence> {
        let level = self.names.level();
        let of = |Summed { distribution, sum, .. }: &Summed| {
            Evidence::from_sum(distribution, self.names.len() as u64, sum.at(level))
                .of_tokens(self.tokens)
                .of_sample(0.5f64.powi(level as i32))
        };
        self.marks.iter().map(of).collect()
    }
}

#[cfg(test)]
mod tests {
    use verdigris_logits::random::philox4x32;

    use super::*;
    use crate::dialects::native_gumbel::{Parameters, native_gumbel};
    use crate::{Context, ContextFunction, Dialect, Key, VocabularyId};

    /// Words of few tokens, so that contexts repeat, and the same passage twice.
    fn text(n: u32) -> Vec<TokenId> {
        let words = (0..n).map(|i| philox4x32([i, 0, 0, 0], [7, 4])[0] % 9);
        let once: Vec<TokenId> = words.collect();
        [&once[..], &once[..once.len() / 2]].concat()
    }

    fn variants(function: ContextFunction, width: usize) -> Vec<Arc<dyn Scheme>> {
        let context = Context::new(function, width).unwrap();
        let scheme = |i: u8| -> Arc<dyn Scheme> { Arc::new(native_gumbel(&[i; 32], "id", "", context, 9).unwrap()) };
        (0..5).map(scheme).collect()
    }

    /// In pieces of several lengths, for every rule, and past the capacity of the set of names.
    #[test]
    fn the_evidence_is_that_of_one_detector_each() {
        let mut shared = 0;
        for function in [ContextFunction::All, ContextFunction::Min] {
            for (width, length) in [(1, 60), (4, 2000), (6, 9000)] {
                let text = text(length);
                for repeats in [Repeats::Context, Repeats::Observation, Repeats::Nothing] {
                    let schemes = variants(function, width);
                    let expected = schemes.iter().map(|scheme| {
                        let mut one = Detector::new(scheme.clone()).repeats(repeats);
                        one.push(&text);
                        one.evidence()
                    });
                    let expected: Vec<Evidence> = expected.collect();
                    assert!(repeats == Repeats::Nothing || expected[0].scored < expected[0].tokens * 2 / 3);
                    for piece in [1, 3, 50, text.len()] {
                        let mut all = Detectors::new(schemes.clone(), repeats);
                        text.chunks(piece).for_each(|piece| all.push(piece));
                        assert_eq!(all.evidence(), expected, "{function:?} {width} {repeats:?} {piece}");
                        shared += usize::from(matches!(all.way, Way::Shared(_)));
                    }
                }
            }
        }
        assert_eq!(shared, 3 * 2 * 4, "all except those by the minimum, and where every position counts");
    }

    #[test]
    fn a_long_text_is_sampled_alike() {
        let text: Vec<TokenId> = (0..1_300_000).map(|i| philox4x32([i, 0, 0, 0], [7, 4])[0] % 50_000).collect();
        let schemes = variants(ContextFunction::All, 4);
        let mut all = Detectors::new(schemes.clone(), Repeats::Context);
        all.push(&text);
        let mut one = Detector::new(schemes[3].clone());
        text.chunks(100_000).for_each(|piece| _ = one.push(piece));
        assert_eq!((all.evidence()[3], one.evidence().sampled), (one.evidence(), 0.5));
    }

    /// Keys with a public part read different tokens.
    #[test]
    fn parts_of_a_text_are_read_one_by_one() {
        let vocabulary = VocabularyId::new(9, "few").unwrap();
        let key = || {
            let dialect = Dialect::NativeGumbel(Parameters::default());
            Key::new(vec![5; 32], "id", dialect, None, vocabulary.clone()).unwrap().with_variants(3).unwrap()
        };
        for (key, is_shared) in [(key(), true), (key().with_public_part().unwrap(), false)] {
            let schemes = key.schemes().unwrap();
            let mut all = Detectors::new(schemes.clone(), Repeats::Context);
            assert_eq!(matches!(all.way, Way::Shared(_)), is_shared);
            all.push(&text(3000));
            let each: Vec<Evidence> = schemes.into_iter().map(|scheme| Evidence::of(scheme, &text(3000))).collect();
            assert_eq!(all.evidence(), each);
        }
    }
}
