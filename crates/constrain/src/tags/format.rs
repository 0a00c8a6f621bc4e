//! The formats of structural tags, from JSON to a grammar.

use serde_json::Value;
use verdigris_text::Tokenizer;
use verdigris_text::calls::{Nested, Notation, Signs, Strings, Words};

use super::fault::{Result, bad};
use super::fields::{Fields, items};
use crate::grammar::{Grammar, TooLarge};
use crate::json::style::{Style, Whitespace};

/// The maximum nesting of formats.
const MAX_DEPTH: u32 = 60;

/// The maximum number of formats of one tag.
const MAX_FORMATS: u32 = 4096;

/// The maximum number of schemas and expressions of one tag.
const MAX_SOURCES: u32 = 256;

/// Formats that are supported elsewhere, but not here.
const UNSUPPORTED: &[&str] = &["exclude_token"];

/// Compiles formats.
pub(super) struct Formats<'t> {
    tokenizer: Option<&'t Tokenizer>,
    formats: u32,
    sources: u32,
}

/// The strings that begin or end a tag.
pub(super) struct Tag {
    pub(super) begin: Vec<u8>,
    /// The content and the end.
    pub(super) rest: Grammar,
}

impl<'t> Formats<'t> {
    pub(super) fn new(tokenizer: Option<&'t Tokenizer>) -> Self {
        Self { tokenizer, formats: 0, sources: 0 }
    }

    /// A string as bytes of a grammar.
    pub(super) fn spell(&self, text: &str) -> Vec<u8> {
        self.tokenizer.map_or_else(|| text.as_bytes().to_vec(), |tokenizer| tokenizer.spell(text))
    }

    /// The grammar of a format. Free text in it does not contain `ends`, the strings that end the tag around it.
    pub(super) fn format(&mut self, format: &Value, path: &str, ends: &[Vec<u8>], depth: u32) -> Result<Grammar> {
        self.formats += 1;
        if depth > MAX_DEPTH || self.formats > MAX_FORMATS {
            return bad(path, format!("the formats are nested deeper than {MAX_DEPTH}, or more than {MAX_FORMATS}"));
        }
        let mut fields = Fields::of(format, path)?;
        let kind = fields.text("type")?;
        let grammar = match kind {
            "const_string" => Grammar::text(self.spell(fields.text("value")?)),
            "json_schema" => self.json_schema(&mut fields, path)?,
            "any_text" => free(&self.free_marks(&mut fields, ends)?),
            "any_tokens" => {
                self.exclude_tokens(&mut fields)?;
                free(&self.free_marks(&mut fields, ends)?)
            }
            "grammar" => {
                let text = fields.text("grammar")?;
                self.source(path)?;
                let path = fields.path("grammar");
                Grammar::ebnf(text).or_else(|fault| bad(&path, fault.to_string()))?
            }
            "regex" => {
                let pattern = fields.text("pattern")?;
                self.source(path)?;
                let path = fields.path("pattern");
                Grammar::regex(pattern).or_else(|fault| bad(&path, fault.to_string()))?
            }
            "token" => Grammar::text(self.token(fields.need("token")?)?),
            "sequence" | "or" => {
                let (elements, path) = fields.need("elements")?;
                let mut parts = Vec::new();
                for (element, path) in items(elements, &path)? {
                    parts.push(self.format(element, &path, ends, depth + 1)?);
                }
                match (kind, parts.pop()) {
                    (_, None) => return bad(&path, "it must have at least one format"),
                    ("or", Some(last)) => sized(Grammar::one_of(last, parts), &path)?,
                    (_, Some(last)) => sized(Grammar::sequence(parts.into_iter().chain([last])), &path)?,
                }
            }
            "tag" => {
                let Tag { begin, rest } = self.tag(&mut fields, ends, depth)?;
                sized(Grammar::sequence([Grammar::text(begin), rest]), path)?
            }
            "optional" | "plus" | "star" | "repeat" => {
                let (least, most) = match kind {
                    "optional" => (0, Some(1)),
                    "plus" => (1, None),
                    "star" => (0, None),
                    _ => times(&mut fields)?,
                };
                let (content, at) = fields.need("content")?;
                let content = self.format(content, &at, ends, depth + 1)?;
                sized(content.repeat(least, most), path)?
            }
            "triggered_tags" => self.triggered_tags(&mut fields, path, ends, depth)?,
            "token_triggered_tags" => self.token_triggered_tags(&mut fields, path, ends, depth)?,
            "tags_with_separator" => self.tags_with_separator(&mut fields, path, depth)?,
            "dispatch" | "token_dispatch" => self.dispatch(&mut fields, path, ends, depth)?,
            _ if UNSUPPORTED.contains(&kind) => return bad(path, format!("the format {kind:?} is not supported")),
            _ => return bad(&fields.path("type"), format!("{kind:?} is not a format")),
        };
        fields.end()?;
        Ok(grammar)
    }

