//! Files with the saved state of the tokens of a prompt.
//!
//! | part | contents |
//! |---|---|
//! | head | 8 bytes `vdgrprmt`, the version (`u32`), four zeros, and the digest of the model ([`StateId::model`]) |
//! | data | the contents of all sections |
//! | index | the digest of the settings ([`StateId::settings`]), the scope, the number of tokens before the first one and a digest of them, the tokens, and the blocks: for each the number of its tokens and its sections, each with its name, its length and its digest |
//! | tail | the digest of head and index, and the length of the index (`u64`) |
//!
//! Numbers are little-endian, digests are SHA-256. A block has the state of up to [`BLOCK`] tokens, so that a text that
//! shares only some of the tokens reads only a part of the file. Sections are named: `kv` has keys and values, and
//! `states` those of layers with a state of fixed size after the last token of the block. Texts of models with such
//! layers can only continue where a block has this section. Every version has the same head.
//!
//! The bytes are not trusted: nothing is allocated or indexed by a number that is not checked against the length of the
//! file, and no section is used before its digest is checked. Digests detect damage. They do not protect against
//! anyone with the right to write the file.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Write};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use rayon::prelude::*;
use sha2::{Digest as _, Sha256};
use verdigris_kernels::{Bytes, Mapped};
use verdigris_logits::TokenId;

use crate::cpu::STATES;
use crate::error::ModelError;
use crate::language_model::Sequence;
use crate::saved::{Digest, SavedSection, StateId};

/// The most tokens of a block that is written.
pub const BLOCK: usize = 64;

/// The first bytes.
const MAGIC: [u8; 8] = *b"vdgrprmt";

/// The version that is written, and the only one that is read.
const VERSION: u32 = 1;

const HEAD: usize = 48;
const TAIL: usize = 40;

/// The most sections of a block, and the most bytes of the name of one.
const MAX_SECTIONS: usize = 16;
const MAX_NAME: usize = 32;

/// The texts that may use a file besides those of its model: a digest of the tokenizer and of the tenant.
pub type Scope = Digest;

