//! Detection that knows the schema of a text: false alarms are as rare as claimed, and marks need fewer tokens.

use std::sync::LazyLock;

use verdigris::detector::DetectError;
use verdigris::watermark::dialects::native;
use verdigris::watermark::weighted::Weighting;
use verdigris::watermark::{Context, ContextFunction};
use verdigris::{Dialect, Gamma, Key, Look, Mark, Offsets, Reader, Repeats, Strength};
use verdigris_tests::dialects::every_kind;
use verdigris_tests::forms;
use verdigris_tests::harness::TALE_SMALL as ENGINE;

static UNMARKED: LazyLock<Vec<String>> =
    LazyLock::new(|| (0..forms::SCHEMAS).map(|i| forms::write(&ENGINE, i, None, 260, i as u64).unwrap()).collect());

/// 40 schemas, 60 keys each. Weights that depend on green, or contexts that are counted twice, fail here.
#[test]
fn unmarked_json_is_called_marked_as_often_as_claimed() {
    let all = forms::unmarked_ln_p(ENGINE.reader(), &UNMARKED, 60, true);
    for (level, bounds) in [(0.1, 180..=264), (0.01, 10..=40)] {
        let alarms = all.iter().filter(|&&ln_p| ln_p <= f64::ln(level)).count();
        assert!(bounds.contains(&alarms), "{alarms} of {} at {level}", all.len());
    }
}

/// For colours and numbers of every dialect, forced tokens are left out, and only those.
#[test]
fn forced_tokens_are_not_scored_in_any_dialect() {
    let text = &UNMARKED[4];
    let reader = ENGINE.reader().clone().of_grammar(forms::grammar(4));
    // Reads the original only: with repair each reader may find more in another version of the text, with other tokens.
    let look = Look { repeats: Repeats::Nothing, repair: false, tokens: true, ..Look::default() };
    let tokens = reader.tokenizer().encode(text).unwrap();
    let choices = ENGINE.constraint(forms::grammar(4)).choices(b"", &tokens).unwrap();
    for kind in every_kind() {
        let key = kind.key(1, reader.vocabulary());
        let plain = ENGINE.reader().judge(&[&key], text, &look).unwrap();
        let knowing = reader.judge(&[&key], text, &look).unwrap();
        let mut forced = 0;
        for (((range, mark), (_, plain)), &ways) in knowing.tokens.iter().zip(&plain.tokens).zip(&choices) {
            match plain {
                Mark::Counted { .. } if ways == 1 => {
                    assert_eq!(*mark, Mark::Forced, "{}: {:?}", kind.name, &text[range.clone()]);
                    forced += 1;
                }
                plain => assert_eq!(mark, plain, "{}: {:?}", kind.name, &text[range.clone()]),
            }
        }
        assert!(forced > 50, "{}: {forced}", kind.name);
        assert!(knowing.evidence.p() > 1e-4, "{}: {:?}", kind.name, knowing.evidence);
    }
}

/// Shorter texts suffice, since forced tokens are noise, and tokens with few alternatives have little signal.
#[test]
fn marks_are_found_in_fewer_tokens() {
    let (mut plain, mut knowing, mut modelled) = (0.0, 0.0, 0.0);
    for i in 0..8 {
        let key = forms::key(ENGINE.reader(), i);
        let text = forms::write(&ENGINE, 5 * i as usize, Some(&key), 200, u64::from(i)).unwrap();
        let form = forms::grammar(5 * i as usize);
        let constraint = ENGINE.constraint(form.clone());
        let tokens = ENGINE.reader().tokenizer().encode(&text).unwrap();
        let ratio = Weighting::LikelihoodRatio { delta: key.delta() };
        let weighed = ENGINE.weigh(&key, &tokens, ratio, 1.0, Repeats::Context, Some(&constraint)).unwrap().unwrap();
        modelled += weighed.evidence.ln_p;
        plain += ENGINE.reader().detect(&key, text.as_bytes()).unwrap().ln_p;
        knowing += ENGINE.reader().clone().of_grammar(form).detect(&key, text.as_bytes()).unwrap().ln_p;
    }
    assert!(knowing < 1.4 * plain, "{knowing} where the form is known, {plain} where it is not");
    assert!(modelled < 1.4 * plain, "{modelled} with the model, {plain} without");
}

