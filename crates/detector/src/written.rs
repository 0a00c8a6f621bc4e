//! Marked texts for tests.

use verdigris_logits::{Row, TokenId, Transform};
use verdigris_text::Tokenizer;
use verdigris_watermark::dialects::native;
use verdigris_watermark::{Context, Dialect, Gamma, Key};

use crate::reader::Reader;

/// The reader with the tokenizer of `tale`.
pub(crate) fn reader() -> Reader {
    let json = include_bytes!("../../../fixtures/models/tale/tokenizer.json");
    Reader::new(Tokenizer::from_json(json).unwrap())
}

/// A key whose mark carries a payload of 16 bits.
pub(crate) fn numbered(reader: &Reader) -> Key {
    let (gamma, context) = (Gamma::new(0.25).unwrap(), Context::default());
    let dialect = Dialect::Native(native::Parameters { gamma, context, payload_bits: Some(16) });
    Key::new(vec![3; 32], "n", dialect, None, reader.vocabulary()).unwrap()
}

/// The tokens that are a space and a word for which `is` is true.
pub(crate) fn words(reader: &Reader, is: impl Fn(&[u8]) -> bool) -> Vec<TokenId> {
    let vocabulary = reader.tokenizer().vocabulary();
    let is_word = |bytes: &[u8]| bytes.len() > 2 && bytes[0] == b' ' && is(&bytes[1..]);
    (0..vocabulary.size() as TokenId).filter(|&id| is_word(vocabulary.bytes(id))).collect()
}

/// A marked text of `places` words, with the word at index `i` chosen among `words(i)`.
pub(crate) fn written<'w>(
    reader: &Reader,
    embed: &impl Transform,
    places: usize,
    words: impl Fn(usize) -> &'w [TokenId],
) -> String {
    let vocabulary = reader.tokenizer().vocabulary();
    let (mut state, mut text) = (embed.start(&[]), String::new());
    for place in 0..places {
        let (words, mut logits) = (words(place), vec![f32::NEG_INFINITY; vocabulary.size()]);
        // Other words are likely at each index, with differences smaller than the mark's bias.
        let likely = |at: usize| ((at + 37 * place) % 97) as f32 / 60.0;
        words.iter().enumerate().for_each(|(at, &id)| logits[id as usize] = likely(at));
        let mut row = Row::from(logits);
        embed.apply(&state, &mut row);
        let best = |&a: &TokenId, &b: &TokenId| row.logits()[a as usize].total_cmp(&row.logits()[b as usize]);
        let word = words.iter().copied().max_by(best).expect("there are words");
        embed.advance(&mut state, word);
        text += std::str::from_utf8(vocabulary.bytes(word)).expect("words are UTF-8");
    }
    text
}
