//! From schemas to unions of demands.
//!
//! `anyOf`, `oneOf`, `not`, `if` and their kind are told apart here, so that what is left is demands on each type that
//! can be joined ([`crate::json::flat`]). A schema that must not hold is the union of the ways to break it.

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use serde_json::{Map, Value};

use crate::automaton::Automaton;
use crate::json::document::Document;
use crate::json::flat::{
    ContainsSome, Demand, EvaluatedItems, Flat, Items, Key, Objects, Properties, SomeNames, SomeProperty, Types,
};
use crate::json::format;
use crate::json::number::{Bound, Decimal};
use crate::json::pattern::pattern;
use crate::json::registry::Registry;
use crate::json::schema::BadSchema;

/// The most ways in which a schema may be obeyed that are told apart.
const MAX_WAYS: usize = 4096;

/// How deep it is looked for a contradiction between branches.
const DEPTH: u32 = 6;

/// Of more properties than that, the order is not kept where one of them must be wrong.
const MAX_KEPT: usize = 64;

/// How deep schemas may apply others in place.
const MAX_NESTING: u32 = 128;

/// The most branches of which all sets are looked at.
const MAX_BRANCHES: usize = 6;

pub(crate) type Result<T, E = BadSchema> = std::result::Result<T, E>;

pub(crate) fn bad<T>(path: &str, fault: impl Into<String>) -> Result<T> {
    Err(BadSchema { path: path.to_owned(), fault: fault.into() })
}

/// The schema that everything obeys, and the one that nothing does.
pub(crate) const ANYTHING: u32 = 0;
pub(crate) const NOTHING: Demand = (ANYTHING, false);

/// What a demand is made of.
#[derive(Clone)]
enum Source<'a> {
    Schema(&'a Value),
    /// The schema of one value.
    Constant(&'a Value),
    /// One of some demands at least.
    Any(Rc<[Key]>),
}

/// All schemas that are looked at.
pub(crate) struct Schemas<'a> {
    document: Document<'a>,
    /// Whether some schema asks what others have evaluated.
    looks_back: bool,
    /// How deep it is in schemas that apply others in place.
    nesting: u32,
    sources: Vec<Source<'a>>,
    paths: Vec<Rc<str>>,
    numbers: HashMap<(*const Value, bool), u32>,
    flats: HashMap<Demand, Option<Rc<Vec<Flat>>>>,
    ways: HashMap<Key, Rc<Vec<Flat>>>,
    /// Automata over contents of strings, and what they were made of.
    pub(crate) contents: Vec<Rc<Automaton>>,
    content_numbers: HashMap<String, u32>,
    /// Pairs that are being compared, which count as apart until it is known.
    comparing: HashSet<Key>,
}

static TRUE: Value = Value::Bool(true);

impl<'a> Schemas<'a> {
    pub(crate) fn new(root: &'a Value, registry: &'a Registry) -> Self {
        let mut schemas = Self {
            document: Document::new(root, registry),
            looks_back: registry.schemas().chain([root]).any(looks_back),
            nesting: 0,
            sources: Vec::new(),
            paths: Vec::new(),
            numbers: HashMap::new(),
            flats: HashMap::new(),
            ways: HashMap::new(),
            contents: Vec::new(),
            content_numbers: HashMap::new(),
            comparing: HashSet::new(),
        };
        schemas.schema(&TRUE, "true");
        schemas
    }

    pub(crate) fn root(&mut self) -> u32 {
        let root = self.document.root();
        self.schema(root, "#")
    }

    /// The number of a schema, which stands at a path.
    fn schema(&mut self, schema: &'a Value, path: &str) -> u32 {
        self.number(Source::Schema(schema), path)
    }

    fn number(&mut self, source: Source<'a>, path: &str) -> u32 {
        let (value, constant) = match source {
            Source::Schema(value) => (value, false),
            Source::Constant(value) => (value, true),
            Source::Any(_) => {
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
            self.sources.push(source);
            self.paths.push(path.into());
        }
        number
    }

    /// What a schema demands, in a list; nothing where it demands nothing.
    fn demand(&mut self, schema: &'a Value, path: &str) -> Key {
        match schema {
            Value::Bool(true) => Vec::new(),
            Value::Bool(false) => vec![NOTHING],
            Value::Object(keywords) if keywords.is_empty() => Vec::new(),
            _ => vec![(self.schema(schema, path), true)],
        }
    }

    /// Where a demand stands.
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
        let mut ways = vec![Flat::of(Types::ALL)];
        for &demand in key {
            let flats = self.flats(demand)?;
            let path = self.paths[demand.0 as usize].clone();
            ways = cross(&ways, &flats, &path)?;
        }
        let ways = Rc::new(ways);
        self.ways.insert(key.clone(), ways.clone());
        Ok(ways)
    }

