//! A step of one's own in the law of a text: no letter "e", and every word that was written becomes less likely again.
//! `cargo run --release -p verdigris --example transform`

use verdigris::logits::{Row, TokenId, TokenSet, Transform};
use verdigris::{Engine, Error};

/// Allows the tokens of a set, and takes some of the logit of those that came not long ago.
struct Lipogram {
    allowed: TokenSet,
    recent: usize,
    tiredness: f32,
}

impl Transform for Lipogram {
    /// What depends on the text is here and nowhere else: drafts and texts side by side go on from copies of it.
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
