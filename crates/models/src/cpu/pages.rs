//! The keys and values of a sequence on a CPU.

use std::sync::Arc;

use verdigris_kernels::{Cached, Format, zeroed};

use crate::cache::CacheLayout;
use crate::error::ModelError;

/// A half of a layer's cache.
#[derive(Clone, Copy, Debug)]
pub(super) enum Half {
    Keys,
    Values,
}

/// The elements of a token's keys and values in a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Widths {
    pub(super) keys: usize,
    /// Zero where values are not stored by themselves.
    pub(super) values: usize,
}

impl Widths {
    /// Keys and values of the same number of elements.
    pub(super) fn equal(width: usize) -> Self {
        Self { keys: width, values: width }
    }

    pub(super) fn of(self, half: Half) -> usize {
        match half {
            Half::Keys => self.keys,
            Half::Values => self.values,
        }
    }
}

/// The keys and values of all layers that have any. Each page holds some tokens of every layer: keys, then values, then
/// the next layer's.
///
/// A page that two sequences share is copied before either writes to it. Data past the tokens in use is stale and never
/// read, so truncating only sets a number.
#[derive(Clone, Debug)]
pub(super) struct Pages {
    pub(super) format: Format,
    /// Elements of a token's keys and values in each layer.
    pub(super) widths: Arc<[Widths]>,
    /// Tokens per page.
    pub(super) tokens: usize,
    pub(super) pages: Vec<Arc<Vec<u8>>>,
}

impl Pages {
    pub(super) fn new(
        layout: CacheLayout,
        format: Format,
        widths: Arc<[Widths]>,
        capacity: usize,
    ) -> Result<Self, ModelError> {
        let tokens = if let CacheLayout::Paged { tokens } = layout { tokens } else { capacity };
        let tokens = tokens.clamp(1, capacity.max(1));
        let mut pages = Self { format, widths, tokens, pages: Vec::with_capacity(capacity.div_ceil(tokens)) };
        if layout == CacheLayout::Contiguous {
            pages.make_own(0, 1)?;
        }
        Ok(pages)
    }

    /// Bytes that a token takes in all layers.
    pub(super) fn bytes_a_token(format: Format, widths: &[Widths]) -> usize {
        widths.iter().map(|&Widths { keys, values }| format.bytes(keys) + format.bytes(values)).sum()
    }

    /// Makes the pages of `from..to` exclusive to this sequence (copy on write), and allocates missing ones.
    pub(super) fn make_own(&mut self, from: usize, to: usize) -> Result<(), ModelError> {
        let a_token = Self::bytes_a_token(self.format, &self.widths);
        let a_page = self.tokens.saturating_mul(a_token);
        let page = || zeroed(a_page).ok_or(ModelError::CacheMemory { bytes: a_page, tokens: self.tokens });
        for at in from / self.tokens..to.div_ceil(self.tokens) {
            let Some(held) = self.pages.get_mut(at) else {
                self.pages.push(Arc::new(page()?));
                continue;
            };
            if Arc::get_mut(held).is_none() {
                let mut own = page()?;
                own.copy_from_slice(held);
                *held = Arc::new(own);
            }
        }
        Ok(())
    }

    /// The offset in each page where one half of a layer begins, and its length in bytes.
    pub(super) fn span(&self, layer: usize, half: Half) -> (usize, usize) {
        let before = self.tokens * Self::bytes_a_token(self.format, &self.widths[..layer]);
        let bytes = |half| self.tokens * self.format.bytes(self.widths[layer].of(half));
        match half {
            Half::Keys => (before, bytes(half)),
            Half::Values => (before + bytes(Half::Keys), bytes(half)),
        }
    }

    /// Writes the keys or values of the tokens from `at` on, whose pages are exclusive to this sequence.
    pub(super) fn write(&mut self, layer: usize, half: Half, mut at: usize, mut numbers: &[f32]) {
        let ((from, _), width) = (self.span(layer, half), self.widths[layer].of(half));
        let a_token = self.format.bytes(width);
        while !numbers.is_empty() {
            let offset = at % self.tokens;
            let count = (self.tokens - offset).min(numbers.len() / width);
            let (these, rest) = numbers.split_at(count * width);
            let page = Arc::get_mut(&mut self.pages[at / self.tokens]).expect("an own page");
            self.format.encode(these, &mut page[from + offset * a_token..][..count * a_token]);
            (at, numbers) = (at + count, rest);
        }
    }

