//! Byte-pair encoding of texts, for the tokenizers that occur most.
//!
//! The library reads any tokenizer, but spends most of the time on data that nothing here needs. This encoder reads a
//! file if it understands every part of it exactly, and then gives the same tokens and the same offsets as the library;
//! all other files are left to the library.
//!
//! | module | contents |
//! |---|---|
//! | [`file`] | a `tokenizer.json` |
//! | [`names`] | the tokens of the model |
//! | [`added`] | added tokens in a text |
//! | [`normal`] | the change of a text before it is split |
//! | [`spaces`] | texts whose spaces are a character of the tokens |
//! | [`split`] | the words of a text |
//! | [`bytes`], [`pieces`] | the tokens of a word, from bytes or from characters |
//! | [`merges`] | the merging of the parts of a word |
//! | [`scored`] | merges by scores |
//! | [`memo`] | words that were seen before |
//! | [`ranges`] | the ranges of tokens in a word |
//! | [`around`] | tokens around a prompt |

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;
use std::sync::{Mutex, OnceLock, PoisonError};

use tokenizers::{AddedToken, NormalizedString};
use verdigris_logits::TokenId;

use crate::parts::check_post_processor;
use crate::vocabulary::{Vocabulary, is_byte_level};

mod added;
mod around;
mod bytes;
mod file;
mod memo;
mod merges;
mod names;
mod normal;
mod pieces;
mod ranges;
mod scored;
mod spaces;
mod split;
#[cfg(test)]
mod tests;

use added::{AddedTokens, Piece};
use around::Around;
use bytes::Bytes;
use file::{Added, File};
use memo::Memo;
use merges::{Merges, Queue};
use names::{Names, Part};
use normal::Normal;
use pieces::{Pieces, SPACE};
use ranges::Ranges;
use scored::Scored;
pub use scored::ScoredToken;
use spaces::{Lead, Spaces};
use split::Split;

/// An encoder.
pub(crate) struct Bpe {
    names: Names,
    merges: Merges,
    words: Words,
    normal: Normal,
    lead: Lead,
    /// The added tokens that are found in a text, and in a normalized text.
    plain: AddedTokens,
    normalized: AddedTokens,
    around: Around,
    added: Vec<Added>,
    /// Buffers that are not used at the moment.
    scratch: Mutex<Vec<Scratch>>,
    /// Whether parts of a text after its beginning get a space before them, too.
    leads_inside: OnceLock<bool>,
}

enum Words {
    Bytes(Box<Bytes>, Split),
    Pieces(Box<Pieces>),
}

/// Buffers of a thread.
struct Scratch {
    memo: Memo,
    parts: Vec<Part>,
    queue: Queue,
}

/// A part of a text between added tokens.
struct Section<'s> {
    text: &'s str,
    /// The position of the text in the normalized part of the text.
    at: usize,
    /// The position of this part in the whole text.
    start: usize,
    /// The whole part, if normalization changed it.
    normalized: Option<&'s NormalizedString>,
}

impl Section<'_> {
    /// The range in the whole text, for one in this section.
    fn origin(&self, range: Range<usize>) -> Range<usize> {
        let range = self.at + range.start..self.at + range.end;
        let origin = match self.normalized {
            Some(text) => text
                .convert_offsets(tokenizers::tokenizer::normalizer::Range::Normalized(range.clone()))
                .unwrap_or(range),
            None => range,
        };
        self.start + origin.start..self.start + origin.end
    }
}

impl Bpe {
    /// Reads a `tokenizer.json`, and its vocabulary. `None` if a part of it is not understood, or has a fault.
    pub(crate) fn read(json: &[u8]) -> Option<(Self, Vocabulary)> {
        Self::of(serde_json::from_slice(json).ok().filter(|_| json.trim_ascii_start().starts_with(b"{"))?)
    }

