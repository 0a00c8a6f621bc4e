//! `bench harm`: right answers with a mark and without.

use crate::support::{Folder, TALE_SMALL};
use serde_json::json;

/// A constraint decides one answer, and another one cannot be right; the answers are those of their seeds.
#[test]
fn answers_are_judged_with_a_mark_and_without() {
    let folder = Folder::new();
    let of_schema = json!({"kind": "schema", "prompt": "How many ships?", "schema": {"enum": [{"ships": 7}]},
        "judge": "value", "answer": {"ships": 7}});
    let of_text =
        |prompt: &str, answer: &str| json!({"kind": "text", "prompt": prompt, "judge": "text", "answer": answer});
    let questions = [of_schema, of_text("Is it a ship?", "no model writes this"), of_text("Where is it?", "")];
    folder.write("questions.jsonl", &questions.map(|question| question.to_string() + "\n").concat());
    let bench = ["bench", "harm", "-m", TALE_SMALL, "--questions", "questions.jsonl", "--keys", "3"];
    let rows = || folder.run(&[&bench[..], &["--only", "gumbel, 8", "--only", "delta 2", "--json"]].concat()).done();
    let first = rows();
    assert_eq!(first.out, rows().out);
    let first = first.lines();
    assert_eq!(first[0]["marked"], "nothing");
    assert!(first[0]["difference"].is_null() && first[0]["changed"] == 0.0, "{first:?}");
    assert!(first.len() > 2 && first.iter().all(|row| row["answers"] == 9), "{first:?}");
    for row in &first {
        assert_eq!(row["kinds"], json!({"schema": 1.0, "text": 0.5}), "{row}");
        assert!((row["right"].as_f64().unwrap() - 2.0 / 3.0).abs() < 1e-9, "{row}");
    }
    // Of nine answers those under the schema stay the same, and a bias changes some of the others.
    let changed = first.last().unwrap()["changed"].as_f64().unwrap();
    assert!(changed > 0.0 && changed < 0.7, "{first:?}");
    let table = folder.run(&bench).done();
    assert!(table.out.contains("3 questions, 3 keys") && table.out.contains("| schema | text |"), "{table:?}");
    folder.run(&[&bench[..7], &["0"]].concat()).fails("--keys must be at least 1");
    folder.write("questions.jsonl", "{\"kind\": \"text\"}\n");
    folder.run(&bench).fails("questions.jsonl");
}
