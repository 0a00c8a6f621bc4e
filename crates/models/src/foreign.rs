//! Models of other libraries, such as candle-transformers, behind the contract of [`LanguageModel`].
//!
//! Such a model reads one text from its beginning and manages its own cache. The rest of the contract is implemented
//! with copies of the model at several points of a text, which share its weights: a truncated text continues from a
//! copy made at that point, or re-reads from the last earlier copy. If the model returns only the row of the last
//! token, each row takes a call.

use std::sync::Arc;

use verdigris_logits::TokenId;

use crate::error::{BoxError, ModelError};
use crate::held::{Held, moves};
use crate::language_model::{Batch, LanguageModel, Rows, SampleRequest, Sequence};

/// The number of recent copies that a text keeps once it has been truncated. It is also the limit where rows of several
/// tokens are asked for, because some of those tokens may be taken back.
const RECENT: usize = 16;

/// A model that has read part of one text.
///
/// # Contract
/// - The row depends on the tokens alone, not on how they were split into calls (to rounding).
/// - A copy and its origin do not influence each other.
/// - After an error the model is not used any more.
pub trait Forward: Send + Sized + 'static {
    /// Reads tokens after the `held` tokens that it has already read, and returns the row of the last: one logit per
    /// token of the vocabulary. There is at least one token.
    ///
    /// # Errors
    /// Any error of the model.
    fn forward(&mut self, tokens: &[TokenId], held: usize) -> Result<Vec<f32>, BoxError>;

    /// Like [`Forward::forward`], with the rows of all tokens, one after the other. Returns `None` if the model
    /// computes only the last row; then nothing has happened.
    ///
    /// # Errors
    /// Any error of the model.
    fn forward_all(&mut self, _tokens: &[TokenId], _held: usize) -> Option<Result<Vec<f32>, BoxError>> {
        None
    }

    /// Like [`Forward::forward`], but samples a token where the row is computed and does not return the row. Returns
    /// `None` if this model does not support that with these steps; then nothing has happened.
    ///
    /// # Errors
    /// Any error of the model.
    fn draw(
        &mut self,
        _tokens: &[TokenId],
        _held: usize,
        _draw: &mut SampleRequest<'_>,
    ) -> Option<Result<(), BoxError>> {
        None
    }

    /// A copy that has read the same tokens. It should share the weights instead of copying them, as candle's tensors
    /// do.
    ///
    /// # Errors
    /// If there is not enough memory, or the device fails.
    fn fork(&self) -> Result<Self, BoxError>;

    /// A copy that has read the same tokens, for a text that continues with only one of the two: the origin does not
    /// read while the copy does, and the copy is dropped before the origin reads again. So the two may share the memory
    /// that is written after the tokens held.
    ///
    /// # Errors
    /// The same as [`Forward::fork`].
    fn snapshot(&self) -> Result<Self, BoxError> {
        self.fork()
    }
}

/// A model of another library as a [`LanguageModel`].
pub struct Foreign<M> {
    vocabulary: usize,
    context: usize,
    /// The model before it has read anything.
    unread: M,
}

impl<M: Forward + Sync> Foreign<M> {
    /// Wraps a model that has read nothing, with the given vocabulary size and context length. Each text begins with a
    /// copy of it.
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

/// The model after the first `read` tokens of a text.
struct Copy<M> {
    read: usize,
    model: M,
}

struct ForeignSequence<M> {
    model: Arc<Foreign<M>>,
    /// Copies at several points of this text, the latest last. [`Foreign::unread`] comes before all of them.
    copies: Vec<Copy<M>>,
    /// The tokens of the text.
    tokens: Vec<TokenId>,
    held: Held,
    /// The number of copies to keep: copies that are never used waste memory.
    recent: usize,
}

impl<M: Forward + Sync> ForeignSequence<M> {
    /// The latest copy, to continue from.
    fn latest(&self) -> Result<Copy<M>, BoxError> {
        match self.copies.last() {
            Some(copy) => Ok(Copy { read: copy.read, model: copy.model.snapshot()? }),
            None => Ok(Copy { read: 0, model: self.model.unread.fork()? }),
        }
    }

    /// Reads `text`, which begins like this one, from the latest copy to its end. Returns the row of its last token.
    fn read(&self, text: &[TokenId]) -> Result<(Copy<M>, Vec<f32>), BoxError> {
        let Copy { read: held, mut model } = self.latest()?;
        let row = model.forward(&text[held..], held)?;
        if row.len() != self.model.vocabulary {
            return Err(format!("a row of {} logits, not {}", row.len(), self.model.vocabulary).into());
        }
        Ok((Copy { read: text.len(), model }, row))
    }

    /// The rows of a chain of tokens.
    fn chain(&mut self, batch: &Batch<'_>, rows: &mut Vec<f32>) -> Result<(), BoxError> {
        let before = self.tokens.len();
        self.tokens.extend_from_slice(batch.tokens);
        let wanted = before + batch.first_wanted();
        if batch.rows() != 1 {
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

    /// Keeps a copy, and earlier ones as far back as tokens may be taken back: more of them if rows of several tokens
    /// are asked for.
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

    /// Forgets the tokens past the first `length`, and the copies that have read them.
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
        if batch.parents.is_some() || batch.tokens.is_empty() || batch.rows() != 1 {
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
    use crate::language_model::Wanted;
    use verdigris_logits::steps::Steps;
    use verdigris_logits::{Row, Sampler};

    /// A model whose rows depend on all earlier tokens.
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