    /// The ways to obey one demand.
    fn flats(&mut self, demand: Demand) -> Result<Rc<Vec<Flat>>> {
        match self.flats.get(&demand) {
            Some(Some(flats)) => return Ok(flats.clone()),
            Some(None) => return bad(self.path(demand), "it refers to itself before anything is written"),
            None => {}
        }
        let (number, wanted) = demand;
        let path = self.paths[number as usize].clone();
        if self.nesting == MAX_NESTING {
            return bad(&path, format!("schemas apply each other in place, more than {MAX_NESTING} deep"));
        }
        self.flats.insert(demand, None);
        self.nesting += 1;
        let flats = match (self.sources[number as usize].clone(), wanted) {
            (Source::Any(branches), true) => self.any_of(&branches)?,
            (Source::Any(branches), false) => self.none_of(&branches, &path)?,
            (Source::Constant(value), _) => self.values(std::slice::from_ref(value), wanted, &path)?,
            (Source::Schema(Value::Bool(holds)), _) => {
                if *holds == wanted {
                    vec![Flat::of(Types::ALL)]
                } else {
                    Vec::new()
                }
            }
            (Source::Schema(Value::Object(keywords)), true) => self.obeyed(keywords, &path)?,
            (Source::Schema(Value::Object(keywords)), false) => self.broken(keywords, &path)?,
            _ => return bad(&path, "a schema is an object, true or false"),
        };
        self.nesting -= 1;
        let flats = Rc::new(flats);
        self.flats.insert(demand, Some(flats.clone()));
        Ok(flats)
    }

    /// The ways to obey all keywords of a schema.
    fn obeyed(&mut self, keywords: &'a Map<String, Value>, path: &str) -> Result<Vec<Flat>> {
        let mut ways = vec![Flat::of(Types::ALL)];
        for assertion in self.assertions(keywords, true, path)? {
            let flats = match assertion {
                Assertion::Plain { holds, .. } => holds,
                Assertion::Schema(demand) => Rc::unwrap_or_clone(self.flats(demand)?),
                Assertion::Any(branches) if self.looks_back => self.any_of(&subsets(&branches, path)?)?,
                Assertion::Any(branches) => self.any_of(&branches)?,
                Assertion::One(branches) => self.one_of(&branches, path)?,
                Assertion::If(condition, then, otherwise) => {
                    let mut any = self.ways(&joined(&[condition], &then))?.to_vec();
                    any.extend_from_slice(&self.ways(&joined(&[(condition.0, !condition.1)], &otherwise))?);
                    Flat::merge(any)
                }
            };
            ways = cross(&ways, &flats, path)?;
        }
        if self.looks_back {
            self.unevaluated(keywords, path, &mut ways)?;
        }
        Ok(ways)
    }

