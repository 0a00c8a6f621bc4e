//! Files with the states of prompts.

use std::sync::Arc;

use sha2::{Digest, Sha256};
use verdigris::models::prompt_file::{PromptFile, digest_of};
use verdigris::models::{Batch, Bytes, ModelError, Rows, SavedSection, Sequence, StateId};

use super::messages::checked;

/// The settings and the scope of the seeds.
const SETTINGS: [u8; 32] = [1; 32];
const SCOPE: [u8; 32] = [2; 32];

/// The bytes of a token's state.
const TOKEN: usize = 3;

/// The most tokens of a sequence.
const CAPACITY: usize = 1000;

/// A sequence that only counts its tokens.
struct Counting(usize);

impl Sequence for Counting {
    fn len(&self) -> usize {
        self.0
    }

    fn capacity(&self) -> usize {
        CAPACITY
    }

    fn forward(&mut self, batch: &Batch<'_>, _: &mut Rows) -> Result<(), ModelError> {
        self.0 += batch.tokens.len();
        Ok(())
    }

    fn truncate(&mut self, length: usize) {
        assert!(length <= self.0, "{length} of {} tokens", self.0);
        self.0 = length;
    }

    fn keep(&mut self, from: usize, path: &[usize]) -> Result<(), ModelError> {
        self.0 = from + path.len();
        Ok(())
    }

    fn fork(&self) -> Result<Box<dyn Sequence>, ModelError> {
        Ok(Box::new(Self(self.0)))
    }

    fn restore(&mut self, tokens: &[u32], of: usize, sections: &[SavedSection<'_>]) -> Result<bool, ModelError> {
        let tokens = tokens.len();
        assert!(0 < tokens && tokens <= of, "{tokens} of {of} tokens");
        let [SavedSection { name, bytes }] = sections else { return Ok(false) };
        if name != "kv" || bytes.len() != of * TOKEN || tokens > CAPACITY - self.0 {
            return Ok(false);
        }
        self.0 += tokens;
        Ok(true)
    }
}

/// A file with the state of a prompt gives an error, or the tokens that it names. The same with the digest of its index
/// set right, so that changes of the index are not all found by the digest. Returns whether it is a file whose state
/// can be used.
///
/// # Panics
/// If a promise is broken.
pub fn prompt_file(data: &[u8]) -> bool {
    let is_usable = used(data.to_vec());
    let mut sealed = data.to_vec();
    if seal(&mut sealed).is_some() {
        used(sealed);
    }
    is_usable
}

fn used(bytes: Vec<u8>) -> bool {
    let Some(model) = bytes.get(16..48) else { return false };
    let state = StateId { model: model.try_into().expect("32 bytes"), settings: SETTINGS };
    let Some(file) = checked(PromptFile::read(Bytes::new(Arc::new(bytes)), &state)) else { return false };
    let count = file.tokens().len();
    let is_for_us = checked(file.check(&SCOPE, 0, &digest_of(&[]))).is_some();
    for tokens in [0, count.min(1), count / 2, count] {
        let mut sequence = Counting(0);
        let restored = checked(file.restore(tokens, &mut sequence));
        assert_eq!(sequence.len(), restored.map_or(0, |()| tokens));
        if restored.is_none() {
            return false;
        }
    }
    is_for_us
}

/// Sets the digest of head and index right, if there is room for them.
fn seal(bytes: &mut [u8]) -> Option<()> {
    let (rest, length) = bytes.split_last_chunk_mut::<8>()?;
    let (rest, digest) = rest.split_last_chunk_mut::<32>()?;
    let (head, rest) = rest.split_at_checked(48)?;
    let from = rest.len().checked_sub(usize::try_from(u64::from_le_bytes(*length)).ok()?)?;
    digest.copy_from_slice(&Sha256::new_with_prefix(head).chain_update(&rest[from..]).finalize());
    Some(())
}
