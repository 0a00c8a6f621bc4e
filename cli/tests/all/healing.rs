//! Token healing from the user's side.

use serde_json::json;

use crate::support::server::Server;
use crate::support::{Folder, TALE_SMALL, with};

const CUT: &str = "It was a dark night, a";
const WHOLE: &str = "It was a dark night, and";

/// Runs `generate` for the most probable text.
fn generate(folder: &Folder, arguments: &[&str]) -> String {
    let common = ["generate", "--model", TALE_SMALL, "--temperature", "0", "-n", "8", "--quiet"];
    folder.run(&[&common, arguments].concat()).done().out
}

#[test]
fn a_prompt_that_ends_inside_a_word_is_continued_like_a_whole_one() {
    let folder = Folder::new();
    let whole = WHOLE.to_owned() + &generate(&folder, &[WHOLE]);
    let healed = generate(&folder, &[CUT, "--heal"]);
    // The healed token is one of the eight.
    assert!(whole.starts_with(&(CUT.to_owned() + healed.trim_end())), "{whole:?} and {healed:?}");
    assert_ne!(generate(&folder, &[CUT]), healed);
    assert_eq!(generate(&folder, &[CUT, "--heal", "--lookup"]), healed);
    folder.write("prompts.jsonl", &format!("{}\n", json!({"prompt": CUT})));
    let batch = ["batch", "prompts.jsonl", "out.jsonl", "--model", TALE_SMALL, "--temperature", "0", "-n", "8", "-q"];
    folder.run(&[&batch[..], &["--heal"]].concat()).done();
    let line: serde_json::Value = serde_json::from_str(folder.read("out.jsonl").trim()).unwrap();
    assert_eq!(line["text"].as_str().unwrap(), healed.trim_end_matches('\n'));
    // The constraint is on the text after the prompt.
    let number = generate(&folder, &["She was born in 1", "--heal", "--regex", "[0-9]{3}"]);
    assert!(number.trim_end().len() == 3 && number.trim_end().bytes().all(|byte| byte.is_ascii_digit()), "{number}");
    let refused = folder.run(&["generate", "--model", TALE_SMALL, "--chat", "Hi", "--heal"]);
    refused.fails("--heal");
}

#[cfg(feature = "serve")]
#[test]
fn the_server_heals_prompts() {
    let folder =
        Folder::with_chat("{% for m in messages %}{{ m.content }}{% endfor %}{{ '.' if add_generation_prompt }}");
    let server = Server::start(&folder, &["--model", "teller", "--allow-anyone"]);
    let body = json!({"prompt": CUT, "max_tokens": 8, "temperature": 0});
    let text = |path: &str, body: &serde_json::Value| {
        let answer = server.post(path, body);
        assert_eq!(answer.status, 200, "{answer:?}");
        let choice = answer.json()["choices"][0].clone();
        choice["text"].as_str().or(choice["message"]["content"].as_str()).unwrap().to_owned()
    };
    let healed = text("/v1/completions", &with(body.clone(), &json!({"token_healing": true})));
    assert_eq!(healed, generate(&folder, &[CUT, "--heal"]).trim_end_matches('\n'));
    assert_ne!(text("/v1/completions", &with(body.clone(), &json!({"token_healing": false}))), healed);
    let echoed = text("/v1/completions", &with(body, &json!({"token_healing": true, "echo": true})));
    assert_eq!(echoed, CUT.to_owned() + &healed);
    // A chat is healed where it continues its last message.
    let chat = json!({"messages": [{"role": "assistant", "content": CUT}], "max_tokens": 8, "temperature": 0});
    let continued = json!({"continue_final_message": true, "add_generation_prompt": false, "token_healing": true});
    assert_eq!(text("/v1/chat/completions", &with(chat.clone(), &continued)), healed);
    // Where a new message begins, there is nothing to heal.
    assert_eq!(server.post("/v1/chat/completions", &with(chat.clone(), &json!({"token_healing": false}))).status, 200);
    let refused = server.post("/v1/chat/completions", &with(chat, &json!({"token_healing": true})));
    assert_eq!((refused.status, &refused.json()["error"]["param"]), (400, &json!("token_healing")));
}
