//! The readings of the nodes of a graph under a guard: the bytes that cannot come next.

use std::rc::Rc;

use super::bytes::Bytes;
use super::competitors::{self, Set};
use super::divided::{Divided, Part};
use super::flow::Flow;
use super::lexemes::Lexemes;
use crate::languages::fault::Result;
use crate::languages::graph::{Graph, NodeIndex};

pub(super) struct Reading<'b> {
    pub(super) flow: Flow,
    divided: Divided<'b>,
    /// For each node that reads, the terminals that are read together with its own.
    competitors: Vec<Set>,
}

impl<'b> Reading<'b> {
    pub(super) fn of(graph: &Graph<'b>) -> Result<Self> {
        let lexemes = Lexemes::of(graph)?;
        let flow = Flow::of(graph, &lexemes)?;
        let competitors = competitors::of(graph, &lexemes, &flow)?;
        Ok(Self { flow, divided: Divided::new(lexemes, graph.budget), competitors })
    }

    /// The parts of the terminal of a node of a rule.
    pub(super) fn parts(
        &mut self,
        node: NodeIndex,
        segment: u32,
        next: NodeIndex,
        rule: u32,
        guard: Bytes,
    ) -> Result<Rc<[Part]>> {
        let follow = self.flow.relevant(next, rule);
        match self.divided.lexemes().of_segment(segment) {
            None => Ok(Rc::new([])),
            Some(lexeme) => self.divided.parts(lexeme, &self.competitors[node as usize], follow, guard),
        }
    }

    /// Whether a text of a grammar can begin under a guard. Where some can and others cannot, all may: they are not
    /// taken apart.
    pub(super) fn begins(&self, grammar: u32, guard: Bytes) -> bool {
        let first = self.flow.first_of_grammar(grammar);
        first.is_empty() || first.and(guard) != first
    }
}