    /// What nothing has looked at obeys the demands of `unevaluatedProperties` and `unevaluatedItems`.
    ///
    /// Of the branches of `anyOf` that hold, all count. It is enough that some set of them holds and is looked at, for what
    /// has been looked at by more of them has less to obey.
    fn unevaluated(&mut self, keywords: &'a Map<String, Value>, path: &str, ways: &mut [Flat]) -> Result<()> {
        if let Some(schema) = keywords.get("unevaluatedProperties") {
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
        if let Some(schema) = keywords.get("unevaluatedItems") {
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

    /// The ways to obey one branch at least.
    fn any_of(&mut self, branches: &[Key]) -> Result<Vec<Flat>> {
        let mut any = Vec::new();
        for branch in branches {
            any.extend_from_slice(&self.ways(branch)?);
        }
        Ok(Flat::merge(any))
    }

    /// The ways to break some keyword of a schema.
    fn broken(&mut self, keywords: &'a Map<String, Value>, path: &str) -> Result<Vec<Flat>> {
        let mut ways = Vec::new();
        for keyword in ["unevaluatedProperties", "unevaluatedItems"] {
            if keywords.get(keyword).is_some_and(|schema| *schema != Value::Bool(true)) {
                return unbreakable(path, keyword);
            }
        }
        for assertion in self.assertions(keywords, false, path)? {
            match assertion {
                Assertion::Plain { broken: Ok(broken), .. } => ways.extend(broken),
                Assertion::Plain { broken: Err(keyword), .. } => return unbreakable(path, keyword),
                Assertion::Schema((schema, wanted)) => ways.extend_from_slice(&self.flats((schema, !wanted))?),
                Assertion::Any(branches) => ways.extend(self.none_of(&branches, path)?),
                Assertion::One(branches) => {
                    // None of them, or two.
                    ways.extend(self.none_of(&branches, path)?);
                    for (i, a) in branches.iter().enumerate() {
                        for b in &branches[i + 1..] {
                            ways.extend_from_slice(&self.ways(&joined(a, b))?);
                        }
                    }
                }
                Assertion::If(condition, then, otherwise) => {
                    let then = self.some_broken(&then)?;
                    let holds = self.flats(condition)?;
                    ways.extend(cross(&holds, &then, path)?);
                    let otherwise = self.some_broken(&otherwise)?;
                    let fails = self.flats((condition.0, !condition.1))?;
                    ways.extend(cross(&fails, &otherwise, path)?);
                }
            }
        }
        let mut ways = Flat::merge(ways);
        // What is looked at where it is asked whether a schema fails, does not count.
        for way in &mut ways {
            way.objects.evaluated.clear();
            way.arrays.evaluated = EvaluatedItems::default();
        }
        Ok(ways)
    }

    /// The ways to break every branch: of each some demand.
    fn none_of(&mut self, branches: &[Key], path: &str) -> Result<Vec<Flat>> {
        let mut none = vec![Flat::of(Types::ALL)];
        for branch in branches {
            none = cross(&none, &self.some_broken(branch)?, path)?;
        }
        Ok(none)
    }

    /// The ways to break one of several demands.
    fn some_broken(&mut self, key: &Key) -> Result<Vec<Flat>> {
        let mut ways = Vec::new();
        for &(schema, wanted) in key {
            ways.extend_from_slice(&self.flats((schema, !wanted))?);
        }
        Ok(Flat::merge(ways))
    }

    /// One branch, and none of the others that could hold beside it.
    fn one_of(&mut self, branches: &[Key], path: &str) -> Result<Vec<Flat>> {
        let mut ways = Vec::new();
        for (i, branch) in branches.iter().enumerate() {
            let mut this = self.ways(branch)?.to_vec();
            for (j, other) in branches.iter().enumerate() {
                if i != j && !self.excludes(&joined(branch, other), DEPTH)? {
                    let broken = self.some_broken(other)?;
                    this = cross(&this, &broken, path)?;
                }
            }
            ways.extend(this);
        }
        Ok(Flat::merge(ways))
    }

    /// Whether it is certain that no value obeys some demands together.
    fn excludes(&mut self, key: &Key, depth: u32) -> Result<bool> {
        let ways = self.ways(key)?;
        if ways.is_empty() || depth == 0 {
            return Ok(ways.is_empty());
        }
        if !self.comparing.insert(key.clone()) {
            return Ok(false);
        }
        let mut all = true;
        for flat in ways.iter() {
            if !self.is_empty(flat, depth)? {
                all = false;
                break;
            }
        }
        self.comparing.remove(key);
        Ok(all)
    }

    /// Whether it is certain that no value obeys a demand.
    pub(crate) fn is_empty(&mut self, flat: &Flat, depth: u32) -> Result<bool> {
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
            if key.contains(&NOTHING) || self.excludes(&key, depth - 1)? {
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
                    && Automaton::all_of(&parts).is_err_and(|fault| fault == crate::automaton::NoAutomaton::Empty)
            }
        }
    }

    fn array_is_empty(&mut self, flat: &Flat, depth: u32) -> Result<bool> {
        let arrays = flat.arrays.clone();
        for at in 0..arrays.least.min(16) as usize {
            let key = item(&arrays.items, at);
            if key.contains(&NOTHING) || self.excludes(&key, depth - 1)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Demands that hold just where some do not hold together.
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

    /// What a property of an object must obey.
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

    /// The number of an automaton over contents.
    fn content(&mut self, name: String, make: impl FnOnce() -> Result<Automaton>) -> Result<u32> {
        if let Some(&number) = self.content_numbers.get(&name) {
            return Ok(number);
        }
        self.contents.push(Rc::new(make()?));
        let number = self.contents.len() as u32 - 1;
        self.content_numbers.insert(name, number);
        Ok(number)
    }

    fn pattern(&mut self, text: &str, path: &str, keyword: &str) -> Result<u32> {
        self.content(format!("pattern {text}"), || {
            pattern(text).or_else(|fault| bad(path, format!("{keyword:?} {text:?}: {fault}")))
        })
    }

    /// Values that are written down in the schema, or all others.
    fn values(&mut self, values: &'a [Value], wanted: bool, path: &str) -> Result<Vec<Flat>> {
        let mut scalars = Flat::of(Types::NONE);
        let (mut numbers, mut strings, mut composite) = (Vec::new(), Vec::new(), Vec::new());
        for value in values {
            match value {
                Value::Null => scalars.types = scalars.types.or(Types::NULL),
                Value::Bool(false) => scalars.types = scalars.types.or(Types::FALSE),
                Value::Bool(true) => scalars.types = scalars.types.or(Types::TRUE),
                Value::Number(number) => numbers.push(Decimal::parse(&number.to_string())),
                Value::String(text) => strings.push(text.clone()),
                _ => composite.push(value),
            }
        }
        if !wanted {
            let mut others = Flat::of(Types::ALL.without(scalars.types));
            others.numbers.except = numbers;
            others.strings.except = strings;
            let mut others = vec![others];
            for value in composite {
                others = cross(&others, &self.other_than(value, path), path)?;
            }
            return Ok(others);
        }
        if !numbers.is_empty() {
            scalars.types = scalars.types.or(Types::NUMBER);
            scalars.numbers.among = Some(Rc::new(numbers));
        }
        if !strings.is_empty() {
            scalars.types = scalars.types.or(Types::STRING);
            scalars.strings.among = Some(Rc::new(strings));
        }
        let mut flats = Vec::new();
        if scalars.types != Types::NONE {
            flats.push(scalars);
        }
        for value in composite {
            let mut constant = |value: &'a Value| vec![(self.number(Source::Constant(value), path), true)];
            let mut flat = match value {
                Value::Array(items) => {
                    let mut flat = Flat::of(Types::ARRAY);
                    flat.arrays.least = items.len() as u64;
                    flat.arrays.most = Some(items.len() as u64);
                    let first = items.iter().map(&mut constant).collect();
                    flat.arrays.items = vec![Rc::new(Items { first, rest: vec![NOTHING] })];
                    flat
                }
                Value::Object(properties) => {
                    let mut flat = Flat::of(Types::OBJECT);
                    flat.objects.required = properties.keys().cloned().collect();
                    let named = properties.iter().map(|(name, value)| (name.clone(), constant(value))).collect();
                    let others = vec![NOTHING];
                    flat.objects.properties = vec![Rc::new(Properties { named, others, ..Properties::default() })];
                    flat
                }
                _ => unreachable!("scalars have been told apart"),
            };
            flat.objects.least = flat.objects.required.len() as u64;
            flats.push(flat);
        }
        Ok(Flat::merge(flats))
    }

    /// All values but an array or an object.
    fn other_than(&mut self, value: &'a Value, path: &str) -> Vec<Flat> {
        let mut differs = |value: &'a Value| vec![(self.number(Source::Constant(value), path), false)];
        match value {
            Value::Array(items) => {
                let mut ways = vec![Flat::of(Types::ALL.without(Types::ARRAY)), Flat::of(Types::ARRAY)];
                ways[1].arrays.least = items.len() as u64 + 1;
                if let Some(most) = items.len().checked_sub(1) {
                    ways.push(Flat::of(Types::ARRAY));
                    ways[2].arrays.most = Some(most as u64);
                }
                ways.extend(items.iter().enumerate().map(|(at, item)| item_is(at, differs(item))));
                ways
            }
            Value::Object(properties) => {
                let mut ways = vec![Flat::of(Types::ALL.without(Types::OBJECT))];
                ways.extend(properties.keys().map(|name| without(name)));
                let mut named: Vec<(String, Key)> =
                    properties.iter().map(|(name, value)| (name.clone(), differs(value))).collect();
                ways.extend(Properties { named: named.clone(), ..Properties::default() }.one_of_these());
                named.iter_mut().for_each(|(_, key)| key.clear());
                let names = SomeNames::Other(Rc::new(Properties { named, ..Properties::default() }));
                ways.push(some_property(names, Key::new()));
                ways
            }
            _ => unreachable!("scalars have been told apart"),
        }
    }

    /// What the keywords of a schema say, each by itself; `wanted` where it is not asked how to break them.
    fn assertions(&mut self, keywords: &'a Map<String, Value>, wanted: bool, path: &str) -> Result<Vec<Assertion>> {
        let mut all = Vec::new();
        for keyword in
            ["$ref", "$dynamicRef", "$recursiveRef"].into_iter().filter(|&keyword| keywords.contains_key(keyword))
        {
            let (target, place) = self.document.resolve(keywords, keyword).or_else(|fault| bad(path, fault))?;
            all.push(Assertion::Schema((self.schema(target, &place), true)));
            if self.document.ignores_siblings_of_ref() {
                return Ok(all);
            }
        }
        self.plain(keywords, wanted, path, &mut all)?;
        self.of_arrays(keywords, path, &mut all)?;
        self.of_objects(keywords, wanted, path, &mut all)?;
        for keyword in ["allOf", "anyOf", "oneOf"] {
            let Some(value) = keywords.get(keyword) else { continue };
            let Value::Array(branches) = value else { return bad(path, format!("{keyword:?} is a list")) };
            if branches.is_empty() {
                return bad(path, format!("{keyword:?} is a list of at least one schema"));
            }
            let path = below(path, keyword);
            let demands =
                branches.iter().enumerate().map(|(i, branch)| self.demand(branch, &below(&path, &i.to_string())));
            let demands: Vec<Key> = demands.collect();
            match keyword {
                "allOf" => all.extend(demands.into_iter().flatten().map(Assertion::Schema)),
                "anyOf" => all.push(Assertion::Any(demands)),
                _ => all.push(Assertion::One(demands)),
            }
        }
        if let Some(schema) = keywords.get("not") {
            let number = self.schema(schema, &below(path, "not"));
            all.push(Assertion::Schema((number, false)));
        }
        if let Some(condition) = keywords.get("if") {
            let condition = (self.schema(condition, &below(path, "if")), true);
            let mut branch = |keyword: &str| {
                keywords.get(keyword).map_or(Key::new(), |schema| self.demand(schema, &below(path, keyword)))
            };
            let (then, otherwise) = (branch("then"), branch("else"));
            if !then.is_empty() || !otherwise.is_empty() || self.looks_back {
                all.push(Assertion::If(condition, then, otherwise));
            }
        }
        Ok(all)
    }

    /// Types, lists of values, and what is said of numbers and strings.
    fn plain(
        &mut self,
        keywords: &'a Map<String, Value>,
        wanted: bool,
        path: &str,
        all: &mut Vec<Assertion>,
    ) -> Result<()> {
        if let Some(value) = keywords.get("type") {
            all.push(types(value, path)?);
        }
        if let Some(value) = keywords.get("const") {
            all.push(self.listed(std::slice::from_ref(value), wanted, path)?);
        }
        if let Some(value) = keywords.get("enum") {
            let Value::Array(values) = value else { return bad(path, "\"enum\" is a list") };
            all.push(self.listed(values, wanted, path)?);
        }
        for (keyword, below_it) in
            [("minimum", false), ("exclusiveMinimum", false), ("maximum", true), ("exclusiveMaximum", true)]
        {
            let inclusive = !keyword.starts_with("exclusive");
            let value = match keywords.get(keyword) {
                None => continue,
                // Of draft 4: says how the bound beside it is meant.
                Some(Value::Bool(_)) if !inclusive => continue,
                Some(Value::Number(value)) => Decimal::parse(&value.to_string()),
                Some(_) => return bad(path, format!("{keyword:?} is a number")),
            };
            let exclusive = if below_it { "exclusiveMaximum" } else { "exclusiveMinimum" };
            let inclusive = inclusive && keywords.get(exclusive) != Some(&Value::Bool(true));
            let (within, outside) = (Bound { value: value.clone(), inclusive }, Bound { value, inclusive: !inclusive });
            let (mut holds, mut broken) = (Flat::of(Types::ALL), Flat::of(Types::NUMBER));
            if below_it {
                (holds.numbers.high, broken.numbers.low) = (Some(within), Some(outside));
            } else {
                (holds.numbers.low, broken.numbers.high) = (Some(within), Some(outside));
            }
            all.push(Assertion::plain(holds, broken));
        }
        if let Some(value) = keywords.get("multipleOf") {
            let of = value.as_number().map(|of| Decimal::parse(&of.to_string()));
            let Some(of) = of.filter(Decimal::is_positive) else {
                return bad(path, "\"multipleOf\" is a number above 0");
            };
            let (mut holds, mut broken) = (Flat::of(Types::ALL), Flat::of(Types::NUMBER));
            holds.numbers.multiples = vec![(of.clone(), true)];
            broken.numbers.multiples = vec![(of, false)];
            all.push(Assertion::plain(holds, broken));
        }
        let parts: Parts = (|flat| &mut flat.strings.least, |flat| &mut flat.strings.most);
        sizes(keywords, ["minLength", "maxLength"], Types::STRING, parts, path, all)?;
        if let Some(value) = keywords.get("pattern") {
            let Value::String(text) = value else { return bad(path, "\"pattern\" is a text") };
            let content = self.pattern(text, path, "pattern")?;
            all.push(Assertion::content(content));
        }
        if let Some(Value::String(name)) = keywords.get("format") {
            if let Some((least, most)) = format::of_numbers(name) {
                let mut holds = Flat::of(Types::ALL);
                let bound = |n: i128| Bound { value: Decimal::parse(&n.to_string()), inclusive: true };
                (holds.numbers.low, holds.numbers.high) = (least.map(bound), most.map(bound));
                all.push(Assertion::Plain { holds: vec![holds], broken: Err("format") });
            } else if let Some(automaton) = format::of_strings(name) {
                let content = self.content(format!("format {name}"), || Ok(automaton()))?;
                all.push(Assertion::content(content));
                if let Some(most) = format::longest(name) {
                    let (mut holds, mut broken) = (Flat::of(Types::ALL), Flat::of(Types::STRING));
                    (holds.strings.most, broken.strings.least) = (Some(most), most + 1);
                    all.push(Assertion::plain(holds, broken));
                }
            }
        }
        Ok(())
    }

    fn listed(&mut self, values: &'a [Value], wanted: bool, path: &str) -> Result<Assertion> {
        let holds = self.values(values, true, path)?;
        let broken = if wanted { Vec::new() } else { self.values(values, false, path)? };
        Ok(Assertion::Plain { holds, broken: Ok(broken) })
    }

    fn of_arrays(&mut self, keywords: &'a Map<String, Value>, path: &str, all: &mut Vec<Assertion>) -> Result<()> {
        let parts: Parts = (|flat| &mut flat.arrays.least, |flat| &mut flat.arrays.most);
        sizes(keywords, ["minItems", "maxItems"], Types::ARRAY, parts, path, all)?;
        // The older form: a list under "items", and the rest under "additionalItems".
        let (first, rest) = match (keywords.get("prefixItems"), keywords.get("items")) {
            (None, Some(Value::Array(first))) => {
                (Some((first, "items")), keywords.get("additionalItems").map(|rest| (rest, "additionalItems")))
            }
            (Some(Value::Array(first)), rest) => (Some((first, "prefixItems")), rest.map(|rest| (rest, "items"))),
            (None, rest) => (None, rest.map(|rest| (rest, "items"))),
            _ => return bad(path, "\"prefixItems\" is a list"),
        };
        if first.is_some() || rest.is_some() {
            let (first, keyword) = first.map_or((&[][..], ""), |(first, keyword)| (&first[..], keyword));
            let place = below(path, keyword);
            let first: Vec<Key> = first
                .iter()
                .enumerate()
                .map(|(i, schema)| self.demand(schema, &below(&place, &i.to_string())))
                .collect();
            let has_rest = rest.is_some();
            let rest = rest.map_or(Key::new(), |(rest, keyword)| self.demand(rest, &below(path, keyword)));
            let mut broken = Vec::new();
            for (at, demands) in first.iter().enumerate() {
                broken.extend(demands.iter().map(|&(schema, wanted)| item_is(at, vec![(schema, !wanted)])));
            }
            match rest[..] {
                [NOTHING] => {
                    let mut flat = Flat::of(Types::ARRAY);
                    flat.arrays.least = first.len() as u64 + 1;
                    broken.push(flat);
                }
                _ => broken.extend(rest.iter().map(|&(schema, wanted)| {
                    let mut flat = Flat::of(Types::ARRAY);
                    let what = vec![(schema, !wanted)];
                    flat.arrays.contains = vec![ContainsSome { from: first.len(), what, least: 1, most: None }];
                    flat
                })),
            }
            let mut holds = Flat::of(Types::ALL);
            holds.arrays.evaluated.first = first.len();
            holds.arrays.evaluated.all = has_rest;
            holds.arrays.items = vec![Rc::new(Items { first, rest })];
            all.push(Assertion::Plain { holds: vec![holds], broken: Ok(broken) });
        }
        if keywords.get("uniqueItems") == Some(&Value::Bool(true)) {
            let mut holds = Flat::of(Types::ALL);
            holds.arrays.unique = true;
            all.push(Assertion::Plain { holds: vec![holds], broken: Err("uniqueItems") });
        }
        if let Some(schema) = keywords.get("contains") {
            let what = self.demand(schema, &below(path, "contains"));
            let least = count(keywords, "minContains", path)?.unwrap_or(1);
            let most = count(keywords, "maxContains", path)?;
            let contains = |least, most| {
                let mut flat = Flat::of(Types::ARRAY);
                flat.arrays.contains = vec![ContainsSome { from: 0, what: what.clone(), least, most }];
                flat
            };
            let mut holds = contains(least, most);
            holds.types = Types::ALL;
            // In draft 2019-09 it did not count.
            if !self.document.is_of_2019() {
                holds.arrays.evaluated.found.push(what.clone());
            }
            let mut broken = Vec::new();
            if least > 0 {
                broken.push(contains(0, Some(least - 1)));
            }
            broken.extend(most.map(|most| contains(most + 1, None)));
            all.push(Assertion::Plain { holds: vec![holds], broken: Ok(broken) });
        }
        Ok(())
    }

    fn of_objects(
        &mut self,
        keywords: &'a Map<String, Value>,
        wanted: bool,
        path: &str,
        all: &mut Vec<Assertion>,
    ) -> Result<()> {
        let parts: Parts = (|flat| &mut flat.objects.least, |flat| &mut flat.objects.most);
        sizes(keywords, ["minProperties", "maxProperties"], Types::OBJECT, parts, path, all)?;
        if let Some(value) = keywords.get("required")
            && !value.is_boolean()
        {
            let required = texts(value, path, "required")?;
            let broken = required.iter().map(|name| without(name)).collect();
            let mut holds = Flat::of(Types::ALL);
            holds.objects.required = required;
            all.push(Assertion::Plain { holds: vec![holds], broken: Ok(broken) });
        }
        self.properties(keywords, wanted, path, all)?;
        if let Some(schema) = keywords.get("propertyNames") {
            let names = self.demand(schema, &below(path, "propertyNames"));
            if !names.is_empty() {
                let mut holds = Flat::of(Types::ALL);
                holds.objects.names = names.clone();
                let wrong =
                    |&(schema, wanted): &Demand| some_property(SomeNames::Obeying(vec![(schema, !wanted)]), Key::new());
                let broken = names.iter().map(wrong).collect();
                all.push(Assertion::Plain { holds: vec![holds], broken: Ok(broken) });
            }
        }
        for keyword in ["dependentRequired", "dependentSchemas", "dependencies"] {
            let Some(value) = keywords.get(keyword) else { continue };
            let Value::Object(dependencies) = value else { return bad(path, format!("{keyword:?} is an object")) };
            for (name, value) in dependencies {
                let path = below(&below(path, keyword), name);
                if value.is_array() || value.is_string() {
                    let implied = if value.is_array() {
                        texts(value, &path, keyword)?
                    } else {
                        texts(&Value::Array(vec![value.clone()]), &path, keyword)?
                    };
                    let mut broken = Vec::new();
                    for other in &implied {
                        let mut flat = without(other);
                        flat.objects.required = vec![name.clone()];
                        broken.push(flat);
                    }
                    let mut holds = Flat::of(Types::ALL);
                    holds.objects.implies = implied.into_iter().map(|other| (name.clone(), other)).collect();
                    all.push(Assertion::Plain { holds: vec![holds], broken: Ok(broken) });
                } else {
                    let demand = self.demand(value, &path);
                    let mut holds = vec![without(name)];
                    holds[0].types = Types::ALL;
                    let mut there = Flat::of(Types::OBJECT);
                    there.objects.required = vec![name.clone()];
                    for flat in self.ways(&demand)?.iter() {
                        holds.extend(there.and(flat));
                    }
                    let broken = if wanted { Vec::new() } else { self.some_broken(&demand)? };
                    let broken = broken.iter().filter_map(|flat| there.and(flat)).collect();
                    all.push(Assertion::Plain { holds, broken: Ok(broken) });
                }
            }
        }
        Ok(())
    }

    /// The keywords that say what values properties have.
    fn properties(
        &mut self,
        keywords: &'a Map<String, Value>,
        wanted: bool,
        path: &str,
        all: &mut Vec<Assertion>,
    ) -> Result<()> {
        let mut properties = Properties::default();
        let mut broken = Vec::new();
        if let Some(value) = keywords.get("properties") {
            let Value::Object(named) = value else { return bad(path, "\"properties\" is an object") };
            let path = below(path, "properties");
            for (name, schema) in named {
                let demand = self.demand(schema, &below(&path, name));
                properties.named.push((name.clone(), demand));
            }
            // One that is there is wrong; all are named, for they keep their order.
            if !wanted {
                broken = properties.one_wrong();
            }
        }
        if let Some(value) = keywords.get("patternProperties") {
            let Value::Object(patterns) = value else { return bad(path, "\"patternProperties\" is an object") };
            let path = below(path, "patternProperties");
            for (text, schema) in patterns {
                let content = self.pattern(text, &path, "patternProperties")?;
                let demand = self.demand(schema, &below(&path, text));
                broken.extend(
                    demand
                        .iter()
                        .map(|&(schema, wanted)| some_property(SomeNames::Pattern(content), vec![(schema, !wanted)])),
                );
                properties.patterns.push((content, demand));
            }
        }
        if let Some(schema) = keywords.get("additionalProperties") {
            properties.others = self.demand(schema, &below(path, "additionalProperties"));
            properties.evaluates_others = true;
        }
        let says_something = !properties.named.is_empty()
            || !properties.patterns.is_empty()
            || keywords.contains_key("additionalProperties");
        if says_something {
            let mut holds = Flat::of(Types::ALL);
            let properties = Rc::new(properties);
            broken.extend(properties.others.iter().map(|&(schema, wanted)| {
                let value = normal(vec![(schema, !wanted)]);
                some_property(SomeNames::Other(properties.clone()), value)
            }));
            holds.objects.evaluated = vec![properties.clone()];
            holds.objects.properties = vec![properties];
            all.push(Assertion::Plain { holds: vec![holds], broken: Ok(broken) });
        }
        Ok(())
    }
}

/// The ways to obey one of each.
fn cross(a: &[Flat], b: &[Flat], path: &str) -> Result<Vec<Flat>> {
    let mut all = Vec::new();
    for a in a {
        all.extend(b.iter().filter_map(|b| a.and(b)));
        if all.len() > MAX_WAYS {
            return bad(path, "there are too many ways to combine its branches");
        }
    }
    Ok(all)
}

/// What one keyword says.
enum Assertion {
    /// The ways to obey it, and to break it; or the keyword, where breaking it cannot be said.
    Plain { holds: Vec<Flat>, broken: Result<Vec<Flat>, &'static str> },
    /// Another schema holds, or does not.
    Schema(Demand),
    /// One of these at least.
    Any(Vec<Key>),
    /// One of these and no more.
    One(Vec<Key>),
    /// If the first holds, the second must, else the third.
    If(Demand, Key, Key),
}

impl Assertion {
    fn plain(holds: Flat, broken: Flat) -> Self {
        Self::Plain { holds: vec![holds], broken: Ok(vec![broken]) }
    }

    fn content(content: u32) -> Self {
        let (mut holds, mut broken) = (Flat::of(Types::ALL), Flat::of(Types::STRING));
        holds.strings.contents = vec![(content, true)];
        broken.strings.contents = vec![(content, false)];
        Self::plain(holds, broken)
    }
}

impl Properties {
    /// The ways in which one of the named properties is there and breaks a demand.
    fn one_wrong(&self) -> Vec<Flat> {
        let turned = |key: &Key| key.iter().map(|&(schema, wanted)| (schema, !wanted)).collect();
        let named = self.named.iter().map(|(name, key)| (name.clone(), turned(key))).collect();
        Self { named, ..Self::default() }.one_of_these()
    }

    /// The ways in which one of the named properties is there and obeys one of its demands.
    fn one_of_these(&self) -> Vec<Flat> {
        // All of a few are named, for they keep their order.
        let others = if self.named.len() > MAX_KEPT { &[] } else { &self.named[..] };
        let wrong = |(at, demand): (usize, &Demand)| {
            let this = &self.named[at].0;
            let mut named: Vec<(String, Key)> = others.iter().map(|(name, _)| (name.clone(), Key::new())).collect();
            match named.get_mut(at) {
                Some((_, key)) => key.push(*demand),
                None => named.push((this.clone(), vec![*demand])),
            }
            let mut flat = Flat::of(Types::OBJECT);
            flat.objects.required = vec![this.clone()];
            flat.objects.properties = vec![Rc::new(Self { named, ..Self::default() })];
            flat
        };
        let demands =
            self.named.iter().enumerate().flat_map(|(at, (_, key))| key.iter().map(move |demand| (at, demand)));
        demands.map(wrong).collect()
    }
}

/// Where demands on a type keep a least and a greatest size.
type Parts = (fn(&mut Flat) -> &mut u64, fn(&mut Flat) -> &mut Option<u64>);

/// What two keywords say of the least and the greatest size of values of a type.
fn sizes(
    keywords: &Map<String, Value>,
    [min, max]: [&str; 2],
    types: Types,
    (least_of, most_of): Parts,
    path: &str,
    all: &mut Vec<Assertion>,
) -> Result<()> {
    if let Some(least) = count(keywords, min, path)? {
        let (mut holds, mut broken) = (Flat::of(Types::ALL), Flat::of(types));
        *least_of(&mut holds) = least;
        *most_of(&mut broken) = least.checked_sub(1);
        // Nothing is smaller than nothing.
        let broken = if least == 0 { Vec::new() } else { vec![broken] };
        all.push(Assertion::Plain { holds: vec![holds], broken: Ok(broken) });
    }
    if let Some(most) = count(keywords, max, path)? {
        let (mut holds, mut broken) = (Flat::of(Types::ALL), Flat::of(types));
        *most_of(&mut holds) = Some(most);
        *least_of(&mut broken) = most + 1;
        all.push(Assertion::plain(holds, broken));
    }
    Ok(())
}

/// Arrays that have an item at a place, which obeys something.
fn item_is(at: usize, what: Key) -> Flat {
    let mut flat = Flat::of(Types::ARRAY);
    flat.arrays.least = at as u64 + 1;
    let mut first = vec![Key::new(); at];
    first.push(what);
    flat.arrays.items = vec![Rc::new(Items { first, rest: Key::new() })];
    flat
}

/// Objects that have a property with a name among some, whose value obeys something.
fn some_property(names: SomeNames, value: Key) -> Flat {
    let mut flat = Flat::of(Types::OBJECT);
    flat.objects.some = vec![SomeProperty { names, value }];
    flat
}

/// All sets of some branches but the empty one.
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

/// Whether a schema, or one in it, asks what others have evaluated.
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

/// Objects that do not have a property.
fn without(name: &str) -> Flat {
    let mut flat = Flat::of(Types::OBJECT);
    let named = vec![(name.to_owned(), vec![NOTHING])];
    flat.objects.properties = vec![Rc::new(Properties { named, ..Properties::default() })];
    flat
}

/// Demands in order, each once.
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

/// What the item of an array at a place must obey.
pub(crate) fn item(items: &[Rc<Items>], at: usize) -> Key {
    let key = items.iter().flat_map(|items| items.first.get(at).unwrap_or(&items.rest)).copied();
    normal(key.collect())
}

/// The path of a part of a schema.
pub(crate) fn below(path: &str, key: &str) -> String {
    format!("{path}/{}", key.replace('~', "~0").replace('/', "~1"))
}

fn texts(value: &Value, path: &str, keyword: &str) -> Result<Vec<String>> {
    let list = value.as_array().map(|list| list.iter().map(|text| text.as_str().map(str::to_owned)).collect());
    match list {
        Some(Some(texts)) => Ok(texts),
        _ => bad(path, format!("{keyword:?} is a list of texts")),
    }
}

fn types(value: &Value, path: &str) -> Result<Assertion> {
    let names: Vec<&Value> = match value {
        Value::Array(names) => names.iter().collect(),
        name => vec![name],
    };
    let (mut types, mut integer, mut number) = (Types::NONE, false, false);
    for name in names {
        types = types.or(match name.as_str() {
            Some("null") => Types::NULL,
            Some("boolean") => Types::FALSE.or(Types::TRUE),
            Some("integer") => {
                integer = true;
                Types::NUMBER
            }
            Some("number") => {
                number = true;
                Types::NUMBER
            }
            Some("string") => Types::STRING,
            Some("array") => Types::ARRAY,
            Some("object") => Types::OBJECT,
            Some("any") => Types::ALL,
            _ => return bad(path, format!("the type {name} is not one of JSON's")),
        });
    }
    let (mut holds, mut broken) = (Flat::of(types), Flat::of(Types::ALL.without(types)));
    if integer && !number && types != Types::ALL {
        holds.numbers.whole = Some(true);
        broken.types = broken.types.or(Types::NUMBER);
        broken.numbers.whole = Some(false);
    }
    let broken = if broken.types == Types::NONE { Vec::new() } else { vec![broken] };
    Ok(Assertion::Plain { holds: vec![holds], broken: Ok(broken) })
}

fn count(keywords: &Map<String, Value>, keyword: &str, path: &str) -> Result<Option<u64>> {
    match keywords.get(keyword) {
        None => Ok(None),
        Some(value) => {
            // 2.0 is a whole number too.
            let whole = value.as_f64().filter(|n| n.fract() == 0.0 && (0.0..1e15).contains(n)).map(|n| n as u64);
            match value.as_u64().or(whole) {
                Some(count) => Ok(Some(count)),
                None => bad(path, format!("{keyword:?} is a whole number, at least 0")),
            }
        }
    }
}
