//! Compiles schemas to grammars.
//!
//! `docs/constraints.md` describes what is supported, and how JSON is written. A keyword that cannot be honoured
//! exactly is an error that names it and its location, never an approximation.

mod arrays;
mod numbers;
mod objects;
mod other_names;
mod parameters;
mod punctuation;
mod raw;
mod strings;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use foldhash::{HashMap, HashMapExt};
use serde_json::Value;
use verdigris_text::calls::{Kinds, Nested, Notation};

use crate::grammar::Grammar;
use crate::grammar::builder::{GrammarBuilder, NoGrammar};
use crate::grammar::punctuation::Punctuation;
use crate::grammar::step::{RETURN, Rule, Step, StepIndex};
use crate::json::document::{is_too_deep, is_too_old};
use crate::json::expand::{Schemas, normal};
use crate::json::fault::{BadSchema, Result, bad, check};
use crate::json::flat::{Flat, Key, Numbers, Strings, Types};
use crate::json::registry::Registry;
use crate::json::style::{Escapes, Style, Whitespace};
use crate::terminal::characters::Characters;

/// The maximum number of distinct counts of items, or of names that the schema does not list.
const MAX_COUNTS: u32 = 1 << 10;

/// The maximum number of rules of one grammar.
const MAX_RULES: usize = 1 << 17;

impl Grammar {
    /// Creates the grammar of all JSON texts.
    pub fn json(style: Style) -> Self {
        match Self::json_schema(&Value::Bool(true), style) {
            Ok(grammar) => grammar,
            Err(fault) => unreachable!("{fault}: it says nothing"),
        }
    }

    /// Creates the grammar of the JSON texts that obey a schema, whose references stay within it.
    ///
    /// # Errors
    /// The schema is malformed, cannot be honoured exactly, or has no finite text that obeys it.
    pub fn json_schema(schema: &Value, style: Style) -> Result<Self, BadSchema> {
        Self::json_schema_with(schema, style, &Registry::default())
    }

    /// Creates the grammar of the JSON texts that obey a schema, whose references may lead to schemas of a registry.
    ///
    /// # Errors
    /// As for [`Grammar::json_schema`].
    pub fn json_schema_with(schema: &Value, style: Style, registry: &Registry) -> Result<Self, BadSchema> {
        check_document(schema, registry)?;
        Compiler::new(schema, style, registry).compile(Level::Json)
    }

    /// Creates the grammar of the arguments of a call that obey a schema, in a notation whose texts are
    /// [spelled](verdigris_text::Tokenizer::spell); and the types that the schema allows for each parameter. Parameters
    /// that the schema does not name are left out.
    ///
    /// # Errors
    /// As for [`Grammar::json_schema`]; and if the notation cannot express a keyword or a name.
    pub fn arguments(
        schema: &Value,
        style: Style,
        notation: &Notation<Vec<u8>>,
    ) -> Result<(Self, BTreeMap<String, Kinds>), BadSchema> {
        let registry = Registry::default();
        check_document(schema, &registry)?;
        let style = match notation.nested {
            Nested::Same(Some(_)) => style.whitespace(Whitespace::Compact),
            _ => style,
        };
        let mut compiler = Compiler::new(schema, style, &registry);
        compiler.notation = Some(notation);
        let mut kinds = BTreeMap::new();
        let grammar = compiler.compile_with(Level::Arguments, &mut kinds)?;
        Ok((grammar, kinds))
    }
}

/// The location of a value, which decides how it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Level {
    /// In JSON.
    Json,
    /// The arguments of a call.
    Arguments,
    /// A parameter whose schema allows these types.
    Parameter(Kinds),
    /// In an array or object of a parameter.
    Nested,
}

/// Automata, by index, that must accept a text or must not; and texts that are excluded.
type Contents = (Vec<(u32, bool)>, Vec<String>);

/// Refuses documents that cannot be read as they are meant.
fn check_document(schema: &Value, registry: &Registry) -> Result<()> {
    if registry.schemas().chain([schema]).any(is_too_deep) {
        return bad("#", "it is nested too deep");
    }
    if registry.schemas().chain([schema]).any(is_too_old) {
        return bad("#/$schema", "drafts before draft 4 are not supported: declare the draft that it is written in");
    }
    Ok(())
}

struct Compiler<'a> {
    schemas: Schemas<'a>,
    style: Style,
    grammar: GrammarBuilder,
    punctuation: Punctuation,
    /// The notation of arguments; `None` for JSON.
    notation: Option<&'a Notation<Vec<u8>>>,
    /// The location of the value that is being compiled.
    level: Level,
    /// The rule of each set of demands at each location.
    rules: HashMap<(Key, Level), Rule>,
    /// Rules that have not been compiled yet.
    open: VecDeque<(Rule, Key, Level)>,
    /// The types that each parameter may have.
    kinds: BTreeMap<String, Kinds>,
    /// Terminals that recur.
    tables: HashMap<Vec<String>, u32>,
    numbers: HashMap<Numbers, Option<u32>>,
    characters: HashMap<Contents, Option<Arc<Characters>>>,
    strings: HashMap<(Escapes, Strings), Option<u32>>,
    raw: HashMap<(Kinds, Strings), Option<u32>>,
    /// The reason why no text is left, if JSON has some that are not written here.
    narrower: Option<String>,
}

