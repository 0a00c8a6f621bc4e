//! Answers questions about a model, for comparison with other systems (`tests/scripts/gguf-peers`): `cargo run
//! --release -p verdigris-tests --bin answers MODEL < questions.jsonl > answers.jsonl`.
//!
//! | question | answer |
//! |---|---|
//! | `{"text": "..."}` | `{"ids": [...]}`: its tokens, with a beginning-of-text token if the model has one |
//! | `{"chat": [{"role": "user", "content": "..."}]}` | `{"text": "...", "ids": [...]}`: the prompt by the model's template |
//! | `{"rows": [ids]}` | `{"last": [...], "best": [...]}`: the last token's logits, and the most likely token after each |
//! | `{"write": [ids], "tokens": 24}` | `{"ids": [...]}`: the greedy continuation |
#![forbid(unsafe_code)]

use std::cell::OnceCell;
use std::io::{BufRead, Write};

use serde::Deserialize;
use serde_json::{Value, json};
use verdigris::logits::TokenId;
use verdigris::models::{Batch, Rows, Wanted};
use verdigris::{Conversation, Device, Engine, Message, ModelFolder, Tokenizer};

#[derive(Deserialize)]
#[serde(untagged)]
enum Question {
    Text { text: String },
    Chat { chat: Vec<ChatMessage> },
    Rows { rows: Vec<TokenId> },
    Write { write: Vec<TokenId>, tokens: usize },
}

#[derive(Deserialize)]
struct ChatMessage {
    role: String,
    content: String,
}

type Error = Box<dyn std::error::Error>;

fn main() -> Result<(), Error> {
    let folder = ModelFolder::find(std::env::args().nth(1).ok_or("answers MODEL")?, |_| ())?;
    let model = Model { tokenizer: folder.tokenizer()?, folder, engine: OnceCell::new() };
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    for line in std::io::stdin().lock().lines() {
        let answer = model.answer(serde_json::from_str(&line?)?)?;
        writeln!(out, "{answer}")?;
    }
    Ok(out.flush()?)
}

/// A model, loaded only when more than its tokenizer is needed: some files have nothing else.
struct Model {
    folder: ModelFolder,
    tokenizer: Tokenizer,
    engine: OnceCell<Engine>,
}

impl Model {
    fn engine(&self) -> Result<&Engine, Error> {
        if self.engine.get().is_none() {
            let engine = Engine::from_folder(&self.folder, &Device::Cpu)?;
            return Ok(self.engine.get_or_init(|| engine));
        }
        Ok(self.engine.get().expect("it is there"))
    }

    fn answer(&self, question: Question) -> Result<Value, Error> {
        Ok(match question {
            Question::Text { text } => json!({"ids": self.tokenizer.encode_prompt(&text)?}),
            Question::Chat { chat } => {
                let said = chat.into_iter().map(|said| Message::new(said.role, said.content));
                let conversation = Conversation::from(said.collect::<Vec<_>>());
                let template = self.engine()?.chat_template()?;
                json!({"text": template.render(&conversation)?, "ids": template.tokens(&conversation, &self.tokenizer)?})
            }
            Question::Rows { rows: ids } => {
                let rows = rows(self.engine()?, &ids)?;
                let best: Vec<TokenId> = (0..rows.count()).map(|i| likeliest(rows.row(i))).collect();
                json!({"last": rows.last(), "best": best})
            }
            Question::Write { write, tokens } => {
                let (mut ids, mut written) = (write, Vec::new());
                while written.len() < tokens {
                    let next = likeliest(rows(self.engine()?, &ids)?.last());
                    if self.engine()?.end().contains(&next) {
                        break;
                    }
                    written.push(next);
                    ids.push(next);
                }
                json!({"ids": written})
            }
        })
    }
}

fn rows(engine: &Engine, ids: &[TokenId]) -> Result<Rows, Error> {
    let mut rows = Rows::default();
    engine.model().clone().begin(ids.len())?.forward(&Batch::chain(ids, Wanted::All), &mut rows)?;
    Ok(rows)
}

fn likeliest(row: &[f32]) -> TokenId {
    let best = row.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1));
    best.map_or(0, |(id, _)| id as TokenId)
}
