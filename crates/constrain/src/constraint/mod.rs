//! A constraint as a step on logits.
//!
//! | module | contents |
//! |---|---|
//! | [`choices`] | where an existing text had a choice |
//! | `closed` | whether a text was ended early because its tokens ran out |
//! | [`cursor`] | one text, token by token, for callers that run a model themselves |
//! | `forced` | tokens that a constraint forces |
//! | [`explain`] | explanations of why a token is allowed or not |
//! | [`lexicon`] | the tokens that texts consist of |

pub mod choices;
mod closed;
pub mod cursor;
pub mod explain;
mod forced;
pub mod lexicon;

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use serde_json::Value;
use verdigris_logits::{Row, TokenId, Transform};

use self::forced::{Recent, forced};
use self::lexicon::Lexicon;
use crate::grammar::Grammar;
use crate::grammar::compose::BadChoice;
use crate::json::fault::BadSchema;
use crate::json::style::Style;
use crate::languages::fault::BadGrammar;
use crate::languages::language::Language;
use crate::machine::index::TokenIndex;
use crate::machine::mask::OverBudget;
use crate::machine::{MEMORY, Machine, STATES, State};
use crate::regex::BadRegex;

/// Forbids every token after which no text of a grammar could follow, and the end of the text where the text is not
/// complete.
///
/// The prompt is not part of the constrained text. What has been computed for one text serves all, so reusing a
/// constraint is cheaper than making a new one. Clones share everything.
///
/// # Memory
/// Masks are dropped past a limit ([`Constraint::with_memory`]; by default 64 MiB) and recomputed. When the states of
/// texts take that much too, new texts share a new machine, and the old one is freed with the last of its texts. So
/// memory depends on the texts that are being written, not on earlier ones: in addition to the two limits, a text holds
/// the states that it has passed through. If the states of the texts of one machine take more than
/// [`Constraint::with_text_memory`] (by default 1 GiB), a text that needs more cannot continue, and
/// [`Constraint::fault`] returns the reason.
#[doc(alias = "LogitsProcessor")]
#[doc(alias = "structured outputs")]
#[derive(Clone)]
pub struct Constraint {
    machines: Arc<Machines>,
    lexicon: Lexicon,
    /// The maximum number of tokens of a text.
    tokens: u64,
    forced: ForcedText,
}

/// The number of derived constraints that are kept.
const DERIVED: usize = 8;

/// How forced text is split into tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ForcedText {
    /// Any tokens that spell it.
    #[default]
    Any,
    /// The tokens that the tokenizer splits it into, which are the only ones a model has seen.
    Canonical,
}

/// The error that no text fits a constraint within the given number of tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoRoom {
    /// The number of tokens available.
    pub tokens: u64,
    /// A number of tokens that is enough, if known.
    pub enough: Option<u64>,
}

impl fmt::Display for NoRoom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no text of the form that is asked for fits into {} tokens: raise max_tokens", self.tokens)?;
        if let Some(enough) = self.enough {
            write!(f, " to {enough}")?;
        }
        write!(f, ", or shorten the prompt if the context is full")
    }
}

impl std::error::Error for NoRoom {}

/// The machine for texts that begin now, and the parameters of the next one.
struct Machines {
    grammar: Arc<Grammar>,
    current: RwLock<Arc<Machine>>,
    /// The maximum bytes of masks, and of states before new texts get a new machine.
    memory: usize,
    /// The maximum bytes of states.
    text_memory: usize,
    /// The reason why the last text with no allowed token had none.
    fault: RwLock<Option<OverBudget>>,
    /// Constraints that are derived from this one, with their names, the one that was used last at the end.
    derived: Mutex<Vec<(String, Constraint)>>,
}

impl Machines {
    fn new(grammar: Arc<Grammar>, lexicon: &Lexicon, memory: usize, text_memory: usize) -> Self {
        let machine = Self::machine(&grammar, lexicon.index(), memory, text_memory);
        Self {
            grammar,
            current: RwLock::new(machine),
            memory,
            text_memory,
            fault: RwLock::default(),
            derived: Mutex::default(),
        }
    }

    fn machine(grammar: &Arc<Grammar>, index: &Arc<TokenIndex>, memory: usize, text_memory: usize) -> Arc<Machine> {
        let machine = Machine::with_memory(grammar.clone(), index.clone(), memory);
        Arc::new(machine.with_states_memory(text_memory))
    }

