//! Speculative decoding: drafted tokens are verified in one model call, without changing the distribution of the text.
//!
//! Drafts form a [tree](crate::tree). The model reads it in one call, and it is then walked from the end of the text:
//! at each node a [rule](crate::rules) accepts at most one child, or else determines the token that replaces them.
//! Accepted drafts are kept in the model's cache.
//!
//! Drafts are judged by the full distribution of the target: all transforms are applied to the row of every node, with
//! the state of the text up to it.

mod reading;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use verdigris_logits::transform::ChainState;
use verdigris_logits::{Row, Steps, TokenId, Transform};
use verdigris_models::{BatchItem, LanguageModel, Rows, SampleRequest, Sequence};

use crate::chance::Chance;
use crate::device_sampling::DeviceSampling;
use crate::draft_length::{Call, Chooser, DraftLength, DraftMemory, Judged, Place};
use crate::drafter::Drafter;
use crate::law;
use crate::limits::{Limits, Stop};
use crate::rules::block::{self, Drawn};
use crate::rules::typical::Typical;
use crate::rules::{Rule, siblings};
use crate::speculative::reading::Reading;
use crate::target::{DecodeError, Target};
use crate::tree::{DraftTree, Origin};
use crate::writing::Provenance;

/// The numbers of drafts made and accepted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Acceptance {
    /// Calls of the target model.
    pub calls: usize,
    /// Tokens drafted.
    pub drafted: usize,
    /// Drafts that became part of the text.
    pub accepted: usize,
}

/// The number of unread tokens above which they are read in a separate call before a tree, since each token of a tree
/// is compared with all others of its call.
const BESIDE_A_TREE: usize = 32;

