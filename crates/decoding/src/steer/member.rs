//! One of the models of a steered text, and the prompt that it reads.

use std::sync::Arc;

use verdigris_logits::TokenId;
use verdigris_models::{Batch, BatchItem, LanguageModel, ModelError, Rows, Sequence, Wanted};

/// Tokens that a member reads instead of the text's prompt, which is the first tokens of the text. It reads the rest of
/// the text unchanged.
#[derive(Clone, Debug)]
pub(super) struct OwnPrompt {
    /// The number of tokens of the text that it replaces, at least one.
    pub(super) replaces: usize,
    /// The tokens read instead, at least one.
    pub(super) tokens: Arc<[TokenId]>,
}

impl OwnPrompt {
    /// The number of tokens of a text that fit if the model has room for `of_model` tokens.
    fn room(&self, of_model: usize) -> usize {
        (of_model + self.replaces).saturating_sub(self.tokens.len())
    }
}

/// A sequence measured in tokens of the text: whatever it reads instead of the prompt, its length, batches and rows are
/// those of the text. Before the last token of a prompt that it does not read there are no rows.
pub(super) struct Member {
    model: Arc<dyn LanguageModel>,
    sequence: Box<dyn Sequence>,
    own: Option<OwnPrompt>,
    /// The number of tokens of the text that it has read.
    held: usize,
    /// The batch of the next call of the model, if it differs from the text's.
    turned: Turned,
    rows: Rows,
    /// The number of rows requested last that do not exist.
    silent: usize,
}

/// A batch with the prompt replaced.
#[derive(Default)]
struct Turned {
    tokens: Vec<TokenId>,
    parents: Vec<Option<usize>>,
}

/// The way in which a member reads a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reads {
    /// Nothing: the whole batch is within the prompt.
    Nothing,
    /// The batch, unchanged.
    AsItIs,
    /// The rest of its own prompt, and the tokens after the text's, with these rows.
    Turned(Wanted),
}

impl Member {
    /// Begins a text of at most `capacity` tokens.
    pub(super) fn begin(
        model: &Arc<dyn LanguageModel>,
        own: Option<OwnPrompt>,
        capacity: usize,
    ) -> Result<Self, ModelError> {
        let of_model = match &own {
            Some(own) => (capacity + own.tokens.len()).saturating_sub(own.replaces).max(own.tokens.len()),
            None => capacity,
        };
        let sequence = model.clone().begin(of_model)?;
        let (turned, rows) = (Turned::default(), Rows::default());
        Ok(Self { model: model.clone(), sequence, own, held: 0, turned, rows, silent: 0 })
    }

    /// The maximum length of a text of which a model can be a member.
    pub(super) fn context(model: &dyn LanguageModel, own: Option<&OwnPrompt>) -> usize {
        own.map_or(model.context_length(), |own| own.room(model.context_length()))
    }

    pub(super) fn model(&self) -> &Arc<dyn LanguageModel> {
        &self.model
    }

    pub(super) fn len(&self) -> usize {
        self.held
    }

    /// Whether it is within a prompt that it does not read.
    pub(super) fn is_in_prompt(&self) -> bool {
        self.own.as_ref().is_some_and(|own| self.held < own.replaces)
    }

    pub(super) fn capacity(&self) -> usize {
        let of_model = self.sequence.capacity();
        self.own.as_ref().map_or(of_model, |own| own.room(of_model))
    }

