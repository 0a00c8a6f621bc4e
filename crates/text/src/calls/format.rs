//! A syntax for the tokens of a model and the tools of a request.

use std::collections::HashMap;

use super::arguments::ParameterKinds;
use super::notation::Kinds;
use super::syntax::Syntax;
use crate::tokenizer::Tokenizer;

/// A syntax with its texts as grammars [spell](Tokenizer::spell) them, and the tools that can be called.
#[derive(Clone, Debug)]
pub struct CallFormat {
    syntax: Syntax<Vec<u8>>,
    marks: Vec<Vec<u8>>,
    tools: HashMap<String, ParameterKinds>,
}

impl CallFormat {
    /// The format of calls of some tools, by name. A name consists of letters, digits, `_`, `-` and `.`.
    pub fn new<'t>(syntax: &Syntax, tokenizer: &Tokenizer, tools: impl IntoIterator<Item = &'t str>) -> Self {
        let tools: HashMap<String, ParameterKinds> =
            tools.into_iter().map(|name| (name.to_owned(), ParameterKinds::new())).collect();
        let syntax = syntax.map(|text| tokenizer.spell(text));
        let mut marks: Vec<Vec<u8>> = match syntax.mark.is_empty() {
            false => vec![syntax.mark.clone()],
            true => {
                let mark = |name: &String| [&syntax.open, &syntax.name, name.as_bytes(), &syntax.arguments].concat();
                tools.keys().map(mark).collect()
            }
        };
        marks.sort();
        Self { syntax, marks, tools }
    }

    /// Sets the types of the parameters of a tool.
    pub fn set_kinds(&mut self, tool: &str, kinds: impl IntoIterator<Item = (String, Kinds)>) {
        self.tools.insert(tool.to_owned(), kinds.into_iter().collect());
    }

    /// The syntax, as bytes of a grammar.
    pub fn syntax(&self) -> &Syntax<Vec<u8>> {
        &self.syntax
    }

    /// The texts of which each begins calls: at least one if there are tools.
    pub fn marks(&self) -> &[Vec<u8>] {
        &self.marks
    }

    /// The types of the parameters of a tool.
    pub(super) fn kinds(&self, tool: &str) -> Option<&ParameterKinds> {
        self.tools.get(tool)
    }
}