/// A text being written several tokens at a time. The iterator ends with the text, or with the first error, which comes
/// after the tokens decided before it.
#[doc(alias = "assisted_generation")]
#[doc(alias = "speculative_decoding")]
pub struct Speculative<D, C> {
    target: Target,
    limits: Limits,
    drafter: D,
    chance: C,
    length: Chooser,
    /// The way of drafting for this call, and the number of tokens that the drafter reads first.
    way: usize,
    unread: usize,
    rule: Rule,
    sequence: Box<dyn Sequence>,
    /// The number of tokens of the text passed to a drafter that uses the target's computations.
    shown: usize,
    /// The state of the transforms after `text`.
    state: ChainState,
    text: Vec<TokenId>,
    prompt: usize,
    /// Results not handed over yet: decided tokens, and after them the error that prevents the text from continuing.
    ready: VecDeque<Result<(TokenId, Provenance), DecodeError>>,
    /// The provenance of the token handed over last.
    provenance: Provenance,
    acceptance: Acceptance,
    stop: Option<Stop>,
    failed: bool,
    /// The time at which the last drafts were ready, and the time that they took.
    drafted: Duration,
    drafting: Duration,
    /// The time since an arbitrary start. The cost of drafting determines the number of drafts.
    clock: Box<dyn FnMut() -> Duration + Send>,
    /// The size of the model's vocabulary.
    size: usize,
    row: Row,
    rows: Rows,
    tree: DraftTree,
    reading: Reading,
    /// The judged drafts of a call.
    judged: Vec<Judged>,
    /// The target's distribution at a node, and scratch space for that of a draft.
    law: Vec<f64>,
    rest: Vec<f64>,
    /// The transforms of each row of a call, for a model that samples.
    steps: Vec<Steps>,
    device: DeviceSampling,
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
        let begun = Instant::now();
        let rows = if drafter.reads_features() { Rows::with_hidden() } else { Rows::default() };
        Self {
            target: target.clone(),
            limits,
            length: Chooser::new(length, drafter.most_children()),
            way: 0,
            unread: 0,
            drafter,
            chance,
            rule: Rule::default(),
            sequence,
            shown: 0,
            state: target.transforms.start(prompt),
            text: prompt.to_vec(),
            prompt: prompt.len(),
            ready: VecDeque::new(),
            provenance: Provenance::default(),
            acceptance: Acceptance::default(),
            stop: None,
            failed: false,
            drafted: Duration::ZERO,
            drafting: Duration::ZERO,
            clock: Box::new(move || begun.elapsed()),
            size,
            row: Row::default(),
            rows,
            tree: DraftTree::default(),
            reading: Reading::default(),
            judged: Vec::new(),
            law: Vec::new(),
            rest: Vec::new(),
            steps: Vec::new(),
            device: DeviceSampling::untried(size),
        }
    }

    /// Sets the rule that judges drafts; [`Rule::EachToken`] by default.
    #[must_use]
    pub fn judged_by(self, rule: Rule) -> Self {
        Self { rule, ..self }
    }

    /// Lets [`DraftLength::Auto`] start from the measurements of earlier texts, and saves those of this one.
    #[must_use]
    pub fn remembering(self, memory: &DraftMemory) -> Self {
        Self { length: self.length.remembering(memory), ..self }
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
        self.provenance
    }

    /// The acceptance of drafts so far.
    pub fn acceptance(&self) -> Acceptance {
        self.acceptance
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
            let (BatchItem { sequence, batch, rows }, _) = self.item(0, false);
            sequence.forward(&batch, rows)?;
        }
        self.settle(sampled, self.drafted)
    }

    /// Writes tokens that are decided without the model. Returns whether the text continues with a call.
    pub(crate) fn write_decided(&mut self) -> bool {
        loop {
            let (left, room) = self.left();
            if left == 0 || room == 0 {
                self.stop.get_or_insert(if left == 0 { Stop::Length } else { Stop::Context });
                return false;
            }
            let Some(token) = self.target.decided(&self.state, &mut self.row) else { return true };
            if !self.write(token, Provenance::Decided) {
                return false;
            }
            self.target.transforms.advance(&mut self.state, token);
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
        let (way, shape) = self.length.choose(self.drafter.ways(&self.text), Place { left, unread });
        let shape = shape.within(room - 1, left - 1);
        (self.way, self.unread) = (way, unread[way]);
        let begun = (self.clock)();
        self.tree.clear(self.text.len());
        if !shape.is_empty() {
            self.drafter.draft(self.way, &self.text, &self.state, &shape, &mut self.chance, &mut self.tree)?;
        }
        self.drafted = (self.clock)();
        self.drafting = self.drafted.saturating_sub(begun);
        let held = self.sequence.len();
        self.reading.lay_out(&self.text[held..], &self.tree, self.size);
        if !self.reading.is_chain && self.reading.unseen > BESIDE_A_TREE {
            self.reading.lay_out_part(&self.text[held..self.text.len() - 1]);
            self.sequence.forward(&self.reading.batch(), &mut self.rows)?;
            self.show(held)?;
            self.reading.lay_out(&self.text[self.text.len() - 1..], &self.tree, self.size);
            self.reading.is_second = true;
        }
        Ok(())
    }

    /// Lays out the next `tokens` unread tokens, which are followed by others.
    pub(crate) fn lay_out_part(&mut self, tokens: usize) {
        let held = self.sequence.len();
        self.tree.clear(self.text.len());
        self.reading.lay_out_part(&self.text[held..held + tokens]);
    }

    /// Passes the latest results of the model, computed after `held` tokens, to a drafter that uses them. Results that
    /// it has seen before, when the text had another sequence, are left out.
    fn show(&mut self, held: usize) -> Result<(), DecodeError> {
        if !self.drafter.reads_features() {
            return Ok(());
        }
        let Reading { tokens, kept, .. } = &self.reading;
        let seen = self.shown.saturating_sub(held).min(kept.len());
        self.drafter.observe(tokens, &self.rows, &kept[seen..])?;
        self.shown = self.shown.max(held + kept.len());
        Ok(())
    }

    /// Records that the tokens laid out by [`Speculative::lay_out_part`] were read.
    pub(crate) fn settle_part(&mut self) -> Result<(), DecodeError> {
        self.show(self.sequence.len() - self.reading.tokens.len())
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
        let Self { sequence, rows, reading, steps, chance, target, row, .. } = self;
        let is_guessed = self.tree.is_guessed() && self.rule.is_lossless() && !self.drafter.reads_features();
        let size = self.device.row().filter(|_| ask && is_guessed);
        let requests = size.and_then(|size| {
            let count = reading.rows();
            steps.resize_with(count, Steps::default);
            let mut requests = Vec::with_capacity(count);
            // The states by row, or only the last one for a chain.
            let mut states = vec![(self.state.clone(), 0)];
            for (i, steps) in steps.iter_mut().enumerate() {
                if i > 0 {
                    let at = reading.unseen - 1 + i;
                    let (mut state, depth) = match reading.is_chain {
                        true => states.pop().expect("one state"),
                        false => {
                            let parent = reading.parents[at].expect("a draft follows the text");
                            states[parent + 1 - reading.unseen].clone()
                        }
                    };
                    target.transforms.advance(&mut state, reading.tokens[at]);
                    states.push((state, depth + 1));
                }
                let (state, depth) = states.last().expect("one state");
                let chosen_by = chance.number(self.text.len() + depth)?;
                if !target.record(state, row, size, steps) {
                    return None;
                }
                let sampler = target.sampler;
                requests.push(SampleRequest { item: number, row: i, steps, sampler, number: chosen_by, token: None });
            }
            Some(requests)
        });
        (BatchItem { sequence: &mut **sequence, batch: reading.batch(), rows }, requests)
    }

    /// Records that the model does not sample, so that it is not asked again.
    pub(crate) fn stop_device_sampling(&mut self) {
        self.device.off();
    }

    /// Continues with the accepted drafts and one more token, from the rows of the item or from the sampled tokens. The
    /// time of the call is measured from `since`.
    pub(crate) fn settle(&mut self, sampled: Option<Vec<Option<TokenId>>>, since: Duration) -> Result<(), DecodeError> {
        self.judge(sampled)?;
        self.judged.clear();
        let mut at = None;
        loop {
            let stands = self.reading.path.get(at.map_or(0, |at: usize| self.tree.nodes()[at].depth)).copied();
            for (rank, (child, node)) in self.tree.children(at).enumerate() {
                self.judged.push(Judged { above: node.depth - 1, rank, stood: stands == Some(child) });
            }
            let Some(child) = stands else { break };
            at = Some(child);
        }
        let call = Call {
            read: self.reading.rows() - 1,
            is_usual: self.reading.unseen == 1 && !self.reading.is_second,
            depth: self.tree.depth(),
            unread: self.unread,
            judged: &self.judged,
            drafting: self.drafting,
            verifying: (self.clock)().saturating_sub(since),
        };
        self.length.observe(self.way, call);
        Ok(())
    }

    /// The current time, on the clock of [`Speculative::settle`].
    pub(crate) fn now(&mut self) -> Duration {
        (self.clock)()
    }

    /// The number of tokens in the model's batch, drafts included.
    pub(crate) fn reads(&self) -> usize {
        self.reading.tokens.len()
    }

    fn judge(&mut self, mut sampled: Option<Vec<Option<TokenId>>>) -> Result<(), DecodeError> {
        let held = self.sequence.len() - self.reading.tokens.len();
        self.acceptance.calls += 1;
        self.acceptance.drafted += self.tree.len();
        self.reading.path.clear();
        self.reading.kept.clear();
        self.reading.kept.extend(0..self.reading.unseen);
        let tree = std::mem::take(&mut self.tree);
        let judged = match self.rule {
            Rule::Typical(typical) => self.judge_typical(&tree, typical),
            Rule::Block if tree.is_chain() && !tree.is_guessed() => self.judge_block(&tree),
            Rule::EachToken | Rule::Block => self.judge_each(&tree, held, &mut sampled),
        };
        self.tree = tree;
        // Keep accepted tokens in the cache. The row of the last token is computed with the next call.
        if !self.reading.is_chain {
            let path: &[usize] = &self.reading.kept;
            self.sequence.keep(held, path)?;
        }
        self.sequence.truncate((self.text.len() - 1).min(self.sequence.len()));
        judged?;
        self.show(held)
    }

    /// Walks the tree token by token.
    fn judge_each(
        &mut self,
        tree: &DraftTree,
        held: usize,
        sampled: &mut Option<Vec<Option<TokenId>>>,
    ) -> Result<(), DecodeError> {
        let mut at = None;
        loop {
            let row = self.reading.row(at);
            if sampled.as_ref().is_some_and(|tokens| tokens[row].is_none()) {
                // The model found no token: the row shows why.
                *sampled = None;
                self.sequence.truncate(held);
                self.sequence.forward(&self.reading.batch(), &mut self.rows)?;
            }
            let drawn = sampled.as_ref().and_then(|tokens| tokens[row]);
            let (token, child) = match drawn {
                Some(token) => (token, matching(tree, at, token)),
                None => {
                    self.load_row(at);
                    self.decide(tree, at)?
                }
            };
            let provenance = match child {
                Some(_) => self.as_draft(),
                None => computed(tree.children(at).next().is_some()),
            };
            if !self.write(token, provenance) {
                return Ok(());
            }
            match drawn {
                Some(_) => self.target.transforms.advance(&mut self.state, token),
                None => self.target.transforms.advance_from(&mut self.state, &self.row, token),
            }
            let Some(child) = child else { return Ok(()) };
            self.accept(child);
            at = Some(child);
        }
    }

    /// Chooses the token after a node, from the row in `self.row`. Also returns the child of the node that it is, if
    /// any.
    fn decide(&mut self, tree: &DraftTree, at: Option<usize>) -> Result<(TokenId, Option<usize>), DecodeError> {
        let position = self.text.len();
        if tree.children(at).all(|(_, node)| node.origin == Origin::Guess) {
            let token = self.draw()?;
            return Ok((token, matching(tree, at, token)));
        }
        self.target.sampler.distribution_into(&self.row, &mut self.law);
        if law::is_dead(&self.law) {
            return Err(DecodeError::no_token(&self.row, position));
        }
        let (chance, rest) = (&mut self.chance, &mut self.rest);
        let accept = |probability, which| chance.accept(probability, position, which);
        Ok(match siblings::judge(&mut self.law, tree, at, rest, accept) {
            Some(child) => (tree.nodes()[child].token, Some(child)),
            None => (self.chance.residual(&self.law, position), None),
        })
    }

    /// Judges a chain as a whole.
    fn judge_block(&mut self, tree: &DraftTree) -> Result<(), DecodeError> {
        // A token outside the model's vocabulary is judged and rejected, and its descendants are ignored.
        let readable = self.reading.places.iter().take_while(|place| place.is_some()).count();
        let drafts: Vec<Drawn<'_>> = tree.nodes()[..tree.len().min(readable + 1)]
            .iter()
            .map(|node| match node.origin {
                Origin::Guess => Drawn { token: node.token, law: None },
                Origin::Drawn(law) | Origin::DrawnWithout(law) => {
                    Drawn { token: node.token, law: Some(tree.law_of(law)) }
                }
            })
            .collect();
        let mut state = self.state.clone();
        // The states after each draft.
        let mut states = Vec::with_capacity(drafts.len());
        let mut laws = Vec::with_capacity(drafts.len() + 1);
        for i in 0..=drafts.len() {
            if i > readable {
                laws.push(Vec::new());
                break;
            }
            self.row.load(self.rows.row(self.reading.row(i.checked_sub(1))));
            self.target.transforms.apply(&state, &mut self.row);
            laws.push(self.target.sampler.distribution(&self.row));
            if let Some(draft) = drafts.get(i) {
                self.target.transforms.advance_from(&mut state, &self.row, draft.token);
                states.push(state.clone());
            }
        }
        let prefixes = block::prefixes(&laws, &drafts);
        let begun = self.text.len();
        // The position at which the call begins distinguishes coins, since coins after the accepted drafts are not used
        // again.
        let standing = (0..drafts.len()).rev().find(|&i| self.chance.accept(prefixes[i].stands, begun, i));
        let standing = standing.map_or(0, |last| last + 1);
        for (node, (draft, state)) in drafts[..standing].iter().zip(states).enumerate() {
            if !self.write(draft.token, self.as_draft()) {
                return Ok(());
            }
            self.state = state;
            self.accept(node);
        }
        let (law, position) = (&mut laws[standing], self.text.len());
        if standing < drafts.len() {
            self.load_row(standing.checked_sub(1));
        }
        let token = if law::is_dead(law) {
            return Err(DecodeError::no_token(&self.row, position));
        } else if let Some(next) = drafts.get(standing) {
            let weight = standing.checked_sub(1).map_or(1.0, |last| prefixes[last].weight);
            block::residual(law, next, weight);
            self.chance.residual(law, position)
        } else {
            self.draw()?
        };
        self.finish(token, computed(standing < drafts.len()));
        Ok(())
    }

    /// Accepts the longest path on which every draft is typical, the likeliest of several, and samples one more token.
    fn judge_typical(&mut self, tree: &DraftTree, typical: Typical) -> Result<(), DecodeError> {
        let mut best = (0, 0.0, None, self.state.clone());
        let mut open = vec![(None, self.state.clone(), 0.0)];
        while let Some((at, state, score)) = open.pop() {
            let depth = at.map_or(0, |at: usize| tree.nodes()[at].depth);
            if (depth, score) > (best.0, best.1) || at.is_none() {
                best = (depth, score, at, state.clone());
            }
            if tree.children(at).next().is_none() {
                continue;
            }
            self.row.load(self.rows.row(self.reading.row(at)));
            self.target.transforms.apply(&state, &mut self.row);
            self.target.sampler.distribution_into(&self.row, &mut self.law);
            let threshold = typical.threshold(&self.law);
            for (child, node) in tree.children(at) {
                let p = self.law.get(node.token as usize).copied().unwrap_or(0.0);
                if p > threshold {
                    let mut state = state.clone();
                    self.target.transforms.advance_from(&mut state, &self.row, node.token);
                    open.push((Some(child), state, score + p.ln()));
                }
            }
        }
        let (_, _, end, state) = best;
        let mut path: Vec<usize> = std::iter::successors(end, |&node| tree.nodes()[node].parent).collect();
        path.reverse();
        for &node in &path {
            if !self.write(tree.nodes()[node].token, self.as_draft()) {
                return Ok(());
            }
            self.accept(node);
        }
        self.state = state;
        self.load_row(end);
        let token = self.draw()?;
        self.finish(token, computed(tree.children(end).next().is_some()));
        Ok(())
    }

    /// Loads the row after a node at the end of the text into `self.row`, and applies all transforms.
    fn load_row(&mut self, at: Option<usize>) {
        self.row.load(self.rows.row(self.reading.row(at)));
        self.target.transforms.apply(&self.state, &mut self.row);
    }

    /// Samples the token at the end of the text from `self.row`.
    fn draw(&mut self) -> Result<TokenId, DecodeError> {
        let position = self.text.len();
        let token = self.chance.token(self.target.sampler, &self.row, position);
        token.ok_or_else(|| DecodeError::no_token(&self.row, position))
    }

    /// Records that a draft is accepted, after its token was written.
    fn accept(&mut self, node: usize) {
        self.acceptance.accepted += 1;
        self.reading.path.push(node);
        let place = self.reading.places[node].expect("only what was read is accepted");
        self.reading.kept.push(self.reading.unseen + place);
    }

    /// The provenance of a draft of this call.
    fn as_draft(&self) -> Provenance {
        Provenance::Drafted { way: self.way as u8 }
    }

    /// Appends the last token of a call, which was chosen from `self.row`.
    fn finish(&mut self, token: TokenId, provenance: Provenance) {
        if self.write(token, provenance) {
            self.target.transforms.advance_from(&mut self.state, &self.row, token);
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

/// The provenance of a token from a row of the model, at a position with or without drafts.
fn computed(has_drafts: bool) -> Provenance {
    if has_drafts { Provenance::Corrected } else { Provenance::Computed }
}

/// The child with this token.
fn matching(tree: &DraftTree, at: Option<usize>, token: TokenId) -> Option<usize> {
    tree.children(at).find(|(_, node)| node.token == token).map(|(child, _)| child)
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
        self.provenance = provenance;
        Some(Ok(token))
    }
}

#[cfg(test)]
mod tests;