    /// Prepares for a batch.
    pub(super) fn prepare(&mut self, batch: &Batch<'_>) -> Reads {
        self.silent = 0;
        let Some(own) = self.own.as_ref().filter(|own| self.held < own.replaces) else { return Reads::AsItIs };
        let of_prompt = (own.replaces - self.held).min(batch.tokens.len());
        // The row of the last token of the prompt is that of the last token of the other prompt.
        let spoken = own.replaces - 1 - self.held;
        self.silent = spoken.saturating_sub(batch.first_wanted()).min(batch.rows());
        let unread = &own.tokens[self.sequence.len()..];
        self.turned.tokens.clear();
        self.turned.parents.clear();
        match self.held + batch.tokens.len() + 1 {
            end if end < own.replaces => return Reads::Nothing,
            // Read all but the last token, which is the part that texts with one prompt share.
            end if end == own.replaces => {
                self.turned.tokens.extend(&unread[..unread.len().saturating_sub(1)]);
                return if self.turned.tokens.is_empty() { Reads::Nothing } else { Reads::Turned(Wanted::Last) };
            }
            _ => self.turned.tokens.extend(unread),
        }
        let read = unread.len();
        self.turned.tokens.extend(&batch.tokens[of_prompt..]);
        if let Some(parents) = batch.parents {
            self.turned.parents.extend((0..read).map(|i| i.checked_sub(1)));
            let place = |parent: Option<usize>| match parent {
                Some(parent) => parent + read - of_prompt,
                None => read - 1,
            };
            self.turned.parents.extend(parents[of_prompt..].iter().map(|&parent| Some(place(parent))));
        }
        let first = batch.first_wanted().max(spoken);
        Reads::Turned(Wanted::From(first + read - of_prompt))
    }

    /// The batch that its model must read, after [`Member::prepare`].
    pub(super) fn item<'a>(&'a mut self, batch: &Batch<'a>, reads: Reads) -> Option<BatchItem<'a>> {
        let Self { sequence, turned: Turned { tokens, parents }, rows, .. } = self;
        let batch = match reads {
            Reads::Nothing => return None,
            Reads::AsItIs => *batch,
            Reads::Turned(wanted) => Batch { tokens, parents: (!parents.is_empty()).then_some(&parents[..]), wanted },
        };
        Some(BatchItem { sequence: &mut **sequence, batch, rows })
    }

    /// Records that a batch has been read.
    pub(super) fn settle(&mut self, tokens: usize) {
        self.held += tokens;
    }

    /// Reads a batch in a separate call.
    pub(super) fn forward(&mut self, batch: &Batch<'_>) -> Result<(), ModelError> {
        let reads = self.prepare(batch);
        if let Some(BatchItem { sequence, batch, rows }) = self.item(batch, reads) {
            sequence.forward(&batch, rows)?;
        }
        self.settle(batch.tokens.len());
        Ok(())
    }

    /// Row `i` of those requested last, or `None` if it lies in a prompt that is not read.
    pub(super) fn row(&self, i: usize) -> Option<&[f32]> {
        i.checked_sub(self.silent).map(|i| self.rows.row(i))
    }

    /// The rows requested last, of a batch after the prompt.
    pub(super) fn rows(&self) -> &Rows {
        &self.rows
    }

    /// Removes the text past a length, if it is longer.
    pub(super) fn truncate(&mut self, length: usize) {
        self.held = self.held.min(length);
        let of_model = match &self.own {
            None => length,
            Some(own) if length >= own.replaces => length - own.replaces + own.tokens.len(),
            Some(own) => own.tokens.len() - 1,
        };
        self.sequence.truncate(self.sequence.len().min(of_model));
    }

    /// See [`Sequence::keep`].
    pub(super) fn keep(&mut self, from: usize, path: &[usize]) -> Result<(), ModelError> {
        self.held = from + path.len();
        let Some(own) = &self.own else { return self.sequence.keep(from, path) };
        let read = own.tokens.len();
        if let Some(after) = from.checked_sub(own.replaces) {
            return self.sequence.keep(read + after, path);
        }
        // The prompt's tokens form a chain, and all of them are kept.
        let of_prompt = own.replaces - from;
        let path: Vec<usize> = path[of_prompt..].iter().map(|index| index - of_prompt).collect();
        self.sequence.keep(read, &path)
    }

