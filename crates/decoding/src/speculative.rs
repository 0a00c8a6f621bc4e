//! Speculative decoding: drafted tokens are verified in one model call, and the text has the same law.
//!
//! Drafts are a [tree](crate::tree). The model reads it in one call, and then it is walked from the end of the text:
//! at each node a [rule](crate::rules) says which child stands, if any, or else what is written in their place. What
//! stands is kept in the model's cache.
//!
//! The law that drafts are judged by is the target's in full: all transforms act on the row of every node with the
//! state of the text up to there.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use verdigris_logits::transform::ChainState;
use verdigris_logits::{Row, Steps, TokenId, Transform};
use verdigris_models::{Batch, LanguageModel, Rows, SampleRequest, Sequence, Wanted};

use crate::chance::Chance;
use crate::device_sampling::DeviceSampling;
use crate::draft_length::{Call, Chooser, DraftLength, Judged};
use crate::drafter::Drafter;
use crate::limits::{Limits, Stop};
use crate::rules::block::{self, Drawn};
use crate::rules::typical::Typical;
use crate::rules::{Rule, siblings};
use crate::target::{DecodeError, Target};
use crate::tree::{DraftTree, Origin};

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
pub struct Speculative<'a, D, C> {
    target: &'a Target,
    limits: Limits,
    drafter: D,
    chance: C,
    length: Chooser,
    rule: Rule,
    sequence: Box<dyn Sequence>,
    /// The state of the transforms after `text`.
    state: ChainState,
    text: Vec<TokenId>,
    prompt: usize,
    /// What is not handed over yet: tokens that are decided, and behind them what the text cannot go on for.
    ready: VecDeque<Result<TokenId, DecodeError>>,
    acceptance: Acceptance,
    stop: Option<Stop>,
    failed: bool,
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

/// What the model reads in a call: the tokens that it has not seen, and behind them the drafts, each in a place of its
/// own. Siblings with one token share a place.
#[derive(Default)]
struct Reading {
    tokens: Vec<TokenId>,
    /// Of all tokens, as of a tree.
    parents: Vec<Option<usize>>,
    /// How many of the tokens are no drafts.
    unseen: usize,
    is_chain: bool,
    /// Whether other tokens were read before, in a call of their own.
    is_second: bool,
    /// The place of each node behind the tokens that are no drafts; `None` of a token that the model does not have, and
    /// of what follows one.
    places: Vec<Option<usize>>,
    /// The nodes that stand.
    path: Vec<usize>,
    /// The indices of the tokens that stand.
    kept: Vec<usize>,
}

impl Reading {
    /// Lays out a tree of drafts behind some tokens.
    fn lay_out(&mut self, unseen: &[TokenId], tree: &DraftTree, size: usize) {
        self.tokens.clear();
        self.tokens.extend_from_slice(unseen);
        self.parents.clear();
        self.parents.extend((0..unseen.len()).map(|i| i.checked_sub(1)));
        self.unseen = unseen.len();
        (self.is_chain, self.is_second) = (true, false);
        self.places.clear();
        for (i, node) in tree.nodes().iter().enumerate() {
            let parent = match node.parent.map(|parent| self.places[parent]) {
                Some(None) => None,
                Some(Some(place)) => Some(unseen.len() + place),
                None => Some(unseen.len() - 1),
            };
            let Some(parent) = parent.filter(|_| (node.token as usize) < size) else {
                self.places.push(None);
                continue;
            };
            let mut siblings =
                tree.nodes()[..i].iter().zip(&self.places).filter(|(other, _)| other.token == node.token);
            let twin = siblings
                .find_map(|(_, &place)| place.filter(|place| self.parents[unseen.len() + place] == Some(parent)));
            if twin.is_some() {
                self.places.push(twin);
                continue;
            }
            self.is_chain &= parent + 1 == self.tokens.len();
            self.places.push(Some(self.tokens.len() - unseen.len()));
            self.tokens.push(node.token);
            self.parents.push(Some(parent));
        }
    }

    /// The rows of the last token that is no draft and of all drafts.
    fn batch(&self) -> Batch<'_> {
        let parents = (!self.is_chain).then_some(&self.parents[..]);
        Batch { tokens: &self.tokens, parents, wanted: Wanted::From(self.unseen - 1) }
    }

    /// Which of those rows is the one after a node, or after the text.
    fn row(&self, node: Option<usize>) -> usize {
        node.map_or(0, |node| 1 + self.places[node].expect("only what was read is accepted"))
    }

    /// The number of rows.
    fn rows(&self) -> usize {
        self.tokens.len() + 1 - self.unseen
    }
}

