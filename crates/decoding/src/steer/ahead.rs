//! A model that may have read further than its text: its own drafts.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use verdigris_logits::TokenId;
use verdigris_models::{Batch, BatchItem, ModelError, Rows, Wanted};

use super::member::{Member, Reads};

/// A member that has read the text and then tokens that may follow it.
pub(super) struct Ahead {
    member: Member,
    /// The tokens past the text, and for each whether its row is known.
    tokens: Vec<(TokenId, bool)>,
    /// The rows of those tokens, concatenated; the contents of an unknown row are arbitrary. They remain until the next
    /// token past a text is read.
    known: Vec<f32>,
    /// The length of a row.
    width: usize,
    /// The location of each requested row of the last batch: in `known`, or among those that were read.
    wanted: Vec<Place>,
}

/// The rest of a batch that is partly known.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rest {
    /// The number of tokens that need not be read.
    known: usize,
    /// The way in which the others are read, or `None` if there are none.
    reads: Option<Reads>,
}

impl Rest {
    /// The batch without its known part.
    fn of<'a>(self, batch: &Batch<'a>) -> Batch<'a> {
        let first = batch.tokens.len() - batch.rows();
        match self.known {
            0 => *batch,
            known => Batch::chain(&batch.tokens[known..], Wanted::From(first.saturating_sub(known))),
        }
    }
}

#[derive(Clone, Copy, Debug)]
enum Place {
    Known(usize),
    Read(usize),
}

impl Ahead {
    pub(super) fn new(member: Member) -> Self {
        Self { member, tokens: Vec::new(), known: Vec::new(), width: 0, wanted: Vec::new() }
    }

    pub(super) fn member(&self) -> &Member {
        &self.member
    }

    /// The number of tokens of the text that it has read.
    pub(super) fn len(&self) -> usize {
        self.member.len() - self.tokens.len()
    }

    /// The number of tokens that it has read, including those past the text.
    pub(super) fn all(&self) -> usize {
        self.member.len()
    }

    pub(super) fn capacity(&self) -> usize {
        self.member.capacity()
    }

    /// Reads tokens past the text and past those already read ahead. Returns the row of the last.
    pub(super) fn read_ahead(&mut self, tokens: &[TokenId]) -> Result<&[f32], ModelError> {
        self.member.forward(&Batch::chain(tokens, Wanted::Last))?;
        let row = self.member.rows().last();
        self.width = row.len();
        if self.tokens.is_empty() {
            self.known.clear();
        }
        for (i, &token) in tokens.iter().enumerate() {
            let is_last = i + 1 == tokens.len();
            self.tokens.push((token, is_last));
            match is_last {
                true => self.known.extend_from_slice(row),
                false => self.known.resize(self.known.len() + row.len(), 0.0),
            }
        }
        Ok(row)
    }

    /// Reads a tree past the text and past the tokens read ahead, without keeping it. Returns its rows.
    pub(super) fn look_ahead(&mut self, batch: &Batch<'_>) -> Result<&Rows, ModelError> {
        let length = self.member.len();
        self.member.forward(batch)?;
        self.member.truncate(length);
        Ok(self.member.rows())
    }

    /// Prepares for a batch of the text: tokens that were read ahead and match it are not read again.
    pub(super) fn prepare(&mut self, batch: &Batch<'_>) -> Rest {
        let (held, count) = (self.len(), batch.tokens.len());
        let first = count - batch.rows();
        let is_known = |(i, (token, known)): (usize, &(TokenId, bool))| {
            batch.parents.is_none() && batch.tokens.get(i) == Some(token) && (*known || i < first)
        };
        let known = self.tokens.iter().enumerate().take_while(|&one| is_known(one)).count();
        self.wanted.clear();
        self.wanted.extend((first..known).map(|i| Place::Known(i * self.width)));
        self.wanted.extend((first.max(known)..count).enumerate().map(|(row, _)| Place::Read(row)));
        self.tokens.clear();
        self.member.truncate(held + known);
        let mut rest = Rest { known, reads: None };
        rest.reads = (known < count).then(|| self.member.prepare(&rest.of(batch)));
        rest
    }

    /// The part of a prepared batch that its model must read.
    pub(super) fn item<'a>(&'a mut self, batch: &Batch<'a>, rest: Rest) -> Option<BatchItem<'a>> {
        self.member.item(&rest.of(batch), rest.reads?)
    }

    /// Records that a batch of `tokens` tokens has been read.
    pub(super) fn settle(&mut self, tokens: usize, rest: Rest) {
        self.member.settle(tokens - rest.known);
    }

    /// Row `i` of those requested in the last batch, or `None` if it lies in a prompt that is not read.
    pub(super) fn row(&self, i: usize) -> Option<&[f32]> {
        match self.wanted[i] {
            Place::Known(at) => Some(&self.known[at..at + self.width]),
            Place::Read(row) => self.member.row(row),
        }
    }

    /// Removes the text past a length, and the tokens read ahead.
    pub(super) fn truncate(&mut self, length: usize) {
        let length = self.len().min(length);
        self.tokens.clear();
        self.member.truncate(length);
    }

