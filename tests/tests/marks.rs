//! Marks on generated text, through everything between writer and reader.

use verdigris::logits::{Purpose, Random};
use verdigris::watermark::dialects::native;
use verdigris::watermark::{Context, ContextFunction};
use verdigris::{Dialect, Evidence, Gamma, GreenLists, Key, Level, Look, Marking, Offsets, Request, Strength};
use verdigris_tests::dialects::every_kind;
use verdigris_tests::harness::TALE_SMALL as ENGINE;
use verdigris_tests::sampled::sampled;

fn key(gamma: f64, strength: Strength, function: ContextFunction, width: usize) -> Key {
    let marking =
        GreenLists { gamma: Gamma::new(gamma).unwrap(), strength, context: Context::new(function, width).unwrap() };
    Key::from_secret([11; 32], "test", Marking::Lists(marking), ENGINE.reader().vocabulary()).unwrap()
}

fn soft(gamma: f64, function: ContextFunction, width: usize) -> Key {
    key(gamma, Strength::soft(2.0).unwrap(), function, width)
}

fn write(key: Option<&Key>, seed: u64) -> String {
    let request = ENGINE.request("").max_tokens(200).through_end().temperature(1.0).top_p(1.0).seed(seed);
    key.into_iter().fold(request, Request::watermark).text().unwrap().text
}

fn judge(key: &Key, text: &str) -> Evidence {
    ENGINE.reader().detect(key, text.as_bytes()).unwrap()
}

#[test]
fn every_scheme_marks_and_is_found_through_the_text() {
    let mut keys = vec![
        soft(0.25, ContextFunction::All, 1),
        soft(0.25, ContextFunction::All, 6),
        soft(0.5, ContextFunction::Min, 4),
        soft(0.25, ContextFunction::SelfSalted, 3),
        key(0.5, Strength::Hard, ContextFunction::Min, 4),
    ];
    keys.extend(every_kind().iter().map(|kind| kind.key(1, ENGINE.reader().vocabulary())));
    for key in sampled(&keys, 2) {
        for seed in 0..2 {
            let marked = judge(key, &write(Some(key), seed));
            assert!(marked.z > 4.0 && marked.ln_p < -11.0, "{key:?}: {marked:?}");
            let plain = judge(key, &write(None, seed));
            assert!(plain.p() > 1e-4, "{key:?}: {plain:?}");
        }
    }
}

/// Each seed writes with one variant of a key, all are used, and each text is found by its key and by its variant.
#[test]
fn texts_are_written_with_all_variants() {
    let kind = every_kind().into_iter().find(|kind| kind.name == "native-gumbel, all 4").unwrap();
    let keys = [soft(0.25, ContextFunction::Min, 4), kind.key(1, ENGINE.reader().vocabulary())];
    for key in keys.map(|key| key.with_variants(4).unwrap()) {
        let mut used = [0; 4];
        for seed in 0..24 {
            let text = write(Some(&key), seed);
            let found = judge(&key, &text);
            assert!(found.ln_p_corrected() < -11.0 && found.tried == 4.0, "{found:?}");
            let strongest = (0..4).min_by(|&a, &b| {
                let of = |variant: u8| judge(&key.variant(variant), &text).ln_p;
                of(a).total_cmp(&of(b))
            });
            used[usize::from(strongest.unwrap())] += 1;
        }
        assert!(used.iter().all(|&count| count > 0), "{used:?}");
    }
}

/// Removes a tenth of the words, or adds unmarked text before and after.
#[test]
fn a_mark_survives_edits() {
    let key = soft(0.25, ContextFunction::Min, 4);
    let random = Random::new(3);
    for seed in 0..5 {
        let text = write(Some(&key), seed);
        let whole = judge(&key, &text);
        let words = text.split(' ').enumerate();
        let kept: Vec<&str> = words
            .filter(|&(i, _)| random.uniform(seed * 1000 + i as u64, Purpose::Token) > 0.1)
            .map(|(_, word)| word)
            .collect();
        let edited = judge(&key, &kept.join(" "));
        assert!(edited.ln_p < -12.0 && edited.z < whole.z, "{edited:?}");
        let framed = format!("{} {text} {}", write(None, seed + 50), write(None, seed + 60));
        assert!(judge(&key, &framed).ln_p < -12.0);
    }
}

