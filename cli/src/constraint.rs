//! Options for constraints on a text.

use std::borrow::Cow;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use clap::Args;
use verdigris::constrain::{Escapes, Extra, ForcedText, Language, NumberForms, Order, Whitespace, parse_schema};
use verdigris::{Grammar, Registry, Request, Style};

use crate::choice::{Choice, OneOf};
use crate::error::Failure;

/// The constraint on a text.
#[derive(Args)]
pub(crate) struct ConstraintOptions {
    #[command(flatten)]
    constraint: GrammarOptions,
    /// The language of --grammar, whatever the extension of its file
    #[arg(long, value_name = "LANGUAGE", value_parser = OneOf(LANGUAGES), requires = "with_grammar")]
    grammar_language: Option<Language>,
    /// Resolve references also to the schemas in the `.json` files of this folder, by their "$id" or their names
    #[arg(long, value_name = "FOLDER", requires = "with_json_schema")]
    schemas: Option<PathBuf>,
    /// The white space in JSON
    #[arg(long, value_name = "STYLE", value_parser = OneOf(WHITESPACE), requires = "with_json_schema")]
    whitespace: Option<Whitespace>,
    /// Allow properties in any order, not only that of the schema
    #[arg(long, requires = "with_json_schema")]
    any_order: bool,
    /// Allow only the properties that the schema names, unless it explicitly allows others
    #[arg(long, requires = "with_json_schema")]
    closed: bool,
    /// Allow numbers in every notation of JSON, including 1.0 and 1e2
    #[arg(long, requires = "with_json_schema")]
    full_numbers: bool,
    /// Allow any escape for a character in a string, such as \u00e9 for é
    #[arg(long, requires = "with_json_schema")]
    any_escapes: bool,
}

/// The constraint on a text, and how it is tokenized.
#[derive(Args)]
pub(crate) struct TextConstraint {
    #[command(flatten)]
    constraint: ConstraintOptions,
    /// Write text that the constraint leaves no choice about as the tokenizer would split it
    #[arg(long, requires = "GrammarOptions")]
    canonical: bool,
}

impl TextConstraint {
    pub(crate) fn apply<'a>(&self, request: Request<'a>) -> Result<Request<'a>, Failure> {
        let request = self.constraint.apply(request)?;
        Ok(if self.canonical { request.forced_text(ForcedText::Canonical) } else { request })
    }

    /// The constraint as a grammar.
    pub(crate) fn grammar(&self) -> Result<Option<Grammar>, Failure> {
        self.constraint.grammar()
    }

    /// Whether a constraint is given.
    pub(crate) fn is_given(&self) -> bool {
        self.constraint.is_given()
    }

    /// The files that the constraint is read from, except those of --schemas.
    pub(crate) fn files(&self) -> Vec<&Path> {
        let GrammarOptions { choices, grammar, json_schema, .. } = &self.constraint.constraint;
        let schema = json_schema.as_deref().filter(|schema| !is_json(schema)).map(Path::new);
        choices.as_deref().into_iter().chain(grammar.as_deref()).chain(schema).collect()
    }
}

#[derive(Args)]
#[group(multiple = false)]
struct GrammarOptions {
    /// The whole text matches this regular expression
    #[arg(long, value_name = "PATTERN", allow_hyphen_values = true)]
    regex: Option<String>,
    /// The text is one of these: give the option once for each, or a JSON list of all
    #[arg(long, value_name = "TEXT|JSON", allow_hyphen_values = true)]
    choice: Option<Vec<String>>,
    /// The text is one of those in this file, one on each line
    #[arg(long, value_name = "FILE")]
    choices: Option<PathBuf>,
    /// The text obeys the grammar in this file, in the language of its extension: .lark, .gbnf or .ebnf
    #[arg(long, value_name = "FILE", group = "with_grammar")]
    grammar: Option<PathBuf>,
    /// The text is JSON that matches this JSON Schema: a file, or the schema itself, which is true, false or begins
    /// with {
    #[arg(long, value_name = "FILE|JSON", group = "with_json_schema")]
    json_schema: Option<String>,
}

/// Styles of white space in JSON.
const WHITESPACE: &[Choice<Whitespace>] = &[
    ("compact", Whitespace::Compact, "None"),
    ("spaced", Whitespace::Spaced, "One space after each comma and colon"),
    ("optional", Whitespace::Optional, "One space or none after each comma and colon, the default"),
    ("free", Whitespace::Free { most: 16 }, "Spaces, tabs and line ends, up to sixteen at each position"),
];

/// Languages of grammars.
const LANGUAGES: &[Choice<Language>] = &[
    ("gbnf", Language::Gbnf, "llama.cpp's"),
    ("ebnf", Language::Ebnf, "XGrammar's"),
    ("lark", Language::Lark, "Lark's, with the extensions of llguidance"),
];

/// The longest schema, grammar or list of choices, in bytes.
const MAX_FILE: u64 = 16 << 20;

impl ConstraintOptions {
    /// Whether a constraint is given.
    pub(crate) fn is_given(&self) -> bool {
        let GrammarOptions { regex, choice, choices, grammar, json_schema } = &self.constraint;
        regex.is_some() || choice.is_some() || choices.is_some() || grammar.is_some() || json_schema.is_some()
    }

