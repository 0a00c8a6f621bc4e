//! Expands schemas to unions of demands.
//!
//! `anyOf`, `oneOf`, `not`, `if` and similar keywords are resolved here; what remains are demands on each type, which
//! can be joined ([`crate::json::flat`]). A schema that must not hold becomes the union of the ways to break it.

mod apart;
mod assertion;
mod broken;
mod demands;
mod evaluated;
mod exclusion;
mod keywords;
mod presence;
mod united;
mod values;
mod ways;

use std::rc::Rc;

use foldhash::{HashMap, HashMapExt, HashSet, HashSetExt};
use serde_json::Value;

use self::assertion::{Assertion, KeywordUse};
use self::demands::{ANYTHING, joined, subsets};
use crate::automata::automaton::Automaton;
use crate::automata::budget::Budget;
use crate::json::document::{Document, Keywords};
use crate::json::fault::{Result, bad, check};
use crate::json::flat::{Demand, Flat, Key, Objects, Types};
use crate::json::pattern::pattern;
use crate::json::registry::Registry;

pub(crate) use self::demands::{NOTHING, item, normal};

/// The maximum number of ways to obey a schema.
const MAX_WAYS: usize = 4096;

/// The error for a schema that applies itself.
const CIRCLE: &str = "it refers to itself before anything is written";

/// The depth to which branches are searched for contradictions.
const DEPTH: u32 = 6;

/// The maximum depth of schemas that apply others in place.
const MAX_NESTING: u32 = 128;

/// The origin of a demand.
#[derive(Clone)]
enum Source<'a> {
    Schema(&'a Value),
    /// The schema of one value.
    Constant(&'a Value),
    /// At least one of some demands.
    Any(Rc<[Key]>),
}

/// The origin of an automaton over contents.
#[derive(PartialEq, Eq, Hash)]
enum ContentOf {
    Pattern(String),
    Format(String),
}

/// All schemas that have been encountered.
pub(crate) struct Schemas<'a> {
    pub(crate) budget: Rc<Budget>,
    document: Document<'a>,
    /// Whether any schema depends on what others have evaluated.
    looks_back: bool,
    /// The current depth of schemas that apply others in place.
    nesting: u32,
    sources: Vec<Source<'a>>,
    paths: Vec<Rc<str>>,
    numbers: HashMap<(*const Value, bool), u32>,
    flats: HashMap<Demand, Option<Rc<Vec<Flat>>>>,
    ways: HashMap<Key, Rc<Vec<Flat>>>,
    /// The ways to break schemas, overlapping as little as possible.
    apart: HashMap<u32, Rc<[Flat]>>,
    /// Automata over contents of strings, and their indices by origin.
    pub(crate) contents: Vec<Rc<Automaton>>,
    content_numbers: HashMap<ContentOf, u32>,
    /// Demands that are being compared.
    comparing: HashSet<Key>,
    /// The remaining depth of the search for contradictions.
    depth: u32,
    /// Whether some demands exclude each other, and the depth of the search that found out.
    excluded: HashMap<Key, (bool, u32)>,
    /// The number of times that an answer was not available because it was being computed.
    unknown: u64,
}

static TRUE: Value = Value::Bool(true);

impl<'a> Schemas<'a> {
    pub(crate) fn new(root: &'a Value, registry: &'a Registry) -> Self {
        let budget = Rc::new(Budget::default());
        let mut schemas = Self {
            document: Document::new(root, registry, budget.clone()),
            budget,
            looks_back: registry.schemas().chain([root]).any(looks_back),
            nesting: 0,
            sources: Vec::new(),
            paths: Vec::new(),
            numbers: HashMap::new(),
            flats: HashMap::new(),
            ways: HashMap::new(),
            apart: HashMap::new(),
            contents: Vec::new(),
            content_numbers: HashMap::new(),
            comparing: HashSet::new(),
            depth: DEPTH,
            excluded: HashMap::new(),
            unknown: 0,
        };
        schemas.schema(&TRUE, "true");
        schemas
    }

    pub(crate) fn root(&mut self) -> u32 {
        let root = self.document.root();
        self.schema(root, "#")
    }

    /// The index of a schema at a path.
    fn schema(&mut self, schema: &'a Value, path: &str) -> u32 {
        self.number(Source::Schema(schema), path)
    }