/// The mark applies to the tokens that the constraint allows, and the text matches.
#[test]
fn a_constrained_text_is_marked_too() {
    let pattern = "([A-Z][a-z]{1,9}( [a-z]{1,10}){5,9}\\. ){12}";
    let judge_pattern = regex::Regex::new(&format!("^(?:{pattern})$")).unwrap();
    let key = soft(0.25, ContextFunction::Min, 4);
    let write = |marked: bool| {
        let request = ENGINE.request("").regex(pattern).max_tokens(1500).temperature(1.0).top_p(1.0).seed(4);
        let request = if marked { request.watermark(&key) } else { request };
        request.text().unwrap()
    };
    let (marked, plain) = (write(true), write(false));
    for written in [&marked, &plain] {
        assert_eq!(written.stop, Some(verdigris::Stop::End));
        assert!(judge_pattern.is_match(&written.text), "{}", written.text);
    }
    assert!(judge(&key, &marked.text).z > 6.0, "{:?}", judge(&key, &marked.text));
    assert!(judge(&key, &plain.text).p() > 1e-3, "{:?}", judge(&key, &plain.text));
}

/// Without the key the text has the model's own distribution: noise selects each token as often as the model does.
/// Measured here over keys, for the first token of a text.
#[test]
fn noise_leaves_the_distribution_as_it_is() {
    let kind = every_kind().into_iter().find(|kind| kind.name == "native-gumbel, all 4").unwrap();
    let first = |key: Option<&Key>, seed| {
        let request = ENGINE.request("The old man went").max_tokens(1).through_end().temperature(1.0);
        let request = request.top_k(4).top_p(1.0).seed(seed);
        let request = key.into_iter().fold(request, |request, key| request.watermark(key).mark_after(0.0));
        request.text().unwrap().tokens[0]
    };
    let texts = 400;
    let mut counts = std::collections::BTreeMap::<u32, [f64; 2]>::new();
    for number in 0..texts {
        let key = kind.key(number, ENGINE.reader().vocabulary());
        counts.entry(first(Some(&key), 7)).or_default()[0] += 1.0;
        counts.entry(first(None, u64::from(number))).or_default()[1] += 1.0;
    }
    let chi2: f64 = counts.values().map(|[a, b]| (a - b).powi(2) / (a + b)).sum();
    assert!(counts.len() == 4 && chi2 < 20.0, "{chi2}: {counts:?}");
}

/// Invisible characters are repaired, and a mark in the middle of other text is located.
#[test]
fn a_look_from_every_side() {
    let key = soft(0.25, ContextFunction::Min, 4);
    let other = soft(0.25, ContextFunction::Min, 4).with_id("nobody").unwrap();
    let marked = write(Some(&key), 1);
    let hidden: String = marked.chars().flat_map(|c| [c, '\u{200B}']).collect();
    let reader = ENGINE.reader();
    let look = Look { passages: true, ..Look::default() };
    let judgement = reader.judge(&[&other, &key], &hidden, &look).unwrap();
    assert_eq!(judgement.key.id(), key.id());
    assert!(matches!(reader.judge(&[], &hidden, &look), Err(verdigris::DetectError::NoKey)), "no key is an error");
    assert!(judgement.evidence.ln_p_corrected() < -20.0 && judgement.evidence.tried == 8.0, "{:?}", judgement.evidence);
    assert_eq!(judgement.repairs[0].1, marked.chars().count());
    let (before, after) = (write(None, 50), write(None, 51));
    let mixed = format!("{before}\n\n{marked}\n\n{after}");
    let judgement = reader.judge(&[&key], &mixed, &look).unwrap();
    let [passage] = &judgement.passages[..] else { panic!("{:?}", judgement.passages) };
    let range = &passage.range;
    assert!(passage.ln_p < 1e-5f64.ln() && passage.key.id() == key.id());
    assert!(
        range.start.abs_diff(before.len()) < 150 && range.end.abs_diff(before.len() + marked.len()) < 150,
        "{range:?}"
    );
    // A text that begins in the middle of a token is read from the next token.
    let cut = &marked[3..];
    let look = Look { offsets: Offsets::new(6).unwrap(), ..Look::default() };
    assert!(reader.judge(&[&key], cut, &look).unwrap().evidence.ln_p_corrected() < -20.0);
}

