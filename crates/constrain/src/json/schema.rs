//! From a schema to a grammar.
//!
//! What is understood, and how JSON is written, is in `docs/constraints.md`. A keyword that cannot be honoured exactly
//! is an error that names it and its place, never an approximation.

use std::collections::{HashMap, HashSet, VecDeque};
use std::rc::Rc;
use std::sync::Arc;

use serde_json::Value;

use crate::automaton::{Automaton, NoAutomaton};
use crate::grammar::{At, Grammar, NoGrammar, Rule, Step};
use crate::json::expand::{NOTHING, Result, Schemas, bad, item, normal};
use crate::json::flat::{Arrays, ContainsSome, Flat, Key, Numbers, Objects, Strings, Types};
use crate::json::names::NameTable;
use crate::json::number::{Bound, Decimal, integer, multiples, number};
use crate::json::place::{ArrayShape, Contains, ObjectShape, Property, Signs};
use crate::json::quoted::{Content, Quoted, begins_character, written};
use crate::json::text::{ANY, Characters, Text};
use crate::terminal::Terminal;

/// How JSON is written where a schema leaves that open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Style {
    /// Whether an object may have properties that its schema does not name, where the schema does not say so.
    pub objects: Extra,
    /// The order of properties.
    pub order: Order,
}

impl Style {
    /// With objects that have no more properties than their schemas name.
    #[must_use]
    pub fn closed(self) -> Self {
        Self { objects: Extra::Closed, ..self }
    }

    /// With properties in any order.
    #[must_use]
    pub fn any_order(self) -> Self {
        Self { order: Order::Any, ..self }
    }
}

/// Whether an object may have properties that its schema does not name, where the schema does not say so.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Extra {
    /// It may, as JSON Schema has it.
    #[default]
    Open,
    /// It may not. What is written obeys the schema all the same.
    Closed,
}

/// The order of properties.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// As in the schema, and then others, where they are allowed.
    #[default]
    Schema,
    /// Any.
    Any,
}

/// A schema that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the schema cannot be used: {path}: {fault}")]
pub struct BadSchema {
    /// Where, as a JSON pointer in a URI fragment: `#/properties/age`.
    pub path: String,
    /// What is wrong; names the keyword.
    pub fault: String,
}

/// The most items that are told apart by their place.
const MAX_FIRST: usize = 10_000;

/// The most rules of one grammar.
const MAX_RULES: usize = 1 << 17;

impl Grammar {
    /// The grammar of the JSON texts that obey a schema.
    pub fn json_schema(schema: &Value, style: Style) -> Result<Self, BadSchema> {
        Compiler::new(schema, style).compile()
    }
}

struct Compiler<'a> {
    schemas: Schemas<'a>,
    style: Style,
    grammar: Grammar,
    /// The rule of each set of demands.
    rules: HashMap<Key, Rule>,
    /// Rules that have not been written yet.
    open: VecDeque<(Rule, Key)>,
    open_object: u32,
    open_array: u32,
    /// Terminals that occur again and again.
    tables: HashMap<Vec<String>, u32>,
    numbers: HashMap<String, Option<u32>>,
    characters: HashMap<String, Option<Arc<Characters>>>,
    strings: HashMap<String, Option<u32>>,
}

impl<'a> Compiler<'a> {
    fn new(root: &'a Value, style: Style) -> Self {
        let mut grammar = Grammar::empty();
        let mut sign = |forms: &[&str]| {
            let automaton = Automaton::literals(forms).expect("signs are short");
            grammar.terminal(Terminal::Table(Box::new(automaton)))
        };
        let (open_object, open_array) = (sign(&["{"]), sign(&["["]));
        let (close_object, close_array) = (sign(&["}"]), sign(&["]"]));
        let signs = Signs { close_object, close_array, comma: sign(&[",", ", "]), colon: sign(&[":", ": "]) };
        grammar.places.signs = signs;
        Self {
            schemas: Schemas::new(root),
            style,
            grammar,
            rules: HashMap::new(),
            open: VecDeque::new(),
            open_object,
            open_array,
            tables: HashMap::new(),
            numbers: HashMap::new(),
            characters: HashMap::new(),
            strings: HashMap::new(),
        }
    }

