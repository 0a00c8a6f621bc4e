//! Speculative decoding: drafted tokens are verified in one model call, without changing the distribution of the text.
//!
//! Drafts form a [tree](crate::tree). The model reads it in one call, and it is then walked from the end of the text:
//! at each node a [rule](crate::rules) accepts at most one child, or else determines the token that replaces them.
//! Accepted drafts are kept in the model's cache.
//!
//! Drafts are judged by the full distribution of the target: all transforms are applied to the row of every node, with
//! the state of the text up to it.

mod bookkeeping;
mod layout;
mod reading;
mod verification;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use verdigris_logits::TokenId;
use verdigris_models::{BatchItem, LanguageModel, Rows, SampleRequest, Sequence};

use crate::chance::Chance;
use crate::draft_length::{DraftLength, DraftMemory, Place};
use crate::drafter::Drafter;
use crate::limits::{Limits, Stop};
use crate::provenance::Provenance;
use crate::rules::Rule;
use crate::rules::typical::Typical;
use crate::speculative::bookkeeping::{Bookkeeping, computed};
use crate::speculative::layout::Layout;
use crate::speculative::verification::Verification;
use crate::target::{DecodeError, Target};

pub use bookkeeping::Acceptance;

/// A text being written several tokens at a time. The iterator ends with the text, or with the first error, which comes
/// after the tokens decided before it.
#[doc(alias = "assisted_generation")]
#[doc(alias = "speculative_decoding")]
pub struct Speculative<D, C> {
    limits: Limits,
    drafter: D,
    sequence: Box<dyn Sequence>,
    /// The number of tokens of the text passed to a drafter that uses the target's computations.
    shown: usize,
    text: Vec<TokenId>,
    prompt: usize,
    /// Results not handed over yet: decided tokens, and after them the error that prevents the text from continuing.
    ready: VecDeque<Result<(TokenId, Provenance), DecodeError>>,
    stop: Option<Stop>,
    failed: bool,
    layout: Layout,
    verification: Verification<C>,
    bookkeeping: Bookkeeping,
}

impl<D: Drafter, C: Chance> Speculative<D, C> {
    /// Begins a text after `prompt`, with drafts of at most `length` tokens a call.
    ///
    /// # Errors
    /// [`DecodeError::EmptyPrompt`], and the model's error if the prompt does not fit into its context.
    pub fn new(
        model: Arc<dyn LanguageModel>,
        target: &Target,
        prompt: &[TokenId],
        limits: Limits,
        drafter: D,
        length: DraftLength,
        chance: C,
    ) -> Result<Self, DecodeError> {
        let size = model.vocabulary_size();
        let sequence = limits.begin(model, prompt)?;
        Ok(Self::after(target, prompt, limits, sequence, size, drafter, length, chance))
    }

    /// Begins a text after `prompt`, with a sequence that holds its first tokens, for a model with a vocabulary of
    /// `size` tokens.
    #[expect(clippy::too_many_arguments, reason = "all that a text is made of")]
    pub(crate) fn after(
        target: &Target,
        prompt: &[TokenId],
        limits: Limits,
        sequence: Box<dyn Sequence>,
        size: usize,
        drafter: D,
        length: DraftLength,
        chance: C,
    ) -> Self {
        let rows = match (drafter.reads_features(), drafter.layers()) {
            (true, []) => Rows::with_hidden(),
            (true, layers) => Rows::with_layers(layers),
            (false, _) => Rows::default(),
        };
        Self {
            limits,
            sequence,
            shown: 0,
            text: prompt.to_vec(),
            prompt: prompt.len(),
            ready: VecDeque::new(),
            stop: None,
            failed: false,
            layout: Layout::new(size, rows),
            verification: Verification::new(target, prompt, chance, size),
            bookkeeping: Bookkeeping::new(length, drafter.most_children()),
            drafter,
        }
    }

    /// Sets the rule that judges drafts; [`Rule::EachToken`] by default.
    #[must_use]
    pub fn judged_by(mut self, rule: Rule) -> Self {
        self.verification.rule = rule;
        self
    }

