//! The constraint on a text.

use serde_json::Value;
use verdigris_constrain::{Constraint, ForcedText, Grammar, Language, Registry, Style};

use crate::error::Error;
use crate::request::Request;
use crate::request::options::{Constrained, ConstraintSource};

impl Constrained {
    /// The method that sets the constraint.
    pub(super) fn name(&self) -> &'static str {
        self.constraint.as_ref().map_or("constraint", ConstraintSource::name)
    }
}

impl Request<'_> {
    /// Constrains the text as a whole to a regular expression, in the syntax of the `regex` crate.
    ///
    /// Of this and the other constraints, the last one set applies. A text that approaches [`Request::max_tokens`] is
    /// led to its end in time. If it is certain that no text is short enough, the request fails with [`Error::NoRoom`]
    /// before anything is written. If the search for a short text exceeded its budget, the text may be cut short
    /// ([`Written::complete`](crate::Written::complete)).
    pub fn regex(mut self, pattern: impl Into<String>) -> Self {
        self.constrained.constraint = Some(ConstraintSource::Regex(pattern.into()));
        self
    }

    /// Constrains the text to one of these.
    pub fn choice(mut self, texts: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.constrained.constraint = Some(ConstraintSource::Choice(texts.into_iter().map(Into::into).collect()));
        self
    }

    /// Constrains the text to JSON that satisfies a schema. [`verdigris_constrain::json`] lists what is supported.
    pub fn json_schema(mut self, schema: Value) -> Self {
        self.constrained.constraint = Some(ConstraintSource::JsonSchema(schema));
        self
    }

    /// Constrains the text to a structural tag, in whose strings the names of control tokens represent these tokens.
    /// [`Grammar::structural_tag`] describes tags.
    pub fn structural_tag(mut self, tag: Value) -> Self {
        self.constrained.constraint = Some(ConstraintSource::StructuralTag(tag));
        self
    }

    /// Constrains the text to a grammar in one of the grammar languages.
    pub fn grammar(mut self, language: Language, text: impl Into<String>) -> Self {
        self.constrained.constraint = Some(ConstraintSource::Grammar(language, text.into()));
        self
    }

    /// Sets how the JSON of [`Request::json_schema`] is written where its schema leaves that open. An error with other
    /// constraints.
    pub fn style(mut self, style: Style) -> Self {
        self.constrained.style = Some(style);
        self
    }

    /// Sets the documents that references of [`Request::json_schema`] may point to, in addition to its own. An error
    /// with other constraints.
    pub fn registry(mut self, registry: Registry) -> Self {
        self.constrained.registry = Some(registry);
        self
    }

    /// Sets how text that the constraint leaves no choice about is split into tokens. An error without a constraint.
    pub fn forced_text(mut self, forced: ForcedText) -> Self {
        self.constrained.forced_text = Some(forced);
        self
    }

    /// Like [`Request::json_schema`], but objects have only properties that the schema names, unless it explicitly
    /// allows others.
    pub(crate) fn closed_json_schema(mut self, schema: Value) -> Self {
        self.constrained.style = Some(self.constrained.style.unwrap_or_default().closed());
        self.json_schema(schema)
    }

    /// Applies a constraint of [`Engine::constraint`](crate::Engine::constraint), which is compiled once for any number
    /// of requests.
    pub fn constraint(mut self, constraint: &Constraint) -> Self {
        self.constrained.constraint = Some(ConstraintSource::Given(constraint.clone()));
        self
    }

    /// The constraint, compiled once for all texts of the request.
    pub(super) fn constraint_asked_for(&self) -> Result<Option<Constraint>, Error> {
        let Constrained { constraint, style, registry, forced_text } = &self.constrained;
        let is_schema = matches!(constraint, Some(ConstraintSource::JsonSchema(_)));
        for (what, is_given) in [("a style of JSON", style.is_some()), ("a registry", registry.is_some())] {
            if is_given && !is_schema {
                return Err(Error::Unused { what, needs: "a JSON schema" });
            }
        }
        let Some(constraint) = constraint else {
            return match forced_text {
                Some(_) => Err(Error::Unused { what: "a way to write forced text", needs: "a constraint" }),
                None => Ok(None),
            };
        };
        let constraint = match constraint {
            ConstraintSource::Given(constraint) => {
                let shared = self.engine.shares_tokens(constraint.lexicon().tokenizer());
                shared.map_err(|_| Error::ForeignConstraint)?;
                constraint.clone()
            }
            ConstraintSource::Regex(pattern) => self.engine.constraint(Grammar::regex(pattern)?),
            ConstraintSource::Choice(texts) => self.engine.constraint(Grammar::choice(texts)?),
            ConstraintSource::StructuralTag(tag) => {
                let tokenizer = self.engine.reader().tokenizer();
                self.engine.constraint(Grammar::structural_tag_with(tag, tokenizer)?)
            }
            ConstraintSource::Grammar(language, text) => self.engine.constraint(Grammar::parse(*language, text)?),
            ConstraintSource::JsonSchema(schema) => {
                let (style, registry) = (style.unwrap_or_default(), registry.clone().unwrap_or_default());
                self.engine.constraint(Grammar::json_schema_with(schema, style, &registry)?)
            }
        };
        if let Some(name) = constraint.missing_control() {
            return Err(Error::UnknownControl { name: name.into() });
        }
        Ok(Some(match *forced_text {
            Some(forced) => constraint.forced_text(forced),
            None => constraint,
        }))
    }
}
