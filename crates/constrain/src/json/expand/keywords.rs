//! The meaning of each keyword of a schema: the ways to obey it, and to break it.

use std::rc::Rc;

use serde_json::{Map, Value};

use super::assertion::{Assertion, KeywordUse};
use super::demands::{NOTHING, normal};
use super::presence;
use super::ways::{MAX_KEPT, item_is, some_property, without};
use super::{ContentOf, Schemas};
use crate::json::document::Keywords;
use crate::json::fault::{Result, bad, below, check};
use crate::json::flat::{ContainsSome, Demand, Flat, Items, Key, Properties, SomeNames, Types};
use crate::json::format;
use crate::json::number::{Bound, Decimal};

impl<'a> Schemas<'a> {
    /// The meaning of each keyword of a schema.
    pub(super) fn assertions(
        &mut self,
        keywords: &'a Keywords,
        asked: KeywordUse,
        path: &str,
    ) -> Result<Vec<Assertion>> {
        let mut all = Vec::new();
        for keyword in ["$ref", "$dynamicRef", "$recursiveRef"] {
            if self.document.value_of(keywords, keyword).is_none() {
                continue;
            }
            let (target, target_path) = self.document.resolve(keywords, keyword).or_else(|fault| bad(path, fault))?;
            all.push(Assertion::Schema((self.schema(target, &target_path), true)));
            if self.document.ignores_siblings_of_ref() {
                return Ok(all);
            }
        }
        self.plain(keywords, asked, path, &mut all)?;
        self.of_arrays(keywords, path, &mut all)?;
        self.of_objects(keywords, asked, path, &mut all)?;
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
        if let Some(condition) = self.document.value_of(keywords, "if") {
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

    /// Types, lists of values, and demands on numbers and strings.
    fn plain(&mut self, keywords: &'a Keywords, asked: KeywordUse, path: &str, all: &mut Vec<Assertion>) -> Result<()> {
        if let Some(value) = keywords.get("type") {
            all.push(types(value, path)?);
        }
        if let Some(value) = self.document.value_of(keywords, "const") {
            all.push(self.listed(std::slice::from_ref(value), asked, path)?);
        }
        if let Some(value) = keywords.get("enum") {
            let Value::Array(values) = value else { return bad(path, "\"enum\" is a list") };
            all.push(self.listed(values, asked, path)?);
        }
        for (keyword, below_it) in
            [("minimum", false), ("exclusiveMinimum", false), ("maximum", true), ("exclusiveMaximum", true)]
        {
            let inclusive = !keyword.starts_with("exclusive");
            let value = match keywords.get(keyword) {
                None => continue,
                // In draft 4, this modifies the bound.
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
                // For many validators a format of numbers is an annotation, which cannot be broken.
                all.push(Assertion::Plain { holds: vec![holds], broken: Ok(Vec::new()) });
            } else if let Some(automaton) = format::of_strings(name) {
                let budget = self.budget.clone();
                let content = self.content(ContentOf::Format(name.clone()), || {
                    let automaton = automaton();
                    budget.take(automaton.cells() as u64 / 2);
                    Ok(automaton)
                })?;
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

    fn listed(&mut self, values: &'a [Value], asked: KeywordUse, path: &str) -> Result<Assertion> {
        let holds = self.values(values, true, path)?;
        let broken = if asked == KeywordUse::Obeyed { Vec::new() } else { self.values(values, false, path)? };
        Ok(Assertion::Plain { holds, broken: Ok(broken) })
    }

    fn of_arrays(&mut self, keywords: &'a Keywords, path: &str, all: &mut Vec<Assertion>) -> Result<()> {
        let parts: Parts = (|flat| &mut flat.arrays.least, |flat| &mut flat.arrays.most);
        sizes(keywords, ["minItems", "maxItems"], Types::ARRAY, parts, path, all)?;
        // The older syntax: a list under "items", and the rest under "additionalItems".
        let (first, rest) = match (self.document.value_of(keywords, "prefixItems"), keywords.get("items")) {
            (None, Some(Value::Array(first))) => {
                (Some((first, "items")), keywords.get("additionalItems").map(|rest| (rest, "additionalItems")))
            }
            (Some(Value::Array(first)), rest) => (Some((first, "prefixItems")), rest.map(|rest| (rest, "items"))),
            (None, rest) => (None, rest.map(|rest| (rest, "items"))),
            _ => return bad(path, "\"prefixItems\" is a list"),
        };
        if first.is_some() || rest.is_some() {
            let (first, keyword) = first.map_or((&[][..], ""), |(first, keyword)| (&first[..], keyword));
            let path_of_list = below(path, keyword);
            let first: Vec<Key> = first
                .iter()
                .enumerate()
                .map(|(i, schema)| self.demand(schema, &below(&path_of_list, &i.to_string())))
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
        if let Some(schema) = self.document.value_of(keywords, "contains") {
            let what = self.demand(schema, &below(path, "contains"));
            let bound = |keyword| match self.document.value_of(keywords, keyword) {
                Some(_) => count(keywords, keyword, path),
                None => Ok(None),
            };
            let least = bound("minContains")?.unwrap_or(1);
            let most = bound("maxContains")?;
            let contains = |least, most| {
                let mut flat = Flat::of(Types::ARRAY);
                flat.arrays.contains = vec![ContainsSome { from: 0, what: what.clone(), least, most }];
                flat
            };
            let mut holds = contains(least, most);
            holds.types = Types::ALL;
            // In draft 2019-09, `contains` did not evaluate items.
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
        keywords: &'a Keywords,
        asked: KeywordUse,
        path: &str,
        all: &mut Vec<Assertion>,
    ) -> Result<()> {
        let parts: Parts = (|flat| &mut flat.objects.least, |flat| &mut flat.objects.most);
        sizes(keywords, ["minProperties", "maxProperties"], Types::OBJECT, parts, path, all)?;
        if let Some(value) = keywords.get("required")
            && !value.is_boolean()
        {
            let required = texts(value, path, "required")?;
            // If the value has a schema, absence is covered by the way in which the value is wrong if present.
            let spoken_of =
                |name: &&String| properties_of(keywords).and_then(|named| named.get(*name)).is_some_and(demands);
            let broken = required.iter().filter(|name| !spoken_of(name)).map(|name| without(name)).collect();
            let mut holds = Flat::of(Types::ALL);
            holds.objects.required = required;
            all.push(Assertion::Plain { holds: vec![holds], broken: Ok(broken) });
        }
        self.properties(keywords, asked, path, all)?;
        if let Some(schema) = self.document.value_of(keywords, "propertyNames") {
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
            let Some(value) = self.document.value_of(keywords, keyword) else { continue };
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
                    let mut there = Flat::of(Types::OBJECT);
                    there.objects.required = vec![name.clone()];
                    let ways = self.ways(&demand)?;
                    let holds = match presence::depending(name, &ways) {
                        Some(one) => vec![one],
                        None => {
                            let mut holds = vec![without(name)];
                            holds[0].types = Types::ALL;
                            holds.extend(ways.iter().filter_map(|flat| there.and(flat)));
                            holds
                        }
                    };
                    let broken = match asked {
                        KeywordUse::Obeyed => Vec::new(),
                        _ => self.some_broken(&demand, &path)?,
                    };
                    let broken = broken.iter().filter_map(|flat| there.and(flat)).collect();
                    all.push(Assertion::Plain { holds, broken: Ok(broken) });
                }
            }
        }
        Ok(())
    }

    /// The keywords about the values of properties.
    fn properties(
        &mut self,
        keywords: &'a Keywords,
        asked: KeywordUse,
        path: &str,
        all: &mut Vec<Assertion>,
    ) -> Result<()> {
        let mut properties = Properties::default();
        let (mut broken, mut right) = (Vec::new(), None);
        if let Some(value) = keywords.get("properties") {
            let Value::Object(named) = value else { return bad(path, "\"properties\" is an object") };
            let path = below(path, "properties");
            for (name, schema) in named {
                let demand = self.demand(schema, &below(&path, name));
                check(&self.budget, &path)?;
                properties.named.push((name.clone(), demand));
            }
            // One that is present is wrong; all are named, to keep their order.
            let required = keywords.get("required").and_then(Value::as_array);
            let is_required = |name: &str| required.is_some_and(|names| names.iter().any(|other| other == name));
            match asked {
                KeywordUse::Obeyed => {}
                KeywordUse::BrokenApart if named.len() <= MAX_KEPT => {
                    let is_tag = |name: &str| named[name].get("const").is_some() || named[name].get("enum").is_some();
                    broken = properties.one_wrong_apart(is_required, is_tag);
                    right = Some(properties.all_right());
                }
                _ => broken = properties.one_wrong(is_required),
            }
        }
        let wrong_names = broken.len();
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
            if let Some(right) = right {
                let others = broken.split_off(wrong_names);
                broken.extend(others.iter().filter_map(|other| right.and(other)));
            }
            holds.objects.evaluated = vec![properties.clone()];
            holds.objects.properties = vec![properties];
            all.push(Assertion::Plain { holds: vec![holds], broken: Ok(broken) });
        }
        Ok(())
    }
}

/// Accessors to the minimum and maximum size in demands on a type.
type Parts = (fn(&mut Flat) -> &mut u64, fn(&mut Flat) -> &mut Option<u64>);

/// Adds the minimum and maximum size of values of a type, which two keywords give.
fn sizes(
    keywords: &Keywords,
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
        // No size is below 0.
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

fn properties_of(keywords: &Keywords) -> Option<&Map<String, Value>> {
    keywords.get("properties").and_then(Value::as_object)
}

/// Whether a schema demands anything.
fn demands(schema: &Value) -> bool {
    !matches!(schema, Value::Bool(true)) && schema.as_object().is_none_or(|keywords| !keywords.is_empty())
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
            Some("any") => {
                number = true;
                Types::ALL
            }
            _ => return bad(path, format!("the type {name} is not one of JSON's")),
        });
    }
    let (mut holds, mut broken) = (Flat::of(types), Flat::of(Types::ALL.without(types)));
    if integer && !number {
        holds.numbers.whole = Some(true);
        broken.types = broken.types.or(Types::NUMBER);
        broken.numbers.whole = Some(false);
    }
    let broken = if broken.types == Types::NONE { Vec::new() } else { vec![broken] };
    Ok(Assertion::Plain { holds: vec![holds], broken: Ok(broken) })
}

fn count(keywords: &Keywords, keyword: &str, path: &str) -> Result<Option<u64>> {
    match keywords.get(keyword) {
        None => Ok(None),
        Some(value) => {
            // 2.0 counts as an integer too. The largest of all is more than any text has.
            let whole = value.as_f64().filter(|n| n.fract() == 0.0 && *n >= 0.0).map(|n| n as u64);
            match value.as_u64().or(whole) {
                Some(count) => Ok(Some(count)),
                None => bad(path, format!("{keyword:?} is a whole number, at least 0")),
            }
        }
    }
}
