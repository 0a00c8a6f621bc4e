//! The distribution of texts by the definitions of the options, in 64-bit floating point, and without the code that
//! generates: a constraint is the list of all texts that match by another library, and a mark is what a detector reads.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use verdigris::logits::TokenId;
use verdigris::models::{Batch, LanguageModel, Rows, Wanted};
use verdigris::watermark::Scheme;
use verdigris_tests::tiny_models::END;

use crate::axes::{
    AFTER, ALPHA, Choice, Combination, DELTA, FREQUENCY, Form, GUIDANCE, Mark, NEAR_BEST, PRESENCE, REPETITION,
    Steering, TEMPERATURE, TOP_P,
};
use crate::world::World;

/// Texts without their end tokens, with their probabilities or scores.
pub(crate) type TextProbabilities = BTreeMap<Vec<TokenId>, f64>;

/// The token of the marker that ends a thought.
const CLOSE: usize = 1;

const NEVER: f64 = f64::NEG_INFINITY;

pub(crate) struct Definition<'w> {
    world: &'w World,
    of: Combination,
    tokens: usize,
    prompt: Vec<TokenId>,
    negative: Vec<TokenId>,
    /// The texts that match the constraint.
    whole: BTreeSet<Vec<TokenId>>,
    /// For SynthID one scheme for each layer.
    schemes: Vec<Arc<dyn Scheme>>,
}

impl<'w> Definition<'w> {
    /// The definition for texts of at most `tokens` tokens, with the key of the given number.
    pub(crate) fn new(world: &'w World, of: Combination, tokens: usize, key: u32) -> Self {
        let tokenizer = world.reader().tokenizer();
        let judge = world.judge_all(of.form);
        let mut whole = BTreeSet::new();
        let mut open = vec![Vec::new()];
        while let Some(text) = open.pop() {
            if text.len() < tokens {
                open.extend((0..END).map(|token| [&text[..], &[token]].concat()));
            }
            if judge(&tokenizer.decode(&text)) {
                whole.insert(text);
            }
        }
        let schemes = match of.mark {
            Mark::Nothing => Vec::new(),
            Mark::SynthId => world.layers(key),
            Mark::Hard | Mark::Soft | Mark::Gumbel => vec![world.key(of.mark, key).unwrap().scheme().unwrap()],
        };
        let [prompt, negative] = [world.prompt, world.negative].map(|text| tokenizer.encode_prompt(text).unwrap());
        Self { world, of, tokens, prompt, negative, whole, schemes }
    }

    /// All texts and their probabilities.
    pub(crate) fn texts(&self) -> TextProbabilities {
        self.walk(1.0, |written| self.distribution(written), |p, q| p * q)
    }

    /// All texts and the sums that beams rank them by: of log-probabilities to which all steps except those of sampling
    /// are applied.
    pub(crate) fn scores(&self) -> TextProbabilities {
        let scores = |written: &[TokenId]| {
            let row = self.row(written);
            let normalizer = log_sum_exp(&row);
            self.steps(row.into_iter().map(|z| z - normalizer).collect(), written)
        };
        self.walk(0.0, scores, |sum, score| sum + score)
    }

    /// Visits all texts, combining the values of their tokens.
    fn walk(
        &self,
        first: f64,
        of: impl Fn(&[TokenId]) -> Vec<f64>,
        and: impl Fn(f64, f64) -> f64,
    ) -> TextProbabilities {
        let (mut all, mut open) = (TextProbabilities::new(), vec![(Vec::new(), first)]);
        while let Some((text, sum)) = open.pop() {
            if text.len() == self.tokens {
                all.insert(text, sum);
                continue;
            }
            for (token, value) in (0..).zip(of(&text)).filter(|(_, value)| *value != NEVER && *value != 0.0) {
                let sum = and(sum, value);
                match token {
                    END => drop(all.insert(text.clone(), sum)),
                    _ => open.push(([&text[..], &[token]].concat(), sum)),
                }
            }
        }
        all
    }