    /// The fields of a tag.
    pub(super) fn tag(&mut self, fields: &mut Fields<'_>, ends: &[Vec<u8>], depth: u32) -> Result<Tag> {
        let (begin, path) = fields.need("begin")?;
        let begin = self.mark(begin, &path)?;
        let (end, path) = fields.need("end")?;
        let own: Vec<Vec<u8>> = match end {
            Value::Array(_) => items(end, &path)?.map(|(end, path)| self.mark(end, &path)).collect::<Result<_>>()?,
            end => vec![self.mark(end, &path)?],
        };
        let (content, at) = fields.need("content")?;
        // A tag without an end ends where the tag around it does.
        let is_open = own.iter().any(Vec::is_empty);
        let content = self.format(content, &at, if is_open { ends } else { &own }, depth + 1)?;
        let mut ways = own.iter().map(Grammar::text);
        let Some(first) = ways.next() else { return bad(&path, "it must have at least one end") };
        let end = sized(Grammar::one_of(first, ways), &path)?;
        Ok(Tag { begin, rest: sized(Grammar::sequence([content, end]), &at)? })
    }

    /// A text, or a token: `{"type": "token", "token": ID}`.
    pub(super) fn mark(&self, mark: &Value, path: &str) -> Result<Vec<u8>> {
        match mark {
            Value::String(text) => Ok(self.spell(text)),
            _ => {
                let mut fields = Fields::of(mark, path)?;
                let kind = fields.text("type")?;
                if kind != "token" {
                    return bad(path, "it must be a string or a token");
                }
                let token = self.token(fields.need("token")?)?;
                fields.end()?;
                Ok(token)
            }
        }
    }

    /// A control token, by its id or its name. Other tokens are text, which has other tokens too.
    pub(super) fn token(&self, (token, path): (&Value, String)) -> Result<Vec<u8>> {
        let Some(tokenizer) = self.tokenizer else {
            return bad(&path, "tokens are not supported without a tokenizer");
        };
        let id = match token {
            Value::String(name) => tokenizer.id(name),
            token => token.as_u64().and_then(|id| u32::try_from(id).ok()),
        };
        let control = id.filter(|id| tokenizer.vocabulary().control(*id).is_some());
        match control {
            Some(id) => Ok(tokenizer.vocabulary().spelling(id).to_vec()),
            None => bad(&path, format!("{token} is not a control token: other tokens are not supported, use strings")),
        }
    }

    /// Takes what free text must not contain, in addition to `ends`.
    pub(super) fn free_marks(&self, fields: &mut Fields<'_>, ends: &[Vec<u8>]) -> Result<Vec<Vec<u8>>> {
        let path = fields.path("excludes");
        let excluded = fields.texts("excludes")?;
        if excluded.contains(&"") {
            return bad(&path, "an empty string cannot be excluded");
        }
        let mut marks: Vec<Vec<u8>> = excluded.into_iter().map(|text| self.spell(text)).collect();
        marks.extend(ends.iter().filter(|end| !end.is_empty()).cloned());
        Ok(marks)
    }

    /// Takes the control tokens that free text must not contain. It contains none anyway.
    pub(super) fn exclude_tokens(&self, fields: &mut Fields<'_>) -> Result<()> {
        let path = fields.path("exclude_tokens");
        match fields.value("exclude_tokens") {
            Some(excluded) => items(excluded, &path)?.try_for_each(|token| self.token(token).map(drop)),
            None => Ok(()),
        }
    }

