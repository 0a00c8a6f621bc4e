//! A custom transform: the text has no letter "e", and recently written tokens become less likely.
//! `cargo run --release -p verdigris-engine --example transform`

use verdigris::logits::{Row, TokenId, TokenSet, Transform};
use verdigris::{Engine, Error};

/// Allows only the tokens of a set, and lowers the logits of recent ones.
struct Lipogram {
    allowed: TokenSet,
    recent: usize,
    tiredness: f32,
}

impl Transform for Lipogram {
    /// All state that depends on the text, since drafts and concurrent texts continue from copies of it.
    type State = Vec<TokenId>;

    fn start(&self, _prompt: &[TokenId]) -> Vec<TokenId> {
        Vec::new()
    }

    fn apply(&self, recent: &Vec<TokenId>, row: &mut Row) {
        row.restrict(&self.allowed);
        for &token in recent {
            row.logits_mut()[token as usize] -= self.tiredness;
        }
    }

    fn advance(&self, recent: &mut Vec<TokenId>, token: TokenId) {
        if recent.len() == self.recent {
            recent.remove(0);
        }
        recent.push(token);
    }
}

fn main() -> Result<(), Error> {
    let engine = Engine::load(concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/models/tale"))?;
    let vocabulary = engine.reader().tokenizer().vocabulary();
    let mut allowed = TokenSet::new(vocabulary.size());
    (0..vocabulary.size() as TokenId)
        .filter(|&token| !vocabulary.bytes(token).iter().any(|byte| b"eE".contains(byte)))
        .for_each(|token| allowed.insert(token));
    let step = Lipogram { allowed, recent: 20, tiredness: 1.5 };

    let written = engine.request("A calm").max_tokens(80).seed(4).transform(step).text()?;

    assert!(!written.text.contains(['e', 'E']));
    println!("A calm{}", written.text);
    Ok(())
}