    /// The distribution of the token after `written`.
    pub(crate) fn distribution(&self, written: &[TokenId]) -> Vec<f64> {
        let is_greedy = self.of.choice == Choice::Greedy;
        let mut distribution = self.before_noise(written);
        if self.of.mark.is_noise() && self.surprise(written) >= AFTER {
            if is_greedy {
                let best = distribution.iter().copied().fold(0.0, f64::max);
                distribution.iter_mut().filter(|p| **p < NEAR_BEST * best).for_each(|p| *p = 0.0);
                let total: f64 = distribution.iter().sum();
                distribution.iter_mut().for_each(|p| *p /= total);
            }
            distribution = match self.of.mark {
                Mark::Gumbel => self.by_gumbel(distribution, written),
                _ => self.by_tournament(distribution, written),
            };
        }
        if is_greedy {
            let best = (0..distribution.len()).rev().max_by(|&a, &b| distribution[a].total_cmp(&distribution[b]));
            return (0..distribution.len()).map(|token| f64::from(u8::from(Some(token) == best))).collect();
        }
        distribution
    }

    /// The number of tokens before the part that the mark of the last token belongs to: the answer is marked as a text
    /// of its own.
    fn mark_begins(&self, written: &[TokenId]) -> usize {
        self.world.answer_begins(self.of.form, written)
    }

    /// The sum of `-ln p` over the tokens so far, until the mark begins.
    fn surprise(&self, written: &[TokenId]) -> f64 {
        (self.mark_begins(written)..written.len()).fold(0.0, |sum, i| match sum < AFTER {
            true => sum - self.before_noise(&written[..i])[written[i] as usize].ln(),
            false => sum,
        })
    }

    /// The distribution of the token after `written` before noise chooses.
    fn before_noise(&self, written: &[TokenId]) -> Vec<f64> {
        let mut row = self.steps(self.row(written), written);
        if self.of.choice == Choice::Greedy {
            return normalized(&row);
        }
        row.iter_mut().for_each(|z| *z /= TEMPERATURE);
        let mut distribution = normalized(&row);
        let mut order: Vec<usize> = (0..distribution.len()).collect();
        order.sort_by(|&a, &b| distribution[b].total_cmp(&distribution[a]));
        let mut mass = 0.0;
        for token in order {
            if mass >= TOP_P {
                distribution[token] = 0.0;
            }
            mass += distribution[token];
        }
        let total: f64 = distribution.iter().sum();
        distribution.iter_mut().for_each(|p| *p /= total);
        distribution
    }

    /// The logits of the models.
    fn row(&self, written: &[TokenId]) -> Vec<f64> {
        let World { base, expert, anti, .. } = self.world;
        let after = |model: &Arc<dyn LanguageModel>, prompt: &[TokenId]| read(model, &[prompt, written].concat());
        let own = after(base.model(), &self.prompt);
        match self.of.steering {
            Steering::Unsteered => own,
            Steering::ProxyTuning => {
                let [expert, anti] = [expert, anti].map(|engine| after(engine.model(), &self.prompt));
                (0..own.len()).map(|v| own[v] + ALPHA * (expert[v] - anti[v])).collect()
            }
            Steering::Guidance => {
                let away = after(base.model(), &self.negative);
                let [normalizer, of_away] = [&own, &away].map(|row| log_sum_exp(row));
                let ln = |v: usize| (own[v] - normalizer, away[v] - of_away);
                (0..own.len()).map(ln).map(|(p, q)| q + GUIDANCE * (p - q)).collect()
            }
        }
    }

    /// Applies penalties, the constraint, and a mark of green lists.
    fn steps(&self, mut row: Vec<f64>, written: &[TokenId]) -> Vec<f64> {
        if self.of.choice == Choice::Penalties {
            for (token, z) in (0..).zip(&mut row) {
                let count = written.iter().filter(|&&other| other == token).count() as f64;
                if count > 0.0 || self.prompt.contains(&token) {
                    *z = if *z > 0.0 { *z / REPETITION } else { *z * REPETITION };
                }
                *z -= if count > 0.0 { PRESENCE + count * FREQUENCY } else { 0.0 };
            }
        }
        if self.of.form != Form::Free {
            for (token, z) in (0..).zip(&mut row) {
                let goes_on = |whole: &Vec<TokenId>| whole.starts_with(&[written, &[token]].concat());
                let may = if token == END { self.whole.contains(written) } else { self.whole.iter().any(goes_on) };
                *z = if may { *z } else { NEVER };
            }
        }
        // After a thought of this length its end follows.
        if self.world.is_thought(self.of.form, written) && written.len() >= self.world.budget {
            row.iter_mut().enumerate().filter(|(token, _)| *token != CLOSE).for_each(|(_, z)| *z = NEVER);
        }
        let green = |token| self.score(0, &[&self.prompt, written].concat(), token) == Some(1.0);
        match self.of.mark {
            Mark::Soft => (0..).zip(&mut row).filter(|(token, _)| green(*token)).for_each(|(_, z)| *z += DELTA),
            Mark::Hard => {
                let left: Vec<f64> = (0..).zip(&row).map(|(token, &z)| if green(token) { z } else { NEVER }).collect();
                if left.iter().any(|&z| z > NEVER) {
                    row = left;
                }
            }
            _ => (),
        }
        row
    }