    /// The keys or values of the first `tokens` tokens.
    pub(super) fn first(&self, layer: usize, half: Half, tokens: usize) -> Cached<'_> {
        let (from, bytes) = self.span(layer, half);
        let pages = &self.pages[..tokens.div_ceil(self.tokens)];
        let total = tokens * self.format.bytes(self.widths[layer].of(half));
        Cached::paged(self.format, total, pages, from, bytes)
    }

    /// The first `tokens` tokens, shared with another sequence.
    pub(super) fn share(&self, tokens: usize) -> Self {
        let mut pages = Vec::with_capacity(self.pages.capacity());
        pages.extend_from_slice(&self.pages[..tokens.div_ceil(self.tokens)]);
        Self { pages, widths: self.widths.clone(), ..*self }
    }

    /// Moves the token at index `from` to the lower index `to`. The pages of both are exclusive to this sequence.
    pub(super) fn move_back(&mut self, from: usize, to: usize) {
        for layer in 0..self.widths.len() {
            for half in [Half::Keys, Half::Values] {
                let a_token = self.format.bytes(self.widths[layer].of(half));
                let (begin, _) = self.span(layer, half);
                let [from, to] = [from, to].map(|at| (at / self.tokens, begin + at % self.tokens * a_token));
                // Two pages are separate buffers, so one is written while the other is read; within one page, bytes are
                // moved.
                let mut target = std::mem::take(&mut self.pages[to.0]);
                let bytes = Arc::get_mut(&mut target).expect("an own page");
                match from.0 == to.0 {
                    true => bytes.copy_within(from.1..from.1 + a_token, to.1),
                    false => bytes[to.1..to.1 + a_token].copy_from_slice(&self.pages[from.0][from.1..][..a_token]),
                }
                self.pages[to.0] = target;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The stored bytes of the first `tokens` tokens.
    fn read(pages: &Pages, layer: usize, half: Half, tokens: usize) -> Vec<u8> {
        let (from, _) = pages.span(layer, half);
        let a_token = pages.format.bytes(pages.widths[layer].of(half));
        let at = |t: usize| &pages.pages[t / pages.tokens][from + t % pages.tokens * a_token..][..a_token];
        (0..tokens).flat_map(at).copied().collect()
    }

    fn numbers(from: usize, count: usize) -> Vec<f32> {
        (from * 4..(from + count) * 4).map(|x| x as f32).collect()
    }

    fn expected(tokens: impl Iterator<Item = usize>) -> Vec<u8> {
        tokens.flat_map(|t| numbers(t, 1)).flat_map(f32::to_le_bytes).collect()
    }

    fn widths<const N: usize>(of: [usize; N]) -> Arc<[Widths]> {
        of.map(Widths::equal).into()
    }

    /// A layer with keys only, between others.
    #[test]
    fn keys_and_values_have_their_own_widths() {
        let own = [Widths::equal(4), Widths { keys: 4, values: 0 }, Widths { keys: 0, values: 0 }, Widths::equal(4)];
        assert_eq!(Pages::bytes_a_token(Format::F32, &own), 5 * 16);
        let mut pages = Pages::new(CacheLayout::Paged { tokens: 3 }, Format::F32, own.into(), 20).unwrap();
        pages.make_own(0, 10).unwrap();
        let all = [(0, Half::Keys), (0, Half::Values), (1, Half::Keys), (3, Half::Keys), (3, Half::Values)];
        for (i, (layer, half)) in all.into_iter().enumerate() {
            pages.write(layer, half, 0, &numbers(100 * i, 10));
        }
        pages.move_back(9, 1);
        for (i, (layer, half)) in all.into_iter().enumerate() {
            let moved = (0..10).map(|t| 100 * i + if t == 1 { 9 } else { t });
            assert_eq!(read(&pages, layer, half, 10), expected(moved), "{layer} {half:?}");
        }
    }

    #[test]
    fn tokens_stand_where_they_were_written_in_every_layout() {
        for layout in [CacheLayout::Paged { tokens: 3 }, CacheLayout::Paged { tokens: 64 }, CacheLayout::Contiguous] {
            let mut pages = Pages::new(layout, Format::F32, widths([4, 0, 4]), 20).unwrap();
            for (at, count) in [(0, 7), (7, 1), (8, 12)] {
                pages.make_own(at, at + count).unwrap();
                for layer in [0, 2] {
                    pages.write(layer, Half::Keys, at, &numbers(at + 100 * layer, count));
                    pages.write(layer, Half::Values, at, &numbers(at + 100 * layer + 50, count));
                }
            }
            for layer in [0, 2] {
                assert_eq!(read(&pages, layer, Half::Keys, 20), expected((0..20).map(|t| t + 100 * layer)));
                assert_eq!(read(&pages, layer, Half::Values, 20), expected((0..20).map(|t| t + 100 * layer + 50)));
            }
            for (from, to) in [(10, 9), (17, 2)] {
                pages.move_back(from, to);
            }
            let moved = expected((0..20).map(|t| [(9, 10), (2, 17)].iter().find(|m| m.0 == t).map_or(t, |m| m.1)));
            assert_eq!(read(&pages, 0, Half::Keys, 20), moved);
        }
    }

    /// Only the page that both write to is copied.
    #[test]
    fn forks_share_what_they_have_in_common() {
        let mut origin = Pages::new(CacheLayout::Paged { tokens: 4 }, Format::F32, widths([4]), 40).unwrap();
        origin.make_own(0, 10).unwrap();
        origin.write(0, Half::Keys, 0, &numbers(0, 10));
        let mut fork = origin.share(10);
        assert!((0..3).all(|page| Arc::ptr_eq(&origin.pages[page], &fork.pages[page])));
        fork.make_own(10, 11).unwrap();
        fork.write(0, Half::Keys, 10, &numbers(77, 1));
        origin.make_own(10, 11).unwrap();
        origin.write(0, Half::Keys, 10, &numbers(10, 1));
        assert!((0..2).all(|page| Arc::ptr_eq(&origin.pages[page], &fork.pages[page])));
        assert_eq!(read(&origin, 0, Half::Keys, 11), expected(0..11));
        assert_eq!(read(&fork, 0, Half::Keys, 11), expected((0..10).chain([77])));
    }

    #[test]
    fn too_much_memory_is_an_error_that_says_how_much() {
        let error = Pages::new(CacheLayout::Contiguous, Format::F16, widths([1 << 20; 1 << 10]), 1 << 32).unwrap_err();
        assert!(error.to_string().contains("GiB"), "{error}");
    }
}
