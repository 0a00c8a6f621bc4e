//! Constraints: what can be compiled has a text, and a text under it never comes to a dead end.

use std::sync::{Arc, LazyLock};

use verdigris_constrain::{Constraint, Grammar, Language, Lexicon, Machine, NumberForms, Style, Whitespace};
use verdigris_text::Tokenizer;

use super::messages::checked;

/// The longest text, in bytes, that a machine generates here.
const MAX_WRITTEN: u64 = 1 << 15;

/// The longest ending of a text, in bytes, that is written here. Each byte takes time for each way to divide the text.
const MAX_ENDING: u64 = 1 << 8;

/// The maximum bytes of the states of a short text.
const STATES: usize = 128 << 20;

/// The tokens of `tale`.
pub(super) static LEXICON: LazyLock<Lexicon> = LazyLock::new(|| {
    let json = include_bytes!("../../../fixtures/models/tale/tokenizer.json");
    Lexicon::new(Arc::new(Tokenizer::from_json(json).expect("the fixture")), &[0])
});

/// Checks that a grammar has a text, which it accepts, and whose length it reports. Returns the text.
fn has_a_text(machine: &Machine) -> Option<Vec<u8>> {
    let start = machine.start();
    assert!(machine.goes_on(start));
    // `]]{79}{8081}+` has a text, of 638,400 bytes.
    if machine.to_end(start) > MAX_WRITTEN {
        return None;
    }
    // Only a grammar that needs gigabytes has no completion.
    let text = machine.completion(start)?;
    assert!(machine.accepts(machine.next(start, &text)), "{:?}", String::from_utf8_lossy(&text));
    assert_eq!(machine.to_end(start), text.len() as u64);
    Some(text)
}

/// A regular expression gives an error with a message, or a grammar with a text.
///
/// # Panics
/// If a promise is broken.
pub fn regex(data: &[u8]) {
    let Ok(pattern) = std::str::from_utf8(data) else { return };
    if pattern.len() > 256 {
        return;
    }
    if let Some(grammar) = checked(Grammar::regex(pattern)) {
        has_a_text(&Machine::new(grammar, LEXICON.index().clone()));
    }
}

/// A schema gives an error with a path and a fault, or a grammar whose shortest text is JSON.
///
/// # Panics
/// If a promise is broken.
pub fn schema(data: &[u8]) {
    let Ok(schema) = serde_json::from_slice::<serde_json::Value>(data) else { return };
    let all = Style::default().any_order().whitespace(Whitespace::Free { most: 2 }).numbers(NumberForms::Full);
    for style in [Style::default(), Style::default().closed().whitespace(Whitespace::Spaced), all] {
        match Grammar::json_schema(&schema, style) {
            Ok(grammar) => {
                if let Some(text) = has_a_text(&Machine::new(grammar, LEXICON.index().clone())) {
                    let value = serde_json::from_slice::<serde_json::Value>(&text);
                    assert!(value.is_ok(), "{:?}", String::from_utf8_lossy(&text));
                }
            }
            Err(fault) => assert!(!fault.path.is_empty() && !fault.fault.is_empty()),
        }
    }
}

/// A grammar, which is read in each of the languages, gives an error of one line, or a grammar under which texts can be
/// written. Returns whether it is a grammar in any language.
///
/// # Panics
/// If a promise is broken.
pub fn grammar(data: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(data) else { return false };
    let mut is_grammar = false;
    for language in Language::ALL {
        match Grammar::parse(language, text) {
            Ok(grammar) => {
                writes(grammar, data);
                is_grammar = true;
            }
            Err(fault) => {
                let message = fault.to_string();
                assert!(!message.is_empty() && !message.contains('\n'), "{message:?}");
            }
        }
    }
    is_grammar
}

/// A structural tag gives an error with a path and a fault, or a grammar under which texts can be written. Returns
/// whether it is a tag.
///
/// # Panics
/// If a promise is broken.
pub fn structural_tag(data: &[u8]) -> bool {
    let Ok(tag) = serde_json::from_slice::<serde_json::Value>(data) else { return false };
    match Grammar::structural_tag_with(&tag, LEXICON.tokenizer()) {
        Ok(grammar) => {
            writes(grammar, data);
            true
        }
        Err(fault) => {
            assert!(!fault.path.is_empty() && !fault.fault.is_empty());
            false
        }
    }
}

/// Checks that a grammar has a text, and writes one whose tokens depend on `data`.
fn writes(grammar: Grammar, data: &[u8]) {
    let constraint = Constraint::new(grammar, &LEXICON);
    // The lexicon has no such token, so the text of the grammar cannot be written.
    if constraint.missing_control().is_some() {
        return;
    }
    has_a_text(&constraint.machine());
    walked(&constraint, data.iter().take(WALK).map(|&byte| byte.wrapping_mul(167)));
}

/// The number of tokens of a walk.
const WALK: usize = 24;

/// A constraint and a text under it: the first line is a schema or a regular expression, and each byte after it chooses
/// one of the allowed tokens. A text can always continue or end, and forced tokens are allowed.
///
/// # Panics
/// If a promise is broken.
pub fn walk(data: &[u8]) {
    let Some(end) = data.iter().position(|&byte| byte == b'\n') else { return };
    let Ok(first) = std::str::from_utf8(&data[..end]) else { return };
    if first.len() > 2048 {
        return;
    }
    let grammar = match serde_json::from_str(first) {
        Ok(schema) => Grammar::json_schema(&schema, Style::default().any_order()).ok(),
        Err(_) if first.len() < 128 => Grammar::regex(first).ok(),
        Err(_) => None,
    };
    let Some(grammar) = grammar else { return };
    walked(&Constraint::new(grammar, &LEXICON), data[end + 1..].iter().copied().take(64));
}

/// Writes a text in which each byte chooses one of the allowed tokens.
fn walked(constraint: &Constraint, choices: impl Iterator<Item = u8>) {
    let (machine, mut cursor) = (constraint.machine(), constraint.cursor(&[]));
    let mut state = machine.start();
    for choice in choices {
        let mask = cursor.mask();
        assert_eq!(mask.accepts, cursor.is_accepting());
        let allowed: Vec<u32> = mask.tokens.iter().collect();
        // Masks have a limit of work too.
        assert!(
            !allowed.is_empty() || mask.accepts || machine.fault_at(state).is_some(),
            "a text has come to a dead end"
        );
        let Some(&token) = allowed.get(usize::from(choice) * allowed.len() / 256) else { break };
        if let Some(&forced) = cursor.forced().first() {
            assert!(mask.tokens.contains(forced));
        }
        assert!(cursor.explain(token).is_allowed());
        cursor.advance(token);
        state = machine.advance(state, token, LEXICON.bytes(token));
        assert!(machine.goes_on(state) && machine.to_end(state) < u64::MAX);
    }
    assert!(machine.states_memory() < STATES, "{} bytes of states", machine.states_memory());
    if machine.to_end(state) <= MAX_ENDING
        && let Some(end) = machine.completion(state)
    {
        assert!(machine.accepts(machine.next(state, &end)));
    }
}
