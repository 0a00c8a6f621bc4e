//! `verdigris chat`: a conversation, line by line.

use serde_json::{Value, json};

use super::reasoning::THINKS;
use crate::support::{Folder, Run, TALE_SMALL};

const PLAIN: &str = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}assistant: ";

/// Runs a chat with these lines as standard input.
fn chat(folder: &Folder, lines: &[&str], more: &[&str]) -> Run {
    folder.write("lines.txt", &(lines.join("\n") + "\n"));
    let length = if more.contains(&"-n") { &[][..] } else { &["-n", "12"] };
    let common = ["chat", "-m", "teller", "--seed", "3"];
    folder.run_with(&[&common, length, more].concat(), "lines.txt")
}

/// The messages that a chat has saved.
fn saved(folder: &Folder, file: &str) -> Vec<(String, String)> {
    let messages: Vec<Value> = serde_json::from_str(&folder.read(file)).unwrap();
    let text = |message: &Value, field: &str| message[field].as_str().unwrap().to_owned();
    messages.iter().map(|message| (text(message, "role"), text(message, "content"))).collect()
}

#[test]
fn a_conversation_goes_from_line_to_line() {
    let folder = Folder::with_chat(PLAIN);
    let run = chat(&folder, &["Hi", "", "And then?", "/save talk.json"], &["--system", "Be brief."]).done();
    let talk = saved(&folder, "talk.json");
    let roles: Vec<&str> = talk.iter().map(|(role, _)| role.as_str()).collect();
    assert_eq!(roles, ["system", "user", "assistant", "user", "assistant"]);
    assert_eq!((talk[1].1.as_str(), talk[3].1.as_str()), ("Hi", "And then?"));
    assert_eq!(run.out, format!("{}\n{}\n", talk[2].1, talk[4].1), "standard output has the answers alone");
    // An answer is that of the same conversation elsewhere.
    let asked = ["generate", "-m", "teller", "--chat", "Hi", "--system", "Be brief.", "-n", "12", "--seed", "3"];
    assert_eq!(folder.run(&asked).done().out, format!("{}\n", talk[2].1));

    let lines = [
        "Hi",
        "/undo",
        "\"\"\"Two",
        "/lines\"\"\"",
        "/regenerate",
        "/save again.json",
        "/clear",
        "/system X",
        "/save empty.json",
    ];
    chat(&folder, &lines, &[]).done();
    let again = saved(&folder, "again.json");
    assert_eq!((again.len(), again[0].1.as_str()), (2, "Two\n/lines"));
    assert_eq!(saved(&folder, "empty.json"), [("system".to_owned(), "X".to_owned())]);

    // Between lines of marks, other lines may end with marks.
    let code = ["\"\"\"", "def f():", "    \"\"\"One.\"\"\"", "\"\"\"", "/save code.json"];
    chat(&folder, &code, &[]).done();
    assert_eq!(saved(&folder, "code.json")[0].1, "def f():\n    \"\"\"One.\"\"\"");
}

#[test]
fn answers_are_marked_and_thoughts_are_apart() {
    let folder = Folder::with_chat(PLAIN);
    let long = ["-n", "150", "--key", "my.key"];
    let marked = chat(&folder, &["A story, please."], &long).done().out;
    let plain = chat(&folder, &["/mark off", "Another one."], &long).done().out;
    // A key as it is made by default has variants, of which each answer takes one.
    folder.run(&["key", "new", "default.key", "--model", "teller"]).done();
    let varied = chat(&folder, &["A story, please."], &["-n", "150", "--key", "default.key"]).done().out;
    for (key, text, is_marked) in [("my.key", marked, true), ("my.key", plain, false), ("default.key", varied, true)] {
        folder.write("text.txt", &text);
        let found = folder.run(&["detect", "--key", key, "text.txt", "--json"]).json();
        assert_eq!(found["marked"], is_marked, "{found}");
    }
    folder.write("teller/chat_template.jinja", THINKS);
    let more = ["--thinking-token-budget", "5", "-n", "30"];
    let asked = ["generate", "-m", "teller", "--chat", "Hi", "--seed", "3", "--json"];
    let expected = folder.run(&[&asked[..], &more].concat()).done().json();
    assert!(expected["reasoning"].is_string());
    assert_eq!(json!(chat(&folder, &["Hi"], &more).done().out.trim_end_matches('\n')), expected["text"]);
}

