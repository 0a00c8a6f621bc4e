//! Tests of the detector with only a tokenizer and keys: random words are chosen under a mark, and the mark is found.

use c2pa_structured_text::{ManifestRef, embed_front_matter};
use c2pa_unstructured_text::wrapper;
use verdigris_detector::watermark::VocabularyId;
use verdigris_detector::watermark::normalize::Repair;
use verdigris_detector::{DetectError, Grammar, Key, Level, Look, Marking, Outcome, Reader, Repeats, Tokenizer};
use verdigris_logits::{Purpose, Random, Row, TokenId, Transform};

fn with_tokens() -> Look {
    Look { tokens: true, ..Look::default() }
}

fn reader() -> Reader {
    Reader::new(Tokenizer::from_json(include_bytes!("../../../fixtures/models/tale/tokenizer.json")).unwrap())
}

fn key(reader: &Reader, secret: u8) -> Key {
    Key::from_secret([secret; 32], format!("key-{secret}"), Marking::lists(), reader.vocabulary()).unwrap()
}

/// A text of `count` one-token words, marked if a key is given.
fn words(reader: &Reader, key: Option<&Key>, count: u64, seed: u64) -> String {
    let vocabulary = reader.tokenizer().vocabulary();
    let is_word = |bytes: &[u8]| bytes.len() > 2 && bytes[0] == b' ' && bytes[1..].iter().all(u8::is_ascii_lowercase);
    let all: Vec<TokenId> = (0..vocabulary.size() as TokenId).filter(|&id| is_word(vocabulary.bytes(id))).collect();
    assert!(all.len() > 500, "{}", all.len());
    let random = Random::new(seed);
    let embed = key.map(|key| key.embed().unwrap());
    let mut state = embed.as_ref().map(|embed| embed.start(&[]));
    let (mut row, mut text) = (Row::default(), String::new());
    for position in 0..count {
        let mut logits = vec![f32::NEG_INFINITY; vocabulary.size()];
        for &id in &all {
            logits[id as usize] = 4.0 * random.uniform_of(position, Purpose::Token, id) as f32;
        }
        row.load(&logits);
        if let (Some(embed), Some(state)) = (&embed, &state) {
            embed.apply(state, &mut row);
        }
        let id = all.iter().copied().max_by(|&a, &b| row.logits()[a as usize].total_cmp(&row.logits()[b as usize]));
        let id = id.unwrap();
        if let (Some(embed), Some(state)) = (&embed, &mut state) {
            embed.advance(state, id);
        }
        text += std::str::from_utf8(vocabulary.bytes(id)).unwrap();
    }
    text
}

#[test]
fn a_mark_is_found_under_its_key_alone() {
    let reader = reader();
    let (key, other) = (key(&reader, 1), key(&reader, 2));
    let marked = words(&reader, Some(&key), 300, 7);
    let evidence = reader.detect(&key, marked.as_bytes()).unwrap();
    assert!(evidence.is_marked(Level::DEFAULT).unwrap(), "{evidence:?}");
    let tokens = reader.tokenizer().encode(&marked).unwrap();
    let of_tokens = reader.evidence(&key, &tokens, Repeats::default()).unwrap();
    assert_eq!(of_tokens.ln_p_corrected(), evidence.ln_p_corrected());
    for (key, text) in [(&other, &marked), (&key, &words(&reader, None, 300, 7))] {
        let evidence = reader.detect(key, text.as_bytes()).unwrap();
        assert!(!evidence.is_marked(Level::DEFAULT).unwrap(), "{evidence:?}");
    }
    let candidates = [("other".to_owned(), other), ("own".to_owned(), key)];
    let found = reader.identify(&candidates, &marked, Repeats::default(), Level::DEFAULT).unwrap();
    assert_eq!((&*found[0].candidate, found[0].evidence.tried), ("own", 2.0));
}

