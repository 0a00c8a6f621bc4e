//! The terminals of strings, and of lists of values.

use std::rc::Rc;
use std::sync::Arc;

use serde_json::Value;

use super::Compiler;
use crate::automata::automaton::{Automaton, NoAutomaton};
use crate::automata::utf8::begins_character;
use crate::json::fault::{Result, bad, check};
use crate::json::flat::{Strings, Types};
use crate::json::style::Escapes;
use crate::terminal::Terminal;
use crate::terminal::characters::{ANY, Characters};
use crate::terminal::content::Content;
use crate::terminal::quoted::Quoted;
use crate::terminal::string_content::StringContent;

impl Compiler<'_> {
    /// The terminal of the values without parts, among some types.
    pub(super) fn words(&mut self, types: Types, path: &str) -> Result<Option<u32>> {
        let words = [Types::NULL, Types::FALSE, Types::TRUE].into_iter().zip(self.word_names());
        let words = words.filter(|(kind, _)| types.has(*kind)).flat_map(|(_, names)| names);
        let words: Vec<String> = words.map(|&word| word.to_owned()).collect();
        if words.is_empty() { Ok(None) } else { self.literals(words, path).map(Some) }
    }

    /// The terminal of some literal texts.
    pub(super) fn literals(&mut self, texts: Vec<String>, path: &str) -> Result<u32> {
        self.schemas.budget.take(bytes_of(&texts) / 8);
        if let Some(&terminal) = self.tables.get(&texts) {
            return Ok(terminal);
        }
        let automaton = match Automaton::literals(&texts) {
            Ok(automaton) => automaton,
            Err(_) => return bad(path, "the list of values is too long"),
        };
        let terminal = self.grammar.terminal(Terminal::Table(Box::new(automaton)));
        self.tables.insert(texts, terminal);
        Ok(terminal)
    }

    /// The contents that all given automata accept, or reject where demanded.
    pub(super) fn characters(&mut self, strings: &Strings, path: &str) -> Result<Option<Arc<Characters>>> {
        if strings.contents.is_empty() && strings.except.is_empty() {
            return Ok(Some(ANY.clone()));
        }
        let name = (strings.contents.clone(), strings.except.clone());
        if let Some(characters) = self.characters.get(&name) {
            return Ok(characters.clone());
        }
        let budget = self.schemas.budget.clone();
        budget.take(bytes_of(&strings.except) / 8);
        let contents: Vec<(Rc<Automaton>, bool)> = strings
            .contents
            .iter()
            .map(|&(content, wanted)| (self.schemas.contents[content as usize].clone(), wanted))
            .collect();
        let mut parts: Vec<(&Automaton, bool)> =
            contents.iter().map(|(content, wanted)| (&**content, *wanted)).collect();
        let except = (!strings.except.is_empty()).then(|| Automaton::literals(&strings.except));
        let except = except.transpose().or_else(|_| bad(path, "the list of values is too long"))?;
        parts.extend(except.as_ref().map(|except| (except, false)));
        let characters = match Automaton::all_of(&budget, &parts) {
            Ok(automaton) => {
                budget.take(automaton.cells() as u64 / 2);
                Some(Arc::new(Characters::new(automaton)))
            }
            Err(NoAutomaton::Empty) => None,
            Err(NoAutomaton::TooLarge) => {
                return self.large(path, "the patterns together are too large for an automaton");
            }
        };
        self.characters.insert(name, characters.clone());
        Ok(characters)
    }

    pub(super) fn accepts(&self, strings: &Strings, text: &String) -> bool {
        strings.among.as_ref().is_none_or(|among| among.contains(text)) && self.fits(strings, text)
    }

    /// Whether a text obeys, apart from the list of values.
    pub(super) fn fits(&self, strings: &Strings, text: &String) -> bool {
        strings.has_length(text) && self.schemas.contents_accept(&strings.contents, text)
    }

    pub(super) fn string(&mut self, strings: &Strings, escapes: Escapes, path: &str) -> Result<Option<u32>> {
        self.schemas.budget.take(strings.among.as_ref().map_or(0, |among| among.len() as u64));
        if let (Some(among), Escapes::Minimal) = (&strings.among, escapes) {
            let fits = among.iter().filter(|text| self.fits(strings, text));
            let texts: Vec<String> = fits.map(|text| Value::from(text.as_str()).to_string()).collect();
            return if texts.is_empty() { Ok(None) } else { self.literals(texts, path).map(Some) };
        }
        let name = (escapes, strings.clone());
        if let Some(&terminal) = self.strings.get(&name) {
            return Ok(terminal);
        }
        let text = match &strings.among {
            Some(among) => match Automaton::literals(among.iter().filter(|text| self.fits(strings, text))) {
                Ok(automaton) => StringContent::new(Arc::new(Characters::new(automaton)), 0, None),
                Err(NoAutomaton::Empty) => Ok(None),
                Err(NoAutomaton::TooLarge) => return bad(path, "the list of values is too long"),
            },
            None => match self.characters(strings, path)? {
                Some(characters) => StringContent::new(characters, strings.least, strings.most),
                None => Ok(None),
            },
        };
        let terminal = match text {
            Ok(text) => text.map(|content| {
                self.schemas.budget.take(content.cells());
                self.grammar.terminal(Terminal::Text(Quoted::new(content, escapes)))
            }),
            Err(_) if strings.contents.is_empty() => return bad(path, "\"minLength\" or \"maxLength\" is too large"),
            Err(_) => return bad(path, "\"pattern\" with \"minLength\" or \"maxLength\" is too large"),
        };
        self.strings.insert(name, terminal);
        Ok(terminal)
    }

    /// The contents of some strings, including bounds on their length.
    pub(super) fn content_of(&mut self, strings: &Strings, path: &str) -> Result<Option<Automaton>> {
        self.automaton_of(strings, "\"propertyNames\"", path)
    }

    /// The contents of some strings, including bounds on their length, for the automaton of a keyword.
    pub(super) fn automaton_of(&mut self, strings: &Strings, keyword: &str, path: &str) -> Result<Option<Automaton>> {
        let budget = self.schemas.budget.clone();
        let large = |fault| match fault {
            NoAutomaton::Empty => Ok(None),
            NoAutomaton::TooLarge => {
                check(&budget, path)?;
                bad(path, format!("{keyword} is too large for an automaton"))
            }
        };
        if let Some(among) = &strings.among {
            let fits = among.iter().filter(|text| self.fits(strings, text));
            return Automaton::literals(fits).map(Some).or_else(large);
        }
        let Some(characters) = self.characters(strings, path)? else { return Ok(None) };
        let Some(text) = StringContent::new(characters.clone(), strings.least, strings.most)
            .or_else(|_| bad(path, format!("{keyword} is too large")))?
        else {
            return Ok(None);
        };
        let automaton = Automaton::explore_within(
            &budget,
            text.start(),
            |byte| (characters.automaton.class(byte), begins_character(byte)),
            |&state, byte| text.next(state, byte),
            |&state| text.accepts(state),
        );
        automaton.map(Some).or_else(large)
    }
}

/// The size of some texts.
fn bytes_of(texts: &[String]) -> u64 {
    texts.iter().map(|text| 8 + text.len() as u64).sum()
}
