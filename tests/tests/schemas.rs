//! Random schemas give a grammar or an error, never a panic; and the texts of a grammar are valid by another library.

use std::sync::Arc;

use serde_json::Value;
use verdigris::constrain::{Machine, TokenIndex};
use verdigris::logits::Purpose;
use verdigris::{Grammar, Style};
use verdigris_tests::random_schema::Chance;
use verdigris_tests::{harness, random_text};

#[test]
fn random_schemas_are_refused_or_obeyed() {
    let index = Arc::new(TokenIndex::new(harness::tokenizer("tale-small").vocabulary()));
    let (mut understood, mut written) = (0, 0);
    for seed in 0..3000 {
        let mut chance = Chance::new(seed);
        let schema = chance.schema(3);
        let objects = chance.one(&[Style::default(), Style::default().closed()]);
        let Ok(grammar) = Grammar::json_schema(&schema, objects) else { continue };
        // Skips schemas that the judge refuses (such as an empty list where none is allowed).
        let Ok(judge) = jsonschema::draft202012::new(&schema) else { continue };
        understood += 1;
        let machine = Machine::new(grammar, index.clone());
        for i in 0..4 {
            let text = random_text(&machine, |n| chance.random().uniform(i << 32 | n, Purpose::Token));
            let value: Value = serde_json::from_slice(&text)
                .unwrap_or_else(|fault| panic!("{schema}: {}: {fault}", String::from_utf8_lossy(&text)));
            assert!(judge.is_valid(&value), "{schema} does not allow {value}");
            written += 1;
        }
    }
    assert!(understood > 1500 && written == 4 * understood, "{understood} of 3000 are understood");
}
