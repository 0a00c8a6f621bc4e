//! Tests of the functions in queries.

mod common;

use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, BinaryArray, DictionaryArray, Float64Array, Int64Array, LargeStringArray, RecordBatch,
    StringArray, StringViewArray, StructArray,
};
use datafusion::arrow::datatypes::{Float64Type, Int32Type, UInt64Type};
use datafusion::arrow::util::pretty::pretty_format_batches;
use datafusion::datasource::MemTable;
use datafusion::prelude::{SessionConfig, SessionContext};
use verdigris_datafusion::{Judges, functions, register};
use verdigris_detector::{Look, MAX_TEXT, Reader};

use common::{SECRET, key, marked, on_two_threads, plain, reader};

/// A context with this number of partitions and two keys.
fn context(partitions: usize) -> SessionContext {
    let config = SessionConfig::new().with_target_partitions(partitions).with_batch_size(16);
    let context = SessionContext::new_with_config(config);
    let other = key("mine").with_tenant("else").unwrap().with_id("other").unwrap();
    register(&context, &Arc::new(Judges::new([reader()], [key("mine"), other]).unwrap()));
    context
}

fn table(context: &SessionContext, columns: Vec<(&str, ArrayRef)>) {
    let nullable = columns.into_iter().map(|(name, column)| (name, column, true));
    let batch = RecordBatch::try_from_iter_with_nullable(nullable).unwrap();
    let rows = (0..batch.num_rows()).step_by(16).map(|from| batch.slice(from, 16.min(batch.num_rows() - from)));
    let table = MemTable::try_new(batch.schema(), vec![rows.collect()]).unwrap();
    context.register_table("documents", Arc::new(table)).unwrap();
}

async fn answer(context: &SessionContext, sql: &str) -> Result<RecordBatch, String> {
    let frame = context.sql(sql).await.map_err(|error| error.to_string())?;
    let schema = Arc::new(frame.schema().as_arrow().clone());
    let batches = frame.collect().await.map_err(|error| error.to_string())?;
    let schema = batches.first().map_or(schema, RecordBatch::schema);
    Ok(datafusion::arrow::compute::concat_batches(&schema, &batches).unwrap())
}

fn p(reader: &Reader, text: &str) -> f64 {
    let key = key("mine");
    reader.judge(&[&key], text, &Look { tokens: false, ..Look::default() }).unwrap().evidence.p()
}

fn saved() -> (tempfile::TempDir, std::path::PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("my.key");
    key("mine").save(&path).unwrap();
    (folder, path)
}

#[test]
fn every_layout_of_a_column_is_judged_as_each_text_is_alone() {
    on_two_threads(async {
        let (_folder, file) = saved();
        let mut texts: Vec<Option<String>> = marked(&file, 4).into_iter().chain((0..70).map(plain)).map(Some).collect();
        texts.insert(2, None);
        texts.push(Some(String::new()));
        texts.push(Some("caf\u{65}\u{301} \u{200b}with what is repaired".into()));
        let reader = reader();
        let want: Float64Array = texts.iter().map(|text| text.as_ref().map(|text| p(&reader, text))).collect();
        assert!(want.iter().flatten().filter(|&p| p < 1e-5).count() == 4);
        let bytes: BinaryArray = texts.iter().map(|text| text.as_ref().map(String::as_bytes)).collect();
        let dictionary: DictionaryArray<Int32Type> = texts.iter().map(Option::as_deref).collect();
        let columns: [ArrayRef; 5] = [
            Arc::new(texts.iter().collect::<StringArray>()),
            Arc::new(texts.iter().collect::<LargeStringArray>()),
            Arc::new(texts.iter().collect::<StringViewArray>()),
            Arc::new(dictionary),
            Arc::new(bytes),
        ];
        for column in columns {
            let context = context(2);
            let rows: ArrayRef = Arc::new(Int64Array::from_iter_values(0..texts.len() as i64));
            table(&context, vec![("row", rows), ("text", column)]);
            let sql = "SELECT verdigris_p(text, 'mine') AS p, verdigris_detect(text, 'mine') AS found FROM documents \
                   ORDER BY row";
            let found = answer(&context, sql).await.unwrap();
            assert_eq!(found.column(0).as_primitive::<Float64Type>(), &want);
            let verdicts: &StructArray = found.column(1).as_struct();
            assert_eq!(verdicts.column_by_name("p").unwrap().as_primitive::<Float64Type>(), &want);
            assert_eq!(verdicts.null_count(), 1);
            let by_column =
                "SELECT verdigris_p(text, CASE WHEN row % 2 = 0 THEN 'mine' END) AS p FROM documents ORDER BY row";
            let found = answer(&context, by_column).await.unwrap();
            let half: Float64Array = want.iter().enumerate().map(|(row, p)| p.filter(|_| row % 2 == 0)).collect();
            assert_eq!(found.column(0).as_primitive::<Float64Type>(), &half);
        }
    });
}