/// The reason why a file cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PromptFileError {
    /// It cannot be read.
    #[error("it cannot be read: {0}")]
    Read(#[from] io::Error),
    /// It is not a file of this kind.
    #[error("it is not a prompt cache")]
    Foreign,
    /// It has the state of another model.
    #[error("it is of another model, or of this model with another adapter")]
    OtherModel,
    /// It has the state of this model, but not one that this program can continue.
    #[error("it was written by another version of the program, or with other settings or another tokenizer")]
    OtherSettings,
    /// It is truncated or damaged.
    #[error("it is truncated or damaged ({0})")]
    Damaged(&'static str),
    /// The model cannot continue after the tokens.
    #[error(transparent)]
    Model(#[from] ModelError),
}

impl PromptFileError {
    /// Whether the file has nothing that cannot be computed again by the model that wanted to use it.
    pub fn may_be_replaced(&self) -> bool {
        matches!(self, Self::OtherSettings | Self::Damaged(_))
    }
}

/// A file whose index has been read. Its data are mapped, and read on use.
#[derive(Debug)]
pub struct PromptFile {
    bytes: Bytes,
    index: Index,
}

/// The contents of the index.
#[derive(Debug)]
struct Index {
    scope: Scope,
    start: u64,
    before: Digest,
    tokens: Vec<TokenId>,
    blocks: Vec<Block>,
}

#[derive(Debug)]
struct Block {
    tokens: usize,
    sections: Vec<Section>,
}

#[derive(Debug)]
struct Section {
    name: String,
    /// Its position in the file.
    range: Range<usize>,
    digest: Digest,
}

impl PromptFile {
    /// Maps a file, if it was written for this model.
    ///
    /// # Errors
    /// [`PromptFileError`].
    pub fn open(path: &Path, state: &StateId) -> Result<Self, PromptFileError> {
        // Checked before opening, since a named pipe would wait for a writer.
        let metadata = path.metadata()?;
        if !metadata.is_file() {
            return Err(PromptFileError::Foreign);
        }
        if metadata.len() == 0 {
            return Err(PromptFileError::Damaged("it is empty"));
        }
        Self::read(Bytes::new(Arc::new(Mapped::new(&File::open(path)?)?)), state)
    }

    /// Reads the index of a file in memory, if it was written for this model.
    ///
    /// # Errors
    /// [`PromptFileError`].
    pub fn read(bytes: Bytes, state: &StateId) -> Result<Self, PromptFileError> {
        let all = bytes.get();
        let Some((head, rest)) = all.split_at_checked(HEAD).filter(|_| all.starts_with(&MAGIC)) else {
            let is_cut = all.starts_with(&MAGIC);
            return Err(if is_cut { PromptFileError::Damaged("its head") } else { PromptFileError::Foreign });
        };
        if head[16..] != state.model {
            return Err(PromptFileError::OtherModel);
        }
        if head[8..12] != VERSION.to_le_bytes() {
            return Err(PromptFileError::OtherSettings);
        }
        let damaged = PromptFileError::Damaged;
        let (rest, tail) = rest.split_last_chunk::<TAIL>().ok_or(damaged("its end"))?;
        let (digest, length) = tail.split_at(32);
        let length = u64::from_le_bytes(length.try_into().expect("eight bytes"));
        let length = usize::try_from(length).ok().filter(|&length| length <= rest.len()).ok_or(damaged("its end"))?;
        let (data, index) = rest.split_at(rest.len() - length);
        if *Sha256::new_with_prefix(head).chain_update(index).finalize() != *digest {
            return Err(damaged("its index"));
        }
        let (settings, index) = Index::read(index, data.len()).ok_or(damaged("its index"))?;
        if settings != state.settings {
            return Err(PromptFileError::OtherSettings);
        }
        Ok(Self { bytes, index })
    }

    /// Checks that it was written for this scope, and for tokens after `start` other ones with this
    /// [digest](digest_of).
    ///
    /// # Errors
    /// [`PromptFileError::OtherSettings`].
    pub fn check(&self, scope: &Scope, start: usize, before: &Digest) -> Result<(), PromptFileError> {
        let Index { scope: own, start: at, before: digest, .. } = &self.index;
        let is_so = own == scope && *at == start as u64 && digest == before;
        if is_so { Ok(()) } else { Err(PromptFileError::OtherSettings) }
    }

    /// Its tokens.
    pub fn tokens(&self) -> &[TokenId] {
        &self.index.tokens
    }

    /// The most of the first `count` tokens after which a sequence can continue, without reading some of them again.
    pub fn usable(&self, count: usize, sequence: &dyn Sequence) -> usize {
        if sequence.saved_ends().is_none() {
            return count.min(self.tokens().len());
        }
        let has_states = |block: &Block| block.sections.iter().any(|section| section.name == STATES);
        let ends = self.index.blocks.iter().scan(0, |end, block| {
            *end += block.tokens;
            Some((*end, has_states(block)))
        });
        ends.take_while(|(end, _)| *end <= count)
            .filter_map(|(end, is_known)| is_known.then_some(end))
            .last()
            .unwrap_or(0)
    }

    /// Appends the first `count` tokens to a sequence, which holds the tokens before them. After an error the sequence
    /// is unchanged.
    ///
    /// # Errors
    /// [`PromptFileError::Damaged`] if one of the sections that are needed is damaged or does not fit the model, and
    /// [`PromptFileError::Model`] if there is not enough memory.
    ///
    /// # Panics
    /// If the file has fewer tokens.
    pub fn restore(&self, count: usize, sequence: &mut dyn Sequence) -> Result<(), PromptFileError> {
        assert!(count <= self.tokens().len(), "{count} of {} tokens", self.tokens().len());
        let (mut needed, mut covered) = (Vec::new(), 0);
        for block in &self.index.blocks {
            if covered >= count {
                break;
            }
            covered += block.tokens;
            needed.push(block);
        }
        let is_whole = |section: &Section| Sha256::digest(self.contents(section))[..] == section.digest;
        if !needed.par_iter().flat_map_iter(|block| &block.sections).all(is_whole) {
            return Err(PromptFileError::Damaged("its data"));
        }
        let (begin, mut left) = (sequence.len(), &self.tokens()[..count]);
        for block in needed {
            let take;
            (take, left) = left.split_at(left.len().min(block.tokens));
            let saved = block.sections.iter().map(|section| SavedSection {
                name: section.name.as_str().into(),
                bytes: self.contents(section).into(),
            });
            let sections: Vec<_> = saved.collect();
            let restored = sequence.restore(take, block.tokens, &sections).map_err(PromptFileError::from);
            let unfit = PromptFileError::Damaged("its sections are not those of the model");
            if let Err(fault) = restored.and_then(|is_restored| is_restored.then_some(()).ok_or(unfit)) {
                sequence.truncate(begin);
                return Err(fault);
            }
        }
        Ok(())
    }

    fn contents(&self, section: &Section) -> &[u8] {
        &self.bytes.get()[section.range.clone()]
    }
}

impl Index {
    /// The settings and the index, for `data` bytes of sections; `None` if it is not an index.
    fn read(bytes: &[u8], data: usize) -> Option<(Digest, Self)> {
        let mut from = Reader(bytes);
        let settings = *from.chunk::<32>()?;
        let scope = *from.chunk::<32>()?;
        let start = from.u64()?;
        let before = *from.chunk::<32>()?;
        let count = usize::try_from(from.u32()?).ok()?;
        let tokens = from.take(count.checked_mul(4)?)?.as_chunks::<4>().0;
        let tokens: Vec<TokenId> = tokens.iter().map(|&bytes| TokenId::from_le_bytes(bytes)).collect();
        let (mut at, mut of_blocks, mut blocks) = (HEAD, 0usize, Vec::new());
        for _ in 0..from.u32()? {
            let count = usize::try_from(from.u32()?).ok().filter(|&count| count > 0)?;
            of_blocks = of_blocks.checked_add(count)?;
            let mut sections = Vec::new();
            for _ in 0..usize::from(from.u8()?) {
                let length = usize::from(from.u8()?);
                let name = std::str::from_utf8(from.take(length)?).ok()?;
                let is_name = (1..=MAX_NAME).contains(&length) && name.bytes().all(|byte| byte.is_ascii_graphic());
                let range = at..at.checked_add(usize::try_from(from.u64()?).ok()?)?;
                let digest = *from.chunk::<32>()?;
                if !is_name || range.end > HEAD + data || sections.len() == MAX_SECTIONS {
                    return None;
                }
                at = range.end;
                sections.push(Section { name: name.into(), range, digest });
            }
            blocks.push(Block { tokens: count, sections });
        }
        let is_whole = from.0.is_empty() && at == HEAD + data && of_blocks == tokens.len();
        is_whole.then_some((settings, Self { scope, start, before, tokens, blocks }))
    }
}

/// Bytes that are read from the first to the last.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn chunk<const N: usize>(&mut self) -> Option<&'a [u8; N]> {
        self.take(N)?.try_into().ok()
    }

    fn u8(&mut self) -> Option<u8> {
        self.chunk().copied().map(u8::from_le_bytes)
    }

    fn u32(&mut self) -> Option<u32> {
        self.chunk().copied().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.chunk().copied().map(u64::from_le_bytes)
    }
}