    /// Like [`Bpe::read`], for a file whose model has no tokens and no merges: these follow from scores.
    pub(crate) fn read_scored(json: &[u8], tokens: &[ScoredToken<'_>]) -> Option<(Self, Vocabulary)> {
        let mut file: File = serde_json::from_slice(json).ok()?;
        file.model.names = Names::with_capacity(tokens.len());
        for token in tokens {
            file.model.names.push(token.name, token.id)?;
        }
        file.model.merges = Merges::Scored(Scored::new(tokens)?);
        Self::of(file)
    }

    fn of(file: File) -> Option<(Self, Vocabulary)> {
        if file.version.is_some_and(|version| version != "1.0") {
            return None;
        }
        check_post_processor(file.post_processor.as_ref()).ok()?;
        let (names, merges) = (file.model.names, file.model.merges);
        // The library numbers added tokens itself.
        let mut next = names.len() as TokenId;
        for added in file.added_tokens.iter().filter(|added| !added.token.content.is_empty()) {
            let id = names.id(&added.token.content).unwrap_or_else(|| {
                next += 1;
                next - 1
            });
            if id != added.id {
                return None;
            }
        }
        let vocabulary = vocabulary(&names, &file.added_tokens, file.decoder.as_ref().is_some_and(is_byte_level))?;
        let normal = Normal::of(file.normalizer)?;
        let (has_unknown, ignore_merges) = (file.model.has_unknown, file.model.ignore_merges);
        let (words, lead) = match Spaces::of(normal, file.pre_tokenizer.as_ref()) {
            None => {
                let split = Split::of_bytes(&file.pre_tokenizer?)?;
                (Words::Bytes(Bytes::new(&names, ignore_merges).into(), split), Lead::Never)
            }
            Some(Spaces { lead, splits }) if file.model.byte_fallback => {
                (Words::Pieces(Pieces::new(&names, &merges, ignore_merges, splits)?.into()), lead)
            }
            Some(_) => return None,
        };
        let (normalized, plain): (Vec<&Added>, Vec<&Added>) =
            file.added_tokens.iter().partition(|added| added.token.normalized);
        // Names that would be normalized themselves are left to the library.
        if normal != Normal::Unchanged
            && normalized
                .iter()
                .any(|added| !added.token.special && (normal != Normal::Composed || !added.token.content.is_ascii()))
        {
            return None;
        }
        let around = Around::of(file.post_processor)?;
        let understood = match &words {
            // Bytes without a token are left out, unless there is a token for the unknown.
            Words::Bytes(bytes, _) => bytes.is_complete() || !(has_unknown || around.trims()),
            Words::Pieces(_) => !around.trims(),
        };
        if !understood {
            return None;
        }
        let bpe = Self {
            plain: AddedTokens::new(plain.into_iter())?,
            normalized: AddedTokens::new(normalized.into_iter())?,
            names,
            merges,
            words,
            normal,
            lead,
            around,
            added: file.added_tokens,
            scratch: Mutex::default(),
            leads_inside: OnceLock::new(),
        };
        Some((bpe, vocabulary))
    }

    /// The added tokens, with their ids.
    pub(crate) fn added(&self) -> impl Iterator<Item = (TokenId, &AddedToken)> {
        self.added.iter().map(|added| (added.id, &added.token))
    }

    /// The id of a token.
    pub(crate) fn id(&self, name: &str) -> Option<TokenId> {
        let added = || self.added.iter().find(|added| added.token.content == name).map(|added| added.id);
        self.names.id(name).or_else(added)
    }

    /// The tokens of a text. With `lead` it is the beginning of a text, to which some tokenizers add a space.
    pub(crate) fn ids(&self, text: &str, lead: bool) -> Vec<TokenId> {
        let mut ids = Vec::with_capacity(text.len() / 4 + 1);
        let mut scratch = self.borrow();
        let Scratch { memo, parts, queue } = &mut scratch;
        self.sections(text, |section, _| match section {
            Err(id) => ids.push(id),
            Ok(section) => {
                let text = self.led(&section, lead);
                self.words(&text, |range| {
                    let slot = match memo.get(&text, range.clone()) {
                        Ok(known) => return ids.extend_from_slice(known),
                        Err(slot) => slot,
                    };
                    self.encode(&text[range], parts, queue);
                    ids.extend(parts.iter().map(|part| part.id));
                    if let Some(slot) = slot {
                        memo.put(slot, parts.iter().map(|part| part.id));
                    }
                });
            }
        });
        self.give_back(scratch);
        ids
    }

    /// The tokens of a text with their ranges.
    pub(crate) fn offsets(&self, text: &str, lead: bool) -> Vec<(TokenId, Range<usize>)> {
        let mut all: Vec<(TokenId, Range<usize>)> = Vec::with_capacity(text.len() / 4 + 1);
        let mut scratch = self.borrow();
        let Scratch { parts, queue, .. } = &mut scratch;
        let mut name = String::new();
        self.sections(text, |section, range| match section {
            Err(id) => {
                let name = text[range.clone()].chars();
                let range = self.around.trimmed(range, name, all.is_empty());
                all.push((id, range));
            }
            Ok(section) => {
                let text = self.led(&section, lead);
                let length = |c| match &self.words {
                    Words::Bytes(bytes, _) => bytes.length(c),
                    Words::Pieces(_) => Pieces::length(c),
                };
                let lead = text.len() - section.text.len();
                let first = 0..section.text.chars().next().map_or(0, char::len_utf8);
                self.words(&text, |range| {
                    self.encode(&text[range.clone()], parts, queue);
                    let start = range.start.max(lead) - lead;
                    let word = &section.text[start..range.end - lead];
                    let mut ranges = Ranges::new(word, lead.saturating_sub(range.start), first.clone(), length);
                    let mut rest = text[range].bytes();
                    for part in &*parts {
                        let Range { start: from, end } = ranges.next(part.length as usize);
                        let mut range = section.origin(start + from..start + end);
                        if let Words::Bytes(bytes, _) = &self.words
                            && self.around.trims()
                        {
                            bytes.name(&mut rest, part.length as usize, &mut name);
                            range = self.around.trimmed(range, name.chars(), all.is_empty());
                        }
                        all.push((part.id, range));
                    }
                });
            }
        });
        self.give_back(scratch);
        all
    }

    /// The tokens of a prompt, with those around it.
    pub(crate) fn prompt(&self, text: &str) -> Vec<TokenId> {
        [&self.around.before[..], &self.ids(text, true), &self.around.after].concat()
    }

    /// Whether a space is added to the beginning of a text only.
    pub(crate) fn leads_only_first(&self) -> bool {
        self.lead == Lead::MissingAtStart
    }

    /// Whether parts of a text after its beginning get a space before them, too, given whether the beginning gets one.
    pub(crate) fn leads_inside(&self, adds_space: bool) -> bool {
        // As `Lead` decides it.
        let same = || [self.ids("a", true), self.ids(" b", false)].concat() == self.ids("a b", true);
        *self.leads_inside.get_or_init(|| !adds_space || !same())
    }

    /// Passes the parts of a text between added tokens, and added tokens with their ranges, to `each`.
    fn sections(&self, text: &str, mut each: impl FnMut(Result<Section<'_>, TokenId>, Range<usize>)) {
        self.plain.split(text, |piece| match piece {
            Piece::Added(id, range) => each(Err(id), range),
            Piece::Text(part) => {
                let composed = self.normal.composed(&text[part.clone()]);
                let normalized = composed.as_ref();
                let text = normalized.map_or(&text[part.clone()], |text| text.get());
                let section =
                    |at: Range<usize>| Section { text: &text[at.clone()], at: at.start, start: part.start, normalized };
                self.normalized.split(text, |piece| match piece {
                    Piece::Added(id, range) => {
                        let length = range.len();
                        each(Err(id), section(range).origin(0..length));
                    }
                    Piece::Text(range) => each(Ok(section(range)), 0..0),
                });
            }
        });
    }

    /// The text of a section with the space that comes before it.
    fn led<'s>(&self, section: &Section<'s>, lead: bool) -> Cow<'s, str> {
        if lead && self.lead.is_before(section.text, section.start + section.at == 0) {
            format!("{SPACE}{}", section.text).into()
        } else {
            section.text.into()
        }
    }

