//! Keys or values of one layer in their stored format, and decoding of some of them.

use std::marker::PhantomData;
use std::ops::Range;
use std::sync::Arc;

use super::heads::Heads;
use super::rows::{StoredRows, with_format};
use crate::bytewise::{Body, Bytewise};
use crate::decode::Decode;
use crate::format::{self, Format};
use crate::simd::{LINE, Simd};
use crate::weights::decode_row;

/// Keys or values of one layer: `t x kv_heads x head_dim` in their stored format, contiguous or in pages.
#[derive(Clone, Copy, Debug)]
pub struct Cached<'a> {
    pub(super) format: Format,
    /// The size of all of them in bytes.
    pub(super) bytes: usize,
    /// The number of elements of each head that are read, if not all are.
    first: Option<usize>,
    memory: CachedBytes<'a>,
}

#[derive(Clone, Copy, Debug)]
enum CachedBytes<'a> {
    Contiguous(&'a [u8]),
    /// `bytes` bytes of each page, from the same offset in all.
    Pages {
        pages: &'a [Arc<Vec<u8>>],
        from: usize,
        bytes: usize,
    },
}

impl<'a> Cached<'a> {
    /// Contiguous keys or values. A head must be whole blocks.
    pub fn new(format: Format, bytes: &'a [u8]) -> Self {
        Self { format, bytes: bytes.len(), first: None, memory: CachedBytes::Contiguous(bytes) }
    }

    /// Keys or values of `total` bytes in pages: `bytes` of each page from offset `from`, of the last page only as many
    /// as needed.
    ///
    /// # Panics
    /// If the pages hold less than `total`.
    pub fn paged(format: Format, total: usize, pages: &'a [Arc<Vec<u8>>], from: usize, bytes: usize) -> Self {
        assert!(bytes > 0 && pages.len() * bytes >= total, "{total} bytes in {} pages of {bytes}", pages.len());
        assert!(pages.iter().all(|page| page.len() >= from + bytes), "pages with {bytes} bytes at {from}");
        Self { format, bytes: total, first: None, memory: CachedBytes::Pages { pages, from, bytes } }
    }

    /// Keys or values that are in memory as `f32`.
    pub fn of(numbers: &'a [f32]) -> Self {
        Self::new(Format::F32, format::bytes(numbers))
    }

    /// Only the first `elements` of each head, which must be whole blocks: values that are the beginnings of keys, as
    /// in latent attention (DeepSeek-AI, *DeepSeek-V2*, 2024, section 2.1).
    #[must_use]
    pub fn first(self, elements: usize) -> Self {
        Self { first: Some(elements), ..self }
    }

    /// The number of elements of each head that are read.
    pub(super) fn elements(&self, shape: Heads) -> usize {
        self.first.unwrap_or(shape.head_dim)
    }

    /// The number of tokens in a page, with `token` bytes per token.
    pub(super) fn tokens_a_page(&self, token: usize) -> usize {
        match self.memory {
            CachedBytes::Contiguous(_) => (self.bytes / token).max(1),
            CachedBytes::Pages { bytes, .. } => bytes / token,
        }
    }