    fn json_schema(&mut self, fields: &mut Fields<'_>, path: &str) -> Result<Grammar> {
        let (schema, schema_path) = fields.need("json_schema")?;
        self.source(path)?;
        let mut style = Style::default();
        if fields.flag("any_order")? {
            style = style.any_order();
        }
        if fields.value("max_whitespace_cnt").is_some() {
            let most = fields.number("max_whitespace_cnt")?;
            let Ok(most) = u8::try_from(most) else {
                return bad(&fields.path("max_whitespace_cnt"), "it must be 0 to 255");
            };
            style = style.whitespace(if most == 0 { Whitespace::Compact } else { Whitespace::Free { most } });
        }
        let style_path = fields.path("style");
        let name = fields.value("style").map_or("json", |name| name.as_str().unwrap_or(""));
        let fault = |fault: crate::BadSchema| bad(&schema_path, format!("{}: {}", fault.path, fault.fault));
        if name == "json" {
            return Grammar::json_schema(schema, style).or_else(fault);
        }
        let Some((_, signs, words)) = STYLES.iter().find(|(of, ..)| *of == name) else {
            return bad(&style_path, format!("the style {name:?} is not supported"));
        };
        let never = self.spell(signs.after_value.trim_start());
        let signs = Signs {
            open: Vec::new(),
            before_name: self.spell(signs.before_name),
            after_name: self.spell(signs.after_name),
            after_value: self.spell(signs.after_value),
            between: self.spell(signs.between),
            close: Vec::new(),
        };
        let notation = Notation {
            parameters: signs,
            words: *words,
            strings: Strings::Raw { open: Vec::new(), close: Vec::new(), never },
            before_others: Vec::new(),
            nested: Nested::Json,
            is_sorted: false,
        };
        Grammar::arguments(schema, style, &notation).map(|(grammar, _)| grammar).or_else(fault)
    }

    /// Counts a schema or an expression.
    fn source(&mut self, path: &str) -> Result<()> {
        self.sources += 1;
        match self.sources > MAX_SOURCES {
            true => bad(path, format!("more than {MAX_SOURCES} schemas and expressions are not supported")),
            false => Ok(()),
        }
    }
}

/// The words of JSON.
const WORDS: Words = [&["null"], &["false"], &["true"]];

/// The parameters of a style, without what opens and closes them.
const fn parameters(
    before_name: &'static str,
    after_name: &'static str,
    after_value: &'static str,
    between: &'static str,
) -> Signs {
    Signs { open: "", before_name, after_name, after_value, between, close: "" }
}

/// The styles of schemas that are not JSON, with their signs.
const STYLES: &[(&str, Signs, Words)] = &[
    ("qwen_xml", parameters("<parameter=", ">\n", "\n</parameter>", "\n"), WORDS),
    ("minimax_xml", parameters("<parameter name=\"", "\">", "</parameter>", "\n"), WORDS),
    ("glm_xml", parameters("<arg_key>", "</arg_key><arg_value>", "</arg_value>", ""), WORDS),
];

/// Takes how often a format is repeated.
fn times(fields: &mut Fields<'_>) -> Result<(u32, Option<u32>)> {
    let (least, most) = (fields.number("min")?, fields.number("max")?);
    let most = if most == -1 { None } else { Some(u32::try_from(most).unwrap_or(u32::MAX)) };
    match u32::try_from(least) {
        Ok(least) if most.is_none_or(|most| most >= least) => Ok((least, most)),
        _ => bad(&fields.path("min"), "it must be 0 or more, and at most max"),
    }
}

/// Text in which none of some strings occurs.
pub(super) fn free(marks: &[Vec<u8>]) -> Grammar {
    Grammar::free_of_any(marks).unwrap_or_else(|| match Grammar::regex("(?s:.*)") {
        Ok(any) => any,
        Err(fault) => unreachable!("{fault}"),
    })
}

/// A grammar that may be too large.
pub(super) fn sized(grammar: Result<Grammar, TooLarge>, path: &str) -> Result<Grammar> {
    grammar.or_else(|fault| bad(path, fault.to_string()))
}