    fn compile(mut self) -> Result<Grammar> {
        let root = self.schemas.root();
        self.rule(vec![(root, true)]);
        while let Some((rule, key)) = self.open.pop_front() {
            let path = key.first().map_or("#".to_owned(), |&demand| self.schemas.path(demand).to_owned());
            let mut ways = Vec::new();
            for flat in self.schemas.ways(&key)?.iter() {
                self.flat(flat, &path, &mut ways)?;
            }
            let entry = self.grammar.fork(ways);
            self.grammar.define(rule, entry);
            if self.grammar.is_too_large() || self.rules.len() > MAX_RULES {
                return bad(&path, "the schema is too large");
            }
        }
        self.grammar.finish().or_else(|fault| match fault {
            NoGrammar::Empty => bad("#", "no finite text obeys it"),
            NoGrammar::TooLarge => bad("#", "the schema is too large"),
        })
    }

    /// The rule of some demands; it is written later.
    fn rule(&mut self, key: Key) -> Rule {
        let key = normal(key);
        if let Some(&rule) = self.rules.get(&key) {
            return rule;
        }
        let rule = self.grammar.rule();
        self.rules.insert(key.clone(), rule);
        self.open.push_back((rule, key));
        rule
    }

    /// The ways to write a value of the types that are left.
    fn flat(&mut self, flat: &Flat, path: &str, ways: &mut Vec<At>) -> Result<()> {
        let words = [(Types::NULL, "null"), (Types::FALSE, "false"), (Types::TRUE, "true")];
        let words: Vec<String> =
            words.iter().filter(|(kind, _)| flat.types.has(*kind)).map(|(_, word)| (*word).to_owned()).collect();
        if !words.is_empty() {
            let terminal = self.literals(words, path)?;
            ways.push(self.grammar.read(terminal, Grammar::RETURN));
        }
        if flat.types.has(Types::NUMBER) {
            let terminal = self.number(&flat.numbers, path)?;
            ways.extend(terminal.map(|terminal| self.grammar.read(terminal, Grammar::RETURN)));
        }
        if flat.types.has(Types::STRING) {
            let terminal = self.string(&flat.strings, path)?;
            ways.extend(terminal.map(|terminal| self.grammar.read(terminal, Grammar::RETURN)));
        }
        if flat.types.has(Types::ARRAY) {
            let shape = self.array(&flat.arrays, path)?;
            let place = self.grammar.places.array(shape);
            let place = self.grammar.step(Step::Place(place));
            ways.push(self.grammar.read(self.open_array, place));
        }
        if flat.types.has(Types::OBJECT) {
            let shape = self.object(&flat.objects, path)?;
            let place = self.grammar.places.object(shape);
            let place = self.grammar.step(Step::Place(place));
            ways.push(self.grammar.read(self.open_object, place));
        }
        Ok(())
    }

