//! An attacker that learns from marked and unmarked texts which tokens a key favours after which contexts (Jovanović,
//! Staab, Vechev, *Watermark stealing in large language models*, ICML 2024, section 4).
//!
//! Each token is counted after several contexts: the four tokens before it together, and each of them by itself, since
//! one of them decides if a scheme takes a minimum. The score of a token after a context compares the number of its
//! occurrences in marked texts with the number to expect from unmarked ones.

use std::collections::HashMap;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::sync::Arc;

use verdigris::logits::{Row, TokenId, Transform};

/// The number of tokens before a token that its contexts are made of.
const WIDTH: usize = 4;

/// Occurrences that the frequencies of single tokens count for, next to those after a context.
const PRIOR: f64 = 10.0;

/// The scores of tokens after each context.
pub(super) struct Learned {
    after: HashMap<u64, Vec<(TokenId, f32)>>,
}

/// The contexts of the next token. Fewer than [`WIDTH`] tokens have none.
fn contexts(tokens: &[TokenId]) -> impl Iterator<Item = u64> {
    let last = tokens.last_chunk::<WIDTH>();
    let hasher = BuildHasherDefault::<DefaultHasher>::default();
    let whole = last.map(|last| hasher.hash_one(last));
    whole.into_iter().chain(last.into_iter().flatten().map(move |token| hasher.hash_one(token)))
}

/// A token after a context, and whether the text is marked.
type Occurrence = (u64, TokenId, bool);

impl Learned {
    /// Learns from texts.
    pub(super) fn new(marked: &[Vec<TokenId>], plain: &[Vec<TokenId>]) -> Self {
        let mut all: Vec<Occurrence> = Vec::new();
        let mut single: HashMap<TokenId, f64> = HashMap::new();
        for (is_marked, texts) in [(true, marked), (false, plain)] {
            for text in texts {
                for at in WIDTH..text.len() {
                    all.extend(contexts(&text[..at]).map(|context| (context, text[at], is_marked)));
                    *single.entry(text[at]).or_default() += f64::from(u8::from(!is_marked));
                }
            }
        }
        let total: f64 = single.values().sum::<f64>().max(1.0);
        all.sort_unstable();
        let mut after = HashMap::new();
        for of_context in all.chunk_by(|a, b| a.0 == b.0) {
            let marked = of_context.iter().filter(|of| of.2).count() as f64;
            let plain = of_context.len() as f64 - marked;
            let score = |of_token: &[Occurrence]| {
                let token = of_token[0].1;
                let seen = of_token.iter().filter(|of| of.2).count() as f64;
                let usual = (of_token.len() as f64 - seen + PRIOR * single[&token] / total) / (plain + PRIOR);
                (token, ((seen + 1.0) / (marked * usual + 1.0)).ln() as f32)
            };
            let scores: Vec<(TokenId, f32)> = of_context.chunk_by(|a, b| a.1 == b.1).map(score).collect();
            after.insert(of_context[0].0, scores);
        }
        Self { after }
    }
}

/// A step that makes a model favour what was learned.
pub(super) struct Forger {
    pub(super) learned: Arc<Learned>,
    /// The bias of a score of 1.
    pub(super) strength: f32,
}

impl Transform for Forger {
    type State = Vec<TokenId>;

    fn start(&self, prompt: &[TokenId]) -> Vec<TokenId> {
        prompt[prompt.len().saturating_sub(WIDTH)..].to_vec()
    }

    fn apply(&self, last: &Vec<TokenId>, row: &mut Row) {
        for context in contexts(last) {
            for &(token, score) in self.learned.after.get(&context).into_iter().flatten() {
                row.logits_mut()[token as usize] += self.strength * score;
            }
        }
    }

    fn advance(&self, last: &mut Vec<TokenId>, token: TokenId) {
        if last.len() == WIDTH {
            last.remove(0);
        }
        last.push(token);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_frequent_in_marked_texts_is_favoured_where_it_was_seen() {
        let text = |next: TokenId| vec![1, 2, 3, 4, next];
        let plain: Vec<_> = (0..100).map(|i| text(5 + i % 2)).collect();
        let marked: Vec<_> = (0..100).map(|i| text(5 + TokenId::from(i % 10 == 0))).collect();
        let learned = Arc::new(Learned::new(&marked, &plain));
        let mut row = Row::from(vec![0.0; 8]);
        let forger = Forger { learned, strength: 1.0 };
        let mut state = forger.start(&[1, 9, 9, 9, 9]);
        forger.apply(&state, &mut row);
        assert_eq!(row.logits(), [0.0; 8], "nothing is known after other tokens");
        (1..=4).for_each(|token| forger.advance(&mut state, token));
        assert_eq!(state, [1, 2, 3, 4]);
        row.load(&[0.0; 8]);
        forger.apply(&state, &mut row);
        // 90 instead of 50 and 10 instead of 50, after five contexts.
        let logits = row.logits();
        assert!((logits[5] / 5.0 - (91.0f32 / 51.0).ln()).abs() < 0.1, "{logits:?}");
        assert!((logits[6] / 5.0 - (11.0f32 / 51.0).ln()).abs() < 0.2, "{logits:?}");
        assert_eq!(logits[7], 0.0);
    }
}
