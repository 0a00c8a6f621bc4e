//! A constraint as a step on logits.

use std::sync::Arc;

use regex_automata::util::primitives::StateID;
use verdigris_logits::{Row, TokenId, Transform};
use verdigris_text::Tokenizer;

use crate::regex::Regex;

/// Forbids every token after which no text could match, and the end of the text where it does not match yet.
///
/// The prompt is not part of the text that is to match.
#[derive(Clone)]
pub struct Constraint {
    regex: Arc<Regex>,
    tokenizer: Arc<Tokenizer>,
    end: Vec<TokenId>,
}

impl Constraint {
    /// The constraint of a regular expression; `end` are the tokens that end a text.
    pub fn new(regex: Arc<Regex>, tokenizer: Arc<Tokenizer>, end: Vec<TokenId>) -> Self {
        Self { regex, tokenizer, end }
    }
}

impl Transform for Constraint {
    type State = StateID;

    fn start(&self, _: &[TokenId]) -> StateID {
        self.regex.start()
    }

    fn apply(&self, state: &StateID, row: &mut Row) {
        let mask = self.regex.mask(*state);
        if !self.regex.is_match(*state) {
            return row.restrict(&mask);
        }
        row.with_set(mask.capacity().max(row.len()), |row, allowed| {
            allowed.fill_words(|words| words[..mask.words().len()].copy_from_slice(mask.words()));
            self.end.iter().for_each(|&token| allowed.insert(token));
            row.restrict(allowed);
        });
    }

    fn advance(&self, state: &mut StateID, token: TokenId) {
        *state = self.regex.next(*state, self.tokenizer.vocabulary().bytes(token));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Trie;
    use verdigris_logits::{Purpose, Random, Sampler};

    #[test]
    fn every_random_text_matches() {
        let json = include_bytes!("../../../fixtures/models/tale/tokenizer.json");
        let tokenizer = Arc::new(Tokenizer::from_json(json).unwrap());
        let trie = Arc::new(Trie::new(tokenizer.vocabulary()));
        for pattern in ["(yes|no|yesterday)", "[A-Z][a-z]{2,8}( [A-Z][a-z]{2,8})?", "-?\\d{1,4}\\.\\d{2}", "[αβγ]{2}!"]
        {
            let regex = Arc::new(Regex::new(pattern, trie.clone()).unwrap());
            let constraint = Constraint::new(regex, tokenizer.clone(), vec![0]);
            let judge = ::regex::Regex::new(&format!("^(?:{pattern})$")).unwrap();
            for seed in 0..200 {
                let mut state = constraint.start(&[1, 2, 3]);
                let (mut text, mut row) = (Vec::new(), Row::default());
                for position in 0.. {
                    row.load(&[0.0; 4096]);
                    constraint.apply(&state, &mut row);
                    let u = Random::new(seed).uniform(position, Purpose::Token);
                    let token = Sampler::Categorical.sample(&row, u).expect("a text can always go on or end");
                    if token == 0 {
                        break;
                    }
                    constraint.advance(&mut state, token);
                    text.push(token);
                }
                let text = tokenizer.decode(&text);
                assert!(judge.is_match(&text), "{text:?} does not match {pattern:?}");
            }
        }
    }
}
