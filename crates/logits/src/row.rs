//! One row of logits and the workspace that the steps on it share.

use crate::{TokenId, TokenSet};

/// The logits of the next token, one `f32` a token of the vocabulary. `-inf` forbids a token.
///
/// A row owns scratch space beside its logits, so one row that is loaded again and again makes every step
/// free of allocation. What most steps do is a *set of tokens and a number*: [`Row::restrict`] and
/// [`Row::bias`] say exactly that, so that a backend can do it without moving the row.
#[derive(Clone, Debug, Default)]
pub struct Row {
    logits: Vec<f32>,
    /// For steps that rank tokens.
    order: Vec<TokenId>,
    /// For steps that make a set of tokens.
    set: TokenSet,
}

impl From<Vec<f32>> for Row {
    fn from(logits: Vec<f32>) -> Self {
        Self { logits, ..Self::default() }
    }
}

impl Row {
    /// Replaces the logits by a copy of `logits`.
    pub fn load(&mut self, logits: &[f32]) {
        self.logits.clear();
        self.logits.extend_from_slice(logits);
    }

    /// The size of the vocabulary.
    pub fn len(&self) -> usize {
        self.logits.len()
    }

    /// Whether the row has no token at all.
    pub fn is_empty(&self) -> bool {
        self.logits.is_empty()
    }

    /// The logits by token.
    pub fn logits(&self) -> &[f32] {
        &self.logits
    }

    /// The logits by token, to be changed by a step that needs the whole row.
    pub fn logits_mut(&mut self) -> &mut [f32] {
        &mut self.logits
    }

    /// Forbids every token outside `set`. Tokens past the capacity of the set are forbidden too.
    pub fn restrict(&mut self, set: &TokenSet) {
        let mut words = set.words().iter();
        for chunk in self.logits.chunks_mut(64) {
            let word = words.next().copied().unwrap_or(0);
            for (bit, logit) in chunk.iter_mut().enumerate() {
                *logit = if word >> bit & 1 == 1 { *logit } else { f32::NEG_INFINITY };
            }
        }
    }

    /// Adds `delta` to every token of `set`.
    pub fn bias(&mut self, set: &TokenSet, delta: f32) {
        for (chunk, &word) in self.logits.chunks_mut(64).zip(set.words()) {
            for (bit, logit) in chunk.iter_mut().enumerate() {
                *logit += if word >> bit & 1 == 1 { delta } else { 0.0 };
            }
        }
    }

    /// Lends the row's scratch set, emptied and with the capacity asked for, beside the row itself.
    pub fn with_set<R>(&mut self, capacity: usize, f: impl FnOnce(&mut Self, &mut TokenSet) -> R) -> R {
        let mut set = std::mem::take(&mut self.set);
        set.reset(capacity);
        let result = f(self, &mut set);
        self.set = set;
        result
    }

    /// Lends the ids of all allowed tokens, to be put in any order, beside the logits.
    pub fn with_allowed<R>(&mut self, f: impl FnOnce(&mut [TokenId], &mut [f32]) -> R) -> R {
        let mut order = std::mem::take(&mut self.order);
        order.clear();
        order.extend((0..self.len() as TokenId).filter(|&t| self.logits[t as usize] > f32::NEG_INFINITY));
        let result = f(&mut order, &mut self.logits);
        self.order = order;
        result
    }

    /// Lends the ids of the `count` most probable tokens (of all allowed ones where there are fewer), in no
    /// order, beside the logits. Of equal logits the lower id is in.
    pub fn with_best<R>(&mut self, count: usize, f: impl FnOnce(&[TokenId], &mut [f32]) -> R) -> R {
        self.with_allowed(|order, logits| {
            let count = count.min(order.len());
            if 0 < count && count < order.len() {
                order.select_nth_unstable_by(count - 1, |&a, &b| descending(logits, a, b));
            }
            f(&order[..count], logits)
        })
    }

    /// The largest logit, or `None` where no token is allowed (all `-inf`, or `NaN`).
    pub fn max(&self) -> Option<f32> {
        let max = self.logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        (max > f32::NEG_INFINITY).then_some(max)
    }

    /// The law of the next token: `softmax(logits)` in `f64`. All zero where no token is allowed.
    pub fn distribution(&self) -> Vec<f64> {
        let Some(max) = self.max() else { return vec![0.0; self.len()] };
        let weights: Vec<f64> = self.logits.iter().map(|&z| weight(z, max)).collect();
        let total: f64 = weights.iter().sum();
        weights.into_iter().map(|w| w / total).collect()
    }
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

    #[test]
    fn restrict_forbids_what_a_shorter_set_does_not_know() {
        let mut row = Row::from(vec![0.0; 200]);
        row.restrict(&TokenSet::full(100));
        assert!(row.logits().iter().enumerate().all(|(t, z)| z.is_finite() == (t < 100)));
    }

    #[test]
    fn an_impossible_row_has_no_law() {
        let row = Row::from(vec![f32::NEG_INFINITY; 4]);
        assert_eq!(row.max(), None);
        assert_eq!(row.distribution(), [0.0; 4]);
    }
}