    /// Lets [`DraftLength::Auto`] start from the measurements of earlier texts, and saves those of this one.
    #[must_use]
    pub fn remembering(self, memory: &DraftMemory) -> Self {
        Self { bookkeeping: self.bookkeeping.remembering(memory), ..self }
    }

    /// The reason that the text ended, or `None` while it continues.
    pub fn stop(&self) -> Option<Stop> {
        if self.ready.is_empty() { self.stop } else { None }
    }

    /// Ends the text here, for a reason that its tokens do not show.
    pub(crate) fn end(&mut self, reason: Stop) {
        // This replaces any reason that comes after the dropped tokens.
        self.stop = Some(reason);
        self.ready.clear();
    }

    /// Whether the text is complete.
    pub(crate) fn is_over(&self) -> bool {
        self.stop.is_some()
    }

    /// Removes and returns a token that is written and not handed over yet, with its provenance.
    pub(crate) fn pop(&mut self) -> Option<(TokenId, Provenance)> {
        self.ready.pop_front().and_then(Result::ok)
    }

    /// The provenance of the token handed over last.
    pub fn provenance(&self) -> Provenance {
        self.bookkeeping.provenance
    }

    /// The acceptance of drafts so far.
    pub fn acceptance(&self) -> Acceptance {
        self.bookkeeping.acceptance
    }

    /// Writes at least one token, unless the text has ended, with one call of the target model or, if a token is
    /// decided without it, none.
    fn step(&mut self) -> Result<(), DecodeError> {
        if !self.write_decided() {
            return Ok(());
        }
        self.lay_out()?;
        let mut sampled = None;
        let (item, requests) = self.item(0, true);
        if let Some(mut requests) = requests {
            if item.sequence.draw(&item.batch, &mut requests)? {
                sampled = Some(requests.into_iter().map(|request| request.token).collect());
            } else {
                self.stop_device_sampling();
            }
        }
        if sampled.is_none() {
            self.layout.forward(&mut *self.sequence)?;
        }
        self.settle(sampled, self.bookkeeping.drafted)
    }

    /// Writes tokens that are decided without the model. Returns whether the text continues with a call.
    pub(crate) fn write_decided(&mut self) -> bool {
        loop {
            let (left, room) = self.left();
            if left == 0 || room == 0 {
                self.stop.get_or_insert(if left == 0 { Stop::Length } else { Stop::Context });
                return false;
            }
            let Some(token) = self.verification.decided() else { return true };
            if !self.write(token, Provenance::Decided) {
                return false;
            }
            self.verification.advance(token);
        }
    }

    /// The number of tokens still to be written, and the number of further tokens that fit, including one written from
    /// the last row. Sequences with room for more than the text, such as forks of others, make no difference.
    fn left(&self) -> (usize, usize) {
        let longest = self.prompt.saturating_add(self.limits.max_tokens);
        let room = self.sequence.capacity().min(longest) + 1 - self.text.len();
        (self.limits.max_tokens - (self.text.len() - self.prompt), room)
    }

    /// Drafts, and lays out all unread tokens and the drafts as the model's next batch.
    pub(crate) fn lay_out(&mut self) -> Result<(), DecodeError> {
        // The last token of a call needs no draft: it comes from the row after the last draft. Trees get smaller near
        // the end of the sequence's capacity.
        let (left, room) = self.left();
        let unread = std::array::from_fn(|way| self.drafter.unread(way, &self.text));
        let shape = self.bookkeeping.choose(self.drafter.ways(&self.text), Place { left, unread });
        let shape = shape.within(room - 1, left - 1);
        let begun = self.bookkeeping.now();
        self.layout.tree.clear(self.text.len());
        if !shape.is_empty() {
            let (state, chance) = (&self.verification.state, &mut self.verification.chance);
            self.drafter.draft(self.bookkeeping.way, &self.text, state, &shape, chance, &mut self.layout.tree)?;
        }
        self.bookkeeping.end_drafting(begun);
        let held = self.sequence.len();
        self.layout.lay_out(&self.text[held..]);
        if self.layout.is_too_long() {
            self.layout.reading.lay_out_part(&self.text[held..self.text.len() - 1]);
            self.layout.forward(&mut *self.sequence)?;
            self.show(held)?;
            self.layout.lay_out(&self.text[self.text.len() - 1..]);
            self.layout.reading.is_second = true;
        }
        Ok(())
    }