    /// See [`Sequence::keep`](verdigris_models::Sequence::keep).
    pub(super) fn keep(&mut self, from: usize, path: &[usize]) -> Result<(), ModelError> {
        self.truncate(usize::MAX);
        self.member.keep(from, path)
    }

    /// Returns a copy that has read the same text, and no further.
    pub(super) fn fork(&self) -> Result<Self, ModelError> {
        let mut fork = Self::new(self.member.fork()?);
        fork.member.truncate(self.len());
        Ok(fork)
    }
}

/// A member that a text and its drafter share.
#[derive(Clone, Default)]
pub(super) struct SharedAhead(Arc<Mutex<Option<Ahead>>>);

/// Exclusive access to the shared member.
pub(super) struct InUse<'a>(MutexGuard<'a, Option<Ahead>>);

impl SharedAhead {
    pub(super) fn of(ahead: Ahead) -> Self {
        Self(Arc::new(Mutex::new(Some(ahead))))
    }

    /// Stores the member if there is none yet. Otherwise another text uses this one, and a new one is returned.
    pub(super) fn fill(&self, ahead: Ahead) -> Self {
        let mut place = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if place.is_some() {
            return Self::of(ahead);
        }
        *place = Some(ahead);
        self.clone()
    }

    /// The member, if the text has begun.
    pub(super) fn begun(&self) -> Option<InUse<'_>> {
        let place = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        place.is_some().then(|| InUse(place))
    }

    /// The member, for the text.
    pub(super) fn get(&self) -> InUse<'_> {
        self.begun().expect("a text has begun")
    }
}

impl std::ops::Deref for InUse<'_> {
    type Target = Ahead;
    fn deref(&self) -> &Ahead {
        self.0.as_ref().expect("a text has begun")
    }
}

impl std::ops::DerefMut for InUse<'_> {
    fn deref_mut(&mut self) -> &mut Ahead {
        self.0.as_mut().expect("a text has begun")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::Table;
    use verdigris_models::LanguageModel;

    fn begun(table: &Arc<Table>) -> Ahead {
        let model: Arc<dyn LanguageModel> = table.clone();
        Ahead::new(Member::begin(&model, None, 100).unwrap())
    }

    impl Ahead {
        fn forward(&mut self, batch: &Batch<'_>) -> Result<(), ModelError> {
            let rest = self.prepare(batch);
            if let Some(BatchItem { sequence, batch, rows }) = self.item(batch, rest) {
                sequence.forward(&batch, rows)?;
            }
            self.settle(batch.tokens.len(), rest);
            Ok(())
        }
    }

    /// Tokens read ahead do not change the rows of the text, and correct ones are not read again.
    #[test]
    fn what_was_read_ahead_does_not_show() {
        let table = Table::deep(8, 5, 100);
        let text = [3, 1, 4, 1, 5, 2, 6, 5, 3, 5];
        let (mut whole, mut rows) = (table.clone().begin(100).unwrap(), Rows::default());
        whole.forward(&Batch::chain(&text, Wanted::All), &mut rows).unwrap();
        for (known, ahead) in [(0, &[3, 1][..]), (2, &[4, 1, 5]), (2, &[4, 1, 7]), (3, &[7]), (5, &[2, 6, 5, 3, 5, 7])]
        {
            for (wanted, first) in [(Wanted::All, known), (Wanted::Last, 9), (Wanted::From(3), known + 3)] {
                let mut one = begun(&table);
                one.forward(&Batch::chain(&text[..known], Wanted::Last)).unwrap();
                for token in ahead.chunks(1) {
                    one.read_ahead(token).unwrap();
                }
                assert_eq!((one.len(), one.all()), (known, known + ahead.len()));
                let calls = table.calls();
                one.forward(&Batch::chain(&text[known..], wanted)).unwrap();
                let right = ahead.iter().zip(&text[known..]).take_while(|(a, b)| a == b).count();
                assert_eq!(table.calls() - calls, usize::from(known + right < text.len()));
                assert_eq!((one.len(), one.all()), (10, 10));
                (first..10).for_each(|i| {
                    assert_eq!(one.row(i - first).unwrap(), rows.row(i), "row {i} after {known}, {ahead:?}")
                });
            }
        }
    }

    /// Of tokens that were read ahead together, only the last has a known row.
    #[test]
    fn a_row_that_is_not_known_is_computed() {
        let table = Table::deep(8, 5, 100);
        let (mut whole, mut rows) = (table.clone().begin(100).unwrap(), Rows::default());
        whole.forward(&Batch::chain(&[1, 2, 3, 4], Wanted::All), &mut rows).unwrap();
        let mut one = begun(&table);
        one.read_ahead(&[1, 2, 3]).unwrap();
        one.forward(&Batch::chain(&[1, 2, 3, 4], Wanted::From(1))).unwrap();
        (1..4).for_each(|i| assert_eq!(one.row(i - 1).unwrap(), rows.row(i)));
        one.read_ahead(&[5, 6]).unwrap();
        one.truncate(3);
        one.forward(&Batch::chain(&[4], Wanted::Last)).unwrap();
        assert_eq!(one.row(0).unwrap(), rows.row(3));
        one.read_ahead(&[5]).unwrap();
        assert_eq!(one.fork().unwrap().all(), 4);
    }
}
