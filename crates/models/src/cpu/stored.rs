//! The states of sequences on a CPU, as they are saved: the keys and values of some tokens, layer by layer, and the
//! states of the other layers after the last of these tokens, if they are known.

use std::ops::Range;

use rayon::prelude::*;
use sha2::{Digest as _, Sha256};
use verdigris_kernels::Format;
use verdigris_kernels::machine::{UnitState, units};
use verdigris_logits::TokenId;

use super::decoder::CpuDecoder;
use super::pages::{Half, Pages};
use super::state::State;
use crate::description::matrix::Matrix;
use crate::description::parts::Parts;
use crate::description::tensors::Tensor;
use crate::description::weight::Weight;
use crate::error::ModelError;
use crate::saved::{Digest, SavedSection, StateId};

/// The name of the section with keys and values.
const KEYS_AND_VALUES: &str = "kv";

/// The name of the section with the states of layers without keys and values.
pub(crate) const STATES: &str = "states";

/// The bytes that one thread hashes at a time.
const CHUNK: usize = 1 << 22;

/// The name of the unit whose products with weights in bf16 have other bits than those of all other units.
const TILES: &str = "AMX (INT8 and BF16)";

/// The id of the states of sequences with this capacity. It reads all weights, in about the time of a token.
pub(super) fn state_id(decoder: &CpuDecoder, capacity: usize) -> StateId {
    let CpuDecoder { config, parts, cache_format, .. } = decoder;
    let weights = weights(parts);
    let has_tiles = units().iter().any(|unit| unit.name == TILES && unit.state == UnitState::Used);
    let tiles = has_tiles && weights.iter().any(|weights| weights.format == Some(Format::Bf16));
    let capacity = config.depends_on_length().then_some(capacity);
    // Cosines, sines and activations come from the library of the system.
    let (arch, os) = (std::env::consts::ARCH, std::env::consts::OS);
    let settings = format!("{} {arch} {os} {cache_format:?} tiles={tiles} {capacity:?}", env!("CARGO_PKG_VERSION"));
    let mut model = Sha256::new_with_prefix(format!("{config:?}"));
    for WeightBytes { name, format, columns, bytes } in &weights {
        model.update(format!("{name} {format:?} {columns} {}", bytes.len()));
        let chunks: Vec<Digest> = bytes.par_chunks(CHUNK).map(|chunk| Sha256::digest(chunk).into()).collect();
        chunks.iter().for_each(|digest| model.update(digest));
    }
    StateId { model: model.finalize().into(), settings: Sha256::digest(settings).into() }
}

/// The bytes of some weights: of a matrix with a format, or numbers.
struct WeightBytes<'a> {
    name: &'static str,
    format: Option<Format>,
    columns: usize,
    bytes: std::borrow::Cow<'a, [u8]>,
}

/// All weights, with those of an adapter.
fn weights(parts: &Parts) -> Vec<WeightBytes<'_>> {
    let mut all = Weights(Vec::new());
    for (name, tensor) in parts.tensors().0 {
        match tensor {
            // A tied output is the embedding.
            Tensor::Matrix(weight) if std::ptr::eq(weight, &parts.output) && weight.is_same(&parts.embedding) => {}
            Tensor::Matrix(weight) => all.weight(name, weight),
            Tensor::Vector(numbers) => all.numbers(name, numbers),
        }
    }
    all.0
}

struct Weights<'a>(Vec<WeightBytes<'a>>);

impl<'a> Weights<'a> {
    fn matrix(&mut self, name: &'static str, matrix: &'a Matrix) {
        let (format, columns, bytes) = (Some(matrix.format()), matrix.columns(), matrix.bytes().into());
        self.0.push(WeightBytes { name, format, columns, bytes });
    }

    fn numbers(&mut self, name: &'static str, numbers: &[f32]) {
        let bytes = numbers.iter().flat_map(|number| number.to_le_bytes()).collect::<Vec<u8>>().into();
        self.0.push(WeightBytes { name, format: None, columns: numbers.len(), bytes });
    }

    fn weight(&mut self, name: &'static str, weight: &'a Weight) {
        self.matrix(name, weight.matrix());
        if let Some(update) = weight.update() {
            update.matrices().into_iter().for_each(|matrix| self.matrix("update", matrix));
            let (scale, factors) = update.factors();
            self.numbers("scale", &[scale]);
            self.numbers("factors", factors.unwrap_or_default());
        }
    }
}

/// The state of some tokens: see [`Sequence::save`](crate::Sequence::save).
pub(super) fn save(state: &State, tokens: Range<usize>) -> Option<Vec<SavedSection<'static>>> {
    let State { pages, held, recurrent, .. } = state;
    if tokens.start > tokens.end || tokens.end > held.length() {
        return None;
    }
    let states = recurrent.bytes_at(tokens.end).map(|bytes| SavedSection { name: STATES.into(), bytes: bytes.into() });
    let mut bytes = Vec::with_capacity(tokens.len() * pages.bytes_of_token());
    let count = tokens.len();
    pages.each_run(tokens, count, |page, range, _| bytes.extend_from_slice(&pages.pages[page][range]));
    Some([SavedSection { name: KEYS_AND_VALUES.into(), bytes: bytes.into() }].into_iter().chain(states).collect())
}

