//! From a schema to a grammar.
//!
//! What is understood, and how JSON is written, is in `docs/constraints.md`. A keyword that cannot be honoured exactly
//! is an error that names it and its place, never an approximation.

use std::collections::{HashMap, HashSet, VecDeque};
use std::rc::Rc;
use std::sync::Arc;

use serde_json::Value;

use crate::automata::automaton::{Automaton, NoAutomaton};
use crate::automata::budget::Budget;
use crate::grammar::place::{
    ArrayShape, Counted, CountedItem, CountedNames, ObjectShape, OtherNames, Property, Signs, ValueOf,
};
use crate::grammar::{At, Grammar, NoGrammar, Rule, Step};
use crate::json::document::is_too_deep;
use crate::json::expand::{NOTHING, Result, Schemas, bad, check, item, normal};
use crate::json::flat::{
    Arrays, ContainsSome, Flat, Key, Numbers, Objects, Properties, SomeNames, SomeProperty, Strings, Types,
};
use crate::json::number::{Bound, Decimal, far, in_more_forms, integer, multiples, number, one_form};
use crate::json::registry::Registry;
use crate::json::style::{Escapes, Extra, NumberForms, Order, Style, Whitespace};
use crate::terminal::Terminal;
use crate::terminal::fresh::shortest_texts;
use crate::terminal::names::{MAX_BYTES, NameTable};
use crate::terminal::quoted::{Content, Quoted, begins_character, written};
use crate::terminal::text::{ANY, Characters, Text};

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

/// The most kinds of items of one array that are counted, and numbers of them that are told apart.
const MAX_CONTAINS: usize = 4;
const MAX_COUNTS: u32 = 1 << 10;

/// The most items that an array with kinds that are counted must have.
const MAX_LEAST: u32 = 1 << 12;

/// The most demands that some property of an object must meet.
const MAX_SOME: usize = 4;

/// The most rules of one grammar.
const MAX_RULES: usize = 1 << 17;

impl Grammar {
    /// The grammar of all JSON texts.
    pub fn json(style: Style) -> Self {
        match Self::json_schema(&Value::Bool(true), style) {
            Ok(grammar) => grammar,
            Err(fault) => unreachable!("{fault}: it says nothing"),
        }
    }

    /// The grammar of the JSON texts that obey a schema, whose references stay within it.
    pub fn json_schema(schema: &Value, style: Style) -> Result<Self, BadSchema> {
        Self::json_schema_with(schema, style, &Registry::default())
    }

    /// The grammar of the JSON texts that obey a schema, whose references may lead to those of a registry.
    pub fn json_schema_with(schema: &Value, style: Style, registry: &Registry) -> Result<Self, BadSchema> {
        if registry.schemas().chain([schema]).any(is_too_deep) {
            return bad("#", "it is nested too deep");
        }
        Compiler::new(schema, style, registry).compile()
    }
}

/// Automata by their numbers that must accept a text or must not, and texts that it may not be.
type Contents = (Vec<(u32, bool)>, Vec<String>);

struct Compiler<'a> {
    schemas: Schemas<'a>,
    style: Style,
    grammar: Grammar,
    signs: Signs,
    /// The rule of each set of demands.
    rules: HashMap<Key, Rule>,
    /// Rules that have not been written yet.
    open: VecDeque<(Rule, Key)>,
    open_object: u32,
    open_array: u32,
    /// Terminals that occur again and again.
    tables: HashMap<Vec<String>, u32>,
    numbers: HashMap<Numbers, Option<u32>>,
    characters: HashMap<Contents, Option<Arc<Characters>>>,
    strings: HashMap<(Escapes, Strings), Option<u32>>,
    /// Where no text is left that JSON would have, and why.
    narrower: Option<String>,
}

