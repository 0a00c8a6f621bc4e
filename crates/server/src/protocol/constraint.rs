//! The constraint of a text: OpenAI's `response_format` or vLLM's `structured_outputs`, but not both.

use serde_json::{Value, json};
use verdigris::constrain::{Language, parse_schema};
use verdigris::text::Tokenizer;
use verdigris::{Error, Grammar, Request, Style};

use crate::protocol::fields::Fields;
use crate::protocol::refusal::Refusal;

/// The constraint of a text, and the field that it comes from.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ConstraintField {
    kind: Kind,
    path: String,
}

#[derive(Clone, Debug, PartialEq)]
enum Kind {
    Regex(String),
    Choice(Vec<String>),
    JsonSchema(Value),
    StructuralTag(Value),
    Grammar(Language, String),
}

impl ConstraintField {
    /// Takes its fields.
    pub(crate) fn take(body: &mut Fields) -> Result<Option<Self>, Refusal> {
        let path = body.path("response_format");
        let format = body.strict_object("response_format")?.map_or(Ok(None), |format| of_format(format, path, true))?;
        let outputs = body.strict_object("structured_outputs")?.map(structured_outputs).transpose()?;
        Self::one_of(format, outputs)
    }

    /// The only one of two constraints.
    ///
    /// # Errors
    /// If there are two.
    pub(super) fn one_of(first: Option<Self>, second: Option<Self>) -> Result<Option<Self>, Refusal> {
        if let (Some(first), Some(second)) = (&first, &second) {
            let (first, path) = (first.path(), second.path());
            let message = format!("{first} and {path} both constrain the text: use one of them");
            return Err(Refusal::field(path, "two_constraints", message));
        }
        Ok(first.or(second))
    }

    /// Takes `format` of the field `text` of responses, where the fields of a schema are next to its type.
    pub(crate) fn of_text(text: &mut Fields) -> Result<Option<Self>, Refusal> {
        Self::of_field(text, "format")
    }

    /// Takes a format from the field of this name, where the fields of a schema are next to its type.
    pub(crate) fn of_field(fields: &mut Fields, name: &str) -> Result<Option<Self>, Refusal> {
        let path = fields.path(name);
        fields.strict_object(name)?.map_or(Ok(None), |format| of_format(format, path, false))
    }

    /// Takes the constraint under which the texts for a detector were written.
    pub(crate) fn of_detection(body: &mut Fields) -> Result<Option<Self>, Refusal> {
        let mut constraints = alternatives(body, "schema")?;
        if constraints.len() > 1 {
            let param = constraints[0].path();
            return Err(Refusal::field(param, "two_constraints", "give one of schema, regex, choice and grammar"));
        }
        Ok(constraints.pop())
    }

    /// JSON that obeys the schema at `path`.
    pub(crate) fn json_schema(schema: Value, path: impl Into<String>) -> Self {
        Self { kind: Kind::JsonSchema(schema), path: path.into() }
    }

    /// A text that matches the regular expression at `path`.
    pub(crate) fn regex(pattern: String, path: impl Into<String>) -> Self {
        Self { kind: Kind::Regex(pattern), path: path.into() }
    }

    /// A text of the grammar at `path`.
    pub(crate) fn grammar(language: Language, text: String, path: impl Into<String>) -> Self {
        Self { kind: Kind::Grammar(language, text), path: path.into() }
    }

    /// A text of the structural tag at `path`, which may be JSON in a string.
    pub(crate) fn structural_tag(tag: Value, path: String) -> Result<Self, Refusal> {
        let tag = parsed(tag, &path).map_err(|fault| Refusal { code: Some("invalid_structural_tag"), ..fault })?;
        Ok(Self { kind: Kind::StructuralTag(tag), path })
    }

    /// One of the texts at `path`.
    pub(crate) fn choice(texts: Vec<String>, path: impl Into<String>) -> Self {
        Self { kind: Kind::Choice(texts), path: path.into() }
    }