    fn number(&mut self, source: Source<'a>, path: &str) -> u32 {
        let (value, constant) = match source {
            Source::Schema(value) => (value, false),
            Source::Constant(value) => (value, true),
            Source::Any(_) => {
                self.budget.take(10 + path.len() as u64 / 8);
                self.sources.push(source);
                self.paths.push(path.into());
                return self.sources.len() as u32 - 1;
            }
        };
        if let (false, Value::Bool(true)) = (constant, value)
            && !self.sources.is_empty()
        {
            return ANYTHING;
        }
        let next = self.sources.len() as u32;
        let number = *self.numbers.entry((std::ptr::from_ref(value), constant)).or_insert(next);
        if number == next {
            self.budget.take(10 + path.len() as u64 / 8);
            self.sources.push(source);
            self.paths.push(path.into());
        }
        number
    }

    /// The demands of a schema; empty if it demands nothing.
    fn demand(&mut self, schema: &'a Value, path: &str) -> Key {
        match schema {
            Value::Bool(true) => Vec::new(),
            Value::Bool(false) => vec![NOTHING],
            Value::Object(keywords) if keywords.is_empty() => Vec::new(),
            _ => vec![(self.schema(schema, path), true)],
        }
    }

    /// The path of a demand.
    pub(crate) fn path(&self, demand: Demand) -> &str {
        &self.paths[demand.0 as usize]
    }

    /// The ways to obey several demands together.
    pub(crate) fn ways(&mut self, key: &Key) -> Result<Rc<Vec<Flat>>> {
        if let Some(ways) = self.ways.get(key) {
            return Ok(ways.clone());
        }
        if let [demand] = key[..] {
            return self.flats(demand);
        }
        let ways = Rc::new(self.ways_once(key)?);
        self.budget.take(10 + KEPT * ways.len() as u64);
        self.ways.insert(key.clone(), ways.clone());
        Ok(ways)
    }

    /// Like [`Schemas::ways`], without caching the result.
    fn ways_once(&mut self, key: &Key) -> Result<Vec<Flat>> {
        let mut ways = vec![Flat::of(Types::ALL)];
        for &demand in key {
            let flats = self.flats(demand)?;
            let path = self.paths[demand.0 as usize].clone();
            ways = self.cross(&ways, &flats, &path)?;
        }
        Ok(ways)
    }

    /// The ways to obey one demand.
    fn flats(&mut self, demand: Demand) -> Result<Rc<Vec<Flat>>> {
        match self.flats.get(&demand) {
            Some(Some(flats)) => return Ok(flats.clone()),
            Some(None) => return bad(self.path(demand), CIRCLE),
            None => {}
        }
        let (number, wanted) = demand;
        let path = self.paths[number as usize].clone();
        check(&self.budget, &path)?;
        if self.nesting == MAX_NESTING {
            return bad(&path, format!("schemas apply each other in place, more than {MAX_NESTING} deep"));
        }
        self.flats.insert(demand, None);
        self.nesting += 1;
        let flats = match (self.sources[number as usize].clone(), wanted) {
            (Source::Any(branches), true) => self.any_of(&branches, &path),
            (Source::Any(branches), false) => self.none_of(&branches, &path),
            (Source::Constant(value), _) => self.values(std::slice::from_ref(value), wanted, &path),
            (Source::Schema(Value::Bool(holds)), _) if *holds == wanted => Ok(vec![Flat::of(Types::ALL)]),
            (Source::Schema(Value::Bool(_)), _) => Ok(Vec::new()),
            (Source::Schema(Value::Object(keywords)), true) => self.obeyed(keywords, &path),
            (Source::Schema(Value::Object(keywords)), false) => self.broken(keywords, &path),
            _ => bad(&path, "a schema is an object, true or false"),
        };
        self.nesting -= 1;
        // A fault need not be final: when branches are compared, schemas that are still being expanded are skipped.
        self.flats.remove(&demand);
        let flats = Rc::new(flats?);
        self.budget.take(10 + KEPT * flats.len() as u64);
        self.flats.insert(demand, Some(flats.clone()));
        Ok(flats)
    }

    /// The ways to obey all keywords of a schema.
    fn obeyed(&mut self, keywords: &'a Keywords, path: &str) -> Result<Vec<Flat>> {
        let mut ways = vec![Flat::of(Types::ALL)];
        for assertion in self.assertions(keywords, KeywordUse::Obeyed, path)? {
            let flats = match assertion {
                Assertion::Plain { holds, .. } => holds,
                Assertion::Schema(demand) => Rc::unwrap_or_clone(self.flats(demand)?),
                Assertion::Any(branches) if self.looks_back => self.any_of(&subsets(&branches, path)?, path)?,
                Assertion::Any(branches) => self.any_of(&branches, path)?,
                Assertion::One(branches) => self.one_of(&branches, path)?,
                Assertion::If(condition, then, otherwise) => {
                    let mut any = self.ways(&joined(&[condition], &then))?.to_vec();
                    any.extend_from_slice(&self.ways(&joined(&[(condition.0, !condition.1)], &otherwise))?);
                    self.merge(any, path)?
                }
            };
            ways = self.cross(&ways, &flats, path)?;
        }
        if self.looks_back {
            self.unevaluated(keywords, path, &mut ways)?;
        }
        Ok(ways)
    }