/// With manifests in a text, all ways to read it read only the rest, and positions refer to the original text.
#[test]
fn a_text_is_read_without_its_manifests() {
    let plain = reader();
    let key = key(&plain, 1);
    let text = words(&plain, Some(&key), 300, 7);
    let block = embed_front_matter("", ManifestRef::Embedded(&[7; 5000]), "---");
    let wrapper = wrapper::encode_padded(&[9; 5000]).unwrap();
    let (before, after) = text.split_at(text.len() / 2);
    let candidates = [("own".to_owned(), self::key(&plain, 1))];
    let constraint = Grammar::regex("( [a-z]+)+").unwrap();
    for reader in [&plain, &plain.clone().of_grammar(constraint)] {
        let bare = reader.judge(&[&key], &text, &with_tokens()).unwrap();
        for wrapped in [format!("{text}{wrapper}"), format!("{block}{before}{wrapper}{after}{wrapper}")] {
            let judgement = reader.judge(&[&key], &wrapped, &with_tokens()).unwrap();
            assert_eq!((judgement.evidence, &judgement.repairs), (bare.evidence, &bare.repairs));
            assert_eq!(judgement.manifests.len(), 1 + 2 * usize::from(wrapped.starts_with("---")));
            for ((there, mark), (here, of_bare)) in judgement.tokens.iter().zip(&bare.tokens) {
                let read: String = wrapped[there.clone()].chars().filter(char::is_ascii).collect();
                assert_eq!((&*read, mark), (&text[here.clone()], of_bare));
            }
            assert_eq!(reader.detect(&key, wrapped.as_bytes()).unwrap(), reader.detect(&key, text.as_bytes()).unwrap());
            let (mut marks, mut of_bare) = (Vec::new(), Vec::new());
            reader.detect_marked(&key, wrapped.as_bytes(), |_, mark| marks.push(mark)).unwrap();
            reader.detect_marked(&key, text.as_bytes(), |_, mark| of_bare.push(mark)).unwrap();
            assert_eq!(marks, of_bare);
            let found = reader.identify(&candidates, &wrapped, Repeats::default(), Level::DEFAULT).unwrap();
            assert_eq!(found[0].evidence, reader.detect(&key, text.as_bytes()).unwrap());
        }
    }
    let strict = plain.of_grammar(Grammar::regex("( [a-z]+)+").unwrap());
    let Err(DetectError::Constraint(departure)) =
        strict.judge(&[&key], &format!("{block}{text} NOT"), &Look::default())
    else {
        panic!("the text does not match the constraint");
    };
    assert!(departure.at >= block.len() + text.len(), "{departure:?}");
}

/// Changes of white space or letter case are repaired, each repair is a look, and tokens have their positions in the
/// changed text.
#[test]
fn white_space_and_letter_case_are_repaired() {
    let reader = reader();
    let key = key(&reader, 1);
    let sentences = words(&reader, Some(&key), 300, 7);
    let bare = reader.judge(&[&key], &sentences, &with_tokens()).unwrap();
    assert!(bare.evidence.ln_p_corrected() < -40.0 && bare.evidence.tried == 1.0);
    let mut wrapped = String::new();
    for word in sentences.split_inclusive(' ') {
        let line = wrapped.len() - wrapped.rfind('\n').map_or(0, |end| end + 1);
        if line + word.len() > 41 {
            wrapped.truncate(wrapped.trim_end().len());
            wrapped += "\n";
        }
        wrapped += word;
    }
    let title: String = sentences.split_inclusive(' ').map(|word| word[..1].to_uppercase() + &word[1..]).collect();
    let shouted = sentences.to_uppercase().replace(' ', "  ");
    for (changed, repairs, looks) in [
        (sentences.replace(' ', "  "), &[Repair::WhiteSpace][..], 2.0),
        (sentences.replace(' ', "\t"), &[Repair::WhiteSpace], 2.0),
        (wrapped, &[Repair::WrappedLine], 2.0),
        (sentences.to_uppercase(), &[Repair::LetterCase], 2.0),
        (title, &[Repair::LetterCase], 2.0),
        (shouted, &[Repair::WhiteSpace, Repair::LetterCase], 3.0),
    ] {
        let look = Look { passages: true, tokens: true, ..Look::default() };
        let judgement = reader.judge(&[&key], &changed, &look).unwrap();
        let found: Vec<Repair> = judgement.repairs.iter().map(|repair| repair.0).collect();
        assert_eq!((&found[..], judgement.evidence.tried), (repairs, 2.0 * looks), "{changed}");
        // Sentence case makes the first letter a capital, which loses the tokens that have it in their context.
        let lost = bare.evidence.scored.abs_diff(judgement.evidence.scored);
        assert!(lost < 6 && judgement.evidence.ln_p < 0.95 * bare.evidence.ln_p, "{:?}", judgement.evidence);
        for (range, _) in &judgement.tokens {
            let there: Vec<&str> = changed[range.clone()].split_whitespace().collect();
            assert!(there.len() < 2, "a token spans more than a word and the white space before it: {there:?}");
        }
        let whole: String = judgement.tokens.iter().map(|(range, _)| &changed[range.clone()]).collect();
        assert_eq!(whole, changed);
        let [passage] = &judgement.passages[..] else { panic!("{:?}", judgement.passages) };
        assert!(passage.range.len() > 9 * changed.len() / 10, "{passage:?}");
        let candidates = [("other".to_owned(), self::key(&reader, 2)), ("own".to_owned(), self::key(&reader, 1))];
        let identified = reader.identify(&candidates, &changed, Repeats::default(), Level::DEFAULT).unwrap().remove(0);
        assert_eq!((&*identified.candidate, identified.evidence.tried), ("own", 2.0 * looks));
        assert_eq!(identified.repairs, judgement.repairs);
        let as_it_is = Look { repair: false, ..Look::default() };
        assert!(reader.judge(&[&key], &changed, &as_it_is).unwrap().evidence.ln_p > 0.5 * bare.evidence.ln_p);
    }
}

