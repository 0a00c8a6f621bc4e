//! The commands of rank 0 to the other ranks.
//!
//! A command is a list of little-endian 32-bit words, of which the first is its kind. Texts have numbers. Truncation
//! has no command: each command about a text gives its length.

use verdigris_logits::TokenId;

use crate::language_model::{Batch, Wanted};

const BEGIN: u32 = 1;
const FORWARD: u32 = 2;
const KEEP: u32 = 3;
const FORK: u32 = 4;
const DROP: u32 = 5;
const END: u32 = 6;

/// The parent of a token that follows what was held before.
const NO_PARENT: u32 = u32::MAX;

/// The first wanted row of [`Wanted::Last`].
const LAST: u32 = u32::MAX;

/// The number of a text, the same on all ranks.
pub(super) type TextId = u32;

/// A command.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Command {
    /// Begin a text with room for `capacity` tokens.
    Begin { text: TextId, capacity: usize },
    /// Read the batches that [`Command::parse`] has put into the [`CommandInput`].
    Forward,
    /// Keep a path of a tree, which is in the [`CommandInput`].
    Keep { text: TextId, length: usize, from: usize },
    /// Begin a text as a fork of another.
    Fork { text: TextId, length: usize, fork: TextId },
    /// Forget a text.
    Drop { text: TextId },
    /// End: no more commands follow.
    End,
}

/// A message that is not a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("what it wants to be done is not understood")]
pub(super) struct BadCommand;

/// The batch of one text, whose tokens are in the [`CommandInput`].
#[derive(Clone, Copy, Debug)]
pub(super) struct TextBatch {
    pub(super) text: TextId,
    pub(super) length: usize,
    wanted: Wanted,
    is_tree: bool,
    from: usize,
    to: usize,
}

/// Memory for parsed input, reused by the next command.
#[derive(Debug, Default)]
pub(super) struct CommandInput {
    pub(super) batches: Vec<TextBatch>,
    tokens: Vec<TokenId>,
    /// One per token; ignored for a chain.
    parents: Vec<Option<usize>>,
    /// The path of a tree that is kept.
    pub(super) path: Vec<usize>,
}

impl CommandInput {
    /// The batch of one of the texts.
    pub(super) fn batch(&self, text_batch: &TextBatch) -> Batch<'_> {
        let range = text_batch.from..text_batch.to;
        let parents = text_batch.is_tree.then(|| &self.parents[range.clone()]);
        Batch { tokens: &self.tokens[range], parents, wanted: text_batch.wanted }
    }
}

fn put(message: &mut Vec<u8>, words: impl IntoIterator<Item = u32>) {
    words.into_iter().for_each(|word| message.extend_from_slice(&word.to_le_bytes()));
}

pub(super) fn begin(message: &mut Vec<u8>, text: TextId, capacity: usize) {
    message.clear();
    put(message, [BEGIN, text, capacity as u32]);
}

pub(super) fn forward<'a>(message: &mut Vec<u8>, input: impl ExactSizeIterator<Item = (TextId, usize, Batch<'a>)>) {
    message.clear();
    put(message, [FORWARD, input.len() as u32]);
    for (text, length, Batch { tokens, parents, wanted }) in input {
        let wanted = match wanted {
            Wanted::Last => LAST,
            Wanted::All => 0,
            Wanted::From(first) => first as u32,
        };
        put(message, [text, length as u32, wanted, u32::from(parents.is_some()), tokens.len() as u32]);
        put(message, tokens.iter().copied());
        let parents = parents.into_iter().flatten();
        put(message, parents.map(|parent| parent.map_or(NO_PARENT, |parent| parent as u32)));
    }
}

pub(super) fn keep(message: &mut Vec<u8>, text: TextId, length: usize, from: usize, path: &[usize]) {
    message.clear();
    put(message, [KEEP, text, length as u32, from as u32, path.len() as u32]);
    put(message, path.iter().map(|&at| at as u32));
}

pub(super) fn fork(message: &mut Vec<u8>, text: TextId, length: usize, fork: TextId) {
    message.clear();
    put(message, [FORK, text, length as u32, fork]);
}

pub(super) fn drop(message: &mut Vec<u8>, text: TextId) {
    message.clear();
    put(message, [DROP, text]);
}

pub(super) fn end(message: &mut Vec<u8>) {
    message.clear();
    put(message, [END]);
}

impl Command {
    /// Parses a message; the input goes into `input`. Parents must come before their children, and paths must
    /// ascend.
    pub(super) fn parse(message: &[u8], input: &mut CommandInput) -> Result<Self, BadCommand> {
        let mut words = WordReader(message);
        let command = match words.next()? {
            BEGIN => Self::Begin { text: words.next()?, capacity: words.size()? },
            FORWARD => {
                input.read(&mut words)?;
                Self::Forward
            }
            KEEP => {
                let (text, length, from, count) = (words.next()?, words.size()?, words.size()?, words.size()?);
                words.has(count)?;
                input.path.clear();
                for _ in 0..count {
                    input.path.push(words.size()?);
                }
                if !input.path.is_sorted_by(|a, b| a < b) {
                    return Err(BadCommand);
                }
                Self::Keep { text, length, from }
            }
            FORK => Self::Fork { text: words.next()?, length: words.size()?, fork: words.next()? },
            DROP => Self::Drop { text: words.next()? },
            END => Self::End,
            _ => return Err(BadCommand),
        };
        if words.0.is_empty() { Ok(command) } else { Err(BadCommand) }
    }
}

