//! Models of other libraries, such as candle-transformers, behind the contract of [`LanguageModel`].
//!
//! Such a model reads one text from its beginning, and keeps its cache to itself. What the contract asks beyond that is
//! made of copies of the model in the midst of a text, which share its weights: a text that is cut back goes on from a
//! copy that was made there, or reads again from the last copy before. If the model gives the row of the last token
//! alone, a row for each of several tokens is a call for each.

use std::sync::Arc;

use verdigris_logits::TokenId;

use crate::error::{BoxError, ModelError};
use crate::held::{Held, moves};
use crate::language_model::{Batch, LanguageModel, Rows, SampleRequest, Sequence, Wanted};

/// How many copies of its recent past a text keeps once it has been cut back, and at most where rows of several tokens
/// are asked for, because some of them may be taken back.
const RECENT: usize = 16;

/// A model in the midst of one text.
///
/// # Contract
/// - The row depends on the tokens alone, not on the calls that they came in (to rounding).
/// - A copy and its origin do not influence each other.
/// - After an error the model is not used any more.
pub trait Forward: Send + Sized + 'static {
    /// Reads tokens after the `held` that it has read, and gives the row of the last: as many logits as the vocabulary
    /// has tokens. There is at least one token.
    ///
    /// # Errors
    /// Whatever the model fails with.
    fn forward(&mut self, tokens: &[TokenId], held: usize) -> Result<Vec<f32>, BoxError>;

    /// As [`Forward::forward`], with the rows of all tokens, one after the other. `None`: the model gives that of the
    /// last alone, and nothing has happened.
    ///
    /// # Errors
    /// Whatever the model fails with.
    fn forward_all(&mut self, _tokens: &[TokenId], _held: usize) -> Option<Result<Vec<f32>, BoxError>> {
        None
    }

    /// As [`Forward::forward`], but a token is drawn where the row is, which does not come back. `None`: this model
    /// does not do that with these steps, and nothing has happened.
    ///
    /// # Errors
    /// Whatever the model fails with.
    fn draw(
        &mut self,
        _tokens: &[TokenId],
        _held: usize,
        _draw: &mut SampleRequest<'_>,
    ) -> Option<Result<(), BoxError>> {
        None
    }

    /// A copy that has read the same. Weights should be shared and not copied, as candle's tensors are.
    ///
    /// # Errors
    /// Where there is no memory, or the device fails.
    fn fork(&self) -> Result<Self, BoxError>;

    /// A copy that has read the same, for a text that goes on with one of the two: while the copy reads, the origin
    /// does not, and when the origin reads again, the copy is gone. So the two may share memory that a text writes
    /// behind what it holds.
    ///
    /// # Errors
    /// As [`Forward::fork`].
    fn snapshot(&self) -> Result<Self, BoxError> {
        self.fork()
    }
}

/// A model of another library as a [`LanguageModel`].
pub struct Foreign<M> {
    vocabulary: usize,
    context: usize,
    /// Has read nothing.
    unread: M,
}

impl<M: Forward + Sync> Foreign<M> {
    /// A model that has read nothing, with so many tokens, that can read so many. Each text begins with a copy of it.
    pub fn new(vocabulary: usize, context: usize, unread: M) -> Self {
        Self { vocabulary, context, unread }
    }
}

impl<M: Forward + Sync> LanguageModel for Foreign<M> {
    fn vocabulary_size(&self) -> usize {
        self.vocabulary
    }

    fn context_length(&self) -> usize {
        self.context
    }

    fn begin(self: Arc<Self>, capacity: usize) -> Result<Box<dyn Sequence>, ModelError> {
        let held = Held::none(capacity, self.context)?;
        Ok(Box::new(ForeignSequence { model: self, copies: Vec::new(), tokens: Vec::new(), held, recent: 1 }))
    }
}

/// The model when it had read the first `read` tokens of a text.
struct Copy<M> {
    read: usize,
    model: M,
}

struct ForeignSequence<M> {
    model: Arc<Foreign<M>>,
    /// Of this text at several moments, the latest last. Before all of them stands the model that has read nothing.
    copies: Vec<Copy<M>>,
    /// What the text is.
    tokens: Vec<TokenId>,
    held: Held,
    /// How many copies are kept: those that are not asked for take memory for nothing.
    recent: usize,
}

impl<M: Forward + Sync> ForeignSequence<M> {
    /// The latest copy, to go on with.
    fn latest(&self) -> Result<Copy<M>, BoxError> {
        match self.copies.last() {
            Some(copy) => Ok(Copy { read: copy.read, model: copy.model.snapshot()? }),
            None => Ok(Copy { read: 0, model: self.model.unread.fork()? }),
        }
    }

