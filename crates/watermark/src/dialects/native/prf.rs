//! The keyed functions of contexts and seeds: AES-128 under sub-keys.

use aes::Aes128;
use aes::cipher::consts::U16;
use aes::cipher::{Array, BlockCipherEncrypt, KeyInit};
use verdigris_logits::TokenId;
use zeroize::Zeroizing;

use crate::context::{Context, ContextFunction, MAX_WIDTH};
use crate::kdf::{self, Purpose};

pub(super) type Block = Array<u8, U16>;

/// The number of blocks encrypted together: what the widest AES unit takes at once. A short batch is encrypted whole,
/// since fewer blocks would not use that unit.
pub(crate) const BATCH: usize = 64;

/// The number of judged tokens below which a batch costs more than it saves.
pub(crate) const FEW: usize = 8;

/// Two keyed functions: one turns contexts into seeds, the other expands seeds.
pub(crate) struct Prf {
    pub(super) context_key: Aes128,
    pub(super) list_key: Aes128,
}

impl Prf {
    pub(crate) fn new(secret: &[u8; 32], id: &str, tenant: &str, context: Purpose, list: Purpose) -> Self {
        let key = |purpose| Aes128::new((&*kdf::derive(secret, purpose, id, tenant)).into());
        Self { context_key: key(context), list_key: key(list) }
    }

    /// The seed of a context, for the functions that have one.
    pub(crate) fn seed(&self, function: ContextFunction, context: &[TokenId]) -> u128 {
        match function {
            ContextFunction::All => {
                let mut block = Block::default();
                for part in context.chunks(4) {
                    xor(&mut block, pack(part));
                    self.context_key.encrypt_block(&mut block);
                }
                value(&block)
            }
            ContextFunction::Min => {
                let mut blocks = [Block::default(); MAX_WIDTH];
                let blocks = &mut blocks[..context.len()];
                for (block, &token) in blocks.iter_mut().zip(context) {
                    *block = to_block(pack(&[token]));
                }
                self.context_key.encrypt_blocks(blocks);
                blocks.iter().map(value).min().expect("a context has at least one token")
            }
            ContextFunction::SelfSalted => unreachable!("a self-salted list has no seed"),
        }
    }

    /// The seeds of the contexts that begin at the first tokens, up to [`BATCH`] of them, for the functions that have
    /// seeds.
    pub(crate) fn seeds(&self, context: Context, tokens: &[TokenId]) -> [u128; BATCH] {
        let width = context.width();
        match context.function() {
            ContextFunction::All => self.seeds_of_all(tokens.windows(width)),
            ContextFunction::Min => {
                let mut single = [Block::default(); BATCH + MAX_WIDTH];
                let single = &mut single[..tokens.len().min(BATCH + width - 1)];
                for (block, &token) in single.iter_mut().zip(tokens) {
                    *block = to_block(pack(&[token]));
                }
                self.context_key.encrypt_blocks(single);
                let mut seeds = [0; BATCH];
                for (seed, window) in seeds.iter_mut().zip(single.windows(width)) {
                    *seed = window.iter().map(value).min().expect("a window has at least one block");
                }
                seeds
            }
            ContextFunction::SelfSalted => unreachable!("a self-salted list has no seed"),
        }
    }

    /// The seeds of the first contexts, up to [`BATCH`] of them, for [`ContextFunction::All`]. They have equal widths.
    pub(crate) fn seeds_of_all<'t>(&self, contexts: impl Iterator<Item = &'t [TokenId]> + Clone) -> [u128; BATCH] {
        let width = contexts.clone().next().map_or(0, <[TokenId]>::len);
        let mut blocks = [Block::default(); BATCH];
        for part in (0..width).step_by(4) {
            for (block, context) in blocks.iter_mut().zip(contexts.clone()) {
                xor(block, pack(&context[part..width.min(part + 4)]));
            }
            self.context_key.encrypt_blocks(&mut blocks);
        }
        blocks.map(|block| value(&block))
    }

    /// Expands a seed into one block.
    pub(crate) fn expand(&self, seed: u128) -> u128 {
        let mut block = to_block(seed);
        self.list_key.encrypt_block(&mut block);
        value(&block)
    }

    /// Expands each of the seeds into one block.
    pub(crate) fn expand_all(&self, seeds: [u128; BATCH]) -> [u128; BATCH] {
        let mut blocks = seeds.map(to_block);
        self.list_key.encrypt_blocks(&mut blocks);
        blocks.map(|block| value(&block))
    }
}

/// The keys of both functions of a [`Prf`] for lists.
pub(crate) fn sub_keys(secret: &[u8], id: &str, tenant: &str) -> [Zeroizing<[u8; 16]>; 2] {
    [Purpose::Context, Purpose::List].map(|purpose| kdf::derive(secret, purpose, id, tenant))
}

/// Packs up to four tokens into one block.
pub(super) fn pack(tokens: &[TokenId]) -> u128 {
    tokens.iter().rev().fold(0, |block, &token| block << 32 | u128::from(token))
}

pub(super) fn to_block(value: u128) -> Block {
    Array(value.to_le_bytes())
}

pub(super) fn value(block: &Block) -> u128 {
    u128::from_le_bytes(block.0)
}

pub(super) fn xor(block: &mut Block, with: u128) {
    *block = to_block(value(block) ^ with);
}