    /// The ways to obey at least one branch.
    fn any_of(&mut self, branches: &[Key], path: &str) -> Result<Vec<Flat>> {
        let mut any = Vec::new();
        for branch in branches {
            let ways = self.ways(branch)?;
            self.budget.take(1 + weight(&ways));
            any.extend_from_slice(&ways);
            check(&self.budget, path)?;
        }
        self.merge(any, path)
    }

    /// A union as fewer ways.
    fn merge(&self, ways: Vec<Flat>, path: &str) -> Result<Vec<Flat>> {
        let merged = Flat::merge(ways, |so_far| {
            self.budget.take(1 + so_far as u64 / 64);
            !self.budget.is_spent()
        });
        check(&self.budget, path)?;
        Ok(merged)
    }

    /// The ways to obey one branch and none of the others that could hold with it.
    fn one_of(&mut self, branches: &[Key], path: &str) -> Result<Vec<Flat>> {
        let mut ways = Vec::new();
        for (i, branch) in branches.iter().enumerate() {
            let mut beside = Vec::new();
            for (j, other) in branches.iter().enumerate() {
                if i != j && !self.excludes(&joined(branch, other), DEPTH)? {
                    beside.push(other);
                }
                check(&self.budget, path)?;
            }
            let this = self.ways(branch)?.to_vec();
            ways.extend(self.breaking(this, &beside, path)?);
        }
        self.merge(ways, path)
    }

    /// Demands that hold if and only if the given ones do not all hold.
    pub(crate) fn opposite(&mut self, key: &Key, path: &str) -> Key {
        match key[..] {
            [] => vec![NOTHING],
            [(schema, wanted)] => normal(vec![(schema, !wanted)]),
            _ => {
                let branches: Vec<Key> = key.iter().map(|&(schema, wanted)| vec![(schema, !wanted)]).collect();
                vec![(self.number(Source::Any(branches.into()), path), true)]
            }
        }
    }

    /// The demands on a property of an object.
    pub(crate) fn property(&self, objects: &Objects, name: &str) -> Key {
        let mut key = Key::new();
        for properties in &objects.properties {
            let mut evaluated = false;
            if let Some(demands) = properties.find(name) {
                key.extend(demands);
                evaluated = true;
            }
            for (pattern, demands) in &properties.patterns {
                if self.contents[*pattern as usize].matches(name.as_bytes()) {
                    key.extend(demands);
                    evaluated = true;
                }
            }
            if !evaluated {
                key.extend(&properties.others);
            }
        }
        normal(key)
    }

    /// The index of an automaton over contents.
    fn content(&mut self, name: ContentOf, make: impl FnOnce() -> Result<Automaton>) -> Result<u32> {
        if let Some(&number) = self.content_numbers.get(&name) {
            return Ok(number);
        }
        self.contents.push(Rc::new(make()?));
        let number = self.contents.len() as u32 - 1;
        self.content_numbers.insert(name, number);
        Ok(number)
    }

    fn pattern(&mut self, text: &str, path: &str, keyword: &str) -> Result<u32> {
        let budget = self.budget.clone();
        self.content(ContentOf::Pattern(text.to_owned()), || {
            let automaton = pattern(&budget, text);
            check(&budget, path)?;
            automaton.or_else(|fault| bad(path, format!("{keyword:?} {text:?}: {fault}")))
        })
    }
}

/// The cost of copying some ways.
fn weight(ways: &[Flat]) -> u64 {
    ways.iter().map(Flat::weight).sum()
}

/// The cost of caching a way.
const KEPT: u64 = 30;

/// Whether a schema, or one inside it, depends on what others have evaluated.
fn looks_back(schema: &Value) -> bool {
    match schema {
        Value::Object(keywords) => {
            keywords.iter().any(|(keyword, value)| keyword.starts_with("unevaluated") || looks_back(value))
        }
        Value::Array(items) => items.iter().any(looks_back),
        _ => false,
    }
}
