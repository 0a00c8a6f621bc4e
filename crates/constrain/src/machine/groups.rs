//! Threads that read the same, which are walked together.

use smallvec::SmallVec;

use super::run::{DEAD, Run, Thread, ThreadSet};
use crate::grammar::step::{RETURN, Step};
use crate::terminal::Terminal;

/// Threads of a state, by index.
pub(super) type Group = SmallVec<[usize; 2]>;

impl Run {
    /// The automaton that a thread is in, after which the same follows wherever it ends.
    pub(super) fn automaton(&self, thread: &Thread) -> Option<u32> {
        let is_automaton = matches!(
            **self.grammar.terminal_at(thread.at),
            Terminal::Table(_) | Terminal::Lazy(_) | Terminal::Spelled(_)
        );
        match *self.grammar.step(thread.at) {
            Step::Read { terminal, .. } if is_automaton => Some(terminal),
            _ => None,
        }
    }

    /// The threads of a state by what they read: those in the same state of the same automaton are a group, which is
    /// walked once.
    pub(super) fn groups(&self, state: u32) -> SmallVec<[Group; 1]> {
        let of = |(index, thread): (usize, &Thread)| match self.automaton(thread) {
            Some(automaton) => ((true, automaton, thread.inner), index),
            None => ((false, thread.at, thread.inner), index),
        };
        let mut threads: SmallVec<[_; 4]> = self.threads(state).threads.iter().enumerate().map(of).collect();
        threads.sort_unstable();
        threads.chunk_by(|a, b| a.0 == b.0).map(|group| group.iter().map(|&(_, index)| index).collect()).collect()
    }

    /// The state with one group of the threads of a state.
    pub(super) fn group(&mut self, state: u32, group: &Group) -> u32 {
        let ThreadSet { threads, accepts, is_cut } = &**self.threads(state);
        if group.len() == threads.len() && !accepts && !is_cut {
            return state;
        }
        let threads = group.iter().map(|&index| threads[index]).collect();
        self.state(ThreadSet { threads, ..ThreadSet::default() })
    }

    /// Whether anything may come after a thread's segment.
    pub(super) fn is_followed(&self, thread: &Thread) -> bool {
        let is_last = matches!(*self.grammar.step(thread.at), Step::Read { next: RETURN, .. });
        !is_last || thread.stack != 0
    }

    /// The state after the segment of a group.
    pub(super) fn leave_all(&mut self, group: u32, inner: u32) -> u32 {
        let group = self.threads(group).clone();
        self.join(DEAD, |run, threads| group.threads.iter().for_each(|&thread| run.leave(thread, inner, threads)))
    }
}
