//! The verification of drafts: the target's distribution at each node, and the rule and the random decisions by which
//! drafts are accepted or replaced.

use verdigris_logits::transform::ChainState;
use verdigris_logits::{Row, Steps, TokenId, Transform};
use verdigris_models::SampleRequest;

use crate::chance::Chance;
use crate::device_sampling::DeviceSampling;
use crate::distribution;
use crate::rules::block::{self, Drawn};
use crate::rules::typical::Typical;
use crate::rules::{Rule, siblings};
use crate::speculative::layout::Layout;
use crate::speculative::reading::Reading;
use crate::target::{DecodeError, Target};
use crate::tree::{DraftTree, Origin};

/// The target, with the state of its transforms, and the rule and chance by which drafts are accepted.
pub(super) struct Verification<C> {
    target: Target,
    pub(super) rule: Rule,
    pub(super) chance: C,
    /// The state of the transforms after the text.
    pub(super) state: ChainState,
    row: Row,
    /// The target's distribution at a node, and scratch space for that of a draft.
    distribution: Vec<f64>,
    rest: Vec<f64>,
    /// The transforms of each row of a call, for a model that samples.
    steps: Vec<Steps>,
    device: DeviceSampling,
}

/// A chain that was judged as a whole.
pub(super) struct Block {
    /// The states after each accepted draft.
    pub(super) states: Vec<ChainState>,
    /// The first draft that is not accepted.
    pub(super) rejected: Option<usize>,
    /// The weight of the accepted drafts, and the target's distribution after them.
    weight: f64,
    distribution: Vec<f64>,
}

impl<C> Verification<C> {
    /// The verification of drafts after a prompt, for a model with a vocabulary of `size` tokens.
    pub(super) fn new(target: &Target, prompt: &[TokenId], chance: C, size: usize) -> Self {
        Self {
            target: target.clone(),
            rule: Rule::default(),
            chance,
            state: target.transforms.start(prompt),
            row: Row::default(),
            distribution: Vec::new(),
            rest: Vec::new(),
            steps: Vec::new(),
            device: DeviceSampling::untried(size),
        }
    }

    /// The next token, if it does not depend on the model.
    pub(super) fn decided(&mut self) -> Option<TokenId> {
        self.target.decided(&self.state, &mut self.row)
    }

    /// Advances the state by a token.
    pub(super) fn advance(&mut self, token: TokenId) {
        self.target.transforms.advance(&mut self.state, token);
    }

    /// Advances the state by a token that was chosen from `self.row`.
    pub(super) fn advance_from(&mut self, token: TokenId) {
        self.target.transforms.advance_from(&mut self.state, &self.row, token);
    }

    /// Loads the row after a node at the end of the text into `self.row`, and applies all transforms.
    pub(super) fn load_row(&mut self, layout: &Layout, at: Option<usize>) {
        self.row.load(layout.row(at));
        self.target.transforms.apply(&self.state, &mut self.row);
    }

    /// Records that the model does not sample, so that it is not asked again.
    pub(super) fn stop_device_sampling(&mut self) {
        self.device.off();
    }
}

