//! The bytes that may come next at each node of a graph.

use super::bytes::Bytes;
use super::lexemes::Lexemes;
use crate::languages::fault::{Result, take};
use crate::languages::graph::{END, Graph, Node, NodeIndex};

/// The rule of a node that no rule reaches.
const NO_RULE: u32 = u32::MAX;

pub(super) struct Flow {
    /// The rule of each node, except the end, which all rules share.
    pub(super) owners: Vec<u32>,
    /// For each node, the first bytes of what its rule has from there on.
    first: Vec<Bytes>,
    /// For each node, whether its rule can end there without more text.
    pub(super) ends: Vec<bool>,
    /// For each rule, the bytes that may follow its texts.
    follow: Vec<Bytes>,
    /// For each grammar, its first bytes.
    grammars: Vec<Bytes>,
}

impl Flow {
    pub(super) fn of(graph: &Graph<'_>, lexemes: &Lexemes) -> Result<Self> {
        let count = graph.nodes.len();
        let mut flow = Self {
            owners: owners(graph)?,
            first: vec![Bytes::default(); count],
            ends: vec![false; count],
            follow: vec![Bytes::default(); graph.entries.len()],
            grammars: graph.grammars.iter().map(|grammar| Bytes::from(grammar.first_bytes())).collect(),
        };
        while flow.improve_first(graph, lexemes)? {}
        while flow.improve_follow(graph)? {}
        Ok(flow)
    }

    /// Most nodes come after those that they lead to, so few rounds are needed.
    fn improve_first(&mut self, graph: &Graph<'_>, lexemes: &Lexemes) -> Result<bool> {
        take(graph.budget, graph.nodes.len() as u64)?;
        let mut is_better = false;
        for (at, node) in graph.nodes.iter().enumerate() {
            let (first, ends) = match node {
                Node::Read { segment, .. } => {
                    let lexeme = lexemes.of_segment(*segment).map(|lexeme| lexemes.get(lexeme).first);
                    (lexeme.unwrap_or_default(), false)
                }
                Node::Grammar { grammar, .. } => (self.grammars[*grammar as usize], false),
                Node::Call { rule, next } => {
                    let entry = graph.entries[*rule as usize] as usize;
                    match self.ends[entry] {
                        true => (self.first[entry].or(self.first[*next as usize]), self.ends[*next as usize]),
                        false => (self.first[entry], false),
                    }
                }
                Node::Fork(ways) => {
                    let first = ways.iter().map(|&way| self.first[way as usize]).fold(Bytes::default(), Bytes::or);
                    (first, ways.iter().any(|&way| self.ends[way as usize]))
                }
                Node::End => (Bytes::default(), true),
            };
            if (first, ends) != (self.first[at], self.ends[at]) {
                (self.first[at], self.ends[at]) = (first, ends);
                is_better = true;
            }
        }
        Ok(is_better)
    }

    fn improve_follow(&mut self, graph: &Graph<'_>) -> Result<bool> {
        take(graph.budget, graph.nodes.len() as u64)?;
        let mut is_better = false;
        for (at, node) in graph.nodes.iter().enumerate() {
            if let Node::Call { rule, next } = node
                && self.owners[at] != NO_RULE
            {
                let follow = self.follow[*rule as usize].or(self.relevant(*next, self.owners[at]));
                is_better |= follow != self.follow[*rule as usize];
                self.follow[*rule as usize] = follow;
            }
        }
        Ok(is_better)
    }

    /// The bytes that may come next at a node of a rule.
    pub(super) fn relevant(&self, node: NodeIndex, rule: u32) -> Bytes {
        let first = self.first[node as usize];
        if self.ends[node as usize] { first.or(self.follow[rule as usize]) } else { first }
    }

    /// The first bytes of a grammar.
    pub(super) fn first_of_grammar(&self, grammar: u32) -> Bytes {
        self.grammars[grammar as usize]
    }
}

/// The rule of each node.
fn owners(graph: &Graph<'_>) -> Result<Vec<u32>> {
    take(graph.budget, graph.nodes.len() as u64)?;
    let mut owners = vec![NO_RULE; graph.nodes.len()];
    let mut open = Vec::new();
    for (rule, &entry) in (0..).zip(&graph.entries) {
        open.push(entry);
        while let Some(at) = open.pop() {
            if at == END || owners[at as usize] != NO_RULE {
                continue;
            }
            owners[at as usize] = rule;
            match &graph.nodes[at as usize] {
                Node::Read { next, .. } | Node::Call { next, .. } | Node::Grammar { next, .. } => open.push(*next),
                Node::Fork(ways) => open.extend(ways),
                Node::End => {}
            }
        }
    }
    Ok(owners)
}
