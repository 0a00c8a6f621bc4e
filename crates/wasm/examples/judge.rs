//! Does the same as `tests/desk.cjs judge` in node, compiled natively:
//! `judge TOKENIZER KEY TEXTS.jsonl ANSWERS.jsonl`.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::time::Instant;

use serde_json::{Value, json};
use verdigris_detector::Level;
use verdigris_wasm::{Desk, Wanted};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [tokenizer, key, texts, answers] = &arguments[..] else {
        return Err("usage: judge TOKENIZER KEY TEXTS.jsonl ANSWERS.jsonl".into());
    };
    let json = std::fs::read(tokenizer)?;
    let began = Instant::now();
    let mut desk = Desk::new(&json)?;
    let read = began.elapsed().as_secs_f64();
    desk.take_key(&std::fs::read(key)?)?;
    let lines = std::fs::read_to_string(texts)?;
    let lines = lines.lines().map(serde_json::from_str).collect::<Result<Vec<Value>, _>>()?;
    let lines: Vec<&str> = lines.iter().filter_map(|line| line["text"].as_str()).collect();
    let began = Instant::now();
    let ids = lines.iter().map(|text| desk.ids(text)).collect::<Result<Vec<_>, _>>()?;
    let encode = began.elapsed().as_secs_f64();
    let wanted = Wanted { level: Level::DEFAULT, windows: false };
    let began = Instant::now();
    let judged = lines.iter().map(|text| desk.judge(text, wanted)).collect::<Result<Vec<_>, _>>()?;
    let judge = began.elapsed().as_secs_f64();
    let mut out = BufWriter::new(File::create(answers)?);
    for (ids, answer) in ids.iter().zip(judged) {
        writeln!(out, "{{\"ids\":{},\"answer\":{answer}}}", serde_json::to_string(ids)?)?;
    }
    out.flush()?;
    println!("{}", json!({"read": read, "encode": encode, "judge": judge}));
    Ok(())
}