impl<'a> Compiler<'a> {
    fn new(root: &'a Value, style: Style, registry: &'a Registry) -> Self {
        let mut grammar = Grammar::empty();
        let mut sign = |before: Space, sign: u8, after: Space| {
            grammar.terminal(Terminal::Table(Box::new(spaced(before, sign, after))))
        };
        let (none, after) = (Space::None, Space::after(style.whitespace));
        let around = if let Whitespace::Free { .. } = style.whitespace { after } else { none };
        let open = |sign| (none, sign, around);
        let [open_object, open_array] = [b'{', b'['].map(open).map(|(before, byte, after)| sign(before, byte, after));
        // After an opening sign the white space has been read.
        let signs = Signs {
            close_object: [sign(none, b'}', none), sign(around, b'}', none)],
            close_array: [sign(none, b']', none), sign(around, b']', none)],
            comma: sign(around, b',', after),
            colon: sign(around, b':', after),
            width: if style.whitespace == Whitespace::Spaced { 2 } else { 1 },
        };
        Self {
            schemas: Schemas::new(root, registry),
            style,
            grammar,
            signs,
            rules: HashMap::new(),
            open: VecDeque::new(),
            open_object,
            open_array,
            tables: HashMap::new(),
            numbers: HashMap::new(),
            characters: HashMap::new(),
            strings: HashMap::new(),
            narrower: None,
        }
    }

    fn compile(mut self) -> Result<Grammar> {
        let root = self.schemas.root();
        self.rule(vec![(root, true)]);
        while let Some((rule, key)) = self.open.pop_front() {
            let path = key.first().map_or("#".to_owned(), |&demand| self.schemas.path(demand).to_owned());
            self.grammar.stand_at(&path);
            let mut ways = Vec::new();
            for flat in self.schemas.ways(&key)?.iter() {
                self.flat(flat, &path, &mut ways)?;
                self.check(&path)?;
            }
            let entry = self.grammar.fork(ways);
            self.grammar.define(rule, entry);
            if self.grammar.is_too_large() || self.rules.len() > MAX_RULES {
                return bad(&path, "the schema is too large");
            }
        }
        let narrower = self.narrower;
        let budget = self.schemas.budget.clone();
        self.grammar.finish_within(&budget).or_else(|fault| match (fault, narrower) {
            (NoGrammar::Empty, None) => bad("#", "no finite text obeys it"),
            (NoGrammar::Empty, Some(said)) => {
                bad("#", format!("no finite text obeys it as texts are written here: {said}"))
            }
            (NoGrammar::TooLarge, _) => {
                check(&budget, "#")?;
                bad("#", "the schema is too large")
            }
        })
    }

    fn check(&self, path: &str) -> Result<()> {
        check(&self.schemas.budget, path)
    }

    /// What is said where something is too large: that the budget is spent, if that is why.
    fn large<T>(&self, path: &str, fault: &str) -> Result<T> {
        self.check(path)?;
        bad(path, fault)
    }

    /// The rule of some demands; it is written later.
    fn rule(&mut self, key: Key) -> Rule {
        let key = normal(key);
        if let Some(&rule) = self.rules.get(&key) {
            return rule;
        }
        self.schemas.budget.take(10 + key.len() as u64);
        let rule = self.grammar.rule();
        self.rules.insert(key.clone(), rule);
        self.open.push_back((rule, key));
        rule
    }