    /// The machine for a new text.
    fn current(&self) -> Arc<Machine> {
        let current = self.current.read().unwrap_or_else(PoisonError::into_inner).clone();
        // A new text can use at least half of the text memory, whatever was written before.
        if current.states_memory() <= self.memory.min(self.text_memory / 2) {
            return current;
        }
        let mut next = self.current.write().unwrap_or_else(PoisonError::into_inner);
        // Another thread may have replaced it already.
        if Arc::ptr_eq(&next, &current) {
            *next = self.another(current.index());
        }
        next.clone()
    }

    /// A machine without any states.
    fn another(&self, index: &Arc<TokenIndex>) -> Arc<Machine> {
        Self::machine(&self.grammar, index, self.memory, self.text_memory)
    }
}

/// The position of a text in the grammar, and the number of tokens left.
#[derive(Clone, Debug)]
pub struct ConstraintState {
    /// The machine of the text, and its state there.
    pub(crate) machine: Arc<Machine>,
    pub(crate) at: State,
    pub(crate) recent: Recent,
    left: u64,
}

impl fmt::Debug for Constraint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Constraint {{ {:?} }}", self.machine())
    }
}

impl Constraint {
    /// Creates the constraint of a grammar over a vocabulary.
    pub fn new(grammar: impl Into<Arc<Grammar>>, lexicon: &Lexicon) -> Self {
        let machines = Arc::new(Machines::new(grammar.into(), lexicon, MEMORY, STATES));
        Self { machines, lexicon: lexicon.clone(), tokens: u64::MAX, forced: ForcedText::Any }
    }

    /// The same constraint with about the given number of bytes for masks, and as much for states. It shares nothing
    /// with this one.
    #[must_use]
    pub fn with_memory(&self, bytes: usize) -> Self {
        let Machines { grammar, text_memory, .. } = &*self.machines;
        let machines = Arc::new(Machines::new(grammar.clone(), &self.lexicon, bytes, *text_memory));
        Self { machines, ..self.clone() }
    }

    /// The same constraint with about the given number of bytes for the states of the texts that are being written on
    /// one machine; a text that needs more cannot continue. It shares nothing with this one.
    #[must_use]
    pub fn with_text_memory(&self, bytes: usize) -> Self {
        let Machines { grammar, memory, .. } = &*self.machines;
        let machines = Arc::new(Machines::new(grammar.clone(), &self.lexicon, *memory, bytes));
        Self { machines, ..self.clone() }
    }

    /// Creates a constraint to texts that match a regular expression as a whole, in the syntax of the `regex` crate.
    ///
    /// # Errors
    /// As for [`Grammar::regex`].
    pub fn regex(lexicon: &Lexicon, pattern: &str) -> Result<Self, BadRegex> {
        Ok(Self::new(Grammar::regex(pattern)?, lexicon))
    }

    /// Creates a constraint to one of the given texts.
    ///
    /// # Errors
    /// As for [`Grammar::choice`].
    pub fn choice<T: AsRef<str>>(lexicon: &Lexicon, texts: &[T]) -> Result<Self, BadChoice> {
        Ok(Self::new(Grammar::choice(texts)?, lexicon))
    }

    /// Creates a constraint to JSON that obeys a schema.
    ///
    /// # Errors
    /// As for [`Grammar::json_schema`].
    pub fn json_schema(lexicon: &Lexicon, schema: &Value, style: Style) -> Result<Self, BadSchema> {
        Ok(Self::new(Grammar::json_schema(schema, style)?, lexicon))
    }

    /// Creates a constraint to any JSON.
    pub fn json(lexicon: &Lexicon, style: Style) -> Self {
        Self::new(Grammar::json(style), lexicon)
    }

    /// The first control token of the grammar that the tokenizer does not have, by name: see
    /// [`Lexicon::missing_control`].
    pub fn missing_control(&self) -> Option<&str> {
        self.lexicon.missing_control(&self.machines.grammar)
    }

    /// Creates a constraint to texts of a grammar in one of the grammar languages.
    ///
    /// # Errors
    /// As for [`Grammar::parse`].
    pub fn grammar(lexicon: &Lexicon, language: Language, text: &str) -> Result<Self, BadGrammar> {
        Ok(Self::new(Grammar::parse(language, text)?, lexicon))
    }