    /// Returns a copy that has read the same tokens.
    pub(super) fn fork(&self) -> Result<Self, ModelError> {
        let (model, own) = (self.model.clone(), self.own.clone());
        let (turned, rows) = (Turned::default(), Rows::default());
        Ok(Self { model, sequence: self.sequence.fork()?, own, held: self.held, turned, rows, silent: 0 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::Table;

    /// The rows of a model after each token, read at once.
    fn rows_of(model: &Arc<Table>, tokens: &[TokenId]) -> Vec<Vec<f32>> {
        let mut rows = Rows::default();
        model.clone().begin(tokens.len()).unwrap().forward(&Batch::chain(tokens, Wanted::All), &mut rows).unwrap();
        (0..rows.count()).map(|i| rows.row(i).to_vec()).collect()
    }

    /// However a text is split into batches, its rows are those after the other prompt, and tokens within the prompt
    /// have none.
    #[test]
    fn another_prompt_is_read_in_the_place_of_the_text_s() {
        let table = Table::deep(9, 4, 200);
        let model: Arc<dyn LanguageModel> = table.clone();
        let text = [1, 2, 3, 4, 5, 6, 7, 8];
        for own in [&[5][..], &[6, 7], &[1, 1, 2, 2, 3, 3]] {
            for replaces in 1..=4 {
                let whole = [own, &text[replaces..]].concat();
                let expected = rows_of(&table, &whole);
                for split in 0..256usize {
                    let own_prompt = OwnPrompt { replaces, tokens: own.into() };
                    let mut member = Member::begin(&model, Some(own_prompt), text.len()).unwrap();
                    assert_eq!(member.capacity(), text.len());
                    let mut from = 0;
                    for to in 1..=text.len() {
                        if split >> (to - 1) & 1 == 0 && to < text.len() {
                            continue;
                        }
                        if split % 3 == 0 {
                            member = member.fork().unwrap();
                        }
                        member.forward(&Batch::chain(&text[from..to], Wanted::All)).unwrap();
                        for i in from..to {
                            let row = (i + 1).checked_sub(replaces).map(|i| &expected[own.len() - 1 + i][..]);
                            assert_eq!(member.row(i - from), row, "row {i} of {own:?} for {replaces}, split {split:b}");
                        }
                        if split % 5 == 1 {
                            // Remove the token and read it again.
                            member.truncate(to - 1);
                            member.forward(&Batch::chain(&text[to - 1..to], Wanted::Last)).unwrap();
                        }
                        assert_eq!(member.len(), to);
                        from = to;
                    }
                }
            }
        }
    }

    /// For a tree after the prompt, both in one batch with it and separately, rows and kept tokens are those of the
    /// other prompt.
    #[test]
    fn a_tree_stands_behind_the_other_prompt() {
        let table = Table::deep(9, 4, 200);
        let model: Arc<dyn LanguageModel> = table.clone();
        let (text, own) = ([1, 2, 3], [6, 5]);
        let (tokens, parents) = ([1, 2, 3, 7, 8, 4], [None, Some(0), Some(1), Some(2), Some(2), Some(4)]);
        let rows = |path: &[TokenId]| rows_of(&table, &[&own, path].concat()).pop().unwrap();
        for before in 0..3 {
            let own = OwnPrompt { replaces: 3, tokens: own.into() };
            let mut member = Member::begin(&model, Some(own), 20).unwrap();
            if before > 0 {
                member.forward(&Batch::chain(&text[..before], Wanted::Last)).unwrap();
            }
            let parents: Vec<Option<usize>> = parents[before..]
                .iter()
                .map(|parent: &Option<usize>| parent.and_then(|p| p.checked_sub(before)))
                .collect();
            member.forward(&Batch::tree(&tokens[before..], &parents)).unwrap();
            let found: Vec<_> = (0..6 - before).map(|i| member.row(i)).collect();
            let of_prompt = 3 - before;
            assert!(found[..of_prompt - 1].iter().all(Option::is_none));
            let expected = [rows(&[]), rows(&[7]), rows(&[8]), rows(&[8, 4])];
            assert_eq!(found[of_prompt - 1..], expected.each_ref().map(|row| Some(&row[..])));
            let kept: Vec<usize> = (0..of_prompt).chain([of_prompt + 1, of_prompt + 2]).collect();
            member.keep(before, &kept).unwrap();
            assert_eq!(member.len(), 5);
            member.forward(&Batch::chain(&[2], Wanted::Last)).unwrap();
            assert_eq!(member.row(0).unwrap(), rows(&[8, 4, 2]));
            member.truncate(4);
            member.forward(&Batch::tree(&[7, 1], &[None, None])).unwrap();
            assert_eq!(member.row(1).unwrap(), rows(&[8, 1]));
            member.keep(4, &[1]).unwrap();
            member.forward(&Batch::chain(&[0], Wanted::Last)).unwrap();
            assert_eq!(member.row(0).unwrap(), rows(&[8, 1, 0]));
        }
    }
}