    /// Lays out the next `tokens` unread tokens, which are followed by others.
    pub(crate) fn lay_out_part(&mut self, tokens: usize) {
        let held = self.sequence.len();
        self.layout.tree.clear(self.text.len());
        self.layout.reading.lay_out_part(&self.text[held..held + tokens]);
    }

    /// Passes the latest results of the model, computed after `held` tokens, to a drafter that uses them. Results that
    /// it has seen before, when the text had another sequence, are left out.
    fn show(&mut self, held: usize) -> Result<(), DecodeError> {
        if !self.drafter.reads_features() {
            return Ok(());
        }
        let Layout { reading, rows, .. } = &self.layout;
        let seen = self.shown.saturating_sub(held).min(reading.kept.len());
        self.drafter.observe(&reading.tokens, rows, &reading.kept[seen..])?;
        self.shown = self.shown.max(held + reading.kept.len());
        Ok(())
    }

    /// Records that the tokens laid out by [`Speculative::lay_out_part`] were read.
    pub(crate) fn settle_part(&mut self) -> Result<(), DecodeError> {
        self.show(self.sequence.len() - self.layout.reading.tokens.len())
    }

    /// The text so far, prompt included.
    pub(crate) fn tokens(&self) -> &[TokenId] {
        &self.text
    }

    /// The model's sequence.
    pub(crate) fn sequence(&mut self) -> &mut Box<dyn Sequence> {
        &mut self.sequence
    }

    /// The batch for the model, as the item with index `number`. If `ask` is set, the model may sample, and the drafts
    /// are guesses, also requests to sample the target's token after the text and after each draft.
    pub(crate) fn item(&mut self, number: usize, ask: bool) -> (BatchItem<'_>, Option<Vec<SampleRequest<'_>>>) {
        let Self { sequence, layout, verification, drafter, text, .. } = self;
        let ask = ask && layout.tree.is_guessed() && !drafter.reads_features();
        let Layout { reading, rows, .. } = layout;
        let requests = if ask { verification.requests(number, reading, text.len()) } else { None };
        (BatchItem { sequence: &mut **sequence, batch: reading.batch(), rows }, requests)
    }

    /// Records that the model does not sample, so that it is not asked again.
    pub(crate) fn stop_device_sampling(&mut self) {
        self.verification.stop_device_sampling();
    }

    /// Continues with the accepted drafts and one more token, from the rows of the item or from the sampled tokens. The
    /// time of the call is measured from `since`.
    pub(crate) fn settle(&mut self, sampled: Option<Vec<Option<TokenId>>>, since: Duration) -> Result<(), DecodeError> {
        self.judge(sampled)?;
        self.bookkeeping.end_call(&self.layout, since);
        Ok(())
    }

    /// The current time, on the clock of [`Speculative::settle`].
    pub(crate) fn now(&mut self) -> Duration {
        self.bookkeeping.now()
    }

    /// The number of tokens in the model's batch, drafts included.
    pub(crate) fn reads(&self) -> usize {
        self.layout.reading.tokens.len()
    }

    fn judge(&mut self, mut sampled: Option<Vec<Option<TokenId>>>) -> Result<(), DecodeError> {
        let held = self.sequence.len() - self.layout.reading.tokens.len();
        let tree = &self.layout.tree;
        self.bookkeeping.count_call(tree.len());
        self.layout.reading.keep_unseen();
        let judged = match self.verification.rule {
            Rule::Typical(typical) => self.judge_typical(typical),
            Rule::Block if tree.is_chain() && !tree.is_guessed() => self.judge_block(),
            Rule::EachToken | Rule::Block => self.judge_each(held, &mut sampled),
        };
        // Keep accepted tokens in the cache. The row of the last token is computed with the next call.
        if !self.layout.reading.is_chain {
            let path: &[usize] = &self.layout.reading.kept;
            self.sequence.keep(held, path)?;
        }
        self.sequence.truncate((self.text.len() - 1).min(self.sequence.len()));
        judged?;
        self.show(held)
    }

