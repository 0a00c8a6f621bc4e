//! Schemas of records as programs exchange them, for texts under constraints.

use rayon::prelude::*;
use serde_json::{Map, Value, json};
use verdigris::constrain::{Extra, Whitespace};
use verdigris::{Engine, Error, Grammar, Key, Marking, Reader, Request, Style};

/// The number of schemas.
pub const SCHEMAS: usize = 40;

/// The possible fields of records.
fn fields() -> Vec<(&'static str, Value)> {
    let text = |least: u32, most: u32| json!({"type": "string", "minLength": least, "maxLength": most});
    vec![
        ("name", text(3, 24)),
        ("rank", json!({"enum": ["captain", "mate", "boatswain", "cook", "sailor"]})),
        ("years_at_sea", json!({"type": "integer", "minimum": 0, "maximum": 60})),
        ("is_married", json!({"type": "boolean"})),
        ("remarks_of_the_captain", text(5, 80)),
        ("ports", json!({"type": "array", "items": text(3, 16), "minItems": 1, "maxItems": 4})),
        ("date_of_birth", json!({"type": "string", "format": "date"})),
        ("certificate", json!({"type": "string", "pattern": "^[A-Z]{2}-[0-9]{4}$"})),
        (
            "address",
            json!({"type": "object", "required": ["street", "town"], "additionalProperties": false,
            "properties": {"street": text(5, 30), "town": text(3, 20)}}),
        ),
        ("wage", json!({"type": "number", "minimum": 0, "maximum": 1000})),
    ]
}

/// One of the schemas (several records of three to six fields each), and the style of its JSON.
pub fn schema(i: usize) -> (Value, Style) {
    let all = fields();
    let mut properties = Map::new();
    for part in 0..3 + i % 4 {
        // Steps that are coprime to the number of fields reach different ones.
        let (name, schema) = &all[(i + part * [1, 3, 7, 9][i / 10 % 4]) % all.len()];
        properties.insert((*name).to_owned(), schema.clone());
    }
    let required: Vec<&String> = properties.keys().collect();
    let record = json!({"type": "object", "required": required, "properties": properties});
    let records = json!({"type": "array", "items": record, "minItems": 3 + i % 3, "maxItems": 12});
    let whitespace = [Whitespace::Compact, Whitespace::Spaced, Whitespace::Optional][i % 3];
    (records, Style { objects: Extra::Closed, whitespace, ..Style::default() })
}

/// The grammar of one of the schemas.
///
/// # Panics
/// If it is not supported, which means that a constant of this file is wrong.
pub fn grammar(i: usize) -> Grammar {
    let (schema, style) = schema(i);
    Grammar::json_schema(&schema, style).expect("a schema of this file")
}

/// Generates JSON of one of the schemas with at most `tokens` tokens, at temperature 1.
///
/// # Errors
/// Those of [`verdigris::Request::text`].
pub fn write(engine: &Engine, i: usize, key: Option<&Key>, tokens: usize, seed: u64) -> Result<String, Error> {
    let form = engine.constraint(grammar(i));
    let request = engine.request("").constraint(&form).max_tokens(tokens).temperature(1.0).top_p(1.0).seed(seed);
    Ok(key.into_iter().fold(request, Request::watermark).text()?.text)
}

/// The key with the given number.
///
/// # Panics
/// Never: the marking is the default one.
pub fn key(reader: &Reader, number: u32) -> Key {
    let mut secret = [0; 32];
    secret[..4].copy_from_slice(&number.to_le_bytes());
    Key::from_secret(secret, "forms", Marking::lists(), reader.vocabulary()).expect("a usual key")
}

/// The logarithms of the p-values of an unmarked text of each schema under `keys` keys each, which are different for
/// each text. `knowing` says whether readers know the schema.
///
/// # Panics
/// If a text does not match its schema.
pub fn unmarked_ln_p(reader: &Reader, texts: &[String], keys: u32, knowing: bool) -> Vec<f64> {
    let of_text = |(i, text): (usize, &String)| {
        let reader = match knowing {
            true => reader.clone().of_grammar(grammar(i)),
            false => reader.clone(),
        };
        let of_key = move |number| {
            let evidence = reader.detect(&key(&reader, (i as u32) << 20 | number), text.as_bytes());
            evidence.expect("a text of the form").ln_p
        };
        (0..keys).map(of_key).collect::<Vec<_>>()
    };
    texts.par_iter().enumerate().flat_map_iter(of_text).collect()
}