#[test]
fn no_plan_and_no_name_shows_a_secret() {
    on_two_threads(async {
        let context = context(2);
        table(&context, vec![("text", Arc::new(StringArray::from(vec!["a"])))]);
        let sql =
            "EXPLAIN VERBOSE SELECT verdigris_combine(text, 'mine'), max(verdigris_p(text, 'mine')) FROM documents";
        let plan = pretty_format_batches(&[answer(&context, sql).await.unwrap()]).unwrap().to_string();
        assert!(plan.contains("verdigris_combine(documents.text,Utf8(\"mine\"))"), "{plan}");
        let (scalars, aggregates) = functions(&Arc::new(Judges::new([reader()], [key("mine")]).unwrap()));
        let shown = format!("{plan} {scalars:#?} {aggregates:#?}");
        assert!(shown.contains("mine"));
        let bytes = format!("{:?}", [0x5au8; 4]);
        assert!(!shown.contains(SECRET) && !shown.to_lowercase().contains(bytes.trim_matches(['[', ']'])), "{shown}");
    });
}

#[test]
fn what_cannot_be_asked_is_told_in_one_line() {
    on_two_threads(async {
        let context = context(1);
        let number: ArrayRef = Arc::new(Int64Array::from(vec![1]));
        table(&context, vec![("text", Arc::new(StringArray::from(vec!["a"]))), ("number", number)]);
        for (sql, want) in [
            (
                "verdigris_p(text, 'nobody')",
                "there is no key with the id \"nobody\" here: there are \"mine\", \"other\"",
            ),
            ("verdigris_combine(text, 'nobody')", "there is no key with the id \"nobody\" here"),
            ("verdigris_detect(number, 'mine')", "verdigris_detect judges texts, but this column is of type Int64"),
            ("verdigris_combine(number, 'mine')", "verdigris_combine judges texts, but this column is of type Int64"),
            ("verdigris_p(text, 7)", "verdigris_p takes the id of a key as a string, but this is of type Int64"),
        ] {
            let told = answer(&context, &format!("SELECT {sql} FROM documents")).await.unwrap_err();
            assert!(told.contains(want), "{told}");
        }
        let nothing =
            answer(&context, "SELECT verdigris_p(NULL, 'mine'), verdigris_p(text, NULL) FROM documents").await;
        assert!(nothing.unwrap().columns().iter().all(|column| column.null_count() == 1));
        let constant =
            answer(&context, "SELECT verdigris_detect('The captain', 'mine')['verdict'] AS v").await.unwrap();
        assert_eq!(constant.column(0).as_string::<i32>().value(0), "too short");
        assert!(Judges::new([reader()], [key("mine"), key("mine")]).is_ok(), "a key given twice counts once");
    });
}

#[test]
fn a_text_that_cannot_be_judged_says_so_in_its_row() {
    on_two_threads(async {
        let context = context(1);
        let large = b"The captain ".repeat(MAX_TEXT / 12 + 1);
        let texts: Vec<Option<&[u8]>> = vec![Some(b"The captain"), Some(b"\xff\xfe"), None, Some(&large)];
        table(&context, vec![("text", Arc::new(BinaryArray::from_iter(texts)))]);
        let sql = "SELECT d['verdict'] AS verdict, d['error'] AS error, d['p'] AS p \
               FROM (SELECT verdigris_detect(text, 'mine') AS d FROM documents)";
        let found = answer(&context, sql).await.unwrap();
        let (verdicts, errors) = (found.column(0).as_string::<i32>(), found.column(1).as_string::<i32>());
        let verdicts: Vec<Option<&str>> = verdicts.iter().collect();
        assert_eq!(verdicts, [Some("too short"), Some("error"), None, Some("too short")]);
        assert!(errors.value(1).contains("not UTF-8") && errors.value(3).contains("too short"), "{errors:?}");
        assert_eq!(found.column(2).null_count(), 2);
        let sql = "SELECT c['documents'] AS documents, c['faulty'] AS faulty FROM \
               (SELECT verdigris_combine(text, 'mine') AS c FROM documents)";
        let found = answer(&context, sql).await.unwrap();
        let counts = found.columns().iter().map(|column| column.as_primitive::<UInt64Type>().value(0));
        assert_eq!(counts.collect::<Vec<_>>(), [1, 2]);
    });
}

