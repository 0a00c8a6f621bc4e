//! Expands schemas to unions of demands.
//!
//! `anyOf`, `oneOf`, `not`, `if` and similar keywords are resolved here; what remains are demands on each type, which
//! can be joined ([`crate::json::flat`]). A schema that must not hold becomes the union of the ways to break it.

mod apart;
mod assertion;
mod keywords;
mod presence;
mod united;
mod values;
mod ways;

use std::rc::Rc;

use foldhash::{HashMap, HashMapExt, HashSet, HashSetExt};
use serde_json::{Map, Value};

use self::assertion::{Asked, Assertion};
use crate::automata::automaton::{Automaton, NoAutomaton};
use crate::automata::budget::Budget;
use crate::json::document::Document;
use crate::json::fault::{Result, bad, below, check};
use crate::json::flat::{Demand, EvaluatedItems, Flat, Items, Key, Objects, Properties, Types};
use crate::json::pattern::pattern;
use crate::json::registry::Registry;

/// The maximum number of ways to obey a schema.
const MAX_WAYS: usize = 4096;

/// The error for a schema that applies itself.
const CIRCLE: &str = "it refers to itself before anything is written";

/// The depth to which branches are searched for contradictions.
const DEPTH: u32 = 6;

/// The maximum depth of schemas that apply others in place.
const MAX_NESTING: u32 = 128;

/// The maximum number of branches all of whose subsets are considered.
const MAX_BRANCHES: usize = 6;

