//! A constraint as a step on logits.

use std::fmt;
use std::sync::Arc;

use verdigris_logits::{Row, TokenId, Transform};
use verdigris_text::Tokenizer;

use crate::grammar::Grammar;
use crate::machine::{Machine, State};
use crate::trie::Trie;

/// Forbids every token after which no text of a grammar could come, and the end of the text where it is not
/// one yet.
///
/// The prompt is not part of the text that is constrained. What has been worked out for one text serves all:
/// a constraint that is used again is cheaper than a new one. Clones are one constraint.
#[derive(Clone)]
pub struct Constraint {
    machine: Arc<Machine>,
    tokenizer: Arc<Tokenizer>,
    end: Arc<[TokenId]>,
}

impl fmt::Debug for Constraint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Constraint {{ {:?} }}", self.machine)
    }
}

impl Constraint {
    /// The constraint of a grammar over the vocabulary of a tokenizer, whose trie is `trie`; `end` are the
    /// tokens that end a text.
    pub fn new(grammar: Grammar, tokenizer: Arc<Tokenizer>, trie: Arc<Trie>, end: &[TokenId]) -> Self {
        Self { machine: Arc::new(Machine::new(grammar, trie)), tokenizer, end: end.into() }
    }

    /// What decides.
    pub fn machine(&self) -> &Machine {
        &self.machine
    }
}

impl Transform for Constraint {
    type State = State;

    fn start(&self, _: &[TokenId]) -> State {
        self.machine.start()
    }

    fn apply(&self, state: &State, row: &mut Row) {
        let mask = self.machine.mask(*state);
        if !self.machine.accepts(*state) {
            return row.restrict(&mask);
        }
        row.with_set(mask.capacity().max(row.len()), |row, allowed| {
            allowed.fill_words(|words| words[..mask.words().len()].copy_from_slice(mask.words()));
            let known = allowed.capacity();
            self.end.iter().filter(|&&token| (token as usize) < known).for_each(|&token| allowed.insert(token));
            row.restrict(allowed);
        });
    }

    fn advance(&self, state: &mut State, token: TokenId) {
        *state = self.machine.next(*state, self.tokenizer.vocabulary().bytes(token));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use verdigris_logits::{Purpose, Random, Sampler};

    #[test]
    fn every_random_text_matches() {
        let json = include_bytes!("../../../fixtures/models/tale/tokenizer.json");
        let tokenizer = Arc::new(Tokenizer::from_json(json).unwrap());
        let trie = Arc::new(Trie::new(tokenizer.vocabulary()));
        for pattern in ["(yes|no|yesterday)", "[A-Z][a-z]{2,8}( [A-Z][a-z]{2,8})?", "-?\\d{1,4}\\.\\d{2}", "[αβγ]{2}!"]
        {
            let grammar = Grammar::regex(pattern).unwrap();
            let constraint = Constraint::new(grammar, tokenizer.clone(), trie.clone(), &[0]);
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