    /// The ways to write a value of the types that are left.
    fn flat(&mut self, flat: &Flat, path: &str, ways: &mut Vec<At>) -> Result<()> {
        if let Some(terminal) = self.words(flat.types, path)? {
            ways.push(self.grammar.read(terminal, Grammar::RETURN));
        }
        if flat.types.has(Types::NUMBER) {
            let terminal = self.number(&flat.numbers, path)?;
            ways.extend(terminal.map(|terminal| self.grammar.read(terminal, Grammar::RETURN)));
        }
        if flat.types.has(Types::STRING) {
            let terminal = self.string(&flat.strings, self.style.escapes, path)?;
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

    /// The values without parts of some types.
    fn words(&mut self, types: Types, path: &str) -> Result<Option<u32>> {
        let words = [(Types::NULL, "null"), (Types::FALSE, "false"), (Types::TRUE, "true")];
        let words: Vec<String> =
            words.iter().filter(|(kind, _)| types.has(*kind)).map(|(_, word)| (*word).to_owned()).collect();
        if words.is_empty() { Ok(None) } else { self.literals(words, path).map(Some) }
    }

    /// Some texts as they are.
    fn literals(&mut self, texts: Vec<String>, path: &str) -> Result<u32> {
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

    fn number(&mut self, numbers: &Numbers, path: &str) -> Result<Option<u32>> {
        if let Some(among) = &numbers.among {
            self.schemas.budget.take(among.len() as u64);
            let fits = among.iter().filter(|value| numbers.admits(value));
            let texts: Vec<String> = fits.map(Decimal::text).collect();
            return match (&texts[..], self.forms(numbers)) {
                ([], _) => Ok(None),
                (_, NumberForms::Plain) => self.literals(texts, path).map(Some),
                (_, NumberForms::Full) => {
                    let values = Automaton::literals(&texts).ok().and_then(|values| in_more_forms(&values, false).ok());
                    let Some(values) = values else { return bad(path, "the list of values is too long") };
                    Ok(Some(self.grammar.terminal(Terminal::Table(Box::new(values)))))
                }
            };
        }
        if let Some(&terminal) = self.numbers.get(numbers) {
            return Ok(terminal);
        }
        let mut automaton = number_automaton(&self.schemas.budget, numbers);
        if let (Ok(plain), NumberForms::Full) = (&automaton, self.forms(numbers)) {
            automaton = in_more_forms(plain, numbers.is_free());
        }
        let terminal = match automaton {
            Ok(automaton) => Some(self.grammar.terminal(Terminal::Table(Box::new(automaton)))),
            Err(NoAutomaton::Empty) => {
                self.narrower.get_or_insert_with(|| format!("no number of up to 15 digits obeys {path}"));
                None
            }
            Err(NoAutomaton::TooLarge) => {
                let several = "the steps of \"multipleOf\" are too large together";
                let fault = if numbers.multiples.len() > 1 { several } else { "\"multipleOf\" has too many digits" };
                return self.large(path, fault);
            }
        };
        self.numbers.insert(numbers.clone(), terminal);
        Ok(terminal)
    }

    fn forms(&self, numbers: &Numbers) -> NumberForms {
        if numbers.one_form { NumberForms::Plain } else { self.style.numbers }
    }

    /// The contents that some automata accept, or must not.
    fn characters(&mut self, strings: &Strings, path: &str) -> Result<Option<Arc<Characters>>> {
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

    fn accepts(&self, strings: &Strings, text: &String) -> bool {
        strings.among.as_ref().is_none_or(|among| among.contains(text)) && self.fits(strings, text)
    }

    /// Whether a text obeys, apart from the list.
    fn fits(&self, strings: &Strings, text: &String) -> bool {
        strings.has_length(text) && self.schemas.contents_accept(&strings.contents, text)
    }

    fn string(&mut self, strings: &Strings, escapes: Escapes, path: &str) -> Result<Option<u32>> {
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
                Ok(automaton) => Text::new(Arc::new(Characters::new(automaton)), 0, None),
                Err(NoAutomaton::Empty) => Ok(None),
                Err(NoAutomaton::TooLarge) => return bad(path, "the list of values is too long"),
            },
            None => match self.characters(strings, path)? {
                Some(characters) => Text::new(characters, strings.least, strings.most),
                None => Ok(None),
            },
        };
        let terminal = match text {
            Ok(text) => text.map(|content| {
                self.schemas.budget.take(content.cells());
                self.grammar.terminal(Terminal::Text(Quoted::new(content, escapes)))
            }),
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
        // What demands nothing is no demand.
        let wanted: Vec<&ContainsSome> =
            arrays.contains.iter().filter(|contains| contains.least > 0 || contains.most.is_some()).collect();
        let first = wanted.iter().map(|contains| contains.from).max().unwrap_or(0).max(first);
        let mut rule = |at: usize| self.rule(item(&arrays.items, at));
        let (rest, all) = (rule(first), (0..first).map(rule).collect());
        let mut counted = None;
        if !wanted.is_empty() {
            if wanted.len() > MAX_CONTAINS {
                return bad(path, format!("more than {MAX_CONTAINS} \"contains\" for one array are not supported"));
            }
            let bounds = wanted
                .iter()
                .map(|contains| (length(contains.least).unwrap_or(u32::MAX - 1), contains.most.and_then(length)));
            let bounds: Vec<(u32, Option<u32>)> = bounds.collect();
            let opposite: Vec<Key> =
                wanted.iter().map(|contains| self.schemas.opposite(&contains.what, path)).collect();
            let mut items = Vec::new();
            for kinds in 0..1u32 << wanted.len() {
                let more = |at: usize| {
                    let mut key = Key::new();
                    for (kind, ContainsSome { from, what, most, .. }) in wanted.iter().enumerate() {
                        match kinds >> kind & 1 == 1 {
                            true if at < *from => key.push(NOTHING),
                            true => key.extend(what),
                            false if most.is_some() && at >= *from => key.extend(&opposite[kind]),
                            false => {}
                        }
                    }
                    key
                };
                check(&self.schemas.budget, path)?;
                let mut rule = |at: usize| self.rule(normal([item(&arrays.items, at), more(at)].concat()));
                items.push(CountedItem { kinds, rest: rule(first), first: (0..first).map(rule).collect() });
            }
            let with_bounds = Counted { bounds, items };
            if with_bounds.numbers() > MAX_COUNTS {
                return bad(path, "\"minContains\" or \"maxContains\" is too large");
            }
            if least > MAX_LEAST {
                return bad(
                    path,
                    format!("\"minItems\" of more than {MAX_LEAST} beside \"contains\" is not supported"),
                );
            }
            counted = Some(with_bounds);
        }
        let mut unique = None;
        if arrays.unique && most.is_none_or(|most| most > 1) {
            if first > 0 || counted.is_some() {
                return bad(path, "\"uniqueItems\" beside \"prefixItems\" or \"contains\" is not supported");
            }
            if least > MAX_COUNTS {
                return bad(path, "\"minItems\" beside \"uniqueItems\" is too large");
            }
            unique = Some(self.scalars(&item(&arrays.items, 0), path)?);
        }
        Ok(ArrayShape { signs: self.signs, first: all, rest, least, most, counted, unique })
    }

    /// The terminals of items that are all different. Each value is written in one way.
    fn scalars(&mut self, key: &Key, path: &str) -> Result<Vec<(u32, Arc<Terminal>)>> {
        let ways = self.schemas.ways(&normal(key.clone()))?;
        let mut terminals = Vec::new();
        for flat in ways.iter() {
            if flat.types.has(Types::ARRAY.or(Types::OBJECT)) {
                return bad(path, "\"uniqueItems\" of arrays or objects is not supported");
            }
            terminals.extend(self.words(flat.types, path)?);
            if flat.types.has(Types::NUMBER) {
                terminals.extend(self.number(&Numbers { one_form: true, ..flat.numbers.clone() }, path)?);
            }
            if flat.types.has(Types::STRING) {
                terminals.extend(self.string(&flat.strings, Escapes::Minimal, path)?);
            }
        }
        terminals.sort_unstable();
        terminals.dedup();
        Ok(terminals.into_iter().map(|number| (number, self.grammar.terminals[number as usize].clone())).collect())
    }

    fn object(&mut self, objects: &Objects, path: &str) -> Result<ObjectShape> {
        let mut names: Vec<String> = Vec::new();
        let mut known: HashMap<String, u32> = HashMap::new();
        let named =
            |properties: &'_ Properties| properties.named.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
        let of_some = objects.some.iter().flat_map(|some| match &some.names {
            SomeNames::Other(properties) => named(properties),
            _ => Vec::new(),
        });
        let implied = objects.implies.iter().flat_map(|(a, b)| [a.clone(), b.clone()]);
        let given = objects.properties.iter().flat_map(|properties| named(properties));
        for name in given.chain(objects.required.iter().cloned()).chain(implied).chain(of_some) {
            if !known.contains_key(&name) {
                known.insert(name.clone(), names.len() as u32);
                names.push(name);
            }
        }
        let some = self.some(objects, path)?;
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
            && some.is_empty()
            && objects
                .properties
                .iter()
                .all(|properties| properties.others.is_empty() && properties.patterns.is_empty());
        let required: HashSet<&String> = objects.required.iter().collect();
        let mut properties: Vec<Property> = Vec::new();
        let too_long = "the names of \"properties\" are too long for an automaton";
        if names.iter().map(String::len).sum::<usize>() > MAX_BYTES {
            return bad(path, too_long);
        }
        let patterns: usize = objects.properties.iter().map(|properties| properties.patterns.len()).sum();
        let weight = 4 + (objects.properties.len() + patterns) as u64;
        for name in &names {
            // A node of the tree of names takes some units too.
            self.schemas.budget.take(weight * (1 + name.len() as u64 / 8) + name.len() as u64);
            self.check(path)?;
            let mut key = self.schemas.property(objects, name);
            let may_be = allowed.as_ref().is_none_or(|ways| ways.iter().any(|strings| self.accepts(strings, name)));
            if !may_be {
                key = vec![NOTHING];
            }
            let meets =
                (0..).zip(&some).filter(|(_, some)| some.may_have(name, &self.schemas)).map(|(i, _)| 1 << i).sum();
            let value = self.value(&key, meets, &some);
            let name_bytes = 2 + name.bytes().map(written).sum::<u64>();
            let required = required.contains(name);
            properties.push(Property { name: name.clone(), name_bytes, value, required, implies: Vec::new() });
        }
        for (name, implied) in &objects.implies {
            properties[known[name] as usize].implies.push(known[implied]);
        }
        let (others, kinds) = match closed {
            true => (None, Vec::new()),
            false => self.other_names(objects, &some, allowed.as_deref(), path)?,
        };
        let texts: Vec<&str> = names.iter().map(String::as_str).collect();
        let Some(table) = NameTable::new(&texts, others) else {
            return bad(path, too_long);
        };
        let table = Arc::new(table);
        let bound = |n: u64| u32::try_from(n).unwrap_or(u32::MAX);
        // Those that are required are there in any case.
        let least = if objects.least <= required.len() as u64 { 0 } else { bound(objects.least) };
        let lengths_matter = least > 0 || !some.is_empty();
        let lengths = if lengths_matter { table.shortest_others(kinds.len()) } else { vec![0; kinds.len()] };
        if least > 0 && !objects.implies.is_empty() {
            return bad(path, "\"minProperties\" beside \"dependentRequired\" is not supported");
        }
        if closed && least as usize > names.len() {
            self.narrower.get_or_insert_with(|| format!("objects are closed, and {path} names too few properties"));
        }
        let more = least - least.min(required.len() as u32);
        if more > MAX_COUNTS && !kinds.is_empty() {
            return bad(path, format!("\"minProperties\" asks for more than {MAX_COUNTS} names that are not given"));
        }
        let mut others = Vec::new();
        for ((kind, (key, meets)), name_bytes) in (0..).zip(&kinds).zip(lengths) {
            let value = self.value(key, *meets, &some);
            let counted = if least > 1 { self.counted_names(&table, kind, &names, least, path)? } else { None };
            others.push(OtherNames { name_bytes, value, counted });
        }
        Ok(ObjectShape {
            escapes: self.style.escapes,
            signs: self.signs,
            table,
            properties,
            others,
            some: (1 << some.len()) - 1,
            least,
            most: objects.most.map(bound),
            any_order: self.style.order == Order::Any,
        })
    }

    /// Names of a kind that are counted: their terminal, and the shortest of them, as many as there must be and two, for some
    /// of them may have come and one may be begun.
    fn counted_names(
        &mut self,
        table: &NameTable,
        kind: u32,
        given: &[String],
        least: u32,
        path: &str,
    ) -> Result<Option<CountedNames>> {
        let budget = self.schemas.budget.clone();
        let large = "\"minProperties\" is about names that are too large for an automaton";
        let Some(mut characters) = table.others_of(|other| other == kind) else { return Ok(None) };
        if !given.is_empty() {
            let Ok(given) = Automaton::literals(given) else { return self.large(path, large) };
            characters = match Automaton::all_of(&budget, &[(&characters.automaton, true), (&given, false)]) {
                Ok(automaton) => Arc::new(Characters::new(automaton)),
                Err(NoAutomaton::Empty) => return Ok(None),
                Err(NoAutomaton::TooLarge) => return self.large(path, large),
            };
        }
        let text = Text::new(characters, 0, None);
        let Some(text) = text.or_else(|_| self.large(path, large))? else { return Ok(None) };
        let terminal = self.grammar.terminal(Terminal::Text(Quoted::new(text, Escapes::Minimal)));
        let shared = self.grammar.terminals[terminal as usize].clone();
        budget.take(400 * u64::from(least));
        let names = shortest_texts(&shared, least as usize + 2);
        Ok(Some(((terminal, shared), names)))
    }

    /// The value of a property that may meet demands which some property must meet, in each way to meet some of them.
    fn value(&mut self, key: &Key, meets: u32, some: &[Demanded]) -> ValueOf {
        let rule = self.rule(key.clone());
        let mut meeting = Vec::new();
        for met in (1..1 << some.len()).filter(|met| met & !meets == 0) {
            let demands = some.iter().enumerate().filter(|(i, _)| met >> i & 1 == 1).flat_map(|(_, some)| &some.value);
            let key = normal(key.iter().chain(demands).copied().collect());
            if key != [NOTHING] {
                meeting.push((met, self.rule(key)));
            }
        }
        ValueOf { rule, meeting }
    }

    /// The demands that some property must meet, whichever it is.
    fn some(&mut self, objects: &Objects, path: &str) -> Result<Vec<Demanded>> {
        if objects.some.is_empty() {
            return Ok(Vec::new());
        }
        if objects.some.len() > MAX_SOME {
            return bad(path, format!("more than {MAX_SOME} demands that some property must meet are not supported"));
        }
        if objects.least > objects.required.len() as u64 || objects.most.is_some() || !objects.implies.is_empty() {
            return bad(
                path,
                "\"minProperties\", \"maxProperties\" or \"dependentRequired\" where \"additionalProperties\" and \
             its kind must not hold is not supported",
            );
        }
        let mut all = Vec::new();
        for SomeProperty { names, value } in &objects.some {
            let (names, patterns, with) = match names {
                SomeNames::Other(properties) => {
                    let names = properties.named.iter().map(|(name, _)| name.clone()).collect();
                    (names, properties.patterns.iter().map(|(pattern, _)| *pattern).collect(), false)
                }
                SomeNames::Pattern(pattern) => (HashSet::new(), vec![*pattern], true),
                SomeNames::Obeying(key) => {
                    let mut patterns = Vec::new();
                    let ways = self.schemas.ways(key)?;
                    for flat in ways.iter().filter(|flat| flat.types.has(Types::STRING)) {
                        if let Some(automaton) = self.content_of(&flat.strings, path)? {
                            self.schemas.contents.push(Rc::new(automaton));
                            patterns.push(self.schemas.contents.len() as u32 - 1);
                        }
                    }
                    (HashSet::new(), patterns, true)
                }
            };
            all.push(Demanded { names, patterns, with, value: value.clone() });
        }
        Ok(all)
    }

    /// The names that the schema does not give, by what their values must obey and which demands that some property must
    /// meet they may meet.
    fn other_names(
        &mut self,
        objects: &Objects,
        some: &[Demanded],
        allowed: Option<&[Strings]>,
        path: &str,
    ) -> Result<Others> {
        let given =
            objects.properties.iter().flat_map(|properties| properties.patterns.iter().map(|(pattern, _)| *pattern));
        let mut patterns: Vec<u32> = given.chain(some.iter().flat_map(|some| some.patterns.iter().copied())).collect();
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
            let matches = |pattern: &u32| matched[patterns.binary_search(pattern).expect("all patterns are listed")];
            let meets = |some: &Demanded| some.patterns.iter().any(matches) == some.with;
            (normal(key), (0..).zip(some).filter(|(_, some)| meets(some)).map(|(i, _)| 1 << i).sum())
        };
        if patterns.is_empty() {
            let key = demands(&[]);
            if key.0 == [NOTHING] {
                return Ok((None, Vec::new()));
            }
            let characters = match &filters[..] {
                [] => self.characters(&Strings::default(), path)?,
                filters => {
                    let parts: Vec<&Automaton> = filters.iter().collect();
                    match Automaton::any_of(&self.schemas.budget, &parts) {
                        Ok(automaton) => Some(Arc::new(Characters::new(automaton))),
                        Err(NoAutomaton::Empty) => None,
                        Err(NoAutomaton::TooLarge) => {
                            return self.large(path, "\"propertyNames\" is too large for an automaton");
                        }
                    }
                }
            };
            return Ok((characters, vec![key]));
        }
        let mut kinds: Vec<(Key, u32)> = Vec::new();
        let numbers = std::cell::RefCell::new(&mut kinds);
        let parts: Vec<Rc<Automaton>> =
            patterns.iter().map(|&pattern| self.schemas.contents[pattern as usize].clone()).collect();
        let utf8 = Automaton::utf8();
        let step =
            |automaton: &Automaton, state: Option<u32>, byte| state.and_then(|state| automaton.next(state, byte));
        let automaton = Automaton::explore_kinds(
            (&*self.schemas.budget, 2 + (parts.len() + filters.len()) as u64 / 4),
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
                if key.0 == [NOTHING] {
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
            Err(NoAutomaton::TooLarge) => self.large(path, "\"patternProperties\" are too large for an automaton"),
        }
    }

    /// The contents of some strings, lengths included.
    fn content_of(&mut self, strings: &Strings, path: &str) -> Result<Option<Automaton>> {
        let budget = self.schemas.budget.clone();
        let large = |fault| match fault {
            NoAutomaton::Empty => Ok(None),
            NoAutomaton::TooLarge => {
                check(&budget, path)?;
                bad(path, "\"propertyNames\" is too large for an automaton")
            }
        };
        if let Some(among) = &strings.among {
            let fits = among.iter().filter(|text| self.fits(strings, text));
            return Automaton::literals(fits).map(Some).or_else(large);
        }
        let Some(characters) = self.characters(strings, path)? else { return Ok(None) };
        let Some(text) = Text::new(characters.clone(), strings.least, strings.most)
            .or_else(|_| bad(path, "\"propertyNames\" is too large"))?
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

/// The names that a schema does not give, if there are any, and for each of their kinds what the values must obey, and the
/// demands on some property that they may meet.
type Others = (Option<Arc<Characters>>, Vec<(Key, u32)>);

/// White space beside a sign.
#[derive(Clone, Copy)]
enum Space {
    None,
    One,
    OneOrNone,
    UpTo(u8),
}

impl Space {
    fn after(whitespace: Whitespace) -> Self {
        match whitespace {
            Whitespace::Compact => Self::None,
            Whitespace::Spaced => Self::One,
            Whitespace::Optional => Self::OneOrNone,
            Whitespace::Free { most } => Self::UpTo(most),
        }
    }

    /// Whether there may be one more after so many, and whether that was enough.
    fn has(self, so_far: u8, byte: u8) -> bool {
        match self {
            Self::None => false,
            Self::One | Self::OneOrNone => so_far == 0 && byte == b' ',
            Self::UpTo(most) => so_far < most && matches!(byte, b' ' | b'\t' | b'\n' | b'\r'),
        }
    }

    fn is_enough(self, so_far: u8) -> bool {
        !matches!(self, Self::One) || so_far == 1
    }
}

/// A sign of JSON with the white space before and after it.
fn spaced(before: Space, sign: u8, after: Space) -> Automaton {
    let automaton = Automaton::explore(
        (false, 0u8),
        |byte| if byte == sign || matches!(byte, b' ' | b'\t' | b'\n' | b'\r') { byte } else { 0 },
        |&(written, spaces), byte| {
            if byte == sign {
                return (!written && before.is_enough(spaces)).then_some((true, 0));
            }
            let space = if written { after } else { before };
            space.has(spaces, byte).then(|| (written, spaces + 1))
        },
        |&(written, spaces)| written && after.is_enough(spaces),
    );
    automaton.expect("it is small")
}

/// The bytes of some texts.
fn bytes_of(texts: &[String]) -> u64 {
    texts.iter().map(|text| 8 + text.len() as u64).sum()
}

/// A demand that some property must meet.
struct Demanded {
    /// Names that it may not have.
    names: HashSet<String>,
    /// Patterns of which its name matches one, or none.
    patterns: Vec<u32>,
    with: bool,
    /// What its value obeys.
    value: Key,
}

impl Demanded {
    /// Whether the property may have this name.
    fn may_have(&self, name: &str, schemas: &Schemas<'_>) -> bool {
        let matches = |&pattern: &u32| schemas.contents[pattern as usize].matches(name.as_bytes());
        !self.names.contains(name) && self.patterns.iter().any(matches) == self.with
    }
}

/// All ways to write some numbers, which are not listed.
fn number_automaton(budget: &Budget, numbers: &Numbers) -> Result<Automaton, NoAutomaton> {
    let (low, high) = (numbers.low.as_ref(), numbers.high.as_ref());
    let whole = numbers.whole == Some(true);
    let near = if whole { integer(low, high) } else { number(low, high) };
    match near.and_then(|near| those_of(budget, near, numbers)) {
        Err(NoAutomaton::Empty) => those_of(budget, far(low, high, whole)?, numbers),
        near => near,
    }
}

/// Numbers that obey all but bounds.
fn those_of(budget: &Budget, all: Automaton, numbers: &Numbers) -> Result<Automaton, NoAutomaton> {
    let mut others = Vec::new();
    for (of, wanted) in &numbers.multiples {
        others.push((multiples(budget, of)?, *wanted));
    }
    if numbers.one_form {
        others.push((one_form(), true));
    }
    if numbers.whole == Some(false) {
        others.push((multiples(budget, &Decimal::parse("1"))?, false));
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
    Automaton::all_of(budget, &parts)
}
