//! A schema document: its draft, and the targets of its references.
//!
//! A schema with an identifier is a resource, and schemas inside it are referenced through that identifier (JSON Schema
//! 2020-12, core, 8.2 and 9.2). References are resolved against the resource that contains them (RFC 3986, 5).

use std::rc::Rc;

use fluent_uri::{Uri, UriRef};
use foldhash::HashMap;
use serde_json::{Map, Value};

use crate::automata::budget::Budget;
use crate::json::fault::below;
use crate::json::registry::Registry;

/// The maximum nesting depth of a document.
const MAX_DEPTH: usize = 512;

/// The URI of a document without an identifier, as the base of its references.
const NAMELESS: &str = "schema:///";

/// The keywords of a schema, with their values.
pub(crate) type Keywords = Map<String, Value>;

/// A schema of a document, with its path.
type Located<'a> = (&'a Value, String);

/// Anchors by resource and name, and whether each is dynamic; `None` if two schemas have the same name.
type Anchors<'a> = HashMap<(Rc<str>, String), Option<(Located<'a>, bool)>>;

pub(crate) struct Document<'a> {
    root: &'a Value,
    registry: &'a Registry,
    budget: Rc<Budget>,
    draft: Draft,
    base: Rc<str>,
    /// The base of the references inside each object.
    bases: HashMap<*const Keywords, Rc<str>>,
    resources: HashMap<String, Located<'a>>,
    anchors: Anchors<'a>,
    /// The number of resources with each dynamic anchor.
    dynamic: HashMap<String, usize>,
}

/// The draft that a document declares.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Draft {
    Four,
    Six,
    Seven,
    Of2019,
    Of2020,
    Undeclared,
}

impl Draft {
    fn of(root: &Value) -> Self {
        let declared = root.get("$schema").and_then(Value::as_str).unwrap_or_default();
        let drafts = [
            ("draft-04", Self::Four),
            ("draft-06", Self::Six),
            ("draft-07", Self::Seven),
            ("2019-09", Self::Of2019),
            ("2020-12", Self::Of2020),
        ];
        drafts.iter().find(|(name, _)| declared.contains(name)).map_or(Self::Undeclared, |&(_, draft)| draft)
    }

    /// The first draft that defines a keyword.
    fn first_with(keyword: &str) -> Self {
        match keyword {
            "$id" | "const" | "contains" | "propertyNames" => Self::Six,
            "if" | "then" | "else" => Self::Seven,
            "$anchor"
            | "$recursiveRef"
            | "$recursiveAnchor"
            | "dependentRequired"
            | "dependentSchemas"
            | "maxContains"
            | "minContains"
            | "unevaluatedItems"
            | "unevaluatedProperties" => Self::Of2019,
            "$dynamicAnchor" | "$dynamicRef" | "prefixItems" => Self::Of2020,
            _ => Self::Four,
        }
    }
}

/// Whether a document declares a draft before the fourth, which has other keywords, such as `disallow` and `extends`,
/// and another `required`.
pub(crate) fn is_too_old(root: &Value) -> bool {
    let declared = root.get("$schema").and_then(Value::as_str).unwrap_or_default();
    ["draft-00", "draft-01", "draft-02", "draft-03"].iter().any(|draft| declared.contains(draft))
}

/// Whether a document is nested too deeply.
pub(crate) fn is_too_deep(document: &Value) -> bool {
    let mut open = vec![(document, 0)];
    while let Some((value, depth)) = open.pop() {
        if depth > MAX_DEPTH {
            return true;
        }
        match value {
            Value::Object(keywords) => open.extend(keywords.values().map(|value| (value, depth + 1))),
            Value::Array(items) => open.extend(items.iter().map(|value| (value, depth + 1))),
            _ => {}
        }
    }
    false
}

impl<'a> Document<'a> {
    pub(crate) fn new(root: &'a Value, registry: &'a Registry, budget: Rc<Budget>) -> Self {
        let (bases, resources, anchors, dynamic) = Default::default();
        let draft = Draft::of(root);
        let base = NAMELESS.into();
        let mut document = Self { root, registry, budget, draft, base, bases, resources, anchors, dynamic };
        document.add(NAMELESS, root, "#");
        document.base = document.base_of(root, &NAMELESS.into());
        document
    }