    /// Adds the constraint to a request.
    pub(crate) fn onto<'a>(&self, request: Request<'a>) -> Request<'a> {
        match &self.kind {
            Kind::Regex(pattern) => request.regex(pattern),
            Kind::Choice(texts) => request.choice(texts),
            Kind::JsonSchema(schema) => request.json_schema(schema.clone()),
            Kind::StructuralTag(tag) => request.structural_tag(tag.clone()),
            Kind::Grammar(language, text) => request.grammar(*language, text),
        }
    }

    /// The number of bytes of the schema, the expression or the choices.
    pub(crate) fn bytes(&self) -> usize {
        match &self.kind {
            Kind::Regex(text) | Kind::Grammar(_, text) => text.len(),
            Kind::Choice(texts) => texts.iter().map(|text| text.len() + 1).sum(),
            Kind::JsonSchema(value) | Kind::StructuralTag(value) => value.to_string().len(),
        }
    }

    /// The grammar of the constraint, for the control tokens of a tokenizer.
    ///
    /// # Errors
    /// If no text obeys the constraint, or it is not supported.
    pub(crate) fn compiled(&self, tokenizer: &Tokenizer) -> Result<Grammar, Refusal> {
        let grammar = match &self.kind {
            Kind::Regex(pattern) => Grammar::regex(pattern).map_err(Error::from),
            Kind::Choice(texts) => Grammar::choice(texts).map_err(Error::from),
            Kind::JsonSchema(schema) => Grammar::json_schema(schema, Style::default()).map_err(Error::from),
            Kind::StructuralTag(tag) => Grammar::structural_tag_with(tag, tokenizer).map_err(Error::from),
            Kind::Grammar(language, text) => Grammar::parse(*language, text).map_err(Error::from),
        };
        grammar.map_err(|error| Refusal { param: Some(self.path.clone()), ..error.into() })
    }

    /// The path of the constraint in the body.
    pub(crate) fn path(&self) -> &str {
        &self.path
    }
}

/// Any JSON object.
pub(super) fn any_object() -> Value {
    json!({"type": "object"})
}

/// The constraint of the format at `path`, whose schema is in an object of its own or next to its type.
fn of_format(mut format: Fields, path: String, is_nested: bool) -> Result<Option<ConstraintField>, Refusal> {
    let kind = kind(&mut format)?;
    let constraint = match kind.as_str() {
        "text" => None,
        "json_object" if !format.has("schema") => Some(ConstraintField::json_schema(any_object(), path)),
        "json_schema" if is_nested && !format.has("schema") => {
            let mut about = format.object("json_schema")?.ok_or_else(|| format.missing("json_schema"))?;
            let constraint = schema(&mut about)?;
            about.end()?;
            Some(constraint)
        }
        // SGLang, llama.cpp and others have the schema next to any type.
        "json_object" | "json_schema" => Some(schema(&mut format)?),
        "structural_tag" => Some(ConstraintField { kind: Kind::StructuralTag(tag(&mut format)), path }),
        kind => valued(&mut format, kind)?,
    };
    format.end()?;
    Ok(constraint)
}

/// Takes the constraint of a format of this type whose schema or expression is its `value`; `None` if the type is
/// another.
pub(super) fn valued(format: &mut Fields, kind: &str) -> Result<Option<ConstraintField>, Refusal> {
    let path = format.path("value");
    Ok(match kind {
        "json" | "json_object" | "json_schema" => {
            let schema = format.value("value").map_or_else(|| Ok(any_object()), |value| parsed(value, &path))?;
            Some(ConstraintField::json_schema(schema, path))
        }
        "regex" => Some(ConstraintField::regex(format.need("value")?, path)),
        "lark" => Some(ConstraintField::grammar(Language::Lark, format.need("value")?, path)),
        _ => None,
    })
}

/// Takes the type of a format.
fn kind(format: &mut Fields) -> Result<String, Refusal> {
    let kind: String = format.need("type")?;
    if matches!(kind.as_str(), "text" | "json_object" | "json_schema" | "structural_tag" | "json" | "regex") {
        return Ok(kind);
    }
    let path = format.path("type");
    let known = "text, json_object, json_schema, structural_tag, json or regex";
    let message = format!("{path} is {kind:?}, but must be {known}");
    Err(Refusal::field(path, "invalid_value", message))
}

/// Takes the other fields of a structural tag, in either of its formats.
fn tag(format: &mut Fields) -> Value {
    let mut tag = json!({"type": "structural_tag"});
    for name in ["format", "structures", "triggers", "at_least_one"] {
        if let Some(value) = format.value(name) {
            tag[name] = value;
        }
    }
    tag
}

/// Takes a schema, and the fields that describe it.
fn schema(about: &mut Fields) -> Result<ConstraintField, Refusal> {
    let path = about.path("schema");
    let schema = about.value("schema").ok_or_else(|| about.missing("schema"))?;
    // A schema is always obeyed.
    about.ignore(&["name", "description", "strict"]);
    Ok(ConstraintField::json_schema(schema, path))
}

/// A schema, which may be JSON in a string, as in vLLM.
pub(super) fn parsed(schema: Value, path: &str) -> Result<Value, Refusal> {
    match schema {
        Value::String(text) => parse_schema(text.as_bytes())
            .map_err(|fault| Refusal::field(path, "invalid_json_schema", format!("{path}: {fault}"))),
        other => Ok(other),
    }
}