#[test]
fn faults_are_one_line() {
    let folder = Folder::with_chat(PLAIN);
    chat(&folder, &["/sing"], &[]).fails("/help");
    chat(&folder, &["/mark on"], &[]).fails("--key");
    chat(&folder, &["/undo"], &[]).fails("nothing has been answered");
    folder.write("taken.json", "");
    chat(&folder, &["/save taken.json"], &[]).fails("taken.json exists already: give another name");
    chat(&folder, &["\"\"\"", "Hi", "/save talk.json"], &[]).fails("the last message has no end");
    chat(&folder, &[&"captain ".repeat(3000)], &[]).fails("/undo and /clear forget messages");
    folder.run(&["key", "new", "numbered.key", "--payload-bits", "8"]).done();
    chat(&folder, &[], &["--key", "numbered.key"]).fails("this key carries a payload");
    folder.run(&["key", "new", "both.key", "--public-part"]).done();
    folder.run(&["key", "publish", "both.key", "public.key"]).done();
    chat(&folder, &[], &["--key", "public.key"]).fails("published");
    folder.run(&["chat", "-m", TALE_SMALL]).fails("name one that was with --model");
}

/// A template from a file replaces the model's own, also where the model has none.
#[test]
fn a_chat_may_have_another_template() {
    let folder = Folder::with_chat(PLAIN);
    let expected = chat(&folder, &["Hi"], &[]).done().out;
    folder.write("other.jinja", "{% for m in messages %}<{{ m.content }}>{% endfor %}");
    folder.write("plain.jinja", PLAIN);
    let other = chat(&folder, &["Hi"], &["--chat-template", "other.jinja"]).done().out;
    let prompt = ["generate", "-m", "teller", "<Hi>", "-n", "12", "--seed", "3"];
    assert_eq!(other, folder.run(&prompt).done().out);
    assert_ne!(other, expected);
    folder.copy_model(TALE_SMALL, "bare");
    folder.write("lines.txt", "Hi\n");
    let bare = ["chat", "-m", "bare", "--seed", "3", "-n", "12", "--chat-template", "plain.jinja"];
    assert_eq!(folder.run_with(&bare, "lines.txt").done().out, expected);
    chat(&folder, &["Hi"], &["--chat-template", "none.jinja"]).fails("none.jinja");
    folder.write("broken.jinja", "{% for m in messages %}");
    chat(&folder, &["Hi"], &["--chat-template", "broken.jinja"]).fails("broken.jinja: the model's chat template");
}

/// With --tokens, names of control tokens are these tokens, and without it text.
#[test]
fn control_tokens_are_text_unless_asked_for() {
    let folder = Folder::with_chat("{% for m in messages %}{{ m.content }}{% endfor %}");
    let said = "The end.<|endoftext|>The";
    let generate = ["generate", "-m", "teller", "-n", "12", "--seed", "3", "--chat", said];
    let as_text = folder.run(&generate).done().out;
    assert_eq!(chat(&folder, &[said], &[]).done().out, as_text);
    let as_token = chat(&folder, &[said], &["--tokens"]).done().out;
    assert_ne!(as_token, as_text);
    // The text of a template has control tokens.
    folder.write("ended.jinja", "{% for m in messages %}The end.<|endoftext|>{{ m.content }}{% endfor %}");
    assert_eq!(chat(&folder, &["The"], &["--chat-template", "ended.jinja"]).done().out, as_token);
    // The system prompt is the user's too, and a plain message is unchanged.
    let plain = chat(&folder, &["The"], &[]).done().out;
    assert_eq!(chat(&folder, &["The"], &["--tokens"]).done().out, plain);
    assert_eq!(chat(&folder, &["The"], &["--system", "The end.<|endoftext|>", "--tokens"]).done().out, as_token);
}
