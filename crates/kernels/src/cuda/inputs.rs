//! The inputs of a pass: its rows, each a token of some sequence, the pages of those sequences, and the masks.
//!
//! They are in one buffer that never moves, so a recorded graph reads the inputs that are set later.

use std::sync::Arc;

use super::{Buffer, CudaError, Gpu, small};
use crate::format::Format;

/// Marks absent values, as in `device.cuh`.
const NONE: u32 = u32::MAX;

/// The layout of keys and values in a page: for each layer its keys, then its values, each
/// `tokens x kv_heads x head_dim`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pages {
    /// The number of tokens in a page.
    pub tokens: usize,
    /// The number of layers of the model.
    pub layers: usize,
    /// The number of key and value heads.
    pub kv_heads: usize,
    /// The number of elements of one head.
    pub head_dim: usize,
    /// The storage format: F32, F16, Bf16 or Q8_0.
    pub format: Format,
}

impl Pages {
    /// The number of bytes of a token in the keys, or in the values, of a layer.
    pub fn token_bytes(&self) -> usize {
        self.kv_heads * self.format.bytes(self.head_dim)
    }

    /// The number of bytes of a page.
    pub fn page_bytes(&self) -> usize {
        2 * self.layers * self.half_bytes()
    }

    pub(super) fn half_bytes(&self) -> usize {
        self.tokens * self.token_bytes()
    }

    /// The most queries of a tile, as in `attention.cu` and `attention_f32.cu`, unless a single token has more.
    /// The number of queries of a block of threads, for `group` query heads per key head.
    pub(super) fn queries(&self, group: usize) -> usize {
        (self.most_queries() / group).max(1) * group
    }

    pub(super) fn most_queries(&self) -> usize {
        match self {
            Self { format: Format::F32, .. } => 16,
            Self { head_dim: ..=128, .. } => 64,
            _ => 32,
        }
    }

    /// The offsets of a layer's keys and values in a page.
    pub(super) fn offsets(&self, layer: usize) -> [u64; 2] {
        assert!(layer < self.layers, "layer {layer} of {}", self.layers);
        [2 * layer, 2 * layer + 1].map(|half| (half * self.half_bytes()) as u64)
    }
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
struct TokenRow {
    token: u32,
    position: u32,
    slot: u32,
    table: u32,
    held: u32,
    first: u32,
    mask: u32,
    unused: u32,
    angles: u64,
}

/// Some tokens of one sequence.
#[derive(Clone, Copy, Debug)]
pub struct Slice<'a> {
    /// The number of tokens of the sequence before these.
    pub held: usize,
    /// The tokens.
    pub tokens: &'a [u32],
    /// Their positions in the sequence.
    pub positions: &'a [u32],
    /// Row by row, which of these tokens each one sees; by default, those up to itself.
    pub visible: Option<&'a [bool]>,
    /// The pages of the sequence, with room for these tokens.
    pub pages: &'a [Arc<Buffer>],
    /// The angles by which pairs of elements are rotated, for all rotary embeddings.
    pub angles: &'a Buffer,
}

/// The rows of a pass.
#[derive(Debug)]
pub struct Inputs {
    layout: Pages,
    most: usize,
    most_pages: usize,
    rows_a_tile: usize,
    vocabulary: usize,
    angles: usize,
    buffer: Buffer,
    bytes: Vec<u8>,
    /// The buffers that the rows on the GPU refer to, and those of the rows being set.
    reached: Vec<Buffer>,
    next: Vec<Buffer>,
    rows: usize,
    tiles: usize,
    masks: usize,
    table: usize,
    wanted: usize,
}

/// The limits of the inputs.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// The most tokens of one pass.
    pub rows: usize,
    /// The most pages of all sequences together.
    pub pages: usize,
    /// The number of query heads per key head.
    pub group: usize,
    /// One more than the highest token.
    pub vocabulary: usize,
    /// The number of angles of a sequence.
    pub angles: usize,
}

