//! Speculative decoding: drafted tokens are verified in one model call, and the text has the same law.
//!
//! Drafts are a [tree](crate::tree). The model reads it in one call, and then it is walked from the end of the text:
//! at each node a [rule](crate::rules) says which child stands, if any, or else what is written in their place. What
//! stands is kept in the model's cache.
//!
//! The law that drafts are judged by is the target's in full: all transforms act on the row of every node with the
//! state of the text up to there.

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

/// How many drafts were made and accepted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Acceptance {
    /// Calls of the target model.
    pub calls: usize,
    /// Tokens drafted.
    pub drafted: usize,
    /// Drafts that became part of the text.
    pub accepted: usize,
}

/// More tokens than these that the model has not seen are read in a call of their own before a tree is: each token of a
/// tree is compared with all others of its call.
const BESIDE_A_TREE: usize = 32;

/// A text being written several tokens at a time. As an iterator it ends with the text, or with the first error, which
/// comes after the tokens that were decided before it.
#[doc(alias = "assisted_generation")]
#[doc(alias = "speculative_decoding")]
pub struct Speculative<D, C> {
    target: Target,
    limits: Limits,
    drafter: D,
    chance: C,
    length: Chooser,
    /// The way in which the drafter drafts for this call, and how many tokens it reads before.
    way: usize,
    unread: usize,
    rule: Rule,
    sequence: Box<dyn Sequence>,
    /// How many tokens of the text a drafter that reads what the target computes has been shown.
    shown: usize,
    /// The state of the transforms after `text`.
    state: ChainState,
    text: Vec<TokenId>,
    prompt: usize,
    /// What is not handed over yet: tokens that are decided, and behind them what the text cannot go on for.
    ready: VecDeque<Result<(TokenId, Provenance), DecodeError>>,
    /// How the token came that was handed over last.
    provenance: Provenance,
    acceptance: Acceptance,
    stop: Option<Stop>,
    failed: bool,
    /// When the last drafts were there, and how long they took.
    drafted: Duration,
    drafting: Duration,
    /// The time, from any beginning: what drafting costs decides how much of it is done.
    clock: Box<dyn FnMut() -> Duration + Send>,
    /// How many tokens the model can read.
    size: usize,
    row: Row,
    rows: Rows,
    tree: DraftTree,
    reading: Reading,
    /// The drafts of a call that were decided.
    judged: Vec<Judged>,
    /// The target's law at a node, and space for that of a draft.
    law: Vec<f64>,
    rest: Vec<f64>,
    /// What is done to each row of a call, for a model that draws.
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

    /// Begins a text after `prompt`, whose first tokens a sequence holds, of a model that can read so many tokens.
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

    /// Judges drafts by this rule; by [`Rule::EachToken`] unless told otherwise.
    #[must_use]
    pub fn judged_by(self, rule: Rule) -> Self {
        Self { rule, ..self }
    }

    /// Lets [`DraftLength::Auto`] begin with what earlier texts have taught, and keeps what this one teaches.
    #[must_use]
    pub fn remembering(self, memory: &DraftMemory) -> Self {
        Self { length: self.length.remembering(memory), ..self }
    }

    /// What ended the text; `None` while it goes on.
    pub fn stop(&self) -> Option<Stop> {
        if self.ready.is_empty() { self.stop } else { None }
    }

    /// Ends the text here, for a reason that is not seen in its tokens.
    pub(crate) fn end(&mut self, reason: Stop) {
        // Whatever was to end it behind the tokens that are dropped.
        self.stop = Some(reason);
        self.ready.clear();
    }

    /// Whether nothing more will be written.
    pub(crate) fn is_over(&self) -> bool {
        self.stop.is_some()
    }

    /// A token that is written and not handed over yet, and how it came.
    pub(crate) fn pop(&mut self) -> Option<(TokenId, Provenance)> {
        self.ready.pop_front().and_then(Result::ok)
    }

    /// How the token came that was handed over last.
    pub fn provenance(&self) -> Provenance {
        self.provenance
    }

    /// How drafting went so far.
    pub fn acceptance(&self) -> Acceptance {
        self.acceptance
    }

    /// One call of the target model, or none where a token is decided without: at least one token, unless the text has
    /// ended.
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

    /// Writes what is decided without the model; whether it is to be called then, for the text goes on.
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

    /// How many tokens are still to be written, and how many more may be held, one of which is written from the last. A
    /// sequence with room for more than the text, as forks of others have, makes no difference.
    fn left(&self) -> (usize, usize) {
        let longest = self.prompt.saturating_add(self.limits.max_tokens);
        let room = self.sequence.capacity().min(longest) + 1 - self.text.len();
        (self.limits.max_tokens - (self.text.len() - self.prompt), room)
    }

