//! States whose stacks are cut at some depth.
//!
//! The stack of a text grows with every bracket that it opens, but few tokens close more than one. So the mask of a
//! state is computed for the same state with a short stack, which texts reach again and again, and only the tokens that
//! continue in the part that was cut off are looked at for each text.

use std::sync::Arc;

use verdigris_logits::{TokenId, TokenSet};

use super::allowed::Cut;
use super::mask::{Mask, OverBudget};
use super::masks::{Masks, too_much};
use super::run::{CUT, DEAD, Run, Shallow, Stack, Thread, ThreadSet};
use super::slice::Ends;
use super::work::{self, Work};

/// The part of a stack that is kept when it is cut: up to the first address after which something must be read, such as
/// a closing bracket, and at most some others.
const SHALLOW: u32 = 48;

impl Run {
    /// The state with stacks that are cut at some depth: what may come next is the same, up to where a text continues
    /// in a part that was cut off. It is the same state for texts at the same position of deeply nested brackets.
    pub(super) fn shallow(&mut self, state: u32) -> u32 {
        let threads = self.threads(state).clone();
        if !threads.threads.iter().all(|thread| self.automaton(thread).is_some()) {
            return state;
        }
        let cut = |&thread: &Thread| Thread { stack: self.shallow_stack(thread.stack, SHALLOW).stack, ..thread };
        let cut: Vec<Thread> = threads.threads.iter().map(cut).collect();
        match cut == threads.threads {
            true => state,
            false => self.state(ThreadSet { threads: cut, ..*threads }),
        }
    }

    /// The most bytes that are needed from a part of a stack that [`Run::shallow`] cuts off to the end of the text.
    pub(super) fn farthest_below(&mut self, state: u32) -> u64 {
        let threads = self.threads(state).clone();
        let farthest = |thread: &Thread| self.shallow_stack(thread.stack, SHALLOW).farthest;
        threads.threads.iter().map(farthest).max().unwrap_or(0)
    }

    fn shallow_stack(&mut self, stack: u32, most: u32) -> Shallow {
        if stack <= CUT {
            return Shallow { stack, farthest: 0 };
        }
        if most == 0 {
            return Shallow { stack: CUT, farthest: self.stack_to_end(stack) };
        }
        if let Some(&known) = self.shallow.get(&(stack, most)) {
            return known;
        }
        let shallow = match self.stacks[stack as usize].clone() {
            Stack::Address(rest, at) => {
                let most = if self.grammar.bytes_to_end(at) > 0 { 0 } else { most - 1 };
                let below = self.shallow_stack(rest, most);
                Shallow { stack: self.push(below.stack, at), ..below }
            }
            Stack::Any(stacks) => {
                let shallow: Vec<Shallow> = stacks.iter().map(|&stack| self.shallow_stack(stack, most)).collect();
                Shallow {
                    stack: self.any_stack(shallow.iter().map(|shallow| shallow.stack)),
                    farthest: shallow.iter().map(|shallow| shallow.farthest).max().unwrap_or(0),
                }
            }
            Stack::Cut => unreachable!("it has been returned"),
        };
        self.stack_bytes += 2 * size_of::<((u32, u32), Shallow)>();
        self.shallow.insert((stack, most), shallow);
        shallow
    }
}

impl Masks {
    /// The mask of a state as that of the state with cut stacks, and the tokens that continue in a part that was cut
    /// off. They have a budget of their own.
    pub(super) fn deepened(&mut self, run: &mut Run, state: u32, shallow: u32) -> Result<Arc<Mask>, OverBudget> {
        let mask = self.mask(run, shallow);
        if let Some(fault) = self.kept.faults.get(&shallow) {
            return Err(fault.clone());
        }
        let Some(cuts) = self.kept.cuts.get(&shallow).cloned() else { return Ok(mask) };
        self.work = Work::of_a_mask();
        let mut more = Vec::new();
        for (group, allowed) in cuts.iter() {
            let found = &mut |token| more.extend((!mask.tokens.contains(token)).then_some(token));
            let group = run.group(state, group);
            self.below(run, group, &allowed.cuts, found);
            if self.work.is_spent() {
                return Err(too_much(run, group));
            }
        }
        if more.is_empty() {
            return Ok(mask);
        }
        let mut tokens = TokenSet::clone(&mask.tokens);
        more.into_iter().for_each(|token| tokens.insert(token));
        self.kept.count(&[tokens.words()]);
        Ok(Arc::new(Mask { tokens: Arc::new(tokens), accepts: mask.accepts }))
    }

    /// Reports the tokens that leave a group's segment and continue in a part of the stack that was cut off. Returns an
    /// upper bound on the bytes to the end of the text after any of them.
    pub(super) fn below(&mut self, run: &mut Run, group: u32, cuts: &[Cut], found: &mut impl FnMut(TokenId)) -> u64 {
        if cuts.is_empty() {
            return 0;
        }
        let index = self.index.clone();
        let (tree, mut farthest) = (index.trie().all(), 0);
        let outside = run.leave_all(group, run.threads(group).threads[0].inner);
        let mut open: Vec<(u32, Cut)> = cuts.iter().map(|cut| (outside, cut.clone())).collect();
        while let Some((before, Cut { outside, ends })) = open.pop() {
            let state = run.next_all(before, &outside);
            if state == DEAD || !self.work.take(work::OUTSIDE * outside.len() as u64) {
                continue;
            }
            if let (false, Ends::Below { nodes, .. }) = (outside.is_empty(), &ends) {
                nodes.iter().flat_map(|&node| tree.tokens_at(node)).for_each(|&token| found(token));
                farthest = farthest.max(run.bytes_to_end(state));
            }
            let shallow = run.shallow(state);
            let reached = self.outside(run, &ends, shallow, true);
            reached.tokens.iter().for_each(|&token| found(token));
            let above = reached.states.iter().map(|&after| after.bytes_to_end(run)).max();
            farthest = above.map_or(0, |bytes| bytes.saturating_add(run.farthest_below(state))).max(farthest);
            open.extend(reached.cuts.iter().map(|cut| (state, cut.clone())));
        }
        farthest
    }
}