/// Accepts newlines at the end of a file and texts that are cut short; any other deviation is an error with its
/// position.
#[test]
fn texts_of_the_form_are_read_and_others_are_refused() {
    let reader = ENGINE.reader().clone().of_grammar(forms::grammar(2));
    let key = forms::key(&reader, 7);
    let text = &UNMARKED[2];
    let whole = reader.detect(&key, text.as_bytes()).unwrap();
    let judged = |text: &str| reader.judge(&[&key], text, &Look::default());
    for around in [format!("{text}\n"), format!("{text}\r\n"), format!("\n {text} \n\n")] {
        assert_eq!(reader.detect(&key, around.as_bytes()).unwrap(), whole);
        // A carriage return is repaired in a second look.
        let looks = if around.contains('\r') { 2.0 } else { 1.0 };
        assert_eq!(judged(&around).unwrap().evidence, whole.best_of(looks));
    }
    let half = text.char_indices().nth(text.chars().count() / 2).unwrap().0;
    let cut = judged(&text[..half]).unwrap().evidence;
    assert!(cut.scored > 0 && cut.scored < whole.scored, "{cut:?}");
    for other in [format!("Here it is: {text}"), format!("{} {text}", &text[..9]), "Once there was".into()] {
        assert!(matches!(judged(&other), Err(DetectError::Constraint(_))), "{other}");
        let error = reader.detect(&key, other.as_bytes()).unwrap_err().to_string();
        assert!(error.starts_with("the text breaks the constraint at byte"), "{error}");
    }
    // Non-breaking spaces are repaired in a second look, and only that one matches the constraint.
    assert!(text.contains(": "), "{text}");
    let wide = text.replace(": ", ":\u{a0}");
    let repaired = judged(&wide).unwrap();
    assert_eq!((repaired.evidence, repaired.repairs.len()), (whole, 1));
}

/// The tokens before an offset count for the constraint, and a payload is read from tokens with a choice.
#[test]
fn offsets_and_payloads_know_the_form() {
    let reader = ENGINE.reader().clone().of_grammar(forms::grammar(3));
    let (text, key) = (&UNMARKED[3], forms::key(&reader, 9));
    let look = Look { offsets: Offsets::new(6).unwrap(), ..Look::default() };
    let judgement = reader.judge(&[&key], text, &look).unwrap();
    assert_eq!(judgement.evidence.tried, 6.0);
    let context = Context::new(ContextFunction::All, 2).unwrap();
    let dialect =
        Dialect::Native(native::Parameters { gamma: Gamma::new(0.25).unwrap(), context, payload_bits: Some(8) });
    let key = Key::new([3; 32].to_vec(), "forms", dialect, Some(Strength::soft(4.0).unwrap()), reader.vocabulary());
    let key = key.unwrap();
    let form = ENGINE.constraint(forms::grammar(3));
    let request = ENGINE.request("").constraint(&form).max_tokens(400).temperature(1.0).top_p(1.0).seed(1);
    let marked = request.watermark(&key).payload(0xa5).text().unwrap().text;
    let judge = |reader: &Reader| reader.judge(&[&key], &marked, &Look::default()).unwrap();
    let (knowing, plain) = (judge(&reader), judge(ENGINE.reader()));
    assert_eq!(knowing.payload.unwrap().payload, 0xa5, "{knowing:?}");
    assert!(knowing.payload.unwrap().scored < plain.payload.unwrap().scored);
    assert!(knowing.evidence.ln_p < plain.evidence.ln_p, "{:?} {:?}", knowing.evidence, plain.evidence);
}