    /// Goes on to the end of a text that begins like this one, from the latest copy; the row of its last token.
    fn read(&self, text: &[TokenId]) -> Result<(Copy<M>, Vec<f32>), BoxError> {
        let Copy { read: held, mut model } = self.latest()?;
        let row = model.forward(&text[held..], held)?;
        if row.len() != self.model.vocabulary {
            return Err(format!("a row of {} logits, not {}", row.len(), self.model.vocabulary).into());
        }
        Ok((Copy { read: text.len(), model }, row))
    }

    /// The rows of tokens that follow each other.
    fn chain(&mut self, batch: &Batch<'_>, rows: &mut Vec<f32>) -> Result<(), BoxError> {
        let before = self.tokens.len();
        self.tokens.extend_from_slice(batch.tokens);
        let wanted = before + batch.first_wanted();
        if batch.wanted != Wanted::Last {
            let Copy { read: held, mut model } = self.latest()?;
            if let Some(all) = model.forward_all(&self.tokens[held..], held) {
                let all = all?;
                let size = self.model.vocabulary;
                if all.len() != (self.tokens.len() - held) * size {
                    return Err(format!("{} logits for {} tokens", all.len(), self.tokens.len() - held).into());
                }
                rows.extend_from_slice(&all[(wanted - held) * size..]);
                self.push(Copy { read: self.tokens.len(), model }, batch.rows());
                return Ok(());
            }
        }
        for end in wanted + 1..=self.tokens.len() {
            let (copy, row) = self.read(&self.tokens[..end])?;
            rows.extend(row);
            self.push(copy, batch.rows());
        }
        Ok(())
    }

    /// Keeps a copy, and the ones before it as far as tokens may be taken back: more of them where rows of several are
    /// asked for.
    fn push(&mut self, copy: Copy<M>, rows: usize) {
        self.copies.push(copy);
        let kept = self.recent.max(rows.min(RECENT));
        self.copies.drain(..self.copies.len().saturating_sub(kept));
    }

    /// The rows of a tree. Copies of its branches are not kept.
    fn tree(&mut self, batch: &Batch<'_>, parents: &[Option<usize>], rows: &mut Vec<f32>) -> Result<(), BoxError> {
        let mut text = Vec::new();
        for node in batch.first_wanted()..batch.tokens.len() {
            let mut path = vec![batch.tokens[node]];
            let mut at = node;
            while let Some(parent) = parents[at] {
                path.push(batch.tokens[parent]);
                at = parent;
            }
            text.clone_from(&self.tokens);
            text.extend(path.into_iter().rev());
            rows.extend(self.read(&text)?.1);
        }
        self.tokens.extend_from_slice(batch.tokens);
        Ok(())
    }

    /// Forgets tokens, and the copies that have read them.
    fn forget(&mut self, length: usize) {
        self.tokens.truncate(length);
        let left = self.copies.partition_point(|copy| copy.read <= length);
        self.copies.truncate(left);
    }
}

impl<M: Forward + Sync> Sequence for ForeignSequence<M> {
    fn len(&self) -> usize {
        self.held.length()
    }

    fn capacity(&self) -> usize {
        self.held.capacity()
    }

    fn forward(&mut self, batch: &Batch<'_>, rows: &mut Rows) -> Result<(), ModelError> {
        let size = self.model.vocabulary;
        self.held.after(batch, size)?;
        let mut all = Vec::with_capacity(batch.rows() * size);
        if !batch.tokens.is_empty() {
            let read = match batch.parents {
                Some(parents) => self.tree(batch, parents, &mut all),
                None => self.chain(batch, &mut all),
            };
            if let Err(error) = read {
                self.forget(self.held.length());
                return Err(ModelError::Compute(error));
            }
        }
        rows.set(all, size);
        self.held.extend(batch.tokens.len());
        Ok(())
    }