    pub(crate) fn apply<'a>(&self, mut request: Request<'a>) -> Result<Request<'a>, Failure> {
        let schema = self.schema()?;
        Ok(if let Some(pattern) = &self.constraint.regex {
            request.regex(pattern)
        } else if let Some(texts) = self.choice()? {
            request.choice(&*texts)
        } else if let Some((language, text)) = self.text_of_grammar()? {
            request.grammar(language, text)
        } else if let Some((schema, registry)) = schema {
            if let Some(registry) = registry {
                request = request.registry(registry);
            }
            request.json_schema(schema).style(self.style())
        } else {
            request
        })
    }

    /// The constraint as a grammar.
    pub(crate) fn grammar(&self) -> Result<Option<Grammar>, Failure> {
        let schema = self.schema()?;
        let grammar = if let Some(pattern) = &self.constraint.regex {
            Grammar::regex(pattern).map_err(verdigris::Error::from)?
        } else if let Some(texts) = self.choice()? {
            Grammar::choice(&texts).map_err(verdigris::Error::from)?
        } else if let Some((language, text)) = self.text_of_grammar()? {
            Grammar::parse(language, &text).map_err(verdigris::Error::from)?
        } else if let Some((schema, registry)) = schema {
            let registry = registry.unwrap_or_default();
            Grammar::json_schema_with(&schema, self.style(), &registry).map_err(verdigris::Error::from)?
        } else {
            return Ok(None);
        };
        Ok(Some(grammar))
    }

    /// The texts to choose from.
    fn choice(&self) -> Result<Option<Cow<'_, [String]>>, Failure> {
        let texts = match self.constraint.choice.as_deref() {
            None => match &self.constraint.choices {
                None => return Ok(None),
                Some(path) => Cow::Owned(read_text(path)?.lines().map(String::from).collect()),
            },
            Some([json]) if json.trim_start().starts_with('[') => {
                let texts = serde_json::from_str::<Vec<String>>(json).map_err(|fault| {
                    let cure = "write a single text that begins with [ as such a list, too";
                    Failure::Usage(format!("--choice is not a JSON list of texts ({fault}): {cure}"))
                })?;
                Cow::Owned(texts)
            }
            Some([text]) if text.contains(',') => {
                let list = serde_json::json!([text]);
                let message = format!(
                    "--choice takes one text at a time: repeat it for each, as in --choice yes --choice no; if this is \
                     one text, write it as --choice '{list}'"
                );
                return Err(Failure::Usage(message));
            }
            Some(texts) => Cow::Borrowed(texts),
        };
        match texts.iter().any(String::is_empty) || texts.is_empty() {
            true => {
                let at = texts.iter().position(String::is_empty).filter(|_| self.constraint.choices.is_some());
                let at = at.map_or(String::new(), |at| format!(" (line {})", at + 1));
                Err(Failure::Usage(format!(
                    "--choice or --choices has an empty text{at}, or none: give texts of at least one character"
                )))
            }
            false => Ok(Some(texts)),
        }
    }

    /// The grammar in a grammar language.
    fn text_of_grammar(&self) -> Result<Option<(Language, String)>, Failure> {
        let Some(path) = &self.constraint.grammar else {
            return match self.grammar_language {
                Some(_) => Err(Failure::Usage("--grammar-language needs --grammar".into())),
                None => Ok(None),
            };
        };
        let of_extension = || path.extension()?.to_str()?.parse().ok();
        let Some(language) = self.grammar_language.or_else(of_extension) else {
            let message = format!(
                "{}: the language of the grammar is not known: name the file .lark, .gbnf or .ebnf, or give \
                 --grammar-language",
                path.display()
            );
            return Err(Failure::Usage(message));
        };
        Ok(Some((language, read_text(path)?)))
    }

    /// The schema with the schemas that it may refer to.
    fn schema(&self) -> Result<Option<(serde_json::Value, Option<Registry>)>, Failure> {
        let Some(schema) = &self.constraint.json_schema else { return Ok(None) };
        let registry = self.schemas.as_deref().map(Registry::folder).transpose();
        let registry = registry.map_err(|error| Failure::Usage(error.to_string()))?;
        if schema.trim().is_empty() {
            return Err(Failure::Usage("--json-schema is empty: give a file, or the schema itself".into()));
        }
        let schema = match is_json(schema) {
            true => parsed("--json-schema", schema.as_bytes())?,
            false => read_schema(Path::new(schema))?,
        };
        Ok(Some((schema, registry)))
    }

    fn style(&self) -> Style {
        Style {
            objects: if self.closed { Extra::Closed } else { Extra::Open },
            order: if self.any_order { Order::Any } else { Order::Schema },
            whitespace: self.whitespace.unwrap_or_default(),
            numbers: if self.full_numbers { NumberForms::Full } else { NumberForms::Plain },
            escapes: if self.any_escapes { Escapes::Any } else { Escapes::Minimal },
        }
    }
}

/// Whether an argument is JSON itself, rather than the name of a file. Files of such names can be given as `./true`.
fn is_json(schema: &str) -> bool {
    schema.trim_start().starts_with(['{', '[']) || matches!(schema.trim(), "true" | "false")
}

fn read_schema(path: &Path) -> Result<serde_json::Value, Failure> {
    parsed(&path.display().to_string(), &read_file("schema", path)?)
}

fn read_file(what: &str, path: &Path) -> Result<Vec<u8>, Failure> {
    let open = |source| Failure::Open { path: path.into(), source };
    let file = File::open(path).map_err(open)?;
    let mut bytes = Vec::new();
    file.take(MAX_FILE + 1).read_to_end(&mut bytes).map_err(open)?;
    if bytes.len() as u64 > MAX_FILE {
        return Err(Failure::Usage(format!("{}: the {what} has more than {MAX_FILE} bytes", path.display())));
    }
    Ok(bytes)
}

fn read_text(path: &Path) -> Result<String, Failure> {
    let text = String::from_utf8(read_file("file", path)?);
    text.map_err(|_| Failure::Usage(format!("{} is not text in UTF-8: save it as such", path.display())))
}

fn parsed(name: &str, json: &[u8]) -> Result<serde_json::Value, Failure> {
    parse_schema(json).map_err(|fault| Failure::Usage(format!("{name}: {fault}")))
}
