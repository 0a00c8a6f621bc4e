//! Thoughts before answers: constraints apply to the answer, budgets end the thought, and marks cover both.

use serde_json::{Value, json};

use crate::support::{Folder, TALE_SMALL};

/// A chat template like that of models that think: it opens the thought, or ends an empty one.
pub(super) const THINKS: &str = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}assistant: \
    {% if enable_thinking is defined and not enable_thinking %}{{ '<think>\n\n</think>\n\n' }}\
    {% else %}{{ '<think>\n' }}{% endif %}";

/// Writes a text after a prompt that opens a thought.
#[track_caller]
fn thought(folder: &Folder, more: &[&str]) -> Value {
    let common = [
        "generate",
        "The captain looked at the window.<think>\n",
        "--reasoning-format",
        "think",
        "--json",
        "--quiet",
        "--seed",
        "3",
    ];
    folder.run(&[&common, more].concat()).done().json()
}

fn text<'v>(written: &'v Value, field: &str) -> &'v str {
    written[field].as_str().unwrap_or_else(|| panic!("{field} of {written}"))
}

#[test]
fn a_constraint_binds_the_answer_after_the_thought() {
    let folder = Folder::new();
    let schema = r#"{"type": "object", "required": ["age"], "additionalProperties": false,
        "properties": {"age": {"type": "integer", "minimum": 0, "maximum": 99}}}"#;
    for constraint in [["--regex", "[0-9]{3}x"], ["--json-schema", schema], ["--regex", "\n[a-z]{4}"]] {
        let asked = [&constraint[..], &["--thinking-token-budget", "20", "-n", "80"]].concat();
        let written = thought(&folder, &asked);
        let answer = text(&written, "text");
        match constraint[0] {
            "--json-schema" => assert!(serde_json::from_str::<Value>(answer).unwrap()["age"].is_u64(), "{written}"),
            _ if constraint[1].starts_with('\n') => assert_eq!((answer.len(), &answer[..1]), (5, "\n"), "{written}"),
            _ => assert!(answer.len() == 4 && answer.ends_with('x'), "{written}"),
        }
        assert_eq!((&written["complete"], text(&written, "stop")), (&json!(true), "end"), "{written}");
        assert!(text(&written, "reasoning").len() > 20, "{written}");
        // The budget, and the tokens of the end marker.
        let tokens = written["reasoning_tokens"].as_u64().unwrap();
        assert!((21..=28).contains(&tokens), "{written}");
        // Neither drafts nor other texts change it.
        for drafts in [&["--draft", TALE_SMALL][..], &["--lookup"]] {
            let drafted = thought(&folder, &[&asked[..], drafts].concat());
            for field in ["text", "reasoning", "tokens"] {
                assert_eq!(drafted[field], written[field], "{drafts:?}");
            }
        }
    }
}

#[test]
fn without_a_thought_the_constraint_binds_at_once() {
    let folder = Folder::new();
    let asked = ["generate", "The captain is ", "--regex", "[0-9]{2}", "--json", "--reasoning-format"];
    for format in ["think", "none", "auto", "mistral"] {
        let written = folder.run(&[&asked[..], &[format]].concat()).done().json();
        assert!(text(&written, "text").len() == 2 && written["reasoning"].is_null(), "{format}: {written}");
    }
    let closed = ["generate", "Yes. <think>\n\n</think>\n\n", "--regex", "[0-9]{2}", "--json"];
    let written = folder.run(&[&closed[..], &["--reasoning-format", "think"]].concat()).done().json();
    assert!(text(&written, "text").len() == 2 && written["reasoning"].is_null(), "{written}");
    // Without a format, a marker in a text is text.
    let written = folder.run(&["generate", "A<think>", "-n", "5", "--json"]).done().json();
    assert!(!text(&written, "text").is_empty() && written["reasoning"].is_null(), "{written}");
}

#[test]
fn a_thought_may_be_empty_or_without_an_end() {
    let folder = Folder::new();
    let empty = thought(&folder, &["--thinking-token-budget", "0", "-n", "30", "--regex", "[a-z]{5}"]);
    assert!(empty["reasoning"].is_null() && text(&empty, "text").len() == 5, "{empty}");
    let open = thought(&folder, &["-n", "12"]);
    assert_eq!((text(&open, "text"), text(&open, "stop")), ("", "length"), "{open}");
    assert_eq!(open["reasoning_tokens"], 12);
    // A constrained answer always has room.
    let tight = thought(&folder, &["-n", "14", "--regex", "[a-z]{5}"]);
    assert!(text(&tight, "text").len() == 5 && tight["complete"] == true, "{tight}");
    folder.run(&["generate", "A", "--thinking-token-budget", "3"]).fails("does not think");
    // A stop string ends answers, not thoughts.
    let stopped = thought(&folder, &["--thinking-token-budget", "30", "-n", "80", "--stop", "e"]);
    assert!(text(&stopped, "reasoning").contains('e') && !text(&stopped, "text").contains('e'), "{stopped}");
}