    /// Drafts, and lays out what the model is to read next: all that it has not, and the drafts.
    pub(crate) fn lay_out(&mut self) -> Result<(), DecodeError> {
        // The last token of a call needs no draft: it comes from the row after the last draft. Near the end of what the
        // sequence has room for, trees get smaller.
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

    /// Lays out the next so many of the tokens that the model has not read, which others follow.
    pub(crate) fn lay_out_part(&mut self, tokens: usize) {
        let held = self.sequence.len();
        self.tree.clear(self.text.len());
        self.reading.lay_out_part(&self.text[held..held + tokens]);
    }

    /// Shows what was computed last, behind so many tokens, to a drafter that reads it. What it has seen before, when
    /// the text had another sequence, is left out.
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

    /// Notes that what [`Speculative::lay_out_part`] has laid out was read.
    pub(crate) fn settle_part(&mut self) -> Result<(), DecodeError> {
        self.show(self.sequence.len() - self.reading.tokens.len())
    }

    /// What the text is made of so far, prompt included.
    pub(crate) fn tokens(&self) -> &[TokenId] {
        &self.text
    }

    /// What the model holds of it.
    pub(crate) fn sequence(&mut self) -> &mut Box<dyn Sequence> {
        &mut self.sequence
    }

    /// What the model is to read, as an item of a number; and, where that is asked for, what it is to draw, if it may
    /// be that it does and the drafts are guesses: the target's own token after the text and after each of the drafts.
    pub(crate) fn item(&mut self, number: usize, ask: bool) -> (BatchItem<'_>, Option<Vec<SampleRequest<'_>>>) {
        let Self { sequence, rows, reading, steps, chance, target, row, .. } = self;
        let is_guessed = self.tree.is_guessed() && self.rule.is_lossless() && !self.drafter.reads_features();
        let size = self.device.row().filter(|_| ask && is_guessed);
        let requests = size.and_then(|size| {
            let count = reading.rows();
            steps.resize_with(count, Steps::default);
            let mut requests = Vec::with_capacity(count);
            // By their row; of a chain the last alone.
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

    /// The model does not draw: it need not be asked again.
    pub(crate) fn stop_device_sampling(&mut self) {
        self.device.off();
    }

    /// Goes on by the drafts that stand and one token more, from the rows of the item or from what was drawn for it.
    /// The time of the call counts from `since`.
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

    /// The time now, as [`Speculative::settle`] counts it.
    pub(crate) fn now(&mut self) -> Duration {
        (self.clock)()
    }

    /// How many tokens the model reads of it, drafts included.
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
        // The cache keeps what stands; the last token's row is computed with the next call.
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
                // The model found no token: its row can say why.
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

    /// The token after a node, from the row in `self.row`, and which of the node's children it is.
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
        // What the model does not have is judged, and rejected; what follows it is not looked at.
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
        // After each draft.
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
        // Coins are told apart by where the call begins, for those past what stands are no longer looked at.
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

    /// Takes the longest path of which every draft is typical, of several the likeliest, and draws one token more.
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

    /// Puts the row after a node, which the text ends with, into `self.row`, with all transforms.
    fn load_row(&mut self, at: Option<usize>) {
        self.row.load(self.rows.row(self.reading.row(at)));
        self.target.transforms.apply(&self.state, &mut self.row);
    }

    /// Draws the token at the end of the text from `self.row`.
    fn draw(&mut self) -> Result<TokenId, DecodeError> {
        let position = self.text.len();
        let token = self.chance.token(self.target.sampler, &self.row, position);
        token.ok_or_else(|| DecodeError::no_token(&self.row, position))
    }

    /// Notes that a draft, whose token has been written, stands.
    fn accept(&mut self, node: usize) {
        self.acceptance.accepted += 1;
        self.reading.path.push(node);
        let place = self.reading.places[node].expect("only what was read is accepted");
        self.reading.kept.push(self.reading.unseen + place);
    }

    /// That a token is a draft of this call.
    fn as_draft(&self) -> Provenance {
        Provenance::Drafted { way: self.way as u8 }
    }

    /// Goes on by the last token of a call, which was chosen from `self.row`.
    fn finish(&mut self, token: TokenId, provenance: Provenance) {
        if self.write(token, provenance) {
            self.target.transforms.advance_from(&mut self.state, &self.row, token);
        }
    }

    /// Writes a token, of which the state is yet to learn; `false` if that is the end.
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

/// That a token comes out of a row of the model, in a place with drafts or without.
fn computed(has_drafts: bool) -> Provenance {
    if has_drafts { Provenance::Corrected } else { Provenance::Computed }
}

/// The child that is a guess at this very token.
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