    /// Some texts as they are.
    fn literals(&mut self, texts: Vec<String>, path: &str) -> Result<u32> {
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

    fn number(&mut self, numbers: &Numbers, path: &str) -> Result<Option<u32>> {
        if let Some(among) = &numbers.among {
            let fits = among.iter().filter(|value| numbers.admits(value));
            let texts: Vec<String> = fits.map(Decimal::text).collect();
            return if texts.is_empty() { Ok(None) } else { self.literals(texts, path).map(Some) };
        }
        let name = format!("{numbers:?}");
        if let Some(&terminal) = self.numbers.get(&name) {
            return Ok(terminal);
        }
        let automaton = number_automaton(numbers);
        let terminal = match automaton {
            Ok(automaton) => Some(self.grammar.terminal(Terminal::Table(Box::new(automaton)))),
            Err(NoAutomaton::Empty) => None,
            Err(NoAutomaton::TooLarge) => return bad(path, "\"multipleOf\" has too many digits"),
        };
        self.numbers.insert(name, terminal);
        Ok(terminal)
    }

    /// The contents that some automata accept, or must not.
    fn characters(&mut self, strings: &Strings, path: &str) -> Result<Option<Arc<Characters>>> {
        let name = format!("{:?} {:?}", strings.contents, strings.except);
        if strings.contents.is_empty() && strings.except.is_empty() {
            return Ok(Some(ANY.clone()));
        }
        if let Some(characters) = self.characters.get(&name) {
            return Ok(characters.clone());
        }
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
        let characters = match Automaton::all_of(&parts) {
            Ok(automaton) => Some(Arc::new(Characters::new(automaton))),
            Err(NoAutomaton::Empty) => None,
            Err(NoAutomaton::TooLarge) => return bad(path, "the patterns together are too large for an automaton"),
        };
        self.characters.insert(name, characters.clone());
        Ok(characters)
    }

    fn accepts(&self, strings: &Strings, text: &String) -> bool {
        strings.among.as_ref().is_none_or(|among| among.contains(text))
            && strings.has_length(text)
            && self.schemas.contents_accept(&strings.contents, text)
    }

    fn string(&mut self, strings: &Strings, path: &str) -> Result<Option<u32>> {
        if let Some(among) = &strings.among {
            let fits = among.iter().filter(|text| self.accepts(strings, text));
            let texts: Vec<String> = fits.map(|text| Value::from(text.as_str()).to_string()).collect();
            return if texts.is_empty() { Ok(None) } else { self.literals(texts, path).map(Some) };
        }
        let name = format!("{strings:?}");
        if let Some(&terminal) = self.strings.get(&name) {
            return Ok(terminal);
        }
        let text = match self.characters(strings, path)? {
            Some(characters) => Text::new(characters, strings.least, strings.most),
            None => Ok(None),
        };
        let terminal = match text {
            Ok(text) => text.map(|content| self.grammar.terminal(Terminal::Text(Quoted { content }))),
            Err(_) => return bad(path, "\"pattern\" with \"maxLength\" is too large"),
        };
        self.strings.insert(name, terminal);
        Ok(terminal)
    }

    fn array(&mut self, arrays: &Arrays, path: &str) -> Result<ArrayShape> {
        let length = |n: u64| u32::try_from(n).ok().filter(|&n| n < 1 << 30);
        let Some(least) = length(arrays.least) else { return bad(path, "\"minItems\" is too large") };
        // More than that is no bound.
        let most = arrays.most.and_then(length);
        let first = arrays.items.iter().map(|items| items.first.len()).max().unwrap_or(0);
        if first > MAX_FIRST {
            return bad(path, format!("\"prefixItems\" has more than {MAX_FIRST} schemas"));
        }
        if arrays.unique && most.is_none_or(|most| most > 1) {
            return bad(path, "the keyword \"uniqueItems\" is not supported");
        }
        let mut with = |more: &Key| {
            let key = |at: usize| normal([item(&arrays.items, at), more.clone()].concat());
            let rest = self.rule(key(first));
            let first: Vec<Rule> = (0..first).map(|at| self.rule(key(at))).collect();
            (first, rest)
        };
        let (all, rest) = with(&Key::new());
        // What demands nothing is no demand.
        let wanted: Vec<&ContainsSome> =
            arrays.contains.iter().filter(|contains| contains.least > 0 || contains.most.is_some()).collect();
        let contains = match wanted[..] {
            [] => None,
            [ContainsSome { what, least, most }] => {
                let (least, most) = (length(*least).unwrap_or(u32::MAX), most.and_then(length));
                let (of_kind, of_kind_rest) = with(what);
                let (other_first, other_rest) = match (most, &what[..]) {
                    (None, _) => (all.clone(), rest),
                    (Some(_), []) => with(&vec![NOTHING]),
                    (Some(_), &[(schema, wanted)]) => with(&vec![(schema, !wanted)]),
                    _ => return bad(path, "\"maxContains\" of several demands is not supported"),
                };
                if least > 1 << 12 || most.is_some_and(|most| most > 1 << 12) {
                    return bad(path, "\"minContains\" or \"maxContains\" is too large");
                }
                Some(Contains { first: of_kind, rest: of_kind_rest, other_first, other_rest, least, most })
            }
            _ => return bad(path, "several \"contains\" for one array are not supported"),
        };
        Ok(ArrayShape { first: all, rest, least, most, contains })
    }

    fn object(&mut self, objects: &Objects, path: &str) -> Result<ObjectShape> {
        let mut names: Vec<String> = Vec::new();
        let mut known: HashMap<String, u32> = HashMap::new();
        let named = objects.properties.iter().flat_map(|properties| properties.named.iter().map(|(name, _)| name));
        let implied = objects.implies.iter().flat_map(|(a, b)| [a, b]);
        for name in named.chain(&objects.required).chain(implied) {
            if !known.contains_key(name) {
                known.insert(name.clone(), names.len() as u32);
                names.push(name.clone());
            }
        }
        // What is said of names, as strings.
        let allowed = match &objects.names[..] {
            [] => None,
            names => {
                let ways = self.schemas.ways(&names.to_vec())?;
                Some(
                    ways.iter()
                        .filter(|flat| flat.types.has(Types::STRING))
                        .map(|flat| flat.strings.clone())
                        .collect::<Vec<_>>(),
                )
            }
        };
        let closed = self.style.objects == Extra::Closed
            && !names.is_empty()
            && objects
                .properties
                .iter()
                .all(|properties| properties.others.is_empty() && properties.patterns.is_empty());
        let required: HashSet<&String> = objects.required.iter().collect();
        let mut properties: Vec<Property> = Vec::new();
        for name in &names {
            let mut key = self.schemas.property(objects, name);
            let may_be = allowed.as_ref().is_none_or(|ways| ways.iter().any(|strings| self.accepts(strings, name)));
            if !may_be {
                key = vec![NOTHING];
            }
            let rule = self.rule(key);
            let name_bytes = 2 + name.bytes().map(written).sum::<u64>();
            let required = required.contains(name);
            properties.push(Property { name: name.clone(), name_bytes, rule, required, implies: Vec::new() });
        }
        for (name, implied) in &objects.implies {
            properties[known[name] as usize].implies.push(known[implied]);
        }
        let (others, kinds) = match closed {
            true => (None, Vec::new()),
            false => self.other_names(objects, allowed.as_deref(), path)?,
        };
        let other_name = others.as_ref().map_or(0, |others| others.to_end(Automaton::START) + 2);
        let texts: Vec<&str> = names.iter().map(String::as_str).collect();
        let Some(table) = NameTable::new(&texts, others) else {
            return bad(path, "the names of \"properties\" are too long for an automaton");
        };
        let others = kinds.into_iter().map(|key| self.rule(key)).collect();
        let bound = |n: u64| u32::try_from(n).unwrap_or(u32::MAX);
        if objects.least > 0 && !objects.implies.is_empty() && objects.least > objects.required.len() as u64 {
            return bad(path, "\"minProperties\" beside \"dependentRequired\" is not supported");
        }
        Ok(ObjectShape {
            table: Arc::new(table),
            properties,
            others,
            other_name,
            least: bound(objects.least),
            most: objects.most.map(bound),
            any_order: self.style.order == Order::Any,
        })
    }

    /// The names that the schema does not give, by what their values must obey.
    fn other_names(
        &mut self,
        objects: &Objects,
        allowed: Option<&[Strings]>,
        path: &str,
    ) -> Result<(Option<Arc<Characters>>, Vec<Key>)> {
        let mut patterns: Vec<u32> = objects
            .properties
            .iter()
            .flat_map(|properties| properties.patterns.iter().map(|(pattern, _)| *pattern))
            .collect();
        patterns.sort_unstable();
        patterns.dedup();
        let mut filters = Vec::new();
        for strings in allowed.unwrap_or_default() {
            filters.extend(self.content_of(strings, path)?);
        }
        if allowed.is_some() && filters.is_empty() {
            return Ok((None, Vec::new()));
        }
        // What a name obeys that matches some of the patterns.
        let demands = |matched: &[bool]| {
            let mut key = Key::new();
            for properties in &objects.properties {
                let mut evaluated = false;
                for (pattern, demands) in &properties.patterns {
                    let number = patterns.binary_search(pattern).expect("all patterns are listed");
                    if matched[number] {
                        key.extend(demands);
                        evaluated = true;
                    }
                }
                if !evaluated {
                    key.extend(&properties.others);
                }
            }
            normal(key)
        };
        if patterns.is_empty() {
            let key = demands(&[]);
            if key == [NOTHING] {
                return Ok((None, Vec::new()));
            }
            let characters = match &filters[..] {
                [] => self.characters(&Strings::default(), path)?,
                filters => {
                    let parts: Vec<&Automaton> = filters.iter().collect();
                    Automaton::any_of(&parts).ok().map(|automaton| Arc::new(Characters::new(automaton)))
                }
            };
            return Ok((characters, vec![key]));
        }
        let mut kinds: Vec<Key> = Vec::new();
        let numbers = std::cell::RefCell::new(&mut kinds);
        let parts: Vec<Rc<Automaton>> =
            patterns.iter().map(|&pattern| self.schemas.contents[pattern as usize].clone()).collect();
        let utf8 = Automaton::utf8();
        let step =
            |automaton: &Automaton, state: Option<u32>, byte| state.and_then(|state| automaton.next(state, byte));
        let automaton = Automaton::explore_kinds(
            (vec![Some(Automaton::START); parts.len()], vec![Some(Automaton::START); filters.len()], Automaton::START),
            |byte| {
                let classes =
                    parts.iter().map(|part| part.class(byte)).chain(filters.iter().map(|part| part.class(byte)));
                (classes.collect::<Vec<u8>>(), utf8.class(byte))
            },
            |(states, filtered, valid), byte| {
                let valid = utf8.next(*valid, byte)?;
                let states = parts.iter().zip(states).map(|(part, state)| step(part, *state, byte)).collect();
                let filtered: Vec<Option<u32>> =
                    filters.iter().zip(filtered).map(|(part, state)| step(part, *state, byte)).collect();
                let lives = filters.is_empty() || filtered.iter().any(Option::is_some);
                lives.then_some((states, filtered, valid))
            },
            |(states, filtered, valid)| {
                let accepts = |part: &Automaton, state: &Option<u32>| state.is_some_and(|state| part.accepts(state));
                let passes =
                    filters.is_empty() || filters.iter().zip(filtered).any(|(part, state)| accepts(part, state));
                if !utf8.accepts(*valid) || !passes {
                    return None;
                }
                let matched: Vec<bool> = parts.iter().zip(states).map(|(part, state)| accepts(part, state)).collect();
                let key = demands(&matched);
                if key == [NOTHING] {
                    return None;
                }
                let mut kinds = numbers.borrow_mut();
                let known = kinds.iter().position(|known| *known == key);
                Some(known.unwrap_or_else(|| {
                    kinds.push(key);
                    kinds.len() - 1
                }) as u32)
            },
        );
        match automaton {
            Ok(automaton) => Ok((Some(Arc::new(Characters::new(automaton))), kinds)),
            Err(NoAutomaton::Empty) => Ok((None, Vec::new())),
            Err(NoAutomaton::TooLarge) => bad(path, "\"patternProperties\" are too large for an automaton"),
        }
    }

    /// The contents of some strings, lengths included.
    fn content_of(&mut self, strings: &Strings, path: &str) -> Result<Option<Automaton>> {
        let large = |fault| match fault {
            NoAutomaton::Empty => Ok(None),
            NoAutomaton::TooLarge => bad(path, "\"propertyNames\" is too large for an automaton"),
        };
        if let Some(among) = &strings.among {
            let fits = among.iter().filter(|text| self.accepts(strings, text));
            return Automaton::literals(fits).map(Some).or_else(large);
        }
        let Some(characters) = self.characters(strings, path)? else { return Ok(None) };
        let Some(text) = Text::new(characters.clone(), strings.least, strings.most)
            .or_else(|_| bad(path, "\"propertyNames\" is too large"))?
        else {
            return Ok(None);
        };
        let automaton = Automaton::explore(
            text.start(),
            |byte| (characters.automaton.class(byte), begins_character(byte)),
            |&state, byte| text.next(state, byte),
            |&state| text.accepts(state),
        );
        automaton.map(Some).or_else(large)
    }
}

/// All ways to write some numbers, which are not listed.
fn number_automaton(numbers: &Numbers) -> Result<Automaton, NoAutomaton> {
    let (low, high) = (numbers.low.as_ref(), numbers.high.as_ref());
    let all = if numbers.whole == Some(true) { integer(low, high)? } else { number(low, high)? };
    let mut others = Vec::new();
    for (of, wanted) in &numbers.multiples {
        others.push((multiples(of)?, *wanted));
    }
    if numbers.whole == Some(false) {
        others.push((multiples(&Decimal::parse("1"))?, false));
    }
    for value in &numbers.except {
        let bound = Bound { value: value.clone(), inclusive: true };
        match number(Some(&bound), Some(&bound)) {
            Ok(automaton) => others.push((automaton, false)),
            Err(NoAutomaton::Empty) => {}
            Err(fault) => return Err(fault),
        }
    }
    if others.is_empty() {
        return Ok(all);
    }
    let parts: Vec<(&Automaton, bool)> =
        std::iter::once((&all, true)).chain(others.iter().map(|(part, wanted)| (part, *wanted))).collect();
    Automaton::all_of(&parts)
}
