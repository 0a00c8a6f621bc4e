//! From a schema to a grammar.
//!
//! Understood are `type`, `enum`, `const`, `properties`, `required`, `additionalProperties`, `items`,
//! `prefixItems`, `minItems`, `maxItems`, `minLength`, `maxLength`, `pattern`, `minimum`, `maximum`,
//! `exclusiveMinimum`, `exclusiveMaximum`, the numeric formats of OpenAPI (`int32`, `double` and so on), `anyOf`,
//! `oneOf` where its branches exclude each other, and `$ref` within the document, recursion included. The rules
//! are those of draft 2020-12.
//!
//! Of the many ways to write one JSON value, one family is written: properties in the order of the schema (and
//! then others, where they are allowed), a space or none after a colon and a comma and no other white space,
//! strings with the escapes that they need, and numbers without exponent.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::LazyLock;

use serde_json::{Map, Value};

use crate::automaton::{Automaton, NoAutomaton};
use crate::grammar::{At, Builder, Grammar, NoGrammar, Rule};
use crate::json::number::{Bound, Decimal, integer, number};
use crate::json::oneof::{Overlap, exclusive};
use crate::json::pattern::translate;
use crate::json::string::{NoString, string, string_except};
use crate::regex::BadRegex;

/// Whether an object may have properties that its schema does not name, where the schema does not say so.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Objects {
    /// It may, as JSON Schema has it.
    #[default]
    Open,
    /// It may not. What is written obeys the schema all the same.
    Closed,
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

/// Keywords that say something about a schema or for its readers, and nothing about values.
const ANNOTATIONS: [&str; 14] = [
    "$schema",
    "$id",
    "id",
    "$comment",
    "$defs",
    "definitions",
    "title",
    "description",
    "default",
    "examples",
    "deprecated",
    "readOnly",
    "writeOnly",
    "$vocabulary",
];

/// Names that begin with `x-` are for extensions, by OpenAPI's custom.
fn is_annotation(keyword: &str) -> bool {
    ANNOTATIONS.contains(&keyword) || keyword.starts_with("x-")
}