impl<C: Chance> Verification<C> {
    /// Requests to sample the target's token after a text of `position` tokens and after each draft, for the item with
    /// index `item`. `None` if the model does not sample, or the rows themselves are needed.
    pub(super) fn requests(
        &mut self,
        item: usize,
        reading: &Reading,
        position: usize,
    ) -> Option<Vec<SampleRequest<'_>>> {
        let size = self.device.row().filter(|_| self.rule.is_lossless())?;
        let Self { target, chance, state, row, steps, .. } = self;
        let count = reading.rows();
        steps.resize_with(count, Steps::default);
        let mut requests = Vec::with_capacity(count);
        // The states by row, or only the last one for a chain.
        let mut states = vec![(state.clone(), 0)];
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
            let number = chance.number(position + depth)?;
            if !target.record(state, row, size, steps) {
                return None;
            }
            let sampler = target.sampler;
            requests.push(SampleRequest { item, row: i, steps, sampler, number, token: None });
        }
        Some(requests)
    }

    /// Chooses the token after a node at the end of a text of `position` tokens. Also returns the child of the node
    /// that it is, if any.
    pub(super) fn decide(
        &mut self,
        layout: &Layout,
        at: Option<usize>,
        position: usize,
    ) -> Result<(TokenId, Option<usize>), DecodeError> {
        self.load_row(layout, at);
        let tree = &layout.tree;
        if tree.children(at).all(|(_, node)| node.origin == Origin::Guess) {
            let token = self.draw(position)?;
            return Ok((token, layout.child(at, token)));
        }
        self.target.sampler.distribution_into(&self.row, &mut self.distribution);
        if distribution::is_dead(&self.distribution) {
            return Err(DecodeError::no_token(&self.row, position));
        }
        let (chance, rest) = (&mut self.chance, &mut self.rest);
        let accept = |probability, which| chance.accept(probability, position, which);
        Ok(match siblings::judge(&mut self.distribution, tree, at, rest, accept) {
            Some(child) => (tree.nodes()[child].token, Some(child)),
            None => (self.chance.residual(&self.distribution, position), None),
        })
    }

    /// Judges a chain as a whole, after a text of `begun` tokens.
    pub(super) fn judge_block(&mut self, layout: &Layout, begun: usize) -> Block {
        // A token outside the model's vocabulary is judged and rejected, and its descendants are ignored.
        let (tree, readable) = (&layout.tree, layout.reading.readable());
        let drafts: Vec<Drawn<'_>> = (0..tree.len().min(readable + 1)).map(|node| drawn(tree, node)).collect();
        let mut state = self.state.clone();
        // The states after each draft.
        let mut states = Vec::with_capacity(drafts.len());
        let mut distributions = Vec::with_capacity(drafts.len() + 1);
        for i in 0..=drafts.len() {
            if i > readable {
                distributions.push(Vec::new());
                break;
            }
            self.row.load(layout.row(i.checked_sub(1)));
            self.target.transforms.apply(&state, &mut self.row);
            distributions.push(self.target.sampler.distribution(&self.row));
            if let Some(draft) = drafts.get(i) {
                self.target.transforms.advance_from(&mut state, &self.row, draft.token);
                states.push(state.clone());
            }
        }
        let prefixes = block::prefixes(&distributions, &drafts);
        // The position at which the call begins distinguishes coins, since coins after the accepted drafts are not used
        // again.
        let standing = (0..drafts.len()).rev().find(|&i| self.chance.accept(prefixes[i].stands, begun, i));
        let standing = standing.map_or(0, |last| last + 1);
        states.truncate(standing);
        Block {
            states,
            rejected: (standing < drafts.len()).then_some(standing),
            weight: standing.checked_sub(1).map_or(1.0, |last| prefixes[last].weight),
            distribution: distributions.swap_remove(standing),
        }
    }

    /// Chooses the token after the accepted drafts of a chain, which end a text of `position` tokens.
    pub(super) fn follow(&mut self, layout: &Layout, block: Block, position: usize) -> Result<TokenId, DecodeError> {
        let Block { rejected, weight, mut distribution, .. } = block;
        if let Some(next) = rejected {
            self.load_row(layout, next.checked_sub(1));
        }
        if distribution::is_dead(&distribution) {
            return Err(DecodeError::no_token(&self.row, position));
        }
        match rejected {
            Some(next) => {
                block::residual(&mut distribution, &drawn(&layout.tree, next), weight);
                Ok(self.chance.residual(&distribution, position))
            }
            None => self.draw(position),
        }
    }

    /// Samples the token after a text of `position` tokens from `self.row`.
    pub(super) fn draw(&mut self, position: usize) -> Result<TokenId, DecodeError> {
        let token = self.chance.token(self.target.sampler, &self.row, position);
        token.ok_or_else(|| DecodeError::no_token(&self.row, position))
    }

    /// The longest path on which every draft is typical, the likeliest of several, and the state after it.
    pub(super) fn typical_path(&mut self, layout: &Layout, typical: Typical) -> (Vec<usize>, ChainState) {
        let tree = &layout.tree;
        let mut best = (0, 0.0, None, self.state.clone());
        let mut open = vec![(None, self.state.clone(), 0.0)];
        while let Some((at, state, score)) = open.pop() {
            let depth = at.map_or(0, |at: usize| tree.nodes()[at].depth);
            if (depth, score) > (best.0, best.1) || at.is_none() {
                best = (depth, score, at, state.clone());
            }
            if !layout.has_drafts(at) {
                continue;
            }
            self.row.load(layout.row(at));
            self.target.transforms.apply(&state, &mut self.row);
            self.target.sampler.distribution_into(&self.row, &mut self.distribution);
            let threshold = typical.threshold(&self.distribution);
            for (child, node) in tree.children(at) {
                let p = self.distribution.get(node.token as usize).copied().unwrap_or(0.0);
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
        (path, state)
    }
}

/// A draft, with the distribution that it was sampled from.
fn drawn(tree: &DraftTree, node: usize) -> Drawn<'_> {
    let node = &tree.nodes()[node];
    let distribution = match node.origin {
        Origin::Guess => None,
        Origin::Drawn(distribution) | Origin::DrawnWithout(distribution) => Some(tree.distribution_of(distribution)),
    };
    Drawn { token: node.token, distribution }
}