impl<'a, D: Drafter, C: Chance> Speculative<'a, D, C> {
    /// Begins a text after `prompt`, with drafts of at most `length` tokens a call.
    ///
    /// # Errors
    /// [`DecodeError::EmptyPrompt`], and the model's error if the prompt does not fit into its context.
    pub fn new(
        model: Arc<dyn LanguageModel>,
        target: &'a Target,
        prompt: &[TokenId],
        limits: Limits,
        drafter: D,
        length: DraftLength,
        chance: C,
    ) -> Result<Self, DecodeError> {
        let size = model.vocabulary_size();
        let begun = Instant::now();
        let sequence = limits.begin(model, prompt, length.most_beside(drafter.most_children()))?;
        let rows = if drafter.reads_features() { Rows::with_hidden() } else { Rows::default() };
        Ok(Self {
            target,
            limits,
            length: Chooser::new(length, drafter.most_children()),
            drafter,
            chance,
            rule: Rule::default(),
            sequence,
            state: target.transforms.start(prompt),
            text: prompt.to_vec(),
            prompt: prompt.len(),
            ready: VecDeque::new(),
            acceptance: Acceptance::default(),
            stop: None,
            failed: false,
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
        })
    }

    /// Judges drafts by this rule; by [`Rule::EachToken`] unless told otherwise.
    #[must_use]
    pub fn judged_by(self, rule: Rule) -> Self {
        Self { rule, ..self }
    }

    /// What ended the text; `None` while it goes on.
    pub fn stop(&self) -> Option<Stop> {
        if self.ready.is_empty() { self.stop } else { None }
    }

    /// How drafting went so far.
    pub fn acceptance(&self) -> Acceptance {
        self.acceptance
    }

    /// One call of the target model, or none where a token is decided without: at least one token, unless the text has
    /// ended.
    fn step(&mut self) -> Result<(), DecodeError> {
        let left = self.limits.max_tokens - (self.text.len() - self.prompt);
        let room = self.sequence.capacity() + 1 - self.text.len();
        if left == 0 || room == 0 {
            self.stop = Some(if left == 0 { Stop::Length } else { Stop::Context });
            return Ok(());
        }
        if let Some(token) = self.target.decided(&self.state, &mut self.row) {
            self.push(token);
            return Ok(());
        }
        // The last token of a call needs no draft: it comes from the row after the last draft.
        let shape = self.length.choose().within(room - 1, left - 1);
        let begun = (self.clock)();
        self.tree.clear(self.text.len());
        if !shape.is_empty() {
            self.drafter.draft(&self.text, &self.state, &shape, &mut self.chance, &mut self.tree)?;
        }
        let drafted = (self.clock)();
        self.verify()?;
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
        self.length.observe(Call {
            read: self.reading.rows() - 1,
            is_usual: self.reading.unseen == 1 && !self.reading.is_second,
            depth: self.tree.depth(),
            judged: &self.judged,
            drafting: drafted.saturating_sub(begun),
            verifying: (self.clock)().saturating_sub(drafted),
        });
        Ok(())
    }

    /// Reads the drafts, and goes on by those that stand and one token more.
    fn verify(&mut self) -> Result<(), DecodeError> {
        let mut held = self.sequence.len();
        self.reading.lay_out(&self.text[held..], &self.tree, self.size);
        if !self.reading.is_chain && self.reading.unseen > BESIDE_A_TREE {
            let before = &self.text[held..self.text.len() - 1];
            self.sequence.forward(&Batch::chain(before, Wanted::Last), &mut self.rows)?;
            if self.drafter.reads_features() {
                self.reading.kept.clear();
                self.reading.kept.extend(0..before.len());
                self.drafter.observe(before, &self.rows, &self.reading.kept)?;
            }
            held = self.text.len() - 1;
            self.reading.lay_out(&self.text[held..], &self.tree, self.size);
            self.reading.is_second = true;
        }
        let mut sampled = self.sampled_by_model()?;
        if sampled.is_none() {
            self.sequence.forward(&self.reading.batch(), &mut self.rows)?;
        }
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
        if self.drafter.reads_features() {
            self.drafter.observe(&self.reading.tokens, &self.rows, &self.reading.kept)?;
        }
        Ok(())
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
            let (token, child) = match sampled.as_ref().and_then(|tokens| tokens[row]) {
                Some(token) => (token, matching(tree, at, token)),
                None => {
                    self.load_row(at);
                    self.decide(tree, at)?
                }
            };
            if !self.push(token) {
                return Ok(());
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
        if self.law.iter().all(|&p| p == 0.0) {
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
                self.target.transforms.advance(&mut state, draft.token);
            }
        }
        let prefixes = block::prefixes(&laws, &drafts);
        let begun = self.text.len();
        // Coins are told apart by where the call begins, for those past what stands are no longer looked at.
        let standing = (0..drafts.len()).rev().find(|&i| self.chance.accept(prefixes[i].stands, begun, i));
        let standing = standing.map_or(0, |last| last + 1);
        for (node, draft) in drafts[..standing].iter().enumerate() {
            if !self.push(draft.token) {
                return Ok(());
            }
            self.accept(node);
        }
        let (law, position) = (&mut laws[standing], self.text.len());
        let token = if law.iter().all(|&p| p == 0.0) {
            self.load_row(standing.checked_sub(1));
            return Err(DecodeError::no_token(&self.row, position));
        } else if let Some(next) = drafts.get(standing) {
            let weight = standing.checked_sub(1).map_or(1.0, |last| prefixes[last].weight);
            block::residual(law, next, weight);
            self.chance.residual(law, position)
        } else {
            self.draw()?
        };
        self.push(token);
        Ok(())
    }