    /// The same constraint, with the given splitting of forced text.
    #[must_use]
    pub fn forced_text(&self, forced: ForcedText) -> Self {
        Self { forced, ..self.clone() }
    }

    /// A constraint made from the grammar of this one, such as one with text around it. It is made once for each
    /// `name`, and shared by all clones of this constraint. The eight that were used last are kept.
    ///
    /// # Errors
    /// Those of `make`.
    pub fn derived<E>(&self, name: String, make: impl FnOnce(&Grammar) -> Result<Grammar, E>) -> Result<Self, E> {
        let Machines { grammar, memory, text_memory, derived, .. } = &*self.machines;
        let take = || {
            let mut derived = derived.lock().unwrap_or_else(PoisonError::into_inner);
            let at = derived.iter().position(|(known, _)| *known == name)?;
            Some(derived.remove(at).1)
        };
        let made = match take() {
            Some(made) => made,
            None => {
                let machines = Machines::new(make(grammar)?.into(), &self.lexicon, *memory, *text_memory);
                Self { machines: machines.into(), tokens: u64::MAX, ..self.clone() }
            }
        };
        let mut derived = derived.lock().unwrap_or_else(PoisonError::into_inner);
        // Another thread may have made it in the meantime.
        derived.retain(|(known, _)| *known != name);
        derived.push((name, made.clone()));
        let oldest = derived.len().saturating_sub(DERIVED);
        derived.drain(..oldest);
        Ok(Self { forced: self.forced, ..made })
    }

    /// The tokens that texts consist of.
    pub fn lexicon(&self) -> &Lexicon {
        &self.lexicon
    }

    /// The probability that the logits give to allowed tokens.
    pub(crate) fn allowed_probability(&self, state: &ConstraintState, logits: &[f32]) -> f64 {
        let mask = state.machine.mask(state.at);
        let ends = if mask.accepts { self.lexicon.end() } else { &[] };
        let highest = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let weight = |token: TokenId| logits.get(token as usize).map_or(0.0, |&logit| f64::from(logit - highest).exp());
        let ends: f64 = ends.iter().filter(|&&token| !mask.tokens.contains(token)).map(|&token| weight(token)).sum();
        let allowed: f64 = mask.tokens.iter().map(weight).sum::<f64>() + ends;
        allowed / (0..logits.len() as TokenId).map(weight).sum::<f64>()
    }

    /// The same constraint on texts of at most `tokens` tokens: as long as an ending that fits is known, only tokens
    /// that leave one are allowed. This forbids more than the constraint only near the end.
    ///
    /// An ending is searched for here, so a text has one from its beginning, unless [`Constraint::check`] reports that
    /// there is none or the search reached its budget (a fifth of a second). Then the text may run until its tokens are
    /// used up.
    pub fn within(&self, tokens: usize) -> Self {
        let within = Self { tokens: tokens as u64, ..self.clone() };
        let machine = within.machine();
        machine.ends_within(machine.start(), within.tokens);
        within
    }

    /// Checks that a text can be as short as [`Constraint::within`] requires.
    ///
    /// # Errors
    /// No text of that number of tokens obeys the constraint.
    pub fn check(&self) -> Result<(), NoRoom> {
        let machine = self.machine();
        let start = machine.start();
        if self.tokens == u64::MAX || machine.ends_within(start, self.tokens) != Some(false) {
            return Ok(());
        }
        Err(NoRoom { tokens: self.tokens, enough: machine.tokens_to_end(start) })
    }

    /// Whether the next token might make it impossible to end in time.
    fn is_tight(&self, &ConstraintState { ref machine, at, left, .. }: &ConstraintState) -> bool {
        self.tokens != u64::MAX
            && !machine.always_ends_within(at, left.saturating_sub(1))
            && machine.surely_ends_within(at, left.max(1), self.tokens)
    }

    /// The next token, if it is forced and its split is canonical.
    fn canonical(&self, &ConstraintState { ref machine, at, ref recent, .. }: &ConstraintState) -> Option<TokenId> {
        match self.forced {
            ForcedText::Any => None,
            ForcedText::Canonical => forced(machine, &self.lexicon, at, recent).first().copied(),
        }
    }

