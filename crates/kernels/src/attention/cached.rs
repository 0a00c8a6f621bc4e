//! Keys or values of one layer, as they are stored, and some of one head as numbers.

use std::marker::PhantomData;
use std::ops::Range;
use std::sync::Arc;

use super::Heads;
use super::rows::Stored;
use crate::bytewise::{Body, Bytewise};
use crate::decode::{self, Decode};
use crate::format::{self, Format};
use crate::simd::{LINE, Simd};
use crate::weights::decode_row;

/// Keys or values of one layer: `t x kv_heads x head_dim`, as they are stored, in one piece or in pages.
#[derive(Clone, Copy, Debug)]
pub struct Cached<'a> {
    pub(super) format: Format,
    /// Bytes of them all.
    pub(super) bytes: usize,
    memory: Memory<'a>,
}

#[derive(Clone, Copy, Debug)]
enum Memory<'a> {
    Contiguous(&'a [u8]),
    /// In each page so many bytes, from an offset that is the same in all.
    Pages {
        pages: &'a [Arc<Vec<u8>>],
        from: usize,
        bytes: usize,
    },
}

impl<'a> Cached<'a> {
    /// Keys or values that follow each other. A head is whole blocks.
    pub fn new(format: Format, bytes: &'a [u8]) -> Self {
        Self { format, bytes: bytes.len(), memory: Memory::Contiguous(bytes) }
    }

    /// Keys or values of `total` bytes in pages: of each page `bytes` from byte `from` on, the last of them only as far
    /// as needed.
    ///
    /// # Panics
    /// If the pages do not hold so much.
    pub fn paged(format: Format, total: usize, pages: &'a [Arc<Vec<u8>>], from: usize, bytes: usize) -> Self {
        assert!(bytes > 0 && pages.len() * bytes >= total, "{total} bytes in {} pages of {bytes}", pages.len());
        assert!(pages.iter().all(|page| page.len() >= from + bytes), "pages with {bytes} bytes at {from}");
        Self { format, bytes: total, memory: Memory::Pages { pages, from, bytes } }
    }

    /// Keys or values in memory as numbers.
    pub fn of(numbers: &'a [f32]) -> Self {
        Self::new(Format::F32, format::bytes(numbers))
    }

    /// How many tokens a page holds that has `token` bytes for each.
    pub(super) fn tokens_a_page(&self, token: usize) -> usize {
        match self.memory {
            Memory::Contiguous(_) => (self.bytes / token).max(1),
            Memory::Pages { bytes, .. } => bytes / token,
        }
    }

    /// What one head has for some tokens as it is stored, if it lies in one page.
    #[inline(always)]
    pub(super) fn stored(
        &self,
        shape: Heads,
        head: usize,
        tokens: &Tokens<'_>,
        some: &Range<usize>,
    ) -> Option<Stored<'a>> {
        let Tokens::Following { first, .. } = *tokens else { return None };
        let row = self.format.bytes(shape.head_dim);
        let token = shape.kv_heads * row;
        let page = self.tokens_a_page(token);
        let first = first + some.start;
        if !Stored::fits(shape.head_dim) || first % page + some.len() > page {
            return None;
        }
        let bytes = &self.page(first / page)[first % page * token + head * row..][..(some.len() - 1) * token + row];
        Some(Stored { format: self.format, bytes, stride: token })
    }

    /// Asks for what some heads have for some tokens, before one head after the other is read: what one has lies apart,
    /// so processors would not see what comes next.
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
            Memory::Contiguous(bytes) => bytes,
            Memory::Pages { pages, from, bytes } => &pages[page][from..from + bytes],
        }
    }

    /// Writes what one head has for some tokens as numbers, in rows of `width`: the elements of a head, and zeros that
    /// are there already.
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
        match self.format {
            Format::F32 => rows.decode::<S, decode::F32>(unit),
            Format::F16 => rows.decode::<S, decode::F16>(unit),
            Format::Bf16 => rows.decode::<S, decode::Bf16>(unit),
            Format::Q8_0 => rows.decode::<S, decode::Q8_0>(unit),
            format => unreachable!("caches are not stored as {format:?}"),
        }
    }
}

/// Some tokens' rows of one head, and where they go.
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
        let row = cached.format.bytes(shape.head_dim);
        let token = shape.kv_heads * row;
        let page = cached.tokens_a_page(token);
        let (mut at, mut rows) = (some.start, out.chunks_exact_mut(width));
        while at < some.end {
            let (first, count) = tokens.run(at, some.end);
            let count = count.min(page - first % page);
            let of_page = &cached.page(first / page)[first % page * token + head * row..];
            for (i, out) in rows.by_ref().take(count).enumerate() {
                decode_row::<S, F>(unit, &of_page[i * token..][..row], &mut out[..shape.head_dim]);
            }
            at += count;
        }
    }
}

/// Which tokens of a cache are attended to, in the order in which a row counts them.
#[derive(Clone, Copy, Debug)]
pub(super) enum Tokens<'a> {
    /// So many from one on.
    Following { first: usize, count: usize },
    /// These.
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

    /// The token at one place, and how many from there on, before another place, follow each other for sure.
    fn run(&self, at: usize, end: usize) -> (usize, usize) {
        match self {
            Self::Following { first, .. } => (first + at, end - at),
            Self::Chosen(tokens) => (tokens[at], 1),
        }
    }
}
