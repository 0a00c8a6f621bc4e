//! User-defined functions that score every token.

use std::sync::{Arc, Mutex};

use verdigris::decoding::Scorer;
use verdigris::logits::TokenId;
use verdigris::models::ModelError;
use verdigris::{Beams, Classes, Error, Request};
use verdigris_tests::harness::TALE_SMALL as ENGINE;

fn request<'a>() -> Request<'a> {
    ENGINE.request("The captain").max_tokens(40).seed(3)
}

/// A scorer that forbids a letter.
fn without(letter: u8) -> impl Scorer {
    let vocabulary = ENGINE.reader().tokenizer().vocabulary();
    let has_it: Vec<bool> = (0..4096).map(|token| vocabulary.bytes(token).contains(&letter)).collect();
    move |_: &[TokenId], token: TokenId| if has_it[token as usize] { f32::NEG_INFINITY } else { 0.0 }
}

/// Several scorers apply together: with drafts, alone, with several texts and in beams.
#[test]
fn several_functions_guide_together() {
    let asked = || request().guide_by(without(b'e'), 1.0, 4096).guide_by(without(b'a'), -2.0, 4096);
    let plain = request().text().unwrap().text;
    assert!(plain.contains('e') && plain.contains('a'), "{plain}");
    let written = asked().text().unwrap();
    assert!(!written.text.contains(['e', 'a']) && written.text.split(' ').count() > 4, "{}", written.text);
    assert_eq!(asked().lookup().draft_tokens(3).text().unwrap().text, written.text);
    assert_eq!(asked().texts(3).unwrap()[0].text, written.text);
    for found in asked().max_tokens(12).beam_search(&Beams::new(3).unwrap()).unwrap() {
        assert!(!found.written.text.contains(['e', 'a']), "{}", found.written.text);
    }
}

/// A function gets the prompt and the text so far.
#[test]
fn a_function_sees_the_text_so_far() {
    let prompt = ENGINE.reader().tokenizer().encode_prompt("The captain").unwrap();
    // Forbids tokens that occur in the text.
    let anew = move |text: &[TokenId], token: TokenId| {
        assert_eq!(text[..prompt.len()], prompt);
        if text.contains(&token) { f32::NEG_INFINITY } else { 0.0 }
    };
    let mut tokens = request().guide_by(anew, 1.0, 4096).text().unwrap().tokens;
    tokens.sort_unstable();
    tokens.dedup();
    assert_eq!(tokens.len(), 40);
}

/// A scorer is called for the best tokens only, once per position.
#[test]
fn a_function_is_asked_once_a_token() {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let notes = asked.clone();
    let note = move |text: &[TokenId], token: TokenId| {
        notes.lock().unwrap().push((text.len(), token));
        0.0
    };
    // The first tokens, which are the best ones of a row without logits.
    let written = request().max_tokens(6).suppress_tokens([0, 1, 2]).guide_by(note, 1.0, 5).text().unwrap();
    let mut asked = asked.lock().unwrap().clone();
    assert_eq!(asked.len(), 5 * written.tokens.len());
    assert!(asked.iter().all(|(_, token)| *token > 2), "{asked:?}");
    asked.sort_unstable();
    asked.dedup();
    assert_eq!(asked.len(), 5 * written.tokens.len());
}

/// A scorer that fails at some length of the text.
struct Failing(usize);

impl Scorer for Failing {
    fn score(&self, text: &[TokenId], _: &[TokenId], scores: &mut [f32]) -> Result<(), ModelError> {
        scores.fill(0.0);
        if text.len() < self.0 { Ok(()) } else { Err(ModelError::Compute("the judge is asleep".into())) }
    }
}

#[test]
fn what_goes_wrong_in_a_judge_is_told() {
    let fails = |request: Request<'_>| request.text().unwrap_err().to_string();
    assert_eq!(fails(request().guide_by(Failing(9), 1.0, 5)), "computation failed: the judge is asleep");
    let several = request().guide_by(without(b'e'), 1.0, 9).guide_by(Failing(9), 1.0, 5).texts(2);
    assert!(matches!(several, Err(Error::Model(ModelError::Compute(_)))));
    let nan = |_: &[TokenId], _| f32::NAN;
    assert!(fails(request().guide_by(nan, 1.0, 5)).contains("is NaN or infinite"));
    let one = Classes::new().class(&ENGINE, "");
    assert!(
        fails(request().guide_by_classes(&one, 1.0, 5)).contains("the number of classes that guide is 1, but must")
    );
    let alike = one.class(&ENGINE, "");
    // Equal classes have no effect.
    let guided = request().guide_by_classes(&alike, 30.0, 4096).text().unwrap().text;
    assert_eq!(guided, request().text().unwrap().text);
}