#[test]
fn texts_of_an_author_are_one_evidence_however_they_are_shared_out() {
    on_two_threads(async {
        let (_folder, file) = saved();
        // Beginnings of texts that have little evidence each, and much together.
        let short = |text: &String| text.split_inclusive(' ').take(24).collect::<String>();
        let texts: Vec<String> = marked(&file, 12).iter().map(short).chain((0..100).map(plain)).collect();
        let authors: Vec<&str> =
            (0..texts.len()).map(|i| if i < 12 { "machine" } else { ["ann", "bob"][i % 2] }).collect();
        let sql = "SELECT author, verdigris_combine(text, 'mine') AS c FROM documents GROUP BY author ORDER BY author";
        let mut answers = Vec::new();
        for partitions in [1, 2, 4] {
            let context = context(partitions);
            // Each text comes twice, which adds no evidence.
            let twice = |all: &[&str]| -> ArrayRef { Arc::new(StringArray::from_iter_values(all.iter().chain(all))) };
            let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
            table(&context, vec![("author", twice(&authors)), ("text", twice(&texts))]);
            if partitions > 1 {
                let plan = answer(&context, &format!("EXPLAIN {sql}")).await.unwrap();
                assert!(pretty_format_batches(&[plan]).unwrap().to_string().contains("mode=Partial"));
            }
            let found = answer(&context, sql).await.unwrap();
            let combined: &StructArray = found.column(1).as_struct();
            let numbers = |name: &str| combined.column_by_name(name).unwrap().as_primitive::<Float64Type>().clone();
            let whole = answer(&context, "SELECT verdigris_combine(text, 'mine') AS c FROM documents").await.unwrap();
            let whole: &StructArray = whole.column(0).as_struct();
            let whole = whole.column_by_name("p").unwrap().as_primitive::<Float64Type>().value(0);
            answers.push((numbers("p"), numbers("score"), numbers("expected"), whole));
            let documents = combined.column_by_name("documents").unwrap().as_primitive::<UInt64Type>();
            assert_eq!(documents.values().to_vec(), [100, 100, 24]);
        }
        assert!(answers.windows(2).all(|pair| pair[0] == pair[1]), "{answers:?}");
        let reader = reader();
        let best = texts[..12].iter().map(|text| p(&reader, text)).fold(1.0, f64::min);
        let (ps, ..) = &answers[0];
        assert!(ps.value(0) > 1e-3 && ps.value(1) > 1e-3, "{ps:?}");
        assert!(ps.value(2) < best * 1e-4, "together {} and alone {best}", ps.value(2));
        // A single text has the p-value of a detector.
        let context = context(2);
        table(&context, vec![("text", Arc::new(StringArray::from_iter_values(&texts[..1])))]);
        let sql = "SELECT verdigris_combine(text, 'mine')['p'], max(verdigris_p(text, 'mine')) FROM documents";
        let found = answer(&context, sql).await.unwrap();
        assert_eq!(found.column(0).as_primitive::<Float64Type>(), found.column(1).as_primitive::<Float64Type>());
    });
}

#[test]
fn two_keys_in_one_group_are_refused() {
    on_two_threads(async {
        let context = context(1);
        let (texts, ids) = (StringArray::from(vec!["a", "b"]), StringArray::from(vec!["mine", "other"]));
        table(&context, vec![("text", Arc::new(texts)), ("id", Arc::new(ids))]);
        let told = answer(&context, "SELECT verdigris_combine(text, id) FROM documents").await.unwrap_err();
        assert!(told.contains("\"mine\" and \"other\" in one group: GROUP BY the id of the key"), "{told}");
        let sql = "SELECT verdigris_combine(text, id)['key_id'] AS id FROM documents GROUP BY id ORDER BY id";
        let found = answer(&context, sql).await.unwrap();
        assert_eq!(found.column(0).as_string::<i32>(), &StringArray::from(vec!["mine", "other"]));
    });
}
