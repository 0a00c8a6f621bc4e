//! What a text must look like, as options.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use verdigris::constrain::{Escapes, Extra, ForcedText, NumberForms, Order, Whitespace};
use verdigris::{Registry, Request, Style};

use crate::error::Failure;

/// What the text must look like.
#[derive(Args)]
pub(crate) struct FormOptions {
    #[command(flatten)]
    form: Form,
    /// Let references lead to the schemas in the `.json` files of this folder too, by their "$id" or their names
    #[arg(long, value_name = "FOLDER", requires = "json_schema")]
    schemas: Option<PathBuf>,
    /// White space in JSON
    #[arg(long, value_name = "STYLE", requires = "json_schema")]
    whitespace: Option<Spaces>,
    /// Let properties come in any order, not only that of the schema
    #[arg(long, requires = "json_schema")]
    any_order: bool,
    /// Write no properties but those that the schema names, where it does not say that there may be others
    #[arg(long, requires = "json_schema")]
    closed: bool,
    /// Let numbers be written in all forms of JSON: 1.0 and 1e2 too
    #[arg(long, requires = "json_schema")]
    full_numbers: bool,
    /// Let characters in strings be written as any escapes that stand for them: \u00e9 for é
    #[arg(long, requires = "json_schema")]
    any_escapes: bool,
    /// Write what the form leaves no choice about with the tokens that the tokenizer has for it
    #[arg(long, requires = "Form")]
    canonical: bool,
}

#[derive(Args)]
#[group(multiple = false)]
struct Form {
    /// Write a text that matches this regular expression as a whole
    #[arg(long, value_name = "PATTERN")]
    regex: Option<String>,
    /// Write one of these texts
    #[arg(long, value_name = "A,B,C", value_delimiter = ',')]
    choice: Option<Vec<String>>,
    /// Write JSON that obeys this JSON Schema
    #[arg(long, value_name = "FILE")]
    json_schema: Option<PathBuf>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Spaces {
    /// None
    Compact,
    /// One space after each comma and colon
    Spaced,
    /// One space or none after each comma and colon, as is without this option
    Optional,
    /// Spaces, tabs and line ends, up to sixteen at each place
    Free,
}

/// No schema is longer than this.
const MAX_SCHEMA: u64 = 16 << 20;

impl FormOptions {
    pub(crate) fn apply<'a>(&self, mut request: Request<'a>) -> Result<Request<'a>, Failure> {
        if self.canonical {
            request = request.forced_text(ForcedText::Canonical);
        }
        let given = [
            self.schemas.is_some(),
            self.whitespace.is_some(),
            self.any_order,
            self.closed,
            self.full_numbers,
            self.any_escapes,
        ];
        if self.form.json_schema.is_none() && given.contains(&true) {
            let message = "--schemas, --whitespace, --any-order, --closed, --full-numbers and --any-escapes go with \
                --json-schema alone";
            return Err(Failure::Usage(message.into()));
        }
        Ok(if let Some(pattern) = &self.form.regex {
            request.regex(pattern)
        } else if let Some(texts) = &self.form.choice {
            request.choice(texts)
        } else if let Some(path) = &self.form.json_schema {
            if let Some(folder) = &self.schemas {
                request =
                    request.registry(Registry::folder(folder).map_err(|error| Failure::Usage(error.to_string()))?);
            }
            request.json_schema(read_schema(path)?).style(self.style())
        } else {
            request
        })
    }

    fn style(&self) -> Style {
        let whitespace = match self.whitespace {
            Some(Spaces::Compact) => Whitespace::Compact,
            Some(Spaces::Spaced) => Whitespace::Spaced,
            Some(Spaces::Optional) | None => Whitespace::Optional,
            Some(Spaces::Free) => Whitespace::Free { most: 16 },
        };
        Style {
            objects: if self.closed { Extra::Closed } else { Extra::Open },
            order: if self.any_order { Order::Any } else { Order::Schema },
            whitespace,
            numbers: if self.full_numbers { NumberForms::Full } else { NumberForms::Plain },
            escapes: if self.any_escapes { Escapes::Any } else { Escapes::Minimal },
        }
    }
}

fn read_schema(path: &Path) -> Result<serde_json::Value, Failure> {
    let open = |source| Failure::Open { path: path.into(), source };
    let file = File::open(path).map_err(open)?;
    let mut json = Vec::new();
    file.take(MAX_SCHEMA + 1).read_to_end(&mut json).map_err(open)?;
    if json.len() as u64 > MAX_SCHEMA {
        return Err(Failure::Usage(format!("{}: a schema of more than {MAX_SCHEMA} bytes", path.display())));
    }
    serde_json::from_slice(&json).map_err(|error| Failure::Usage(format!("{} is not JSON: {error}", path.display())))
}