    pub(crate) fn root(&self) -> &'a Value {
        self.root
    }

    /// The value of a keyword, if the schema's draft defines it.
    pub(crate) fn value_of<'k>(&self, keywords: &'k Keywords, keyword: &str) -> Option<&'k Value> {
        keywords.get(keyword).filter(|_| Draft::first_with(keyword) <= self.draft)
    }

    /// Whether keywords next to a reference are ignored: up to draft 7, a schema with `$ref` is only a reference.
    pub(crate) fn ignores_siblings_of_ref(&self) -> bool {
        self.draft <= Draft::Seven
    }

    pub(crate) fn is_of_2019(&self) -> bool {
        self.draft == Draft::Of2019
    }

    /// The schema that the reference under a keyword leads to, and its path.
    pub(crate) fn resolve(&mut self, keywords: &Keywords, keyword: &str) -> Result<Located<'a>, String> {
        let Some(reference) = keywords[keyword].as_str() else { return Err(format!("{keyword:?} is a text")) };
        let base = self.bases.get(&std::ptr::from_ref(keywords)).unwrap_or(&self.base).clone();
        self.budget.take(10 + (base.len() + reference.len()) as u64 / 8);
        let (uri, fragment) = reference.split_once('#').unwrap_or((reference, ""));
        let uri = if uri.is_empty() { base.to_string() } else { join(&base, uri) };
        let shown = || format!("{keyword:?} {reference:?}");
        let (resource, path) = match self.resources.get(&uri) {
            Some(located) => located.clone(),
            None => match self.registry.find(&uri) {
                Some(found) => {
                    self.add(&uri, found, &uri);
                    (found, format!("{uri}#"))
                }
                None => return Err(format!("{} leads out of the document, to no schema that is given", shown())),
            },
        };
        let fragment = percent_decode(fragment).ok_or_else(|| format!("{} is not UTF-8", shown()))?;
        let nowhere = || format!("{} leads nowhere", shown());
        if keyword == "$recursiveRef" {
            return self.recursive(resource, path).ok_or_else(|| depends(&shown()));
        }
        if fragment.is_empty() || fragment.starts_with('/') {
            let base = self.base_of(resource, &uri.as_str().into());
            return self.pointer(resource, &path, base, &fragment).ok_or_else(nowhere);
        }
        match self.anchors.get(&(uri.into(), fragment.clone())) {
            // If only one resource has it, all paths lead to the same schema.
            Some(Some((located, dynamic))) => {
                let one = !dynamic || self.dynamic[&fragment] == 1;
                if one || keyword == "$ref" { Ok(located.clone()) } else { Err(depends(&shown())) }
            }
            Some(None) => Err(format!("{} leads to several schemas, which is not supported", shown())),
            None => Err(nowhere()),
        }
    }

    /// For draft 2019-09: the root of the resource, unless the reference may lead to the root of another one.
    fn recursive(&self, resource: &'a Value, path: String) -> Option<Located<'a>> {
        let goes_on = resource.get("$recursiveAnchor") == Some(&Value::Bool(true));
        (!goes_on || self.dynamic.get(RECURSIVE) == Some(&1)).then_some((resource, path))
    }

    /// The schema that a pointer leads to. Schemas that are not below a known keyword are visited now.
    fn pointer(&mut self, from: &'a Value, path: &str, mut base: Rc<str>, pointer: &str) -> Option<Located<'a>> {
        let mut at = from;
        for part in pointer.split('/').skip(1) {
            let key = part.replace("~1", "/").replace("~0", "~");
            at = match at {
                Value::Object(keywords) => keywords.get(&key)?,
                Value::Array(items) => items.get(key.parse::<usize>().ok()?)?,
                _ => return None,
            };
            base = self.base_of(at, &base);
        }
        let path = format!("{path}{pointer}");
        if let Value::Object(keywords) = at
            && !self.bases.contains_key(&std::ptr::from_ref(keywords))
        {
            self.visit(at, &Path { root: &path, parts: None }, &base);
        }
        Some((at, path))
    }

    fn add(&mut self, uri: &str, schema: &'a Value, name: &str) {
        let path = if name == "#" { name.to_owned() } else { format!("{name}#") };
        self.resources.insert(uri.to_owned(), (schema, path.clone()));
        self.visit(schema, &Path { root: &path, parts: None }, &uri.into());
    }

    /// The identifier of a schema, if it has one.
    fn id(&self, keywords: &'a Keywords) -> Option<&'a str> {
        // Up to draft 7, an identifier next to a reference is ignored.
        if self.ignores_siblings_of_ref() && keywords.contains_key("$ref") {
            return None;
        }
        // It was `id` in draft 4; in later drafts, that is an ordinary name.
        let keyword = if self.draft == Draft::Four { "id" } else { "$id" };
        keywords.get(keyword).and_then(Value::as_str)
    }

    /// The base of references inside a schema, given the base outside of it.
    fn base_of(&self, schema: &'a Value, base: &Rc<str>) -> Rc<str> {
        let id = schema.as_object().and_then(|keywords| self.id(keywords));
        match id.map(|id| id.split('#').next().unwrap_or_default()) {
            None | Some("") => base.clone(),
            Some(id) => join(base, id).into(),
        }
    }

    /// Records the identifiers and anchors of a schema and of those inside it.
    fn visit(&mut self, schema: &'a Value, path: &Path<'_>, base: &Rc<str>) {
        let Value::Object(keywords) = schema else { return };
        self.budget.take(1 + base.len() as u64 / 8);
        if self.budget.is_spent() {
            return;
        }
        let own = self.base_of(schema, base);
        if self.bases.insert(std::ptr::from_ref(keywords), own.clone()).is_some() {
            return;
        }
        let fragment = self.id(keywords).and_then(|id| id.split_once('#')).map_or("", |(_, fragment)| fragment);
        if own != *base && fragment.is_empty() {
            let path = path.text(&self.budget);
            self.resources.entry(own.to_string()).or_insert((schema, path));
        }
        let text = |keyword: &str| self.value_of(keywords, keyword).and_then(Value::as_str);
        let old_anchor = Some(fragment).filter(|fragment| !fragment.is_empty());
        for (name, dynamic) in [(old_anchor, false), (text("$anchor"), false), (text("$dynamicAnchor"), true)] {
            let Some(name) = name else { continue };
            let entry = self.anchors.entry((own.clone(), name.to_owned()));
            let new = ((schema, path.text(&self.budget)), dynamic);
            entry.and_modify(|located| *located = None).or_insert(Some(new));
            if dynamic {
                *self.dynamic.entry(name.to_owned()).or_default() += 1;
            }
        }
        if self.value_of(keywords, "$recursiveAnchor") == Some(&Value::Bool(true)) {
            *self.dynamic.entry(RECURSIVE.to_owned()).or_default() += 1;
        }
        for (keyword, value) in keywords {
            let mut visit = |below: Option<&str>, schema| {
                let part = PathKey { key: keyword, before: path.parts };
                let inner = below.map(|key| PathKey { key, before: Some(&part) });
                self.visit(schema, &Path { root: path.root, parts: Some(inner.as_ref().unwrap_or(&part)) }, &own);
            };
            match (keyword.as_str(), value) {
                ("enum" | "const" | "default" | "examples", _) => {}
                (
                    "properties" | "patternProperties" | "definitions" | "$defs" | "dependentSchemas" | "dependencies",
                    Value::Object(schemas),
                ) => schemas.iter().for_each(|(name, schema)| visit(Some(name), schema)),
                ("allOf" | "anyOf" | "oneOf" | "prefixItems" | "items", Value::Array(schemas)) => {
                    schemas.iter().enumerate().for_each(|(i, schema)| visit(Some(&i.to_string()), schema));
                }
                (
                    "items"
                    | "additionalItems"
                    | "unevaluatedItems"
                    | "contains"
                    | "additionalProperties"
                    | "unevaluatedProperties"
                    | "propertyNames"
                    | "not"
                    | "if"
                    | "then"
                    | "else",
                    _,
                ) => visit(None, value),
                _ => {}
            }
        }
    }
}

/// The location of a schema in a document: a path, and keys below it.
struct Path<'p> {
    root: &'p str,
    parts: Option<&'p PathKey<'p>>,
}

/// The last key of a path, and those before it.
struct PathKey<'p> {
    key: &'p str,
    before: Option<&'p PathKey<'p>>,
}

impl Path<'_> {
    fn text(&self, budget: &Budget) -> String {
        let (mut keys, mut next) = (Vec::new(), self.parts);
        while let Some(part) = next {
            keys.push(part.key);
            next = part.before;
        }
        let path = keys.iter().rev().fold(self.root.to_owned(), |path, key| below(&path, key));
        budget.take(path.len() as u64 / 4);
        path
    }
}

/// The key of the anchors of draft 2019-09, which have no names.
const RECURSIVE: &str = "\0recursive";

fn depends(reference: &str) -> String {
    format!("{reference} leads to different places by different ways, which is not supported")
}

/// Resolves a URI reference against a base. If it is not a valid reference, it is treated as a name.
fn join(base: &str, reference: &str) -> String {
    let resolved = UriRef::parse(reference).ok().and_then(|reference| {
        let base = Uri::parse(base).ok()?;
        reference.resolve_against(&base).ok()
    });
    resolved.map_or_else(|| reference.to_owned(), |uri| uri.to_string())
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