impl Inputs {
    /// Allocates room for rows.
    ///
    /// # Errors
    /// [`CudaError`] if the GPU has no memory for it, or the driver fails.
    pub fn new(gpu: &Gpu, layout: Pages, bounds: Bounds) -> Result<Self, CudaError> {
        let Bounds { rows, pages, group, vocabulary, angles } = bounds;
        let mut new = Self {
            layout,
            most: rows,
            most_pages: pages,
            rows_a_tile: (layout.most_queries() / group).max(1),
            vocabulary,
            angles,
            buffer: gpu.allocate(0)?,
            bytes: Vec::new(),
            reached: Vec::new(),
            next: Vec::new(),
            rows: 0,
            tiles: 0,
            masks: 0,
            table: 0,
            wanted: 0,
        };
        new.bytes = vec![0; new.table_at() + pages * 8];
        new.buffer = gpu.zeroed(new.bytes.len())?;
        Ok(new)
    }

    /// The most rows that there is room for.
    pub fn capacity(&self) -> usize {
        self.most
    }

    /// The layout of keys and values.
    pub fn layout(&self) -> Pages {
        self.layout
    }

    pub(super) fn rows_a_tile(&self) -> usize {
        self.rows_a_tile
    }

    fn words_a_row(&self) -> usize {
        self.most.div_ceil(64)
    }

    fn tiles_at(&self) -> usize {
        self.most * size_of::<TokenRow>()
    }

    fn wanted_at(&self) -> usize {
        self.tiles_at() + self.most * 8
    }

    fn masks_at(&self) -> usize {
        (self.wanted_at() + self.most * 4).next_multiple_of(8)
    }

    fn table_at(&self) -> usize {
        self.masks_at() + self.most * self.words_a_row() * 8
    }

    fn put(&mut self, at: usize, bytes: &[u8]) {
        self.bytes[at..at + bytes.len()].copy_from_slice(bytes);
    }

    fn put_row(&mut self, at: usize, row: TokenRow) {
        let TokenRow { token, position, slot, table, held, first, mask, unused, angles } = row;
        let begin = at * size_of::<TokenRow>();
        for (i, number) in [token, position, slot, table, held, first, mask, unused].into_iter().enumerate() {
            self.put(begin + 4 * i, &number.to_le_bytes());
        }
        self.put(begin + 32, &angles.to_le_bytes());
    }

    /// Removes all rows.
    pub fn clear(&mut self) {
        (self.rows, self.tiles, self.masks, self.table, self.wanted) = (0, 0, 0, 0, 0);
        self.next.clear();
    }

    /// Adds the rows of some tokens.
    ///
    /// # Panics
    /// If there is no room for them, in the pages or here, or the lengths do not match.
    pub fn push(&mut self, slice: Slice<'_>) {
        let Slice { held, tokens, positions, visible, pages, angles } = slice;
        let (m, first) = (tokens.len(), self.rows);
        assert!(first + m <= self.most, "{m} rows more than {first} of {}", self.most);
        assert!(
            m == positions.len() && visible.is_none_or(|visible| visible.len() == m * m),
            "a position for each token"
        );
        let used = (held + m).div_ceil(self.layout.tokens);
        assert!(used <= pages.len() && self.table + used <= self.most_pages, "{used} pages");
        assert!(angles.len() >= 4 * self.angles, "angles");
        for page in &pages[..used] {
            assert!(page.len() >= self.layout.page_bytes(), "a page of {} bytes", page.len());
            self.put(self.table_at() + (self.table) * 8, &page.address().to_le_bytes());
            self.table += 1;
        }
        for (i, (&token, &position)) in tokens.iter().zip(positions).enumerate() {
            assert!((token as usize) < self.vocabulary, "token {token} of {}", self.vocabulary);
            let mask = match visible {
                None => NONE,
                Some(visible) => self.put_mask(&visible[i * m..(i + 1) * m]),
            };
            let row = TokenRow {
                token,
                position,
                slot: small(held + i),
                table: small(self.table - used),
                held: small(held),
                first: small(first),
                mask,
                unused: 0,
                angles: angles.address(),
            };
            self.put_row(first + i, row);
        }
        for from in (0..m).step_by(self.rows_a_tile) {
            let count = self.rows_a_tile.min(m - from);
            let at = self.tiles_at() + self.tiles * 8;
            self.put(at, &small(first + from).to_le_bytes());
            self.put(at + 4, &small(count).to_le_bytes());
            self.tiles += 1;
        }
        self.rows += m;
        self.next.extend(pages[..used].iter().map(|page| Buffer::clone(page)).chain([angles.clone()]));
    }