#[test]
fn a_marked_passage_is_found_where_it_lies() {
    let reader = reader();
    let key = key(&reader, 1);
    let [before, after] = [11, 12].map(|seed| words(&reader, None, 400, seed));
    let marked = words(&reader, Some(&key), 300, 7);
    let text = format!("{before}{marked}{after}");
    let look = Look { passages: true, tokens: true, ..Look::default() };
    let judgement = reader.judge(&[&key], &text, &look).unwrap();
    let [passage] = &judgement.passages[..] else { panic!("{:?}", judgement.passages) };
    let (from, to) = (before.len(), before.len() + marked.len());
    assert!(passage.range.start.abs_diff(from) < 150 && passage.range.end.abs_diff(to) < 150, "{passage:?}");
    assert!(judgement.outcome().is_marked());
}

/// Each point has the evidence of a text that ends there, with a constraint and without.
#[test]
fn a_course_is_the_evidence_of_beginnings() {
    let plain = reader();
    let constraint = Grammar::regex("( [a-z]+ [a-z]+ of the (sea|ship|shore|land))+").unwrap();
    let key = key(&plain, 1);
    let all = words(&plain, Some(&key), 200, 7);
    let all: Vec<&str> = all.split_whitespace().collect();
    let text: String = all.chunks(2).map(|pair| format!(" {} {} of the sea", pair[0], pair[1])).collect();
    let tokens = plain.tokenizer().encode(&text).unwrap();
    for (reader, most) in [(&plain, 1000), (&plain, 30), (&plain.clone().of_grammar(constraint), 1000)] {
        let look = Look { course: most, passages: true, tokens: true, ..Look::default() };
        let whole = reader.judge_tokens(&[&key], &tokens, &look).unwrap();
        let by_text = reader.judge(&[&key], &text, &look).unwrap();
        assert_eq!((&whole.course, &whole.tokens), (&by_text.course, &by_text.tokens));
        assert_eq!(whole.passages.len(), by_text.passages.len());
        assert_eq!(whole.course.last(), Some(&whole.evidence));
        assert!((10..=most).contains(&whole.course.len()), "{}", whole.course.len());
        for point in &whole.course {
            let part = reader.judge_tokens(&[&key], &tokens[..point.tokens as usize], &look).unwrap();
            assert_eq!(*point, part.evidence);
        }
    }
    assert!(plain.judge(&[&key], &text, &Look::default()).unwrap().course.is_empty());
    let nothing = plain.judge(&[&key], "", &Look { course: 9, ..Look::default() }).unwrap();
    assert!(nothing.course.is_empty() && nothing.outcome() == Outcome::TooShort);
}

#[test]
fn what_cannot_be_judged_is_an_error() {
    let reader = reader();
    assert!(matches!(reader.judge(&[], "text", &Look::default()), Err(DetectError::NoKey)));
    let vocabulary = VocabularyId::new(reader.vocabulary().size(), "another").unwrap();
    let foreign = Key::generate(Marking::lists(), vocabulary);
    assert!(matches!(reader.judge(&[&foreign], "text", &Look::default()), Err(DetectError::ForeignKey { .. })));
    let fault = reader.detect(&foreign, "text".as_bytes()).unwrap_err().to_string();
    assert!(fault.contains("choose the model that goes with the key"), "{fault}");
}