/// Takes a schema from the field of this name, a regular expression and choices; there may be more than one of them.
fn alternatives(fields: &mut Fields, name: &str) -> Result<Vec<ConstraintField>, Refusal> {
    let mut constraints = Vec::new();
    let path = fields.path(name);
    if let Some(schema) = fields.value(name) {
        constraints.push(ConstraintField { kind: Kind::JsonSchema(parsed(schema, &path)?), path });
    }
    if let Some(pattern) = fields.take("regex")? {
        constraints.push(ConstraintField { kind: Kind::Regex(pattern), path: fields.path("regex") });
    }
    if let Some(texts) = fields.take("choice")? {
        constraints.push(ConstraintField { kind: Kind::Choice(texts), path: fields.path("choice") });
    }
    if let Some(text) = fields.take::<String>("grammar")? {
        constraints.push(ConstraintField::grammar(Language::guess(&text), text, fields.path("grammar")));
    }
    Ok(constraints)
}

fn structured_outputs(mut outputs: Fields) -> Result<ConstraintField, Refusal> {
    let mut constraints = alternatives(&mut outputs, "json")?;
    if outputs.take("json_object")?.unwrap_or(false) {
        constraints.push(ConstraintField::json_schema(any_object(), outputs.path("json_object")));
    }
    let path = outputs.path("structural_tag");
    if let Some(tag) = outputs.value("structural_tag") {
        constraints.push(ConstraintField::structural_tag(tag, path)?);
    }
    outputs.end()?;
    let count = constraints.len();
    constraints.pop().filter(|_| count == 1).ok_or_else(|| {
        let message = format!(
            "structured_outputs has {count} of json, regex, choice, grammar, json_object and structural_tag: give one"
        );
        Refusal::field("structured_outputs", if count == 0 { "missing_field" } else { "two_constraints" }, message)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(body: Value) -> Result<Option<ConstraintField>, Refusal> {
        let mut fields = Fields::of(body, "").unwrap();
        let constraint = ConstraintField::take(&mut fields)?;
        fields.end()?;
        Ok(constraint)
    }

    #[test]
    fn both_ways_say_the_same() {
        let schema = json!({"type": "integer"});
        let format = json!({"response_format": {"type": "json_schema", "json_schema": {
            "name": "n", "strict": true, "schema": schema,
        }}});
        let constraint = taken(format).unwrap().unwrap();
        assert_eq!(constraint, ConstraintField::json_schema(schema.clone(), "response_format.json_schema.schema"));
        for json in [schema.clone(), Value::String(schema.to_string())] {
            let constraint = taken(json!({"structured_outputs": {"json": json}})).unwrap().unwrap();
            assert_eq!(constraint.kind, Kind::JsonSchema(schema.clone()));
        }
        let choice = taken(json!({"structured_outputs": {"choice": ["a", "b"], "json_object": false}}));
        assert_eq!(choice.unwrap().unwrap().kind, Kind::Choice(vec!["a".into(), "b".into()]));
        assert_eq!(taken(json!({"response_format": {"type": "text"}})), Ok(None));
        let tag = json!({"type": "structural_tag", "format": {"type": "any_text"}});
        let older = json!({"type": "structural_tag", "structures": [], "triggers": ["<"]});
        for tag in [tag, older] {
            let kind = Kind::StructuralTag(tag.clone());
            let format = taken(json!({"response_format": tag})).unwrap().unwrap();
            assert_eq!((&format.kind, format.path()), (&kind, "response_format"));
            let outputs = taken(json!({"structured_outputs": {"structural_tag": tag.to_string()}})).unwrap().unwrap();
            assert_eq!((&outputs.kind, outputs.path()), (&kind, "structured_outputs.structural_tag"));
        }
    }

    #[test]
    fn what_cannot_be_meant_is_refused() {
        for (body, param) in [
            (json!({"response_format": {"type": "grammar"}}), "response_format.type"),
            (json!({"response_format": {"type": "json_schema"}}), "response_format.json_schema"),
            (json!({"response_format": {"type": "json_object", "scheme": {}}}), "response_format.scheme"),
            (json!({"response_format": {"type": "regex"}}), "response_format.value"),
            (json!({"response_format": {"type": "text", "schema": {}}}), "response_format.schema"),
            (json!({"response_format": "json_object"}), "response_format"),
            (json!({"structured_outputs": {}}), "structured_outputs"),
            (json!({"structured_outputs": {"regex": "a", "choice": ["b"]}}), "structured_outputs"),
            (json!({"structured_outputs": {"grammar": 3}}), "structured_outputs.grammar"),
            (json!({"structured_outputs": {"json": "{"}}), "structured_outputs.json"),
            (json!({"structured_outputs": {"json": "{\"const\": 1e-400}"}}), "structured_outputs.json"),
            (json!({"structured_outputs": {"structural_tag": "{"}}), "structured_outputs.structural_tag"),
            (json!({"response_format": {"type": "structural_tag", "tags": []}}), "response_format.tags"),
            (json!({"structured_outputs": {"regex": 3}}), "structured_outputs.regex"),
            (
                json!({"structured_outputs": {"regex": "a"}, "response_format": {"type": "json_object"}}),
                "structured_outputs.regex",
            ),
        ] {
            assert_eq!(taken(body.clone()).unwrap_err().param.as_deref(), Some(param), "{body}");
        }
    }
}