impl<'a> Compiler<'a> {
    fn new(root: &'a Value, style: Style, registry: &'a Registry) -> Self {
        let mut grammar = GrammarBuilder::new();
        let punctuation = punctuation::add(&mut grammar, style.whitespace);
        Self {
            schemas: Schemas::new(root, registry),
            style,
            grammar,
            punctuation,
            notation: None,
            level: Level::Json,
            rules: HashMap::new(),
            open: VecDeque::new(),
            kinds: BTreeMap::new(),
            tables: HashMap::new(),
            numbers: HashMap::new(),
            characters: HashMap::new(),
            strings: HashMap::new(),
            raw: HashMap::new(),
            narrower: None,
        }
    }

    fn compile(self, level: Level) -> Result<Grammar> {
        self.compile_with(level, &mut BTreeMap::new())
    }

    /// Compiles the root at a location; the types of its parameters are added to `kinds`.
    fn compile_with(mut self, level: Level, kinds: &mut BTreeMap<String, Kinds>) -> Result<Grammar> {
        let root = self.schemas.root();
        self.rule_at(vec![(root, true)], level);
        while let Some((rule, key, level)) = self.open.pop_front() {
            self.level = level;
            let path = key.first().map_or("#".to_owned(), |&demand| self.schemas.path(demand).to_owned());
            self.grammar.set_path(&path);
            let mut ways = Vec::new();
            let flats = self.schemas.ways(&key)?;
            let flats = self.schemas.united(&flats);
            let flats = self.schemas.by_presence(&flats, self.object_signs().is_some(), &path)?;
            if level == Level::Arguments {
                self.add_kinds(&flats, &path)?;
            }
            for flat in flats.iter() {
                match flat.objects.some[..] {
                    [] => self.flat(flat, &path, &mut ways)?,
                    _ => {
                        for flat in self.schemas.by_names(flat) {
                            self.flat(&flat, &path, &mut ways)?;
                        }
                    }
                }
                self.check(&path)?;
            }
            let entry = self.grammar.fork(ways);
            self.grammar.define(rule, entry);
            if self.grammar.is_too_large() || self.rules.len() > MAX_RULES {
                return bad(&path, "the schema is too large");
            }
        }
        kinds.append(&mut self.kinds);
        let narrower = self.narrower;
        let budget = self.schemas.budget.clone();
        self.grammar.finish_within(&budget).or_else(|fault| match (fault, narrower) {
            (NoGrammar::Empty, None) => bad("#", "no finite text obeys it"),
            (NoGrammar::Empty, Some(why)) => {
                bad("#", format!("no finite text obeys it as texts are written here: {why}"))
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

    /// The error for something too large, or for a spent budget if that is the cause.
    fn large<T>(&self, path: &str, fault: &str) -> Result<T> {
        self.check(path)?;
        bad(path, fault)
    }

    /// The rule of some demands on a value in the current one, which is compiled later.
    fn rule(&mut self, key: Key) -> Rule {
        self.rule_at(key, self.inner())
    }

    /// The rule of some demands at a location, which is compiled later.
    fn rule_at(&mut self, key: Key, level: Level) -> Rule {
        let key = normal(key);
        if let Some(&rule) = self.rules.get(&(key.clone(), level)) {
            return rule;
        }
        self.schemas.budget.take(10 + key.len() as u64);
        let rule = self.grammar.rule();
        self.rules.insert((key.clone(), level), rule);
        self.open.push_back((rule, key, level));
        rule
    }

    /// Adds the ways to write a value of the remaining types.
    fn flat(&mut self, flat: &Flat, path: &str, ways: &mut Vec<StepIndex>) -> Result<()> {
        let (end, mut others) = (self.after_value(), Vec::new());
        // Arguments are an object.
        let types = if self.level == Level::Arguments { flat.types.and(Types::OBJECT) } else { flat.types };
        if let Some(terminal) = self.words(types, path)? {
            others.push(self.grammar.read(terminal, end));
        }
        if types.has(Types::NUMBER) {
            let terminal = self.number(&flat.numbers, path)?;
            others.extend(terminal.map(|terminal| self.grammar.read(terminal, end)));
        }
        if types.has(Types::STRING) {
            // A string without quotation marks includes the sign that ends it.
            let (terminal, end, to) = match self.raw_strings() {
                Some(raw) => (self.raw_string(&flat.strings, raw, path)?, RETURN, &mut *ways),
                None => (self.string(&flat.strings, self.style.escapes, path)?, end, &mut others),
            };
            to.extend(terminal.map(|terminal| self.grammar.read(terminal, end)));
        }
        if types.has(Types::ARRAY) {
            let shape = self.array(&flat.arrays, path)?;
            let inside = self.grammar.shapes().array(shape);
            let inside = self.grammar.step(Step::Inside(inside));
            let array = self.grammar.read(self.punctuation.open_array, inside);
            others.push(self.followed(array, end));
        }
        if types.has(Types::OBJECT) {
            let object = match self.object_signs() {
                Some(signs) => self.parameters(&flat.objects, signs, path)?,
                None => {
                    let shape = self.object(&flat.objects, path)?;
                    let inside = self.grammar.shapes().object(shape);
                    let inside = self.grammar.step(Step::Inside(inside));
                    self.grammar.read(self.punctuation.open_object, inside)
                }
            };
            others.push(self.followed(object, end));
        }
        ways.extend(self.others(others));
        Ok(())
    }

    /// A step to the end of its rule, followed by another.
    fn followed(&mut self, step: StepIndex, next: StepIndex) -> StepIndex {
        if next == RETURN {
            return step;
        }
        let rule = self.grammar.rule();
        self.grammar.define(rule, step);
        self.grammar.call(rule, next)
    }
}