/// The types of JSON, with the keywords that say something about values of that type.
const TYPES: [(&str, &[&str]); 7] = [
    ("null", &[]),
    ("boolean", &[]),
    ("integer", &["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "format"]),
    ("number", &["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "format"]),
    ("string", &["minLength", "maxLength", "pattern", "format"]),
    ("array", &["items", "prefixItems", "minItems", "maxItems"]),
    ("object", &["properties", "required", "additionalProperties"]),
];

/// No array is spelled out longer than this.
const MAX_ITEMS: u64 = 10_000;

impl Grammar {
    /// The grammar of the JSON texts that obey a schema.
    pub fn json_schema(schema: &Value, objects: Objects) -> Result<Self, BadSchema> {
        Compiler::new(schema, objects).compile()
    }
}

/// A schema without any demand.
static ANYTHING: Value = Value::Bool(true);

/// An object without any property.
static NOTHING: LazyLock<Map<String, Value>> = LazyLock::new(Map::new);

struct Compiler<'a> {
    root: &'a Value,
    objects: Objects,
    grammar: Builder,
    /// The rule of each place in the schema.
    rules: HashMap<String, Rule>,
    /// Rules that have not been written yet, and where they stand.
    open: VecDeque<(Rule, String, &'a Value)>,
    /// Where each rule stands, for errors.
    paths: Vec<String>,
    /// Automata that occur again and again.
    literals: HashMap<Vec<String>, u32>,
    strings: HashMap<StringDemands, Option<u32>>,
}

/// What a schema says about a string: its pattern, and its least and greatest length.
type StringDemands = (Option<String>, u64, Option<u64>);

type Result<T, E = BadSchema> = std::result::Result<T, E>;

fn bad<T>(path: &str, fault: impl Into<String>) -> Result<T> {
    Err(BadSchema { path: path.to_owned(), fault: fault.into() })
}

/// The path of a part of a schema.
fn below(path: &str, key: &str) -> String {
    format!("{path}/{}", key.replace('~', "~0").replace('/', "~1"))
}

impl<'a> Compiler<'a> {
    fn new(root: &'a Value, objects: Objects) -> Self {
        Self {
            root,
            objects,
            grammar: Builder::new(),
            rules: HashMap::new(),
            open: VecDeque::new(),
            paths: Vec::new(),
            literals: HashMap::new(),
            strings: HashMap::new(),
        }
    }

    fn compile(mut self) -> Result<Grammar> {
        self.rule("#".to_owned(), self.root);
        while let Some((rule, path, schema)) = self.open.pop_front() {
            let ways = self.schema(schema, &path)?;
            let entry = self.grammar.fork(ways);
            self.grammar.define(rule, entry);
            if self.grammar.is_too_large() {
                return bad(&path, "the schema is too large");
            }
        }
        let paths = self.paths;
        self.grammar.finish().or_else(|fault| match fault {
            NoGrammar::Empty => bad("#", "no finite text obeys it"),
            NoGrammar::TooLarge => bad("#", "the schema is too large"),
            NoGrammar::Loop(rule) => bad(&paths[rule as usize], "it refers to itself before anything is written"),
        })
    }

    /// The rule of a schema that stands at a path; it is written later.
    fn rule(&mut self, path: String, schema: &'a Value) -> Rule {
        if let Some(&rule) = self.rules.get(&path) {
            return rule;
        }
        let rule = self.grammar.rule();
        self.paths.push(path.clone());
        self.rules.insert(path.clone(), rule);
        self.open.push_back((rule, path, schema));
        rule
    }

    /// The rule of any JSON value.
    fn anything(&mut self) -> Rule {
        self.rule("true".to_owned(), &ANYTHING)
    }

    fn automaton(
        &mut self,
        automaton: Result<Automaton, NoAutomaton>,
        path: &str,
        keyword: &str,
    ) -> Result<Option<u32>> {
        match automaton {
            Ok(automaton) => Ok(Some(self.grammar.automaton(automaton))),
            Err(NoAutomaton::Empty) => Ok(None),
            Err(NoAutomaton::TooLarge) => bad(path, format!("{keyword} is too large for an automaton")),
        }
    }

    /// Reads one of some texts, which come from the schema and may be long.
    fn one_of(&mut self, texts: Vec<String>, next: At, path: &str) -> Result<At> {
        let automaton = match self.literals.get(&texts) {
            Some(&automaton) => automaton,
            None => {
                let automaton = self.automaton(Automaton::literals(&texts), path, "a text in it")?;
                let automaton = automaton.expect("there are texts");
                self.literals.insert(texts, automaton);
                automaton
            }
        };
        Ok(self.grammar.read(automaton, next))
    }

    /// Reads a word or a sign of JSON, in one of its forms.
    fn sign(&mut self, forms: &[&str], next: At) -> At {
        let forms = forms.iter().map(|&form| form.to_owned()).collect();
        self.one_of(forms, next, "").expect("the words of JSON are short")
    }

    /// A comma, with a space after it or none.
    fn comma(&mut self, next: At) -> At {
        self.sign(&[",", ", "], next)
    }

    /// The ways to write a value that obeys a schema.
    fn schema(&mut self, schema: &'a Value, path: &str) -> Result<Vec<At>> {
        let keywords = match schema {
            Value::Bool(true) => &*NOTHING,
            Value::Bool(false) => return Ok(Vec::new()),
            Value::Object(keywords) => keywords,
            _ => return bad(path, "a schema is an object, true or false"),
        };
        self.check_keywords(keywords, path)?;
        let types = types(keywords, path)?;
        for whole in ["$ref", "enum", "const", "anyOf", "oneOf"] {
            let Some(value) = keywords.get(whole) else { continue };
            let others = keywords.keys().find(|&key| {
                let type_beside_values = key == "type" && matches!(whole, "enum" | "const");
                key != whole && !is_annotation(key) && !type_beside_values
            });
            if let Some(other) = others {
                return bad(path, format!("{other:?} beside {whole:?} is not supported"));
            }
            return match (whole, value) {
                ("$ref", _) => Ok(vec![self.reference(value, path)?]),
                ("const", value) => self.values(std::slice::from_ref(value), types.as_deref(), path),
                ("enum", Value::Array(values)) => self.values(values, types.as_deref(), path),
                ("anyOf" | "oneOf", Value::Array(branches)) => {
                    if whole == "oneOf" {
                        self.check_exclusive(branches, path)?;
                    }
                    let path = below(path, whole);
                    let call = |(i, branch)| {
                        let rule = self.rule(below(&path, &format!("{i}")), branch);
                        self.grammar.call(rule, Builder::RETURN)
                    };
                    Ok(branches.iter().enumerate().map(call).collect())
                }
                _ => bad(path, format!("{whole:?} is a list")),
            };
        }
        let all: Vec<&str> = TYPES.iter().map(|(name, _)| *name).collect();
        let types = types.unwrap_or(all);
        let mut ways = Vec::new();
        for name in &types {
            match *name {
                "null" => ways.push(self.sign(&["null"], Builder::RETURN)),
                "boolean" => ways.push(self.sign(&["false", "true"], Builder::RETURN)),
                // Every integer is a number.
                "integer" if types.contains(&"number") => {}
                "integer" | "number" => ways.extend(self.number(keywords, path, *name == "integer")?),
                "string" => ways.extend(self.string(keywords, path)?),
                "array" => ways.extend(self.array(keywords, path)?),
                _ => ways.push(self.object(keywords, path)?),
            }
        }
        Ok(ways)
    }

    /// Every keyword is one that is understood, or only an annotation.
    fn check_keywords(&self, keywords: &Map<String, Value>, path: &str) -> Result<()> {
        for key in keywords.keys().map(String::as_str) {
            let understood = matches!(key, "type" | "$ref" | "enum" | "const" | "anyOf" | "oneOf")
                || TYPES.iter().any(|(_, of_type)| of_type.contains(&key))
                || is_annotation(key);
            if !understood {
                return bad(path, format!("the keyword {key:?} is not supported"));
            }
        }
        // A name within the document changes what `#` in a reference means.
        if let Some(id) = ["$id", "id"].iter().find(|&&id| path != "#" && keywords.contains_key(id)) {
            return bad(path, format!("the keyword {id:?} is supported at the top only"));
        }
        Ok(())
    }

    /// A reference to another place of the document.
    fn reference(&mut self, value: &Value, path: &str) -> Result<At> {
        let Value::String(reference) = value else { return bad(path, "\"$ref\" is a text") };
        let target = resolve(self.root, reference).or_else(|fault| bad(path, fault))?;
        let rule = self.rule(reference.clone(), target);
        Ok(self.grammar.call(rule, Builder::RETURN))
    }

    fn check_exclusive(&self, branches: &[Value], path: &str) -> Result<()> {
        match exclusive(self.root, branches, self.objects) {
            Ok(()) => Ok(()),
            Err(Overlap(first, second)) => bad(
                path,
                format!(
                    "\"oneOf\": branches {first} and {second} may both hold for one value; use \"anyOf\" if that is no harm"
                ),
            ),
        }
    }

    /// Values that are written down in the schema.
    fn values(&mut self, values: &[Value], types: Option<&[&str]>, path: &str) -> Result<Vec<At>> {
        let fits = |value: &&Value| types.is_none_or(|types| types.iter().any(|name| is_of_type(value, name)));
        let texts: Vec<String> = values.iter().filter(fits).map(Value::to_string).collect();
        let automaton = self.automaton(Automaton::literals(texts), path, "the list of values")?;
        Ok(automaton.map(|automaton| self.grammar.read(automaton, Builder::RETURN)).into_iter().collect())
    }

    fn number(&mut self, keywords: &Map<String, Value>, path: &str, whole: bool) -> Result<Option<At>> {
        let bound = |keyword: &str, inclusive| match keywords.get(keyword) {
            None => Ok(None),
            Some(Value::Number(value)) => Ok(Some(Bound { value: Decimal::parse(&value.to_string()), inclusive })),
            Some(_) => bad(path, format!("{keyword:?} is a number")),
        };
        let mut low = vec![bound("minimum", true)?, bound("exclusiveMinimum", false)?];
        let mut high = vec![bound("maximum", true)?, bound("exclusiveMaximum", false)?];
        if let Some(format) = keywords.get("format") {
            let (least, most) = match format.as_str().and_then(|format| numeric_format(format, whole)) {
                Some(range) => range,
                None => return bad(path, format!("the format {format} is not supported")),
            };
            low.push(least.map(|n| Bound { value: Decimal::parse(&n.to_string()), inclusive: true }));
            high.push(most.map(|n| Bound { value: Decimal::parse(&n.to_string()), inclusive: true }));
        }
        let low = low.into_iter().flatten().reduce(|a, b| if b.is_tighter_below(&a) { b } else { a });
        let high = high.into_iter().flatten().reduce(|a, b| if b.is_tighter_above(&a) { b } else { a });
        let automaton = if whole { integer(low.as_ref(), high.as_ref()) } else { number(low.as_ref(), high.as_ref()) };
        let automaton = self.automaton(automaton, path, "the range")?;
        Ok(automaton.map(|automaton| self.grammar.read(automaton, Builder::RETURN)))
    }

    fn string(&mut self, keywords: &Map<String, Value>, path: &str) -> Result<Option<At>> {
        if let Some(format) = keywords.get("format") {
            // A numeric format says nothing about strings.
            if format.as_str().is_none_or(|format| numeric_format(format, true).is_none()) {
                return bad(path, format!("the format {format} is not supported"));
            }
        }
        let least = count(keywords, "minLength", path)?.unwrap_or(0);
        let most = count(keywords, "maxLength", path)?;
        let pattern = match keywords.get("pattern") {
            None => None,
            Some(Value::String(pattern)) => {
                Some(translate(pattern).or_else(|fault| bad(path, format!("\"pattern\" {pattern:?}: {fault}")))?)
            }
            Some(_) => return bad(path, "\"pattern\" is a text"),
        };
        let automaton = self.string_automaton((pattern, least, most), keywords, path)?;
        Ok(automaton.map(|automaton| self.grammar.read(automaton, Builder::RETURN)))
    }

    /// The automaton of some strings; `None` if there are none.
    fn string_automaton(
        &mut self,
        demands: StringDemands,
        keywords: &Map<String, Value>,
        path: &str,
    ) -> Result<Option<u32>> {
        if let Some(&automaton) = self.strings.get(&demands) {
            return Ok(automaton);
        }
        let (pattern, least, most) = &demands;
        let automaton = match string(pattern.as_deref(), *least, *most) {
            Ok(automaton) => Ok(automaton),
            Err(NoString::Automaton(fault)) => Err(fault),
            Err(NoString::Regex(BadRegex::Syntax { fault, .. } | BadRegex::Automaton(fault))) => {
                return bad(path, format!("\"pattern\" {}: {fault}", keywords["pattern"]));
            }
            Err(NoString::Regex(BadRegex::Empty)) => Err(NoAutomaton::Empty),
        };
        let automaton = self.automaton(automaton, path, "the pattern or length")?;
        self.strings.insert(demands, automaton);
        Ok(automaton)
    }

    fn array(&mut self, keywords: &'a Map<String, Value>, path: &str) -> Result<Option<At>> {
        let first = match keywords.get("prefixItems") {
            None => &[][..],
            Some(Value::Array(first)) => first,
            Some(_) => return bad(path, "\"prefixItems\" is a list"),
        };
        if keywords.get("items").is_some_and(Value::is_array) {
            return bad(path, "\"items\" as a list is of an older draft: write \"prefixItems\"");
        }
        let least = count(keywords, "minItems", path)?.unwrap_or(0);
        let most = count(keywords, "maxItems", path)?;
        if most.is_some_and(|most| most < least) {
            return Ok(None);
        }
        let spelled = most.unwrap_or(least).max(first.len() as u64);
        if spelled > MAX_ITEMS && most.is_none_or(|most| most > MAX_ITEMS) {
            return bad(path, format!("arrays of more than {MAX_ITEMS} items are not spelled out"));
        }
        let rest = match keywords.get("items") {
            None => self.anything(),
            Some(items) => self.rule(below(path, "items"), items),
        };
        let close = self.sign(&["]"], Builder::RETURN);
        // From the end to the beginning: what may follow `n` items.
        let mut after = match most {
            Some(_) => close,
            None => {
                let again = self.grammar.fork(vec![close]);
                let item = self.grammar.call(rest, again);
                let way = self.comma(item);
                self.grammar.add_way(again, way);
                again
            }
        };
        let last = most.unwrap_or(least.max(first.len() as u64).max(1));
        for n in (0..last).rev() {
            let rule = match first.get(n as usize) {
                Some(schema) => self.rule(below(&below(path, "prefixItems"), &n.to_string()), schema),
                None => rest,
            };
            let item = self.grammar.call(rule, after);
            let item = if n == 0 { item } else { self.comma(item) };
            after = if n >= least { self.grammar.fork(vec![close, item]) } else { item };
        }
        Ok(Some(self.sign(&["["], after)))
    }

    fn object(&mut self, keywords: &'a Map<String, Value>, path: &str) -> Result<At> {
        let properties = match keywords.get("properties") {
            None => &*NOTHING,
            Some(Value::Object(properties)) => properties,
            Some(_) => return bad(path, "\"properties\" is an object"),
        };
        let required: Vec<&str> = match keywords.get("required") {
            None => Vec::new(),
            Some(Value::Array(names)) if names.iter().all(Value::is_string) => {
                names.iter().filter_map(Value::as_str).collect()
            }
            Some(_) => return bad(path, "\"required\" is a list of texts"),
        };
        let others = match keywords.get("additionalProperties") {
            Some(Value::Bool(false)) => None,
            Some(schema) => Some(self.rule(below(path, "additionalProperties"), schema)),
            None if self.objects == Objects::Closed
                && (keywords.contains_key("properties") || !required.is_empty()) =>
            {
                None
            }
            None => Some(self.anything()),
        };
        // The properties that have a place, in order: those named, then those that are only required.
        let mut placed: Vec<(&str, Option<Rule>)> = Vec::new();
        for (name, schema) in properties {
            let rule = self.rule(below(&below(path, "properties"), name), schema);
            placed.push((name, Some(rule)));
        }
        let mut must = HashSet::new();
        for name in required {
            if must.insert(name) && !properties.contains_key(name) {
                placed.push((name, others));
            }
        }
        let names: Vec<&str> = placed.iter().map(|(name, _)| *name).collect();
        let close = self.sign(&["}"], Builder::RETURN);
        // From the end to the beginning: what may follow where nothing has been written yet, and where something has.
        let (mut at_first, mut at_later) = (close, close);
        if let Some(others) = others {
            let key = self.other_key(&names, path)?;
            at_later = self.grammar.fork(vec![close]);
            let value = self.grammar.call(others, at_later);
            let colon = self.sign(&[":", ": "], value);
            let first = self.grammar.read(key, colon);
            let later = self.comma(first);
            self.grammar.add_way(at_later, later);
            at_first = self.grammar.fork(vec![close, first]);
        }
        for (name, rule) in placed.into_iter().rev() {
            // Nothing can stand there: a way that leads nowhere.
            let value = match rule {
                Some(rule) => self.grammar.call(rule, at_later),
                None => self.grammar.fork(Vec::new()),
            };
            let name_text = Value::from(name).to_string();
            let spaced = |before: &str| [":", ": "].map(|colon| format!("{before}{name_text}{colon}"));
            let first = self.one_of(spaced("").to_vec(), value, path)?;
            let later = self.one_of([spaced(","), spaced(", ")].concat(), value, path)?;
            let must = must.contains(name);
            at_first = if must { first } else { self.grammar.fork(vec![first, at_first]) };
            at_later = if must { later } else { self.grammar.fork(vec![later, at_later]) };
        }
        Ok(self.sign(&["{"], at_first))
    }

    /// The names that are none of these.
    fn other_key(&mut self, names: &[&str], path: &str) -> Result<u32> {
        if names.is_empty() {
            let any = self.string_automaton((None, 0, None), &NOTHING, path)?;
            return Ok(any.expect("there are strings"));
        }
        match string_except(names) {
            Ok(automaton) => Ok(self.grammar.automaton(automaton)),
            Err(_) => bad(path, "the names of \"properties\" are too long for an automaton"),
        }
    }
}

/// The types that a schema asks for; `None` where it does not.
pub(crate) fn types<'a>(keywords: &'a Map<String, Value>, path: &str) -> Result<Option<Vec<&'a str>>> {
    let names: Vec<&Value> = match keywords.get("type") {
        None => return Ok(None),
        Some(Value::Array(names)) => names.iter().collect(),
        Some(name) => vec![name],
    };
    let mut types = Vec::new();
    for name in names {
        match name.as_str() {
            Some(name) if TYPES.iter().any(|(known, _)| *known == name) => types.push(name),
            _ => return bad(path, format!("the type {name} is not one of JSON's")),
        }
    }
    Ok(Some(types))
}

/// Whether a value is of a type of JSON Schema, in which 1.0 is an integer too.
pub(crate) fn is_of_type(value: &Value, name: &str) -> bool {
    match (value, name) {
        (Value::Null, "null") | (Value::Bool(_), "boolean") | (Value::Number(_), "number") => true,
        (Value::Number(n), "integer") => n.is_i64() || n.is_u64() || n.as_f64().is_some_and(|n| n.fract() == 0.0),
        (Value::String(_), "string") | (Value::Array(_), "array") | (Value::Object(_), "object") => true,
        _ => false,
    }
}

/// The place that a reference within a document points to.
pub(crate) fn resolve<'a>(root: &'a Value, reference: &str) -> Result<&'a Value, String> {
    let Some(pointer) = reference.strip_prefix('#') else {
        return Err(format!("\"$ref\" {reference:?} leads out of the document, which is not supported"));
    };
    if !pointer.is_empty() && !pointer.starts_with('/') {
        return Err(format!("\"$ref\" {reference:?} is not a JSON pointer, which alone is supported"));
    }
    let decoded = percent_decode(pointer).ok_or_else(|| format!("\"$ref\" {reference:?} is not UTF-8"))?;
    root.pointer(&decoded).ok_or_else(|| format!("\"$ref\" {reference:?} leads nowhere"))
}