    /// Takes the longest path of which every draft is typical, of several the likeliest, and draws one token more.
    fn judge_typical(&mut self, tree: &DraftTree, typical: Typical) -> Result<(), DecodeError> {
        let mut best = (0, 0.0, None);
        let mut open = vec![(None, self.state.clone(), 0.0)];
        while let Some((at, state, score)) = open.pop() {
            let depth = at.map_or(0, |at: usize| tree.nodes()[at].depth);
            if (depth, score) > (best.0, best.1) || at.is_none() {
                best = (depth, score, at);
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
                    self.target.transforms.advance(&mut state, node.token);
                    open.push((Some(child), state, score + p.ln()));
                }
            }
        }
        let mut path: Vec<usize> = std::iter::successors(best.2, |&node| tree.nodes()[node].parent).collect();
        path.reverse();
        for &node in &path {
            if !self.push(tree.nodes()[node].token) {
                return Ok(());
            }
            self.accept(node);
        }
        self.load_row(best.2);
        let token = self.draw()?;
        self.push(token);
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

    /// The target's own token after the text and after each of the drafts, drawn by the model, if it does that and the
    /// drafts are guesses: then they are compared with those.
    fn sampled_by_model(&mut self) -> Result<Option<Vec<Option<TokenId>>>, DecodeError> {
        let Some(size) = self.device.row().filter(|_| self.tree.is_guessed() && self.rule.is_lossless()) else {
            return Ok(None);
        };
        if self.drafter.reads_features() {
            return Ok(None);
        }
        let count = self.reading.rows();
        self.steps.resize_with(count, Steps::default);
        let mut requests = Vec::with_capacity(count);
        // By their row; of a chain the last alone.
        let mut states = vec![(self.state.clone(), 0)];
        for (row, steps) in self.steps.iter_mut().enumerate() {
            if row > 0 {
                let at = self.reading.unseen - 1 + row;
                let (mut state, depth) = match self.reading.is_chain {
                    true => states.pop().expect("one state"),
                    false => {
                        let parent = self.reading.parents[at].expect("a draft follows the text");
                        states[parent + 1 - self.reading.unseen].clone()
                    }
                };
                self.target.transforms.advance(&mut state, self.reading.tokens[at]);
                states.push((state, depth + 1));
            }
            let (state, depth) = states.last().expect("one state");
            let Some(number) = self.chance.number(self.text.len() + depth) else { return Ok(None) };
            if !self.target.record(state, &mut self.row, size, steps) {
                return Ok(None);
            }
            let sampler = self.target.sampler;
            requests.push(SampleRequest { item: 0, row, steps, sampler, number, token: None });
        }
        if self.sequence.draw(&self.reading.batch(), &mut requests)? {
            return Ok(Some(requests.into_iter().map(|request| request.token).collect()));
        }
        self.device.off();
        Ok(None)
    }

    /// Goes on by a token; `false` if that is the end.
    fn push(&mut self, token: TokenId) -> bool {
        if self.limits.end.contains(&token) {
            self.stop = Some(Stop::End);
            return false;
        }
        self.target.transforms.advance(&mut self.state, token);
        self.text.push(token);
        self.ready.push_back(Ok(token));
        true
    }
}

/// The child that is a guess at this very token.
fn matching(tree: &DraftTree, at: Option<usize>, token: TokenId) -> Option<usize> {
    tree.children(at).find(|(_, node)| node.token == token).map(|(child, _)| child)
}

impl<D: Drafter, C: Chance> Iterator for Speculative<'_, D, C> {
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
        self.ready.pop_front()
    }
}

#[cfg(test)]
mod tests;