/// A digest of tokens that grows with them.
#[derive(Clone, Debug, Default)]
pub struct TokensDigest(Sha256);

impl TokensDigest {
    /// Adds tokens.
    pub fn extend(&mut self, tokens: &[TokenId]) {
        tokens.iter().for_each(|token| self.0.update(token.to_le_bytes()));
    }

    /// The digest of the tokens so far.
    pub fn get(&self) -> Digest {
        self.0.clone().finalize().into()
    }
}

/// The digest of tokens.
pub fn digest_of(tokens: &[TokenId]) -> Digest {
    let mut digest = TokensDigest::default();
    digest.extend(tokens);
    digest.get()
}

/// Writes a file with the state of the tokens from `start` on, which a sequence holds. Returns `false` if the state
/// cannot be saved.
///
/// # Errors
/// Those of `out`.
///
/// # Panics
/// If `start` exceeds the number of tokens.
pub fn write(
    out: &mut impl Write,
    state: &StateId,
    scope: &Scope,
    start: usize,
    tokens: &[TokenId],
    sequence: &dyn Sequence,
) -> io::Result<bool> {
    let mut head = [0; HEAD];
    head[..8].copy_from_slice(&MAGIC);
    head[8..12].copy_from_slice(&VERSION.to_le_bytes());
    head[16..].copy_from_slice(&state.model);
    out.write_all(&head)?;
    let own = &tokens[start..];
    // A block ends wherever a text can continue.
    let ends = sequence.saved_ends().unwrap_or_default();
    let inside = ends.into_iter().filter(|&end| start < end && end < tokens.len());
    let regular = (start..tokens.len()).step_by(BLOCK).skip(1);
    let ends: BTreeSet<usize> = regular.chain(inside).chain((!own.is_empty()).then_some(tokens.len())).collect();
    let mut index = Vec::new();
    index.extend_from_slice(&state.settings);
    index.extend_from_slice(scope);
    index.extend_from_slice(&(start as u64).to_le_bytes());
    index.extend_from_slice(&digest_of(&tokens[..start]));
    index.extend_from_slice(&(own.len() as u32).to_le_bytes());
    own.iter().for_each(|token| index.extend_from_slice(&token.to_le_bytes()));
    index.extend_from_slice(&(ends.len() as u32).to_le_bytes());
    let mut from = start;
    for to in ends {
        let Some(sections) = sequence.save(from..to) else { return Ok(false) };
        index.extend_from_slice(&((to - from) as u32).to_le_bytes());
        index.push(sections.len() as u8);
        for SavedSection { name, bytes } in &sections {
            index.push(name.len() as u8);
            index.extend_from_slice(name.as_bytes());
            index.extend_from_slice(&(bytes.len() as u64).to_le_bytes());
            index.extend_from_slice(&Sha256::digest(bytes));
            out.write_all(bytes)?;
        }
        from = to;
    }
    out.write_all(&index)?;
    out.write_all(&Sha256::new_with_prefix(head).chain_update(&index).finalize())?;
    out.write_all(&(index.len() as u64).to_le_bytes())?;
    Ok(true)
}