impl CommandInput {
    fn read(&mut self, words: &mut WordReader<'_>) -> Result<(), BadCommand> {
        self.batches.clear();
        self.tokens.clear();
        self.parents.clear();
        for _ in 0..words.next()? {
            let (text, length, wanted, is_tree) = (words.next()?, words.size()?, words.next()?, words.flag()?);
            let count = words.size()?;
            words.has(count)?;
            let from = self.tokens.len();
            for _ in 0..count {
                self.tokens.push(words.next()?);
            }
            for child in 0..if is_tree { count } else { 0 } {
                self.parents.push(match words.next()? {
                    NO_PARENT => None,
                    parent if (parent as usize) < child => Some(parent as usize),
                    _ => return Err(BadCommand),
                });
            }
            self.parents.resize(self.tokens.len(), None);
            let wanted = match wanted {
                LAST => Wanted::Last,
                0 => Wanted::All,
                first if first as usize <= count => Wanted::From(first as usize),
                _ => return Err(BadCommand),
            };
            self.batches.push(TextBatch { text, length, wanted, is_tree, from, to: from + count });
        }
        Ok(())
    }
}

/// Reads the words of a message.
struct WordReader<'a>(&'a [u8]);

impl WordReader<'_> {
    fn next(&mut self) -> Result<u32, BadCommand> {
        let (word, rest) = self.0.split_first_chunk().ok_or(BadCommand)?;
        self.0 = rest;
        Ok(u32::from_le_bytes(*word))
    }

    fn size(&mut self) -> Result<usize, BadCommand> {
        Ok(self.next()? as usize)
    }

    fn flag(&mut self) -> Result<bool, BadCommand> {
        match self.next()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(BadCommand),
        }
    }

    /// Checks that at least `count` words are left.
    fn has(&self, count: usize) -> Result<(), BadCommand> {
        if self.0.len() / 4 >= count { Ok(()) } else { Err(BadCommand) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_is_understood() {
        let (mut message, mut input) = (Vec::new(), CommandInput::default());
        let mut parse = |message: &[u8]| Command::parse(message, &mut input).unwrap();
        begin(&mut message, 3, 512);
        assert_eq!(parse(&message), Command::Begin { text: 3, capacity: 512 });
        fork(&mut message, 3, 100, 9);
        assert_eq!(parse(&message), Command::Fork { text: 3, length: 100, fork: 9 });
        drop(&mut message, 9);
        assert_eq!(parse(&message), Command::Drop { text: 9 });
        end(&mut message);
        assert_eq!(parse(&message), Command::End);
        keep(&mut message, 3, 20, 12, &[0, 2, 5]);
        assert_eq!(parse(&message), Command::Keep { text: 3, length: 20, from: 12 });
        assert_eq!(input.path, [0, 2, 5]);
    }

    fn of_texts() -> Vec<u8> {
        let mut message = Vec::new();
        let parents = [None, Some(0), None, Some(1)];
        let batches = [Batch::chain(&[7, 8], Wanted::Last), Batch::tree(&[1, 2, 3, 4], &parents)];
        forward(&mut message, batches.into_iter().enumerate().map(|(i, batch)| (i as u32, 10 * i, batch)));
        message
    }

    #[test]
    fn batches_come_as_they_were() {
        let mut input = CommandInput::default();
        for _ in 0..2 {
            assert_eq!(Command::parse(&of_texts(), &mut input), Ok(Command::Forward));
        }
        let [chain, tree] = input.batches[..] else { panic!("{input:?}") };
        assert_eq!((chain.text, chain.length, tree.text, tree.length), (0, 0, 1, 10));
        let Batch { tokens, parents, wanted } = input.batch(&chain);
        assert_eq!((tokens, parents, wanted), (&[7, 8][..], None, Wanted::Last));
        let Batch { tokens, parents, wanted } = input.batch(&tree);
        let expected = [None, Some(0), None, Some(1)];
        assert_eq!((tokens, parents, wanted), (&[1, 2, 3, 4][..], Some(&expected[..]), Wanted::All));
    }

    #[test]
    fn what_is_no_command_is_refused() {
        let mut input = CommandInput::default();
        let mut is_refused = |message: &[u8]| Command::parse(message, &mut input) == Err(BadCommand);
        let message = of_texts();
        assert!((0..message.len()).all(|cut| is_refused(&message[..cut])));
        assert!(is_refused(&[&message[..], &[0; 4]].concat()));
        let words = |words: &[u32]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>();
        for wrong in [
            &[0][..],
            &[7],
            // A parent that comes after its child, a flag that is neither 0 nor 1, more tokens than there are.
            &[FORWARD, 1, 0, 0, 1, 1, 2, 5, 5, 1, NO_PARENT],
            &[FORWARD, 1, 0, 0, 2, 0, 1, 5],
            &[FORWARD, 1, 0, 0, 1, 0, u32::MAX, 5],
            &[FORWARD, u32::MAX],
            &[KEEP, 0, 9, 0, 2, 3, 3],
            &[KEEP, 0, 9, 0, u32::MAX, 3],
        ] {
            assert!(is_refused(&words(wrong)), "{wrong:?}");
        }
    }
}