/// Appends some tokens, the first of `of` saved ones: see [`Sequence::restore`](crate::Sequence::restore).
pub(super) fn restore(
    state: &mut State,
    tokens: &[TokenId],
    of: usize,
    sections: &[SavedSection<'_>],
) -> Result<bool, ModelError> {
    let State { pages, held, recurrent, .. } = state;
    let (of_attention, of_others) = match sections {
        [keys] => (keys, None),
        [keys, states] if states.name == STATES => (keys, Some(&states.bytes)),
        _ => return Ok(false),
    };
    let SavedSection { name, bytes } = of_attention;
    let (begin, count) = (held.length(), tokens.len());
    let fits = count <= of && count <= held.capacity() - begin;
    if name != KEYS_AND_VALUES || !fits || of.checked_mul(pages.bytes_of_token()) != Some(bytes.len()) {
        return Ok(false);
    }
    let Ok(states) = of_others.map(|bytes| recurrent.states_of(bytes).ok_or(())).transpose() else { return Ok(false) };
    pages.make_own(begin, begin + count)?;
    pages.fill(begin, count, of, bytes);
    held.extend(count);
    // They are those after all saved tokens.
    recurrent.restore(begin, tokens, states.filter(|_| count == of));
    Ok(true)
}

impl Pages {
    /// Bytes that a token takes in all layers.
    fn bytes_of_token(&self) -> usize {
        Self::bytes_a_token(self.format, &self.widths)
    }

    /// Calls `each` with consecutive bytes of some tokens, layer by layer, keys before values: a page, the range in it,
    /// and where the bytes are among those of `of` saved tokens.
    fn each_run(&self, tokens: Range<usize>, of: usize, mut each: impl FnMut(usize, Range<usize>, usize)) {
        let mut before = 0;
        for layer in 0..self.widths.len() {
            for half in [Half::Keys, Half::Values] {
                let a_token = self.format.bytes(self.widths[layer].of(half));
                let (begin, _) = self.span(layer, half);
                let mut at = tokens.start;
                while at < tokens.end && a_token > 0 {
                    let offset = at % self.tokens;
                    let count = (self.tokens - offset).min(tokens.end - at);
                    let from = begin + offset * a_token;
                    each(at / self.tokens, from..from + count * a_token, before + (at - tokens.start) * a_token);
                    at += count;
                }
                before += of * a_token;
            }
        }
    }

    /// Writes the first `tokens` of `of` saved tokens from `begin` on, whose pages are exclusive to this sequence.
    fn fill(&mut self, begin: usize, tokens: usize, of: usize, bytes: &[u8]) {
        let mut runs = Vec::new();
        self.each_run(begin..begin + tokens, of, |page, range, from| runs.push((page, range, from)));
        for (page, range, from) in runs {
            let page = std::sync::Arc::get_mut(&mut self.pages[page]).expect("an own page");
            page[range.clone()].copy_from_slice(&bytes[from..from + range.len()]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::CacheLayout;
    use crate::cpu::pages::Widths;

    fn pages(layout: CacheLayout, tokens: usize) -> Pages {
        let mut pages = Pages::new(layout, Format::F32, [Widths::equal(4); 2].into(), 40).unwrap();
        pages.make_own(0, tokens).unwrap();
        pages
    }

    /// Saved tokens are the same bytes whatever the layout, and any number of the first of them can be restored.
    #[test]
    fn keys_and_values_are_moved_between_layouts() {
        let layouts = [CacheLayout::Paged { tokens: 3 }, CacheLayout::Paged { tokens: 64 }, CacheLayout::Contiguous];
        let numbers = |layer: usize, half: usize| -> Vec<f32> {
            (0..20 * 4).map(|i| (1000 * (2 * layer + half) + i) as f32).collect()
        };
        let bytes = |from: &Pages, tokens: Range<usize>| {
            let mut bytes = Vec::new();
            let count = tokens.len();
            from.each_run(tokens, count, |page, range, _| bytes.extend_from_slice(&from.pages[page][range]));
            bytes
        };
        for from in layouts {
            let mut origin = pages(from, 20);
            for layer in 0..2 {
                origin.write(layer, Half::Keys, 0, &numbers(layer, 0));
                origin.write(layer, Half::Values, 0, &numbers(layer, 1));
            }
            let expected: Vec<u8> = (0..4)
                .flat_map(|half| numbers(half / 2, half % 2)[5 * 4..17 * 4].to_vec())
                .flat_map(f32::to_le_bytes)
                .collect();
            let saved = bytes(&origin, 5..17);
            assert_eq!(saved, expected, "{from:?}");
            for to in layouts {
                let mut copy = pages(to, 16);
                copy.fill(4, 12, 12, &saved);
                assert_eq!(bytes(&copy, 4..16), saved, "{from:?} to {to:?}");
                let mut part = pages(to, 9);
                part.fill(0, 7, 12, &saved);
                assert_eq!(bytes(&part, 0..7), bytes(&origin, 5..12), "{from:?} to {to:?}");
            }
        }
    }
}
