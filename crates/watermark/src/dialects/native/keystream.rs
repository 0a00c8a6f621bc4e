//! The keystream that a seed expands to, and the green list that it makes.

use aes::cipher::consts::U16;
use aes::cipher::typenum::Unsigned;
use aes::cipher::{BlockCipherEncBackend, BlockCipherEncClosure, BlockSizeUser, ParBlocks};

use super::prf::Block;
use crate::gamma::Gamma;

/// Makes keystream and folds it into a green list, batch by batch, inside the code for this CPU's AES unit, so that the
/// folding uses registers as wide.
pub(super) struct Expand<'a> {
    pub(super) seed: u128,
    /// The planes whose bits are flipped.
    pub(super) flip: u16,
    pub(super) gamma: Gamma,
    pub(super) words: &'a mut [u64],
}

impl BlockSizeUser for Expand<'_> {
    type BlockSize = U16;
}

impl BlockCipherEncClosure for Expand<'_> {
    #[inline(always)]
    fn call<B: BlockCipherEncBackend<BlockSize = U16>>(self, backend: &B) {
        let batch = B::ParBlocksSize::USIZE;
        let (m, k) = (self.gamma.numerator(), self.gamma.bits());
        let mut random = ParBlocks::<B>::default();
        for (part, words) in self.words.chunks_mut(2 * batch).enumerate() {
            // Compares k-bit numbers with m, from the lowest plane up: a plane where m has a one makes every zero below
            // m, one where m has a zero makes every one not below m. Plane 0 is of the first kind, since m is odd.
            for plane in 0..k {
                let (low, high) = (self.seed as u64 ^ (plane as u64) << 32, (self.seed >> 64) as u64);
                for (i, block) in random.iter_mut().enumerate() {
                    block[..8].copy_from_slice(&(low ^ (part * batch + i) as u64).to_le_bytes());
                    block[8..].copy_from_slice(&high.to_le_bytes());
                }
                backend.encrypt_par_blocks((&mut random).into());
                let keep = u64::from(self.flip >> plane & 1).wrapping_sub(1);
                match (plane, m >> plane & 1 == 1) {
                    (0, _) => fold(words, &random, |_, random| random ^ keep),
                    (_, true) => fold(words, &random, |below, random| (random ^ keep) | below),
                    (_, false) => fold(words, &random, |below, random| (random ^ keep) & below),
                }
            }
        }
    }
}

/// Combines each word with its half of a keystream block.
#[inline(always)]
fn fold(words: &mut [u64], random: &[Block], f: impl Fn(u64, u64) -> u64) {
    let half = |block: &Block, at: usize| u64::from_le_bytes(block[at..at + 8].try_into().expect("eight bytes"));
    let (pairs, odd) = words.as_chunks_mut::<2>();
    for (pair, block) in pairs.iter_mut().zip(random) {
        *pair = [f(pair[0], half(block, 0)), f(pair[1], half(block, 8))];
    }
    if let [word] = odd {
        *word = f(*word, half(&random[pairs.len()], 0));
    }
}

/// The counter of a keystream block, to be XORed with the seed.
pub(super) fn counter(plane: usize, block: usize) -> u128 {
    (plane as u128) << 32 | block as u128
}
