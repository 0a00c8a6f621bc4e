//! The texts of fixtures/verdicts have the same verdicts in SQL as everywhere, to the last digit.

mod common;

use std::sync::Arc;

use common::verdicts::{Case, cases, key_files, keys};
use common::{on_two_threads, reader};
use datafusion::arrow::array::{ArrayRef, RecordBatch, StringArray};
use datafusion::arrow::json::ArrayWriter;
use datafusion::prelude::SessionContext;
use serde_json::Value;
use verdigris_datafusion::{Judge, Judges, register, verdicts};
use verdigris_detector::{Key, Level};

#[test]
fn a_judge_of_several_keys_gives_each_text_its_verdict() {
    let files = key_files();
    for case in cases().iter().filter(|case| case.text.is_some() && case.is_plain()) {
        let level =
            case.options.get("level").and_then(Value::as_f64).map_or(Level::DEFAULT, |x| Level::new(x).unwrap());
        let own = case.keys.iter().map(|id| Key::parse(files[id].as_bytes()).unwrap());
        let judge = Judge::new(reader(), own, level).unwrap();
        let text: ArrayRef = Arc::new(StringArray::from(vec![case.content()]));
        case.compare(&row(verdicts(&judge.column(&text, "a test").unwrap())));
    }
}

#[test]
fn sql_gives_each_text_its_verdict() {
    on_two_threads(async {
        let context = SessionContext::new();
        register(&context, &Arc::new(Judges::new([reader()], keys().into_values()).unwrap()));
        let cases: Vec<Case> = cases().into_iter().filter(|case| case.text.is_some()).collect();
        for case in cases.iter().filter(|case| case.is_plain() && case.options.is_empty() && case.keys.len() == 1) {
            let text: ArrayRef = Arc::new(StringArray::from(vec![case.content()]));
            let batch = RecordBatch::try_from_iter([("text", text)]).unwrap();
            let _ = context.deregister_table("documents");
            context.register_batch("documents", batch).unwrap();
            let sql = format!("SELECT verdigris_detect(text, '{}') AS found FROM documents", case.keys[0]);
            let found = context.sql(&sql).await.unwrap().collect().await.unwrap().remove(0);
            let found = found.column(0).as_any().downcast_ref().cloned().unwrap();
            case.compare(&row(found));
        }
    });
}

/// The first row of a column of verdicts.
fn row(found: datafusion::arrow::array::StructArray) -> Value {
    let mut out = ArrayWriter::new(Vec::new());
    out.write(&RecordBatch::from(found)).unwrap();
    out.finish().unwrap();
    serde_json::from_slice::<Vec<Value>>(&out.into_inner()).unwrap().remove(0)
}
