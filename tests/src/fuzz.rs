//! What the fuzz targets run (`scripts/fuzz`): foreign bytes in, and whatever they are, no panic and no broken promise.
//! Their seeds run as ordinary tests.

use verdigris_text::Pieces;
use verdigris_watermark::attack::Attack;
use verdigris_watermark::normalize::normalize;
use verdigris_watermark::windows::passages;
use verdigris_watermark::{Detector, Key, Repeats};

/// The largest vocabulary that a key may split here: lists of larger ones take the time.
const MAX_VOCABULARY: usize = 1 << 16;

/// A key file: parsed, it judges; not parsed, the fault does not quote the secret.
///
/// # Panics
/// If a promise is broken.
pub fn key_file(data: &[u8]) {
    match Key::parse(data) {
        Err(fault) => assert!(!fault.is_empty() && fault.len() < 400),
        Ok(key) => {
            assert!(!format!("{key:?}{}", key.describe()).contains("secret\":"));
            if key.vocabulary().size > MAX_VOCABULARY {
                return;
            }
            let size = key.vocabulary().size as u32;
            let tokens: Vec<u32> = (0..40).map(|i| i * 7919 % size).collect();
            match key.scheme() {
                Ok(scheme) => {
                    let mut detector = Detector::new(scheme);
                    detector.push(&tokens);
                    let _ = detector.evidence().verdict(1e-5);
                }
                Err(_) => key.payload_reader().expect("a key that carries payloads").push(&tokens),
            }
        }
    }
}

/// A key and a text: the first line is a key file, the rest is text. Any cut into pieces gives the same evidence.
///
/// # Panics
/// If a promise is broken.
pub fn detector_input(data: &[u8]) {
    let Some(end) = data.iter().position(|&byte| byte == b'\n') else { return };
    let (file, text) = (&data[..end], &data[end + 1..]);
    let Ok(key) = Key::parse(file) else { return };
    let Ok(scheme) = key.scheme() else { return };
    if key.vocabulary().size > MAX_VOCABULARY || text.len() > 4096 {
        return;
    }
    let joined: Result<Vec<String>, _> = Pieces::new(text).collect();
    assert_eq!(joined.is_ok(), std::str::from_utf8(text).is_ok());
    // Bytes as tokens, some of them outside the vocabulary.
    let tokens: Vec<u32> = text.iter().map(|&byte| u32::from(byte) * 37).collect();
    for repeats in [Repeats::Context, Repeats::Draw, Repeats::Nothing] {
        let detector = || Detector::new(scheme.clone()).repeats(repeats).recording();
        let (mut whole, mut pieces) = (detector(), detector());
        whole.push(&tokens);
        tokens.chunks(1 + text.len() % 7).for_each(|piece| _ = pieces.push(piece));
        // Sums of scores can differ by rounding, for their order in the table does not: they are equal.
        let (a, b) = (whole.evidence(), pieces.evidence());
        assert!(a.scored == b.scored && a.score == b.score && a.tokens == b.tokens);
        assert!(a.ln_p <= 0.0 || a.ln_p.is_nan() && a.scored == 0, "{a:?}");
        for passage in passages(whole.law(), whole.record(), 0.5) {
            assert!(passage.start < passage.end && passage.end <= tokens.len() && passage.ln_p <= 0.0);
        }
    }
}

/// A text: repaired, every place maps back into it, and attacks leave text.
///
/// # Panics
/// If a promise is broken.
pub fn normalization(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let normalized = normalize(text);
    let mut last = 0;
    for (here, _) in normalized.text.char_indices() {
        let there = normalized.origin(here);
        assert!(last <= there && text.is_char_boundary(there), "{here} maps to {there} after {last}");
        last = there;
    }
    assert_eq!(normalized.origin(normalized.text.len()), text.len());
    assert!(normalized.changes.iter().all(|change| text.is_char_boundary(change.at)));
    if normalized.changes.is_empty() {
        assert_eq!(normalized.text, text);
    }
    for (attack, ..) in Attack::ALL {
        attack.apply(text, 0.3, data.len() as u64, "Some words of somebody else.");
    }
}