    /// Walks the tree token by token.
    fn judge_each(&mut self, held: usize, sampled: &mut Option<Vec<Option<TokenId>>>) -> Result<(), DecodeError> {
        let mut at = None;
        loop {
            let row = self.layout.reading.row(at);
            if sampled.as_ref().is_some_and(|tokens| tokens[row].is_none()) {
                // The model found no token: the row shows why.
                *sampled = None;
                self.sequence.truncate(held);
                self.layout.forward(&mut *self.sequence)?;
            }
            let drawn = sampled.as_ref().and_then(|tokens| tokens[row]);
            let (token, child) = match drawn {
                Some(token) => (token, self.layout.child(at, token)),
                None => self.verification.decide(&self.layout, at, self.text.len())?,
            };
            let provenance = match child {
                Some(_) => self.bookkeeping.as_draft(),
                None => computed(self.layout.has_drafts(at)),
            };
            if !self.write(token, provenance) {
                return Ok(());
            }
            match drawn {
                Some(_) => self.verification.advance(token),
                None => self.verification.advance_from(token),
            }
            let Some(child) = child else { return Ok(()) };
            self.accept(child);
            at = Some(child);
        }
    }

    /// Judges a chain as a whole.
    fn judge_block(&mut self) -> Result<(), DecodeError> {
        let mut block = self.verification.judge_block(&self.layout, self.text.len());
        for (node, state) in std::mem::take(&mut block.states).into_iter().enumerate() {
            if !self.write(self.layout.tree.nodes()[node].token, self.bookkeeping.as_draft()) {
                return Ok(());
            }
            self.verification.state = state;
            self.accept(node);
        }
        let has_drafts = block.rejected.is_some();
        let token = self.verification.follow(&self.layout, block, self.text.len())?;
        self.finish(token, computed(has_drafts));
        Ok(())
    }

    /// Accepts the longest path on which every draft is typical, the likeliest of several, and samples one more token.
    fn judge_typical(&mut self, typical: Typical) -> Result<(), DecodeError> {
        let (path, state) = self.verification.typical_path(&self.layout, typical);
        for &node in &path {
            if !self.write(self.layout.tree.nodes()[node].token, self.bookkeeping.as_draft()) {
                return Ok(());
            }
            self.accept(node);
        }
        self.verification.state = state;
        let end = path.last().copied();
        self.verification.load_row(&self.layout, end);
        let token = self.verification.draw(self.text.len())?;
        self.finish(token, computed(self.layout.has_drafts(end)));
        Ok(())
    }

    /// Records that a draft is accepted, after its token was written.
    fn accept(&mut self, node: usize) {
        self.bookkeeping.acceptance.accepted += 1;
        self.layout.reading.accept(node);
    }

    /// Appends the last token of a call, which was chosen from the row that is loaded.
    fn finish(&mut self, token: TokenId, provenance: Provenance) {
        if self.write(token, provenance) {
            self.verification.advance_from(token);
        }
    }

    /// Writes a token, without advancing the state. Returns `false` if it ends the text.
    fn write(&mut self, token: TokenId, provenance: Provenance) -> bool {
        if self.limits.end.contains(&token) {
            self.stop = Some(Stop::End);
            return false;
        }
        self.text.push(token);
        self.ready.push_back(Ok((token, provenance)));
        true
    }
}

impl<D: Drafter, C: Chance> Iterator for Speculative<D, C> {
    type Item = Result<TokenId, DecodeError>;
    fn next(&mut self) -> Option<Self::Item> {
        if self.ready.is_empty()
            && self.stop.is_none()
            && !self.failed
            && let Err(error) = self.step()
        {
            self.failed = true;
            self.ready.push_back(Err(error));
        }
        let (token, provenance) = match self.ready.pop_front()? {
            Ok(token) => token,
            Err(error) => return Some(Err(error)),
        };
        self.bookkeeping.provenance = provenance;
        Some(Ok(token))
    }
}

#[cfg(test)]
mod tests;
