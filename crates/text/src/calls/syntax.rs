//! The parts of a call.

use super::notation::Notation;

/// A syntax for calls. A text with calls is `lead` or nothing, free text, `open`, a call, `between` and a call for each
/// further one, and `close`. A call is `name`, a tool's name, an id if there is one, `arguments`, the arguments, and
/// `end`. `S` is text, or the bytes that represent it in a grammar.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Syntax<S = &'static str> {
    /// The name of the family.
    pub family: &'static str,
    /// The text that may precede the answer.
    pub lead: S,
    /// The text that precedes the words of an answer without calls.
    pub words: S,
    /// Before the first call.
    pub open: S,
    /// Before the name of a tool.
    pub name: S,
    /// The id of the call, if it is part of the text.
    pub id: Option<Id<S>>,
    /// Before the arguments.
    pub arguments: S,
    /// The notation of the arguments; `None` if they are JSON.
    pub notation: Option<Notation<S>>,
    /// After the arguments.
    pub end: S,
    /// Between calls.
    pub between: S,
    /// After the last call.
    pub close: S,
    /// The beginning of calls, which free text cannot contain: a prefix of `open` and `name` together. If it is empty,
    /// calls begin with all that precedes the arguments, for each tool.
    pub mark: S,
    /// Whether calls are only allowed at the beginning of a text.
    pub is_first: bool,
    /// Whether a text can have several calls.
    pub several: bool,
    /// The ids of earlier calls that templates of this kind accept.
    pub history: HistoryIds,
    /// The texts that such a template renders for the call that probes it: the texts of one of these lists, in order.
    pub(super) traces: &'static [&'static [&'static str]],
}

/// The id of a call, after the name of its tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Id<S = &'static str> {
    /// Before the id.
    pub before: S,
    /// Its characters.
    pub shape: IdShape,
}

/// The characters of an id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IdShape {
    /// A number.
    Number,
    /// Nine letters and digits.
    Letters,
}

impl IdShape {
    /// The ids, as a regular expression.
    pub fn pattern(self) -> &'static str {
        match self {
            Self::Number => "0|[1-9][0-9]{0,5}",
            Self::Letters => "[A-Za-z0-9]{9}",
        }
    }
}

/// The ids of earlier calls that a template accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HistoryIds {
    /// Any.
    Any,
    /// Nine letters and digits.
    Short,
    /// `functions.NAME:NUMBER`, with the number of the call in the conversation.
    Numbered,
}

impl<S> Syntax<S> {
    /// Converts the texts.
    pub(super) fn map<T>(&self, change: impl Fn(&S) -> T) -> Syntax<T> {
        Syntax {
            family: self.family,
            lead: change(&self.lead),
            words: change(&self.words),
            open: change(&self.open),
            name: change(&self.name),
            id: self.id.as_ref().map(|id| Id { before: change(&id.before), shape: id.shape }),
            arguments: change(&self.arguments),
            notation: self.notation.as_ref().map(|notation| notation.map(&change)),
            end: change(&self.end),
            between: change(&self.between),
            close: change(&self.close),
            mark: change(&self.mark),
            is_first: self.is_first,
            several: self.several,
            history: self.history,
            traces: self.traces,
        }
    }
}