    /// The score that a detector reads from a token after others; `None` after too few of them.
    fn score(&self, layer: usize, before: &[TokenId], token: TokenId) -> Option<f64> {
        let scheme = &self.schemes[layer];
        let context = &before[before.len().checked_sub(scheme.context_width())?..];
        let mut observed = Vec::new();
        scheme.observe(&[context, &[token]].concat(), &mut observed);
        Some(f64::from(observed[0].score))
    }

    /// Whether the context at the end of a text that begins with `begun` occurred before another token of the text.
    fn is_repeated(&self, begun: &[TokenId], written: &[TokenId]) -> bool {
        let width = self.schemes[0].context_width();
        let text = [begun, written].concat();
        let context = |end: usize| &text[end - width..end];
        (begun.len()..text.len()).any(|end| context(end) == context(text.len()))
    }

    /// The token with the highest `ln p - ln(-ln u)`, where the detector's score is `-ln(1 - u)`.
    fn by_gumbel(&self, distribution: Vec<f64>, written: &[TokenId]) -> Vec<f64> {
        let (thought, marked) = written.split_at(self.mark_begins(written));
        if self.is_repeated(&[&self.prompt, thought].concat(), marked) {
            return distribution;
        }
        let before = [&self.prompt, written].concat();
        let noisy = |token: usize| {
            let score = self.score(0, &before, token as TokenId).unwrap();
            distribution[token].ln() - (-(-(-score).exp_m1()).ln()).ln()
        };
        let best = (0..distribution.len()).max_by(|&a, &b| noisy(a).total_cmp(&noisy(b))).unwrap();
        (0..distribution.len()).map(|token| f64::from(u8::from(token == best))).collect()
    }

    /// Dathathri et al. 2024, for tournaments of two: in each layer a token wins against any other whose bit is not
    /// larger.
    fn by_tournament(&self, mut distribution: Vec<f64>, written: &[TokenId]) -> Vec<f64> {
        let padding = vec![0; self.schemes[0].context_width()];
        let written = &written[self.mark_begins(written)..];
        if self.is_repeated(&padding, written) {
            return distribution;
        }
        let before = [&padding[..], written].concat();
        for layer in 0..self.schemes.len() {
            let bits: Vec<f64> =
                (0..distribution.len()).map(|token| self.score(layer, &before, token as TokenId).unwrap()).collect();
            // A tie is won with probability one half.
            let wins = |a: usize, b: usize| (1.0 + bits[a] - bits[b]) / 2.0;
            let won =
                |a: usize| (0..distribution.len()).map(|b| 2.0 * distribution[a] * distribution[b] * wins(a, b)).sum();
            distribution = (0..distribution.len()).map(won).collect();
        }
        distribution
    }
}

/// The row after all given tokens, which are read at once.
fn read(model: &Arc<dyn LanguageModel>, tokens: &[TokenId]) -> Vec<f64> {
    let mut rows = Rows::default();
    let mut sequence = model.clone().begin(tokens.len()).unwrap();
    sequence.forward(&Batch::chain(tokens, Wanted::Last), &mut rows).unwrap();
    rows.last().iter().map(|&z| f64::from(z)).collect()
}

fn log_sum_exp(row: &[f64]) -> f64 {
    row.iter().map(|z| z.exp()).sum::<f64>().ln()
}

fn normalized(row: &[f64]) -> Vec<f64> {
    let normalizer = log_sum_exp(row);
    row.iter().map(|z| (z - normalizer).exp()).collect()
}