    /// The reason why the last text with no allowed token had none, if finding its continuations took too much work.
    pub fn fault(&self) -> Option<OverBudget> {
        self.machines.fault.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The machine that new texts use.
    pub fn machine(&self) -> Arc<Machine> {
        self.machines.current()
    }
}

impl Transform for Constraint {
    type State = ConstraintState;

    fn start(&self, prompt: &[TokenId]) -> ConstraintState {
        let machine = self.machine();
        if self.tokens != u64::MAX {
            // Each machine has to search for endings itself.
            machine.ends_within(machine.start(), self.tokens);
        }
        ConstraintState { at: machine.start(), machine, recent: Recent::of(prompt), left: self.tokens }
    }

    fn apply(&self, state: &ConstraintState, row: &mut Row) {
        let &ConstraintState { ref machine, at, left, .. } = state;
        let mask = machine.mask(at);
        if mask.tokens.is_empty() && !mask.accepts {
            *self.machines.fault.write().unwrap_or_else(PoisonError::into_inner) = machine.fault_at(at);
        }
        // The tokens left after the next one.
        let left = left.saturating_sub(1);
        let is_tight = self.is_tight(state);
        if !is_tight && let Some(token) = self.canonical(state) {
            return row.with_set(row.len(), |row, only| {
                only.insert(token);
                row.restrict(only);
            });
        }
        if !mask.accepts && !is_tight {
            return row.restrict(&mask.tokens);
        }
        row.with_set(mask.tokens.capacity().max(row.len()), |row, allowed| {
            let fits = is_tight && {
                machine.mask_ending_within(at, left, self.tokens, allowed);
                mask.accepts || !allowed.is_empty()
            };
            if !fits {
                let words = mask.tokens.words();
                allowed.fill_words(|all| all[..words.len()].copy_from_slice(words));
            }
            if mask.accepts {
                let known = allowed.capacity();
                self.lexicon
                    .end()
                    .iter()
                    .filter(|&&token| (token as usize) < known)
                    .for_each(|&token| allowed.insert(token));
            }
            row.restrict(allowed);
        });
    }

    fn decided(&self, state: &ConstraintState) -> Option<TokenId> {
        if self.is_tight(state) {
            return None;
        }
        let canonical = self.canonical(state);
        canonical.or_else(|| {
            let mask = state.machine.mask(state.at);
            let ends = if mask.accepts { self.lexicon.end() } else { &[] };
            let mut tokens = mask.tokens.iter().chain(ends.iter().copied());
            tokens.next().filter(|_| tokens.next().is_none())
        })
    }