/// The schema that every value obeys, and the demand that no value obeys.
pub(crate) const ANYTHING: u32 = 0;
pub(crate) const NOTHING: Demand = (ANYTHING, false);

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
    fn obeyed(&mut self, keywords: &'a Map<String, Value>, path: &str) -> Result<Vec<Flat>> {
        let mut ways = vec![Flat::of(Types::ALL)];
        for assertion in self.assertions(keywords, Asked::Obeyed, path)? {
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

    /// Applies the demands of `unevaluatedProperties` and `unevaluatedItems` to everything that has not been evaluated.
    ///
    /// Of `anyOf`, all branches that hold count. It is enough that some set of them holds and is evaluated, since
    /// evaluating more leaves less to obey.
    fn unevaluated(&mut self, keywords: &'a Map<String, Value>, path: &str, ways: &mut [Flat]) -> Result<()> {
        if let Some(schema) = self.document.value_of(keywords, "unevaluatedProperties") {
            let demand = self.demand(schema, &below(path, "unevaluatedProperties"));
            for Flat { objects, .. } in &mut *ways {
                if !objects.evaluated.iter().any(|properties| properties.evaluates_others) {
                    let mut rest =
                        Properties { others: demand.clone(), evaluates_others: true, ..Properties::default() };
                    for properties in &objects.evaluated {
                        rest.named.extend(properties.named.iter().map(|(name, _)| (name.clone(), Key::new())));
                        rest.patterns.extend(properties.patterns.iter().map(|&(content, _)| (content, Key::new())));
                    }
                    let rest = Rc::new(rest);
                    objects.properties.push(rest.clone());
                    objects.evaluated.push(rest);
                }
            }
        }
        if let Some(schema) = self.document.value_of(keywords, "unevaluatedItems") {
            let path = below(path, "unevaluatedItems");
            let demand = self.demand(schema, &path);
            for Flat { arrays, .. } in ways {
                let evaluated = std::mem::take(&mut arrays.evaluated);
                if !evaluated.all {
                    let rest = match &evaluated.found[..] {
                        [] => demand.clone(),
                        found => {
                            let branches: Vec<Key> = found.iter().chain([&demand]).cloned().collect();
                            vec![(self.number(Source::Any(branches.into()), &path), true)]
                        }
                    };
                    arrays.items.push(Rc::new(Items { first: vec![Key::new(); evaluated.first], rest }));
                }
                arrays.evaluated.all = true;
            }
        }
        Ok(())
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

    /// The ways to break some keyword of a schema.
    fn broken(&mut self, keywords: &'a Map<String, Value>, path: &str) -> Result<Vec<Flat>> {
        let mut ways = Vec::new();
        for assertion in self.breakable(keywords, Asked::Broken, path)? {
            ways.extend(self.against(&assertion, path)?);
        }
        let mut ways = self.merge(ways, path)?;
        has_looked_at_nothing(&mut ways);
        Ok(ways)
    }

    /// The ways to break some keyword of a schema and none before it, as far as that is one way.
    fn broken_apart(&mut self, schema: u32) -> Result<Vec<Flat>> {
        let Source::Schema(Value::Object(keywords)) = self.sources[schema as usize] else {
            return Ok(self.flats((schema, false))?.to_vec());
        };
        let path = self.paths[schema as usize].clone();
        let mut ways = Vec::new();
        let mut before = Flat::of(Types::ALL);
        for assertion in self.breakable(keywords, Asked::BrokenApart, &path)? {
            let broken = match &assertion {
                Assertion::Schema((schema, true)) => self.some_broken_apart(&vec![(*schema, true)], &path)?,
                other => self.against(other, &path)?,
            };
            ways.extend(broken.iter().filter_map(|way| before.and(way)));
            let holds = match assertion {
                // A missing name is handled with its value.
                Assertion::Plain { holds, .. } => <[Flat; 1]>::try_from(holds).ok().map(|[holds]| holds),
                Assertion::Schema(demand) => self.only_way(&vec![demand])?,
                _ => None,
            };
            if let Some(both) = holds.filter(|holds| holds.objects.required.is_empty()).and_then(|it| before.and(&it)) {
                before = both;
            }
            check(&self.budget, &path)?;
        }
        has_looked_at_nothing(&mut ways);
        Ok(ways)
    }

    /// The meaning of the keywords of a schema that must not all hold.
    fn breakable(&mut self, keywords: &'a Map<String, Value>, asked: Asked, path: &str) -> Result<Vec<Assertion>> {
        for keyword in ["unevaluatedProperties", "unevaluatedItems"] {
            if self.document.value_of(keywords, keyword).is_some_and(|schema| *schema != Value::Bool(true)) {
                return unbreakable(path, keyword);
            }
        }
        self.assertions(keywords, asked, path)
    }

    /// The ways to break a keyword.
    fn against(&mut self, assertion: &Assertion, path: &str) -> Result<Vec<Flat>> {
        Ok(match assertion {
            Assertion::Plain { broken: Ok(broken), .. } => broken.clone(),
            Assertion::Plain { broken: Err(keyword), .. } => return unbreakable(path, keyword),
            Assertion::Schema((schema, wanted)) => self.flats((*schema, !wanted))?.to_vec(),
            Assertion::Any(branches) => self.none_of(branches, path)?,
            Assertion::One(branches) => {
                // None of them, or two.
                let mut ways = self.none_of(branches, path)?;
                for (i, a) in branches.iter().enumerate() {
                    for b in &branches[i + 1..] {
                        let both = self.ways(&joined(a, b))?;
                        self.budget.take(weight(&both));
                        ways.extend_from_slice(&both);
                        check(&self.budget, path)?;
                    }
                }
                ways
            }
            Assertion::If(condition, then, otherwise) => {
                let then = self.some_broken(then, path)?;
                let holds = self.flats(*condition)?;
                let mut ways = self.cross(&holds, &then, path)?;
                let otherwise = self.some_broken(otherwise, path)?;
                let fails = self.flats((condition.0, !condition.1))?;
                ways.extend(self.cross(&fails, &otherwise, path)?);
                ways
            }
        })
    }

    /// The ways to break every branch, by breaking some demand of each.
    fn none_of(&mut self, branches: &[Key], path: &str) -> Result<Vec<Flat>> {
        let all: Vec<&Key> = branches.iter().collect();
        self.breaking(vec![Flat::of(Types::ALL)], &all, path)
    }

    /// The ways to break one of several demands.
    fn some_broken(&mut self, key: &Key, path: &str) -> Result<Vec<Flat>> {
        let mut ways = Vec::new();
        for &(schema, wanted) in key {
            let broken = self.flats((schema, !wanted))?;
            self.budget.take(weight(&broken));
            ways.extend_from_slice(&broken);
        }
        self.merge(ways, path)
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

    /// Whether it is certain that no value obeys some demands together.
    fn excludes(&mut self, key: &Key, depth: u32) -> Result<bool> {
        match self.excluded.get(key) {
            Some(&(excludes, so_deep)) if excludes || so_deep >= depth => return Ok(excludes),
            _ => {}
        }
        let unknown = self.unknown;
        let before = std::mem::replace(&mut self.depth, depth);
        let excludes = self.excludes_at_depth(key);
        self.depth = before;
        let excludes = excludes?;
        if excludes || self.unknown == unknown {
            self.budget.take(4 + key.len() as u64);
            self.excluded.insert(key.clone(), (excludes, depth));
        }
        Ok(excludes)
    }

    fn excludes_at_depth(&mut self, key: &Key) -> Result<bool> {
        // Branches are compared in pairs, which are too many to cache.
        let ways = match self.ways_once(key) {
            // The value of a property may be the schema whose branches are being compared, or be unsupported.
            Err(_) if !self.budget.is_spent() => {
                self.unknown += 1;
                return Ok(false);
            }
            ways => ways?,
        };
        if ways.is_empty() || self.depth == 0 {
            return Ok(ways.is_empty());
        }
        if !self.comparing.insert(key.clone()) {
            self.unknown += 1;
            return Ok(false);
        }
        let mut all = Ok(true);
        for flat in &ways {
            all = self.is_empty(flat);
            if all != Ok(true) {
                break;
            }
        }
        self.comparing.remove(key);
        all
    }

    /// Whether it is certain that no value obeys a demand.
    pub(crate) fn is_empty(&mut self, flat: &Flat) -> Result<bool> {
        let Some(depth) = self.depth.checked_sub(1) else { return Ok(false) };
        if flat.types.without(Types::OBJECT.or(Types::STRING).or(Types::ARRAY)) != Types::NONE {
            return Ok(false);
        }
        if flat.types.has(Types::STRING) && !self.string_is_empty(flat) {
            return Ok(false);
        }
        if flat.types.has(Types::ARRAY) && !self.array_is_empty(flat, depth)? {
            return Ok(false);
        }
        if !flat.types.has(Types::OBJECT) {
            return Ok(true);
        }
        for name in &flat.objects.required {
            let key = self.property(&flat.objects, name);
            if key.contains(&NOTHING) || self.excludes(&key, depth)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Whether a text is accepted by all automata that must accept it, and by none that must not.
    pub(crate) fn contents_accept(&self, contents: &[(u32, bool)], text: &str) -> bool {
        contents.iter().all(|&(content, wanted)| self.contents[content as usize].matches(text.as_bytes()) == wanted)
    }

    fn string_is_empty(&self, flat: &Flat) -> bool {
        let strings = &flat.strings;
        match &strings.among {
            Some(among) => !among.iter().any(|text| self.contents_accept(&strings.contents, text)),
            None => {
                let parts: Vec<(&Automaton, bool)> = strings
                    .contents
                    .iter()
                    .map(|&(content, wanted)| (&*self.contents[content as usize], wanted))
                    .collect();
                parts.len() > 1
                    && Automaton::all_of(&self.budget, &parts).is_err_and(|fault| fault == NoAutomaton::Empty)
            }
        }
    }

    fn array_is_empty(&mut self, flat: &Flat, depth: u32) -> Result<bool> {
        let arrays = flat.arrays.clone();
        for at in 0..arrays.least.min(16) as usize {
            let key = item(&arrays.items, at);
            if key.contains(&NOTHING) || self.excludes(&key, depth)? {
                return Ok(true);
            }
        }
        Ok(false)
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

/// Resets what is evaluated: a schema that is tested for failure does not evaluate anything.
fn has_looked_at_nothing(ways: &mut [Flat]) {
    for way in ways {
        way.objects.evaluated.clear();
        way.arrays.evaluated = EvaluatedItems::default();
    }
}

/// The cost of copying some ways.
fn weight(ways: &[Flat]) -> u64 {
    ways.iter().map(Flat::weight).sum()
}

/// The cost of caching a way.
const KEPT: u64 = 30;

/// All subsets of some branches except the empty one.
fn subsets(branches: &[Key], path: &str) -> Result<Vec<Key>> {
    if branches.len() > MAX_BRANCHES {
        return bad(
            path,
            format!("\"anyOf\" of more than {MAX_BRANCHES} schemas with \"unevaluated...\" is not supported"),
        );
    }
    let set = |bits: u32| {
        let chosen = branches.iter().enumerate().filter(|(i, _)| bits >> i & 1 == 1);
        normal(chosen.flat_map(|(_, branch)| branch).copied().collect())
    };
    Ok((1..1 << branches.len()).map(set).collect())
}

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

fn unbreakable<T>(path: &str, keyword: &str) -> Result<T> {
    bad(path, format!("{keyword:?} below \"not\" (or in \"oneOf\" or \"if\") is not supported"))
}

/// Sorts demands and removes duplicates.
pub(crate) fn normal(mut key: Key) -> Key {
    key.retain(|&demand| demand != (ANYTHING, true));
    key.sort_unstable();
    key.dedup();
    if key.contains(&NOTHING) {
        return vec![NOTHING];
    }
    key
}

fn joined(a: &[Demand], b: &[Demand]) -> Key {
    normal([a, b].concat())
}

/// The demands on the item of an array at an index.
pub(crate) fn item(items: &[Rc<Items>], at: usize) -> Key {
    let key = items.iter().flat_map(|items| items.first.get(at).unwrap_or(&items.rest)).copied();
    normal(key.collect())
}