    /// One head's rows for some tokens in their stored format, if they are in one page.
    #[inline(always)]
    pub(super) fn stored(
        &self,
        shape: Heads,
        head: usize,
        tokens: &Tokens<'_>,
        some: &Range<usize>,
    ) -> Option<StoredRows<'a>> {
        let Tokens::Following { first, .. } = *tokens else { return None };
        let (row, elements) = (self.format.bytes(shape.head_dim), self.elements(shape));
        let token = shape.kv_heads * row;
        let page = self.tokens_a_page(token);
        let first = first + some.start;
        if !StoredRows::fits(elements) || first % page + some.len() > page {
            return None;
        }
        let length = (some.len() - 1) * token + self.format.bytes(elements);
        let bytes = &self.page(first / page)[first % page * token + head * row..][..length];
        Some(StoredRows { format: self.format, bytes, stride: token })
    }

    /// Prefetches the rows of some heads for some tokens, before the heads are read one by one: the rows of a head are
    /// not contiguous, so the processor would not predict them.
    #[inline(always)]
    pub(super) fn prefetch<S: Simd>(
        &self,
        unit: S,
        shape: Heads,
        heads: &Range<usize>,
        tokens: &Tokens<'_>,
        some: &Range<usize>,
    ) {
        let row = self.format.bytes(shape.head_dim);
        let token = shape.kv_heads * row;
        let page = self.tokens_a_page(token);
        let mut at = some.start;
        while at < some.end {
            let (first, count) = tokens.run(at, some.end);
            let count = count.min(page - first % page);
            let from = &self.page(first / page)[first % page * token + heads.start * row..];
            for i in 0..count {
                let lines = from[i * token..][..heads.len() * row].as_ptr();
                (0..heads.len() * row).step_by(LINE).for_each(|line| unit.prefetch(lines.wrapping_add(line)));
            }
            at += count;
        }
    }

    fn page(&self, page: usize) -> &'a [u8] {
        match self.memory {
            CachedBytes::Contiguous(bytes) => bytes,
            CachedBytes::Pages { pages, from, bytes } => &pages[page][from..from + bytes],
        }
    }

    /// Decodes one head's rows for some tokens into rows of `width`: the elements that are read. Those after them do
    /// not change.
    #[inline(always)]
    #[allow(clippy::too_many_arguments)]
    pub(super) fn decode<S: Bytewise>(
        &self,
        unit: S,
        shape: Heads,
        head: usize,
        tokens: &Tokens<'_>,
        some: &Range<usize>,
        width: usize,
        out: &mut [f32],
    ) {
        let rows = RowsOf { cached: self, shape, head, tokens, some, width, out };
        with_format!(self.format, F => rows.decode::<S, F>(unit));
    }
}

/// One head's rows for some tokens, and their destination.
struct RowsOf<'a> {
    cached: &'a Cached<'a>,
    shape: Heads,
    head: usize,
    tokens: &'a Tokens<'a>,
    some: &'a Range<usize>,
    width: usize,
    out: &'a mut [f32],
}

impl RowsOf<'_> {
    #[inline(always)]
    fn decode<S: Bytewise, F: Decode>(self, unit: S) {
        unit.run(DecodedRows::<F>(self, PhantomData));
    }
}

struct DecodedRows<'a, F>(RowsOf<'a>, PhantomData<F>);

impl<F: Decode> Body for DecodedRows<'_, F> {
    #[inline(always)]
    fn run<S: Bytewise>(self, unit: S) {
        let RowsOf { cached, shape, head, tokens, some, width, out } = self.0;
        let (row, elements) = (cached.format.bytes(shape.head_dim), cached.elements(shape));
        let token = shape.kv_heads * row;
        let page = cached.tokens_a_page(token);
        let (mut at, mut rows) = (some.start, out.chunks_exact_mut(width));
        while at < some.end {
            let (first, count) = tokens.run(at, some.end);
            let count = count.min(page - first % page);
            let of_page = &cached.page(first / page)[first % page * token + head * row..];
            for (i, out) in rows.by_ref().take(count).enumerate() {
                let bytes = &of_page[i * token..][..cached.format.bytes(elements)];
                decode_row::<S, F>(unit, bytes, &mut out[..elements]);
            }
            at += count;
        }
    }
}

/// The tokens of a cache that are attended to, in the order in which a row counts them.
#[derive(Clone, Copy, Debug)]
pub(super) enum Tokens<'a> {
    /// `count` tokens from `first`.
    Following { first: usize, count: usize },
    /// The given tokens.
    Chosen(&'a [usize]),
}

impl Tokens<'_> {
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Following { count, .. } => *count,
            Self::Chosen(tokens) => tokens.len(),
        }
    }

    pub(super) fn get(&self, at: usize) -> usize {
        match self {
            Self::Following { first, .. } => first + at,
            Self::Chosen(tokens) => tokens[at],
        }
    }

    /// The token at index `at`, and the length of a run of consecutive tokens from there, at most up to index `end`.
    fn run(&self, at: usize, end: usize) -> (usize, usize) {
        match self {
            Self::Following { first, .. } => (first + at, end - at),
            Self::Chosen(tokens) => (tokens[at], 1),
        }
    }
}