    fn advance(&self, state: &mut ConstraintState, token: TokenId) {
        state.at = state.machine.advance(state.at, token, self.lexicon.bytes(token));
        state.recent.push(token);
        state.left = state.left.saturating_sub(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::LEXICON;
    use verdigris_logits::{Purpose, Random, Sampler};

    /// Samples allowed tokens at random up to the end (token 0) or `tokens` tokens; also returns the final state.
    fn random_text(constraint: &Constraint, tokens: u64, seed: u64) -> (ConstraintState, Vec<TokenId>) {
        let (mut state, mut text, mut row) = (constraint.start(&[1, 2, 3]), Vec::new(), Row::default());
        for position in 0..tokens {
            row.load(&[0.0; 4096]);
            constraint.apply(&state, &mut row);
            let u = Random::new(seed).uniform(position, Purpose::Token);
            let token = Sampler::Categorical.sample(&row, u).expect("a text can always continue or end");
            if token == 0 {
                break;
            }
            constraint.advance(&mut state, token);
            text.push(token);
        }
        (state, text)
    }

    #[test]
    fn every_random_text_matches() {
        for pattern in ["(yes|no|yesterday)", "[A-Z][a-z]{2,8}( [A-Z][a-z]{2,8})?", "-?\\d{1,4}\\.\\d{2}", "[αβγ]{2}!"]
        {
            let grammar = Grammar::regex(pattern).unwrap();
            let constraint = Constraint::new(grammar, &LEXICON);
            let judge = ::regex::Regex::new(&format!("^(?:{pattern})$")).unwrap();
            for seed in 0..200 {
                let (_, text) = random_text(&constraint, u64::MAX, seed);
                let text = LEXICON.tokenizer().decode(&text);
                assert!(judge.is_match(&text), "{text:?} does not match {pattern:?}");
            }
        }
    }

    /// Given as many tokens as the shortest text has bytes, every text is complete when they are used up.
    #[test]
    fn texts_are_whole_in_time() {
        let nested = serde_json::json!({"type": "array", "items": {"anyOf": [{"$ref": "#"}, {"type": "string"}]}});
        let nested = Grammar::json_schema(&nested, Style::default()).unwrap();
        for (grammar, shortest) in [(Grammar::regex("x(ab*c){2,9}yz").unwrap(), 7), (nested, 2)] {
            let constraint = Constraint::new(grammar, &LEXICON);
            for tokens in [shortest, shortest + 1, 12, 40] {
                let within = constraint.within(tokens);
                for seed in 0..100 {
                    let (state, text) = random_text(&within, tokens as u64, seed);
                    assert!(state.machine.accepts(state.at), "{tokens}: {:?}", LEXICON.tokenizer().decode(&text));
                }
            }
        }
    }

    /// Forced tokens are those that the tokenizer splits the whole text into, whatever follows.
    #[test]
    fn forced_tokens_are_those_of_the_tokenizer() {
        let tokenizer = LEXICON.tokenizer();
        for (pattern, texts) in [
            (
                "(The captain|A mate) of the ship said: (yes|no)\\.",
                &["The captain of the ship said: no.", "A mate of the ship said: yes."][..],
            ),
            ("x?=>  é\\{\\}(end)?", &["x=>  é{}end", "=>  é{}"]),
        ] {
            let constraint = Constraint::regex(&LEXICON, pattern).unwrap();
            for text in texts {
                let tokens = tokenizer.encode(text).unwrap();
                let mut cursor = constraint.cursor(&[]);
                let mut count = 0;
                for (i, &token) in tokens.iter().enumerate() {
                    let forced = cursor.forced();
                    assert!(tokens[i..].starts_with(&forced), "{text} at {i}: {forced:?}");
                    count += usize::from(!forced.is_empty());
                    cursor.advance(token);
                }
                assert!(cursor.is_accepting() && count > 2, "{text}: {count} of {}", tokens.len());
            }
        }
        // Only one spelling of a forced text is left.
        let canonical = Constraint::regex(&LEXICON, "Chapter the first").unwrap().forced_text(ForcedText::Canonical);
        for seed in 0..20 {
            let (_, text) = random_text(&canonical, 40, seed);
            assert_eq!(text, tokenizer.encode("Chapter the first").unwrap());
        }
    }

    #[test]
    fn weights_are_the_allowed_mass() {
        let constraint = Constraint::choice(&LEXICON, &["a", "b"]).unwrap();
        let mut cursor = constraint.cursor(&[]);
        let token = |text: &str| LEXICON.tokenizer().encode(text).unwrap()[0] as usize;
        let mut logits = vec![f32::NEG_INFINITY; 4096];
        (logits[token("a")], logits[token("c")]) = (1.0f32.ln(), 3.0f32.ln());
        cursor.weigh(&logits);
        assert!((cursor.weight() - 0.25).abs() < 1e-6);
        cursor.advance(token("a") as TokenId);
        logits[0] = 4.0f32.ln();
        cursor.weigh(&logits);
        assert!((cursor.weight() - 0.125).abs() < 1e-6, "the end is half of it");
    }

    #[test]
    fn explanations_name_the_place() {
        let schema = serde_json::json!({"type": "object", "required": ["age"], "additionalProperties": false,
            "properties": {"name": {"type": "string"}, "age": {"type": "integer", "minimum": 0}}});
        let constraint = Constraint::json_schema(&LEXICON, &schema, Style::default()).unwrap();
        let said = |begun: &str, token: &str| {
            let mut cursor = constraint.cursor(&[]);
            LEXICON.tokenizer().encode(begun).unwrap().into_iter().for_each(|token| cursor.advance(token));
            cursor.explain(LEXICON.tokenizer().encode(token).unwrap()[0]).to_string()
        };
        assert_eq!(said("{", "a"), "\"a\" cannot come here; expected: the name \"age\" \"name\" (#)");
        assert_eq!(
            said("{\"age\":", "x"),
            "\"x\" cannot come here; expected: a space (#), or 0 to 9 (#/properties/age)"
        );
        assert_eq!(said("{\"age\":1", "7"), "\"7\" is allowed");
        assert_eq!(said("{\"age\":1}", "7"), "\"7\" cannot come here; expected: the end");
    }
}