    fn words(&self, text: &str, each: impl FnMut(Range<usize>)) {
        match &self.words {
            Words::Bytes(_, split) => split.words(text, each),
            Words::Pieces(pieces) => pieces.words(text, each),
        }
    }

    fn encode(&self, word: &str, parts: &mut Vec<Part>, queue: &mut Queue) {
        match &self.words {
            Words::Bytes(bytes, _) => bytes.encode(word, &self.names, &self.merges, parts, queue),
            Words::Pieces(pieces) => pieces.encode(word, &self.names, &self.merges, parts, queue),
        }
    }

    fn borrow(&self) -> Scratch {
        let unused = self.scratch.lock().unwrap_or_else(PoisonError::into_inner).pop();
        unused.unwrap_or_else(|| Scratch { memo: Memo::new(), parts: Vec::new(), queue: Queue::default() })
    }

    fn give_back(&self, scratch: Scratch) {
        self.scratch.lock().unwrap_or_else(PoisonError::into_inner).push(scratch);
    }
}

impl fmt::Debug for Bpe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bpe").field("tokens", &self.names.len()).finish_non_exhaustive()
    }
}

/// The bytes of all tokens; `None` if two of them have the same id.
fn vocabulary(names: &Names, added: &[Added], byte_level: bool) -> Option<Vocabulary> {
    let others = added.iter().filter(|added| names.id(&added.token.content).is_none());
    let others = others.map(|added| (added.id, &*added.token.content)).filter(|(_, name)| !name.is_empty());
    let mut tokens: Vec<(TokenId, &str)> = names.iter().chain(others).collect();
    tokens.sort_unstable();
    if tokens.windows(2).any(|pair| pair[0].0 == pair[1].0) {
        return None;
    }
    let mut by_id: Vec<(TokenId, &AddedToken)> = added.iter().map(|added| (added.id, &added.token)).collect();
    by_id.sort_unstable_by_key(|(id, _)| *id);
    if by_id.windows(2).any(|pair| pair[0].0 == pair[1].0) {
        return None;
    }
    let added = |id| by_id.binary_search_by_key(&id, |(id, _)| *id).ok().map(|at| by_id[at].1);
    Vocabulary::new(&tokens, added, byte_level).ok()
}
