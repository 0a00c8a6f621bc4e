//! A schema's document: which draft it is of, and where its references lead.

use std::cell::OnceCell;
use std::collections::HashMap;

use serde_json::{Map, Value};

/// How deep a document may be nested.
const MAX_DEPTH: usize = 512;

/// Places with their paths, by name; none where two places have the same.
type Names<'a> = HashMap<String, Option<(&'a Value, String)>>;

pub(crate) struct Document<'a> {
    root: &'a Value,
    /// Up to draft 7 a schema with `$ref` is nothing else.
    old: bool,
    /// What identifiers and anchors lead to, with where it stands.
    names: OnceCell<Names<'a>>,
}

impl<'a> Document<'a> {
    pub(crate) fn new(root: &'a Value) -> Self {
        let draft = root.get("$schema").and_then(Value::as_str).unwrap_or_default();
        let old = ["draft-03", "draft-04", "draft-06", "draft-07"].iter().any(|name| draft.contains(name));
        Self { root, old, names: OnceCell::new() }
    }

    pub(crate) fn root(&self) -> &'a Value {
        self.root
    }

    /// Whether keywords beside a reference say nothing.
    pub(crate) fn ignores_siblings_of_ref(&self) -> bool {
        self.old
    }

    /// The place that a reference points to, and its path.
    pub(crate) fn resolve(&self, _: &Map<String, Value>, reference: &Value) -> Result<(&'a Value, String), String> {
        let Some(reference) = reference.as_str() else { return Err("\"$ref\" is a text".into()) };
        if let Some(pointer) = reference.strip_prefix('#')
            && (pointer.is_empty() || pointer.starts_with('/'))
        {
            let decoded = percent_decode(pointer).ok_or_else(|| format!("\"$ref\" {reference:?} is not UTF-8"))?;
            let target = self.root.pointer(&decoded);
            return match target {
                Some(target) => Ok((target, reference.to_owned())),
                None => Err(format!("\"$ref\" {reference:?} leads nowhere")),
            };
        }
        let names = self.names.get_or_init(|| {
            let mut names = HashMap::new();
            collect(self.root, "#", &mut names, 0);
            names
        });
        // What stands before the fragment may be the document's own name.
        let own = self.root.get("$id").or_else(|| self.root.get("id")).and_then(Value::as_str).unwrap_or_default();
        let own = own.split('#').next().unwrap_or_default();
        if let (Some((document, fragment)), false) = (reference.split_once('#'), own.is_empty())
            && document == own
            && !fragment.is_empty()
            && !fragment.starts_with('/')
            && let Some(Some((target, path))) = names.get(&format!("#{fragment}"))
        {
            return Ok((target, path.clone()));
        }
        if let Some(pointer) =
            reference.strip_prefix(own).filter(|_| !own.is_empty()).and_then(|rest| rest.strip_prefix('#'))
            && (pointer.is_empty() || pointer.starts_with('/'))
            && let Some(target) = percent_decode(pointer).and_then(|pointer| self.root.pointer(&pointer))
        {
            return Ok((target, format!("#{pointer}")));
        }
        match names.get(reference) {
            Some(Some((target, path))) => Ok((target, path.clone())),
            Some(None) => Err(format!("\"$ref\" {reference:?} leads to several places, which is not supported")),
            None if reference.starts_with('#') => Err(format!("\"$ref\" {reference:?} leads nowhere")),
            None => Err(format!("\"$ref\" {reference:?} leads out of the document, which is not supported")),
        }
    }
}

/// Identifiers and anchors of a schema and of those in it. A name that stands for two places stands for none.
fn collect<'a>(value: &'a Value, path: &str, names: &mut Names<'a>, depth: usize) {
    if depth > MAX_DEPTH {
        return;
    }
    match value {
        Value::Object(keywords) => {
            for (keyword, prefix) in [("$id", ""), ("id", ""), ("$anchor", "#"), ("$dynamicAnchor", "#")] {
                if let Some(name) = keywords.get(keyword).and_then(Value::as_str) {
                    let place = names.entry(format!("{prefix}{name}"));
                    place.and_modify(|place| *place = None).or_insert_with(|| Some((value, path.to_owned())));
                }
            }
            for (key, value) in keywords {
                if !matches!(key.as_str(), "enum" | "const" | "default" | "examples") {
                    collect(value, &super::expand::below(path, key), names, depth + 1);
                }
            }
        }
        Value::Array(items) => {
            for (i, value) in items.iter().enumerate() {
                collect(value, &super::expand::below(path, &i.to_string()), names, depth + 1);
            }
        }
        _ => {}
    }
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
