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
/// The prompt is not part of the text that is constrained; this step tells it from the output. What has been worked out
/// for one text serves all: a constraint that is used again is cheaper than a new one. Clones are one constraint.
#[derive(Clone)]
pub struct Constraint {
    machine: Arc<Machine>,
    tokenizer: Arc<Tokenizer>,
    end: Arc<[TokenId]>,
    /// How many tokens there are for a text.
    tokens: u64,
}

/// Where a text stands, and how many tokens it may still take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    state: State,
    left: u64,
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
        let machine = Arc::new(Machine::new(grammar, trie));
        Self { machine, tokenizer, end: end.into(), tokens: u64::MAX }
    }

    /// The same constraint on texts of at most so many tokens: once the text can be made whole byte by byte,
    /// it stays so. Only near the end of its tokens does that forbid anything more.
    pub fn within(&self, tokens: usize) -> Self {
        Self { tokens: tokens as u64, ..self.clone() }
    }

    /// What decides.
    pub fn machine(&self) -> &Machine {
        &self.machine
    }
}

impl Transform for Constraint {
    type State = Standing;

    fn start(&self, _: &[TokenId]) -> Standing {
        Standing { state: self.machine.start(), left: self.tokens }
    }

    fn apply(&self, &Standing { state, left }: &Standing, row: &mut Row) {
        let mask = self.machine.mask(state);
        // After the next token.
        let left = left.saturating_sub(1);
        let is_tight = self.tokens != u64::MAX
            && self.machine.to_end(state) <= left + 1
            && self.machine.to_end_after(state) > left;
        if !mask.accepts && !is_tight {
            return row.restrict(&mask.tokens);
        }
        row.with_set(mask.tokens.capacity().max(row.len()), |row, allowed| {
            // Without a token for the byte that is next nothing may fit; then the text is cut short.
            let fits = is_tight && {
                self.machine.mask_within(state, left, allowed);
                mask.accepts || !allowed.is_empty()
            };
            if !fits {
                let words = mask.tokens.words();
                allowed.fill_words(|all| all[..words.len()].copy_from_slice(words));
            }
            if mask.accepts {
                let known = allowed.capacity();
                self.end.iter().filter(|&&token| (token as usize) < known).for_each(|&token| allowed.insert(token));
            }
            row.restrict(allowed);
        });
    }

    fn advance(&self, standing: &mut Standing, token: TokenId) {
        standing.state = self.machine.advance(standing.state, token, self.tokenizer.vocabulary().bytes(token));
        standing.left = standing.left.saturating_sub(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use verdigris_logits::{Purpose, Random, Sampler};

    /// Tokens that are allowed, by chance, up to the end (token 0) or so many; and where they lead.
    fn random_text(constraint: &Constraint, tokens: u64, seed: u64) -> (Standing, Vec<TokenId>) {
        let (mut standing, mut text, mut row) = (constraint.start(&[1, 2, 3]), Vec::new(), Row::default());
        for position in 0..tokens {
            row.load(&[0.0; 4096]);
            constraint.apply(&standing, &mut row);
            let u = Random::new(seed).uniform(position, Purpose::Token);
            let token = Sampler::Categorical.sample(&row, u).expect("a text can always go on or end");
            if token == 0 {
                break;
            }
            constraint.advance(&mut standing, token);
            text.push(token);
        }
        (standing, text)
    }

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
                let (_, text) = random_text(&constraint, u64::MAX, seed);
                let text = tokenizer.decode(&text);
                assert!(judge.is_match(&text), "{text:?} does not match {pattern:?}");
            }
        }
    }

    /// With as many tokens as the shortest text has bytes, every text is whole when they are used up.
    #[test]
    fn texts_are_whole_in_time() {
        let json = include_bytes!("../../../fixtures/models/tale/tokenizer.json");
        let tokenizer = Arc::new(Tokenizer::from_json(json).unwrap());
        let trie = Arc::new(Trie::new(tokenizer.vocabulary()));
        let nested = serde_json::json!({"type": "array", "items": {"anyOf": [{"$ref": "#"}, {"type": "string"}]}});
        let nested = Grammar::json_schema(&nested, crate::Style::default()).unwrap();
        for (grammar, shortest) in [(Grammar::regex("x(ab*c){2,9}yz").unwrap(), 7), (nested, 2)] {
            let constraint = Constraint::new(grammar, tokenizer.clone(), trie.clone(), &[0]);
            for tokens in [shortest, shortest + 1, 12, 40] {
                let within = constraint.within(tokens);
                for seed in 0..100 {
                    let (standing, text) = random_text(&within, tokens as u64, seed);
                    assert!(within.machine().accepts(standing.state), "{tokens}: {:?}", tokenizer.decode(&text));
                }
            }
        }
    }
}
