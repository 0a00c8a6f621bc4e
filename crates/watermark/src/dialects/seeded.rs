//! Red and green by seed: a context gives a number, and the number gives a list.

use std::cell::RefCell;
use std::fmt::Debug;

use verdigris_logits::{Row, TokenId, TokenSet};

use super::deciders::Deciders;
use crate::scheme::{Observation, Scheme, mark_list, mix, name};
use crate::score_distribution::ScoreDistribution;
use crate::strength::Strength;

/// A function that turns a context into a seed.
pub(crate) trait Seed: Send + Sync + Debug {
    /// The number of tokens before the judged one that take part.
    fn context_width(&self) -> usize;

    /// Whether the judged token takes part too.
    fn self_salt(&self) -> SelfSalt {
        SelfSalt::No
    }

    /// The tokens that decide the seed: of the context and, where the scheme is self-salted, the judged token after it.
    fn deciders(&self) -> Deciders {
        Deciders::All
    }

    /// The seed for a context of [`Seed::context_width`] tokens and, where the scheme is self-salted, the judged
    /// token.
    fn seed(&self, context: &[TokenId], token: TokenId) -> u64;
}

/// Whether the judged token takes part in its own seed, so that every candidate has a separate list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SelfSalt {
    /// It does not: a context has a single list.
    No,
    /// It does, and a writer judges the given number of most probable tokens.
    Best(usize),
    /// It does, and a writer judges all tokens.
    All,
}

/// A function that turns a seed into a list.
pub(crate) trait List: Send + Sync + Debug {
    /// The distribution of a colour.
    fn distribution(&self) -> ScoreDistribution;

    /// The size of the vocabulary.
    fn vocabulary(&self) -> usize;

    /// Writes the green tokens into the words of an empty set.
    fn fill(&self, seed: u64, green: &mut TokenSet);

    /// Whether each token is green under the seed paired with it.
    fn judge(&self, questions: &[(u64, TokenId)], green: &mut Vec<bool>);
}

/// A function for seeds together with one for lists.
#[derive(Debug)]
pub(crate) struct Seeded<S, L> {
    pub(crate) seed: S,
    pub(crate) list: L,
}

/// Working space of one thread.
#[derive(Default)]
struct SeedScratch {
    questions: Vec<(u64, TokenId)>,
    green: Vec<bool>,
    kept: Vec<(TokenId, f32)>,
}

thread_local!(static SCRATCH: RefCell<SeedScratch> = RefCell::default());

impl<S: Seed, L: List> Seeded<S, L> {
    /// Judges the most probable tokens of a row, each under its own list, and marks the green ones.
    fn mark_candidates(&self, context: &[TokenId], count: usize, strength: Strength, row: &mut Row) {
        let vocabulary = self.list.vocabulary() as TokenId;
        row.with_best(count, |best, logits| {
            SCRATCH.with_borrow_mut(|SeedScratch { questions, green, kept }| {
                questions.clear();
                let known = best.iter().filter(|&&token| token < vocabulary);
                questions.extend(known.map(|&token| (self.seed.seed(context, token), token)));
                self.list.judge(questions, green);
                let marked = || questions.iter().zip(&*green).filter(|(_, green)| **green).map(|(&(_, t), _)| t);
                match strength {
                    Strength::Soft(delta) => marked().for_each(|t| logits[t as usize] += delta.value() as f32),
                    Strength::Hard if marked().next().is_some() => {
                        // Tokens that are not judged are not known to be green.
                        kept.clear();
                        kept.extend(marked().map(|t| (t, logits[t as usize])));
                        logits.fill(f32::NEG_INFINITY);
                        kept.iter().for_each(|&(t, z)| logits[t as usize] = z);
                    }
                    Strength::Hard => {}
                }
            });
        });
    }
}

impl<S: Seed, L: List> Scheme for Seeded<S, L> {
    fn distribution(&self) -> ScoreDistribution {
        self.list.distribution()
    }

    fn context_width(&self) -> usize {
        self.seed.context_width()
    }

    fn vocabulary_size(&self) -> usize {
        self.list.vocabulary()
    }

    fn observe(&self, tokens: &[TokenId], out: &mut Vec<Observation>) {
        let width = self.context_width();
        if tokens.len() <= width {
            return;
        }
        let (salted, deciders) = (self.seed.self_salt() != SelfSalt::No, self.seed.deciders());
        SCRATCH.with_borrow_mut(|SeedScratch { questions, green, .. }| {
            questions.clear();
            questions.extend(tokens.windows(width + 1).map(|window| {
                let token = window[width];
                (self.seed.seed(&window[..width], token), token)
            }));
            self.list.judge(questions, green);
            out.extend(tokens.windows(width + 1).zip(&*questions).zip(&*green).map(
                |((window, &(seed, token)), &green)| {
                    let identity = mix(mix(seed) ^ u64::from(token));
                    // A self-salted position with another candidate is another observation, if the candidate is one of
                    // the deciders.
                    let context = deciders.name(if salted { window } else { &window[..width] });
                    Observation { context, identity, score: f32::from(u8::from(green)) }
                },
            ));
        });
    }

    fn context_name(&self, context: &[TokenId]) -> u64 {
        match self.seed.self_salt() {
            SelfSalt::No => self.seed.deciders().name(context),
            SelfSalt::Best(_) | SelfSalt::All => name(context),
        }
    }

    fn mark(&self, context: &[TokenId], strength: Strength, row: &mut Row) {
        match self.seed.self_salt() {
            SelfSalt::No => {
                let seed = self.seed.seed(context, 0);
                mark_list(row, self.vocabulary_size(), strength, |green| self.list.fill(seed, green));
            }
            SelfSalt::Best(count) => self.mark_candidates(context, count, strength, row),
            SelfSalt::All => self.mark_candidates(context, usize::MAX, strength, row),
        }
    }
}