/// A payload is read back from the text, and the wrong key reads nothing.
#[test]
fn a_payload_comes_back_from_the_text() {
    let context = Context::new(ContextFunction::Min, 2).unwrap();
    let dialect =
        Dialect::Native(native::Parameters { gamma: Gamma::new(0.25).unwrap(), context, payload_bits: Some(16) });
    let new = |secret: u8| {
        Key::new(vec![secret; 32], "numbered", dialect.clone(), None, ENGINE.reader().vocabulary()).unwrap()
    };
    let (key, wrong) = (new(1), new(2));
    let request = ENGINE.request("").max_tokens(400).through_end().temperature(1.0).top_p(1.0).seed(3);
    let text = request.watermark(&key).payload(0xbeef).text().unwrap().text;
    let read = |key: &Key| {
        let mut reader = key.payload_reader().unwrap();
        reader.push(&ENGINE.reader().tokenizer().encode(&text).unwrap());
        reader.read()
    };
    assert_eq!(read(&key).payload, 0xbeef);
    assert!(read(&key).ln_p < -20.0 && read(&key).doubt < 1e-3, "{:?}", read(&key));
    assert!(read(&wrong).ln_p > 1e-3f64.ln(), "{:?}", read(&wrong));
    assert!(judge(&key, &text).is_marked(Level::DEFAULT).is_ok());
    assert!(ENGINE.request("").watermark(&key).text().is_err(), "which payload?");
}

/// The key that wrote the text is found among others, with the p-value corrected for all of them.
#[test]
fn the_writer_is_identified() {
    let vocabulary = || ENGINE.reader().vocabulary();
    let candidates = || -> Vec<(String, Key)> {
        let kinds = every_kind();
        let kinds = kinds.iter().filter(|kind| !kind.name.contains("weighted"));
        kinds.map(|kind| (kind.name.to_owned(), kind.key(1, vocabulary()))).collect()
    };
    for name in ["kgw minhash", "vllm", "sbw simple_4"] {
        let all = candidates();
        let key = &all.iter().find(|(label, _)| label == name).unwrap().1;
        let found =
            ENGINE.reader().identify(&all, &write(Some(key), 9), verdigris::Repeats::Context, Level::DEFAULT).unwrap();
        assert_eq!(found[0].candidate, name);
        assert!(found[0].evidence.p() < 1e-5 && found[0].evidence.tried == all.len() as f64);
        assert!(found[1].evidence.p() > 1e-3, "{:?}", found[1]);
    }
    let found =
        ENGINE.reader().identify(&candidates(), &write(None, 10), verdigris::Repeats::Context, Level::DEFAULT).unwrap();
    assert!(found[0].evidence.p() > 1e-3, "{:?}", found[0]);
}

/// The expected mark of a text is the average of the marks found over keys, or a little less; under a constraint that
/// leaves no choice it is zero, and without a mark of colours it is unknown.
#[test]
fn what_is_expected_of_a_mark_is_found() {
    let request = || ENGINE.request("The captain").max_tokens(80).through_end().temperature(1.0).top_p(1.0);
    let [mut found, mut expected, mut spread] = [0.0; 3];
    let texts = 60;
    for seed in 0..texts {
        let key =
            Key::from_secret([seed as u8 + 1; 32], "test", Marking::lists(), ENGINE.reader().vocabulary()).unwrap();
        let request = request().watermark(&key).seed(seed);
        let written = request.clone().text().unwrap();
        let evidence = judge(&key, &written.text);
        found += evidence.z;
        spread += evidence.z.powi(2);
        expected += request.expected_mark(&written).unwrap().unwrap().z;
    }
    let [found, expected, squares] = [found, expected, spread].map(|sum| sum / texts as f64);
    let error = ((squares - found.powi(2)) / texts as f64).sqrt();
    assert!(expected < found + 3.0 * error && expected > 0.8 * found, "{expected}, and {found} ± {error} is found");

    let key = soft(0.25, ContextFunction::Min, 4);
    let of_form = ENGINE.request("").regex("The captain and the sailor").watermark(&key).seed(1);
    assert_eq!(of_form.expected_mark(&of_form.clone().text().unwrap()).unwrap().unwrap().z, 0.0);
    for request in [request().seed(1), request().temperature(0.0).watermark(&key).seed(1)] {
        assert_eq!(request.expected_mark(&request.clone().text().unwrap()).unwrap(), None);
    }
}
