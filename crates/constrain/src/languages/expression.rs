//! The internal representation of grammars: rules over regular parts, automata and other grammars.

use std::sync::Arc;

use foldhash::HashMap;
use verdigris_text::Vocabulary;

use super::fault::{Position, Result};
use super::regular::Regular;
use super::scanner::shown;
use crate::automata::automaton::Automaton;
use crate::grammar::Grammar;

/// The maximum nesting of expressions in a rule.
pub(super) const MAX_NESTING: usize = 64;

/// The index of a rule.
pub(super) type RuleId = u32;

/// An operation on texts that automata read.
#[derive(Clone, Debug)]
pub(super) enum Operation {
    /// The texts of all operands.
    And,
    /// All texts but those of the operand.
    Not,
    /// The texts of the operand that do not begin with a shorter one.
    Lazy,
}

/// The texts of a rule or a part of one.
#[derive(Clone, Debug)]
pub(super) enum Expression {
    Regular(Regular),
    /// A segment that an automaton reads.
    Automaton(Arc<Automaton>),
    /// A text of another grammar.
    Grammar(Arc<Grammar>),
    Rule(RuleId),
    Sequence(Vec<Self>),
    Choice(Vec<Self>),
    Repeat {
        part: Box<Self>,
        least: u32,
        most: Option<u32>,
    },
    /// An operation on the texts of terminals.
    Of {
        operation: Operation,
        operands: Vec<Self>,
        at: Position,
    },
    /// A terminal of a language that divides texts into terminals. It is one automaton and stays one.
    Lexeme {
        body: Box<Self>,
        /// Whether it ends as soon as it can.
        is_lazy: bool,
        at: Position,
    },
}

impl Expression {
    /// The empty text.
    pub(super) fn empty() -> Self {
        Self::Sequence(Vec::new())
    }

    /// One text.
    pub(super) fn literal(bytes: impl Into<Box<[u8]>>) -> Self {
        Self::Regular(Regular::literal(bytes))
    }

    /// Any of several; one alone is itself.
    pub(super) fn choice(mut ways: Vec<Self>) -> Self {
        match ways.len() {
            1 => ways.remove(0),
            _ => Self::Choice(ways),
        }
    }

    /// Several in sequence; one alone is itself.
    pub(super) fn sequence(mut parts: Vec<Self>) -> Self {
        match parts.len() {
            1 => parts.remove(0),
            _ => Self::Sequence(parts),
        }
    }

    pub(super) fn repeated(self, least: u32, most: Option<u32>) -> Self {
        Self::Repeat { part: Box::new(self), least, most }
    }
}

/// The rules of a grammar by name.
#[derive(Debug, Default)]
pub(super) struct Rules {
    ids: HashMap<String, RuleId>,
    pub(super) names: Vec<String>,
    pub(super) bodies: Vec<Option<Expression>>,
    /// Where each rule is first mentioned.
    mentioned: Vec<Position>,
    /// The names of the control tokens that occur.
    pub(super) controls: Vec<Box<str>>,
}

impl Rules {
    /// A control token of this name, in the spelling that grammars have for it.
    pub(super) fn control(&mut self, name: &str) -> Expression {
        if !self.controls.iter().any(|known| **known == *name) {
            self.controls.push(name.into());
        }
        let [begin, end] = Vocabulary::CONTROL;
        Expression::literal([&[begin], name.as_bytes(), &[end]].concat())
    }

    /// The rule of a name, which may be defined later.
    pub(super) fn mention(&mut self, name: &str, at: Position) -> RuleId {
        if let Some(&id) = self.ids.get(name) {
            return id;
        }
        let id = self.bodies.len() as RuleId;
        self.ids.insert(name.to_owned(), id);
        self.names.push(name.to_owned());
        self.bodies.push(None);
        self.mentioned.push(at);
        id
    }

    /// Defines a rule.
    pub(super) fn define(&mut self, name: &str, at: Position, body: Expression) -> Result<RuleId> {
        let id = self.mention(name, at);
        match self.bodies[id as usize].replace(body) {
            None => Ok(id),
            Some(_) => at.wrong(
                format!("the rule {} is defined twice", shown(name)),
                "define each once, with | between alternatives",
            ),
        }
    }

    /// Where a rule is first mentioned.
    pub(super) fn position(&self, id: RuleId) -> Position {
        self.mentioned[id as usize]
    }

    /// Checks that every rule is defined; returns the rule of the whole text.
    pub(super) fn root(&self, name: &str) -> Result<RuleId> {
        let Some(&root) = self.ids.get(name).filter(|&&id| self.bodies[id as usize].is_some()) else {
            return Position { line: 1, column: 1 }
                .wrong(format!("missing is the rule {name}"), "it is the one that describes the whole text");
        };
        let undefined = self.bodies.iter().position(Option::is_none);
        match undefined {
            None => Ok(root),
            Some(id) => self.mentioned[id]
                .wrong(format!("the rule {} is not defined", shown(&self.names[id])), "define it, or correct its name"),
        }
    }
}