fn percent_decode(text: &str) -> Option<String> {
    let (mut bytes, mut rest) = (Vec::new(), text.as_bytes());
    while let Some((&byte, tail)) = rest.split_first() {
        let code = tail.get(..2).and_then(|hex| std::str::from_utf8(hex).ok());
        match code.and_then(|hex| u8::from_str_radix(hex, 16).ok()).filter(|_| byte == b'%') {
            Some(code) => {
                bytes.push(code);
                rest = &tail[2..];
            }
            None => {
                bytes.push(byte);
                rest = tail;
            }
        }
    }
    String::from_utf8(bytes).ok()
}

/// The range of the formats that OpenAPI and schemars have for numbers. Past 64 bits nothing is written.
fn numeric_format(format: &str, whole: bool) -> Option<(Option<i128>, Option<i128>)> {
    let bits = |prefix: &str| format.strip_prefix(prefix).and_then(|bits| bits.parse::<u32>().ok());
    match format {
        "float" | "double" => Some((None, None)),
        "int" => Some((Some(i64::MIN.into()), Some(i64::MAX.into()))),
        "uint" => Some((Some(0), Some(u64::MAX.into()))),
        _ if !whole => None,
        _ => match (bits("int"), bits("uint")) {
            (Some(bits @ (8 | 16 | 32 | 64)), _) => Some((Some(-(1 << (bits - 1))), Some((1 << (bits - 1)) - 1))),
            (_, Some(bits @ (8 | 16 | 32 | 64))) => Some((Some(0), Some((1 << bits) - 1))),
            (Some(128), _) => Some((None, None)),
            (_, Some(128)) => Some((Some(0), None)),
            _ => None,
        },
    }
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