    /// Appends the mask of a row; returns the index of its first word.
    fn put_mask(&mut self, sees: &[bool]) -> u32 {
        let first = self.masks;
        for chunk in sees.chunks(64) {
            let word = chunk.iter().enumerate().fold(0u64, |word, (bit, &sees)| word | u64::from(sees) << bit);
            self.put(self.masks_at() + self.masks * 8, &word.to_le_bytes());
            self.masks += 1;
        }
        small(first)
    }

    /// Requests the output of a row, by its number.
    pub fn want(&mut self, row: usize) {
        assert!(row < self.rows && self.wanted < self.most, "row {row} of {}", self.rows);
        self.put(self.wanted_at() + self.wanted * 4, &small(row).to_le_bytes());
        self.wanted += 1;
    }

    /// The number of rows.
    pub fn len(&self) -> usize {
        self.rows
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.rows == 0
    }

    /// The number of pages that the longest sequence uses.
    pub fn longest(&self) -> usize {
        (0..self.rows).map(|row| self.slot(row) / self.layout.tokens + 1).max().unwrap_or(0)
    }

    fn slot(&self, row: usize) -> usize {
        let at = row * size_of::<TokenRow>() + 8;
        u32::from_le_bytes(self.bytes[at..at + 4].try_into().expect("four bytes")) as usize
    }

    /// Fills up with rows that do nothing, and copies all inputs to the GPU.
    ///
    /// # Errors
    /// [`CudaError::Driver`] if the driver fails.
    pub fn finish(&mut self) -> Result<(), CudaError> {
        let nothing = TokenRow { slot: NONE, mask: NONE, ..TokenRow::default() };
        for row in self.rows..self.most {
            self.put_row(row, nothing);
        }
        let (tiles, wanted, end) =
            (self.tiles_at() + self.tiles * 8, self.wanted_at() + self.wanted * 4, self.masks_at());
        let first_wanted = self.wanted_at();
        self.bytes[tiles..first_wanted].fill(0);
        self.bytes[wanted..end].fill(0);
        self.buffer.write(0, &self.bytes[..self.table_at() + self.table * 8])?;
        std::mem::swap(&mut self.reached, &mut self.next);
        self.next.clear();
        Ok(())
    }

    /// Lets go of the pages that the rows on the GPU refer to, by replacing these with rows that do nothing.
    ///
    /// # Errors
    /// [`CudaError::Driver`] if the driver fails.
    pub fn release(&mut self) -> Result<(), CudaError> {
        if self.reached.is_empty() {
            return Ok(());
        }
        self.clear();
        self.finish()
    }

    /// The first row and the number of rows of each tile.
    pub(super) fn all_tiles(&self) -> impl Iterator<Item = (usize, usize)> {
        let number = |at: usize| u32::from_le_bytes(self.bytes[at..at + 4].try_into().expect("four bytes")) as usize;
        (0..self.tiles).map(|tile| self.tiles_at() + tile * 8).map(move |at| (number(at), number(at + 4)))
    }

    pub(super) fn buffer(&self) -> &Buffer {
        &self.buffer
    }

    pub(super) fn address(&self) -> u64 {
        self.buffer.address()
    }

    pub(super) fn tiles(&self) -> u64 {
        self.address() + self.tiles_at() as u64
    }

    pub(super) fn wanted(&self) -> u64 {
        self.address() + self.wanted_at() as u64
    }

    pub(super) fn masks(&self) -> u64 {
        self.address() + self.masks_at() as u64
    }

    pub(super) fn table(&self) -> u64 {
        self.address() + self.table_at() as u64
    }

    pub(super) fn vocabulary(&self) -> usize {
        self.vocabulary
    }

    pub(super) fn angles(&self) -> usize {
        self.angles
    }
}
