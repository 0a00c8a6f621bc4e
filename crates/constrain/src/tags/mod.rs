//! Structural tags: texts composed of formats, as JSON (XGrammar's `structural_tag`).
//!
//! | module | contents |
//! |---|---|
//! | `format` | the formats, from JSON to a grammar |
//! | `dispatch` | free text in which triggers begin structure |
//! | `fault` | the reason why a tag cannot be used |
//! | `fields` | the fields of a format, none of which is ignored |

mod dispatch;
mod fault;
mod fields;
mod format;
#[cfg(test)]
mod tests;

use serde_json::{Value, json};
use verdigris_text::Tokenizer;

use crate::grammar::Grammar;

pub use self::fault::BadTag;

use self::fault::{Result, bad};
use self::fields::Fields;
use self::format::Formats;

impl Grammar {
    /// Creates the grammar of a structural tag: `{"type": "structural_tag", "format": FORMAT}`, or the older `{"type":
    /// "structural_tag", "structures": [{"begin": TEXT, "schema": SCHEMA, "end": TEXT}], "triggers": [TEXT]}`. All
    /// strings are plain text.
    ///
    /// # Errors
    /// The tag is malformed, or has something that is not supported, which is named.
    pub fn structural_tag(tag: &Value) -> Result<Self> {
        Formats::new(None).whole(tag)
    }

    /// Like [`Grammar::structural_tag`], where names of control tokens in the strings of a tag represent these tokens.
    ///
    /// # Errors
    /// As for [`Grammar::structural_tag`].
    pub fn structural_tag_with(tag: &Value, tokenizer: &Tokenizer) -> Result<Self> {
        Formats::new(Some(tokenizer)).whole(tag)
    }
}

impl Formats<'_> {
    fn whole(&mut self, tag: &Value) -> Result<Grammar> {
        let mut fields = Fields::of(tag, "#")?;
        let kind = fields.text("type")?;
        if kind != "structural_tag" {
            return bad("#/type", format!("it is {kind:?}, but must be \"structural_tag\""));
        }
        if tag.get("structures").is_none() {
            let (format, path) = fields.need("format")?;
            fields.end()?;
            return self.format(format, &path, &[], 0);
        }
        let (structures, path) = fields.need("structures")?;
        let (triggers, _) = fields.need("triggers")?;
        let is_required = fields.flag("at_least_one")?;
        fields.end()?;
        let mut tags = Vec::new();
        for (structure, path) in fields::items(structures, &path)? {
            let mut fields = Fields::of(structure, &path)?;
            let (begin, end) = (fields.text("begin")?, fields.text("end")?);
            let (schema, _) = fields.need("schema")?;
            fields.end()?;
            let content = json!({"type": "json_schema", "json_schema": schema});
            tags.push(json!({"type": "tag", "begin": begin, "content": content, "end": end}));
        }
        let format = json!({
            "type": "triggered_tags", "triggers": triggers, "tags": tags, "at_least_one": is_required,
        });
        self.format(&format, "#", &[], 0)
    }
}