/// The answer is a text of its own for the detector, which never sees the thought.
#[test]
fn marks_are_found_in_the_answer_alone() {
    let folder = Folder::with_key();
    folder.run(&["generate", "Hi", "--mark", "answer"]).fails("--mark answer needs a key");
    folder.run(&["key", "new", "noise.key"]).done();
    let asked = ["--thinking-token-budget", "40", "-n", "260"];
    let plain = thought(&folder, &asked);
    for key in ["my.key", "noise.key"] {
        let with_key = [&asked[..], &["--key", key]].concat();
        let all = thought(&folder, &with_key);
        let answer = thought(&folder, &[&with_key[..], &["--mark", "answer"]].concat());
        assert_eq!(answer["reasoning"], plain["reasoning"], "the thought is not marked");
        assert_ne!(all["reasoning"], plain["reasoning"], "the thought is marked");
        for written in [all, answer] {
            folder.write("answer.txt", text(&written, "text"));
            let verdict = folder.run(&["detect", "--key", key, "answer.txt", "--json"]).json();
            assert_eq!(verdict["verdict"], "marked", "{key}: {verdict}");
            assert_eq!(written["mark"]["status"], "watermarked", "{written}");
        }
    }
}

/// A text that is delivered with its thought is read as both, under the constraint on its answer.
#[test]
fn a_constraint_is_known_after_a_thought() {
    let folder = Folder::with_key();
    let written = thought(
        &folder,
        &["--thinking-token-budget", "12", "-n", "120", "--key", "my.key", "--regex", "( [a-z]{1,9}){60}"],
    );
    let whole = format!("<think>{}</think>{}", text(&written, "reasoning"), text(&written, "text"));
    for (file, whole) in
        [("whole.txt", &whole[..]), ("opened.txt", &whole[7..]), ("answer.txt", text(&written, "text"))]
    {
        folder.write(file, whole);
        let asked = ["detect", "--key", "my.key", file, "--json", "--regex", "( [a-z]{1,9}){60}"];
        let found = folder.run(&[&asked[..], &["--reasoning-format", "think"]].concat()).done().json();
        assert_eq!((&found["marked"], found["forced"].is_u64()), (&json!(true), true), "{file}: {found}");
        if file != "answer.txt" {
            let refused = folder.run(&asked[..]);
            assert!(refused.status == 2 && refused.out.contains("breaks the constraint"), "{refused:?}");
        }
    }
    folder.run(&["detect", "--key", "my.key", "whole.txt", "--reasoning-format", "think"]).fails("--regex");
}

/// A text without a begin marker could be a thought, in which anything is allowed, until it has obeyed the constraint.
#[test]
fn forced_tokens_of_an_answer_are_known_with_and_without_a_thought() {
    let folder = Folder::with_key();
    let regex = "(yes|no){9}, the captain said to the mate, (yes|no){9}";
    let answer = "yesnonoyesyesnonoyesno, the captain said to the mate, nonoyesnonoyesyesyesno";
    let forced = |text: &str, more: &[&str]| {
        folder.write("text.txt", text);
        let asked = ["detect", "--key", "my.key", "text.txt", "--json", "--regex", regex];
        folder.run(&[&asked[..], more].concat()).json()["forced"].as_u64().unwrap()
    };
    let alone = forced(answer, &[]);
    assert!(alone > 10, "{alone}");
    let thinking = ["--reasoning-format", "think"];
    // Programs add a line end.
    for (thought, end) in [("", ""), ("", "\n"), ("<think>Is it?</think>", ""), ("Is it?</think>", "")] {
        let whole = format!("{thought}{answer}{end}");
        // A thought may change how the first word is split into tokens.
        let spare = u64::from(!thought.is_empty());
        assert!(forced(&whole, &thinking).abs_diff(alone) <= spare, "{whole}");
    }
    assert_eq!(forced("Is it? The captain said", &thinking), 0, "a thought that was cut short");
}

#[test]
fn templates_open_thoughts_and_end_them() {
    let folder = Folder::new();
    folder.copy_model(TALE_SMALL, "thinker");
    folder.write("thinker/chat_template.jinja", THINKS);
    let chat = |more: &[&str]| {
        let common = ["generate", "-m", "thinker", "--chat", "Hi", "--json", "-n", "60", "--regex", "[0-9]{3}"];
        folder.run(&[&common, more].concat()).done().json()
    };
    let thinks = chat(&["--reasoning-budget", "9"]);
    assert!(!text(&thinks, "reasoning").is_empty() && text(&thinks, "text").len() == 3, "{thinks}");
    for off in [&["--reasoning-effort", "none"][..], &["--template-arg", "enable_thinking=false"]] {
        let written = chat(off);
        assert!(written["reasoning"].is_null() && text(&written, "text").len() == 3, "{written}");
    }
    folder.run(&["generate", "-m", "thinker", "Hi", "--template-arg", "x=1"]).fails("--chat");
}