    fn draw(&mut self, batch: &Batch<'_>, draws: &mut [SampleRequest<'_>]) -> Result<bool, ModelError> {
        let [draw] = draws else { return Ok(false) };
        if batch.parents.is_some() || batch.wanted != Wanted::Last || batch.tokens.is_empty() {
            return Ok(false);
        }
        self.held.after(batch, self.model.vocabulary)?;
        self.tokens.extend_from_slice(batch.tokens);
        let drawn = self.latest().and_then(|Copy { read: held, mut model }| {
            let drawn = model.draw(&self.tokens[held..], held, draw).transpose()?;
            Ok(drawn.map(|()| Copy { read: self.tokens.len(), model }))
        });
        match drawn {
            Ok(Some(copy)) => self.push(copy, 1),
            Ok(None) => {
                self.forget(self.held.length());
                return Ok(false);
            }
            Err(error) => {
                self.forget(self.held.length());
                return Err(ModelError::Compute(error));
            }
        }
        self.held.extend(batch.tokens.len());
        Ok(true)
    }

    fn truncate(&mut self, length: usize) {
        if length < self.held.length() {
            self.recent = RECENT;
        }
        self.held.truncate(length);
        self.forget(length);
    }

    fn keep(&mut self, from: usize, path: &[usize]) -> Result<(), ModelError> {
        self.held.truncate(self.held.after_keep(from, path));
        let same = from + path.iter().enumerate().take_while(|(to, at)| to == *at).count();
        moves(from, path).for_each(|(at, to)| self.tokens[to] = self.tokens[at]);
        let left = self.copies.partition_point(|copy| copy.read <= same);
        self.copies.truncate(left);
        self.forget(self.held.length());
        Ok(())
    }

    fn fork(&self) -> Result<Box<dyn Sequence>, ModelError> {
        let latest = self.copies.last().map(|copy| Ok(Copy { read: copy.read, model: copy.model.fork()? }));
        let copies = latest.into_iter().collect::<Result<Vec<_>, BoxError>>().map_err(ModelError::Compute)?;
        let (model, tokens, held) = (self.model.clone(), self.tokens.clone(), self.held);
        Ok(Box::new(Self { model, copies, tokens, held, recent: self.recent }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use verdigris_logits::steps::Steps;
    use verdigris_logits::{Row, Sampler};

    /// Each row depends on all tokens before it.
    #[derive(Clone, Default)]
    struct Toy {
        read: Vec<TokenId>,
        draws: bool,
    }

    impl Toy {
        fn row(&mut self, tokens: &[TokenId], held: usize) -> Vec<f32> {
            assert_eq!(self.read.len(), held);
            self.read.extend_from_slice(tokens);
            let sum = self.read.iter().enumerate().map(|(i, &token)| (i as u32 + 1) * (token + 3)).sum::<u32>();
            (0..11).map(|t| ((sum * (t + 1)) % 13) as f32 / 4.0).collect()
        }
    }

    impl Forward for Toy {
        fn forward(&mut self, tokens: &[TokenId], held: usize) -> Result<Vec<f32>, BoxError> {
            Ok(self.row(tokens, held))
        }

        fn draw(
            &mut self,
            tokens: &[TokenId],
            held: usize,
            draw: &mut SampleRequest<'_>,
        ) -> Option<Result<(), BoxError>> {
            self.draws.then(|| {
                let mut row = Row::from(self.row(tokens, held));
                draw.steps.apply(&mut row);
                draw.token = draw.sampler.sample(&row, draw.number);
                Ok(())
            })
        }

        fn fork(&self) -> Result<Self, BoxError> {
            Ok(self.clone())
        }
    }

    #[test]
    fn tokens_drawn_where_rows_are_go_on_as_others_do() {
        let begin = |draws| Arc::new(Foreign::new(11, 40, Toy { draws, ..Toy::default() })).begin(40).unwrap();
        let (mut drawing, mut plain) = (begin(true), begin(false));
        let (steps, mut rows) = (Steps::default(), Rows::default());
        let request = |number| SampleRequest {
            item: 0,
            row: 0,
            steps: &steps,
            sampler: Sampler::Categorical,
            number,
            token: None,
        };
        let mut next = vec![4, 5, 6];
        for i in 0..20 {
            let number = f64::from(i * 7 % 20) / 20.0;
            let batch = Batch::chain(&next, Wanted::Last);
            assert!(!plain.draw(&batch, &mut [request(number)]).unwrap(), "nothing has happened");
            plain.forward(&batch, &mut rows).unwrap();
            let expected = Sampler::Categorical.sample(&Row::from(rows.last().to_vec()), number);
            let mut draws = [request(number)];
            assert!(drawing.draw(&batch, &mut draws).unwrap());
            assert_eq!(draws[0].token, expected);
            assert_eq!(drawing.len(), plain.len());
            next = vec![expected.unwrap()];
            if i % 6 == 5 {
                let length = plain.len() - 2;
                [&mut drawing, &mut plain].into_iter().for_each(|sequence| sequence.truncate(length));
            }
        }
        let all = Batch::chain(&[1, 2], Wanted::All);
        assert!(!drawing.draw(&all, &mut [request(0.5), request(0.5)]).unwrap(), "rows of several come back");
    }
}
