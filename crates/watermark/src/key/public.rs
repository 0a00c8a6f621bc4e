//! Secrets that are public because other systems ship them.

use super::Key;
use crate::dialects::spec::whole_numbers;

impl Key {
    /// Whether the secret is public: published, a default or an example of another system, or all zeros.
    pub fn is_public(&self) -> bool {
        if self.is_published() || self.secret.iter().all(|&byte| byte == 0) {
            return true;
        }
        self.dialect.spec().is_public(&whole_numbers(&self.secret))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::GreenShare;
    use crate::dialect::Dialect;
    use crate::dialects::kgw::DEFAULT_HASH_KEY;
    use crate::dialects::synthid::{Bits, EXAMPLE_KEYS, Score};
    use crate::dialects::three_bricks::DEFAULT_SALT;
    use crate::dialects::{native_gumbel, synthid, tgi, three_bricks, unigram, vllm};
    use crate::{Context, ContextFunction, VocabularyId};

    #[test]
    fn public_keys_are_called_so() {
        let public = |dialect: Dialect, numbers: &[u64]| {
            let secret: Vec<u8> = numbers.iter().flat_map(|number| number.to_be_bytes()).collect();
            Key::new(secret, "k", dialect, None, VocabularyId::new(4096, "f").unwrap()).unwrap().is_public()
        };
        let synthid = || Dialect::Synthid(synthid::Parameters { bits: Bits::Hash, ngram_len: 5, score: Score::Mean });
        let [maryland, openai] = [
            Dialect::ThreeBricksMaryland(three_bricks::MarylandParameters { width: 4, gamma: GreenShare::HALF }),
            Dialect::ThreeBricksOpenai(three_bricks::OpenaiParameters { width: 1 }),
        ];
        let context = Context::new(ContextFunction::All, 4).unwrap();
        for (dialect, numbers, is) in [
            (Dialect::Tgi(tgi::Parameters { gamma: GreenShare::HALF }), &[DEFAULT_HASH_KEY][..], true),
            (Dialect::Tgi(tgi::Parameters { gamma: GreenShare::HALF }), &[DEFAULT_HASH_KEY + 2], false),
            (Dialect::Unigram(unigram::Parameters { gamma: GreenShare::HALF }), &[0], true),
            (Dialect::Unigram(unigram::Parameters { gamma: GreenShare::HALF }), &[1], false),
            (maryland.clone(), &[0, DEFAULT_SALT], true),
            (maryland, &[3, DEFAULT_SALT], false),
            (openai, &[0, DEFAULT_SALT], true),
            (synthid(), &EXAMPLE_KEYS, true),
            (synthid(), &EXAMPLE_KEYS[..9], true),
            (synthid(), &[654, 400, 837], false),
            (Dialect::NativeGumbel(native_gumbel::Parameters::new(context)), &[0; 4], true),
            (Dialect::NativeGumbel(native_gumbel::Parameters::new(context)), &[0, 0, 0, 1], false),
            (Dialect::Vllm(vllm::Parameters { width: 4 }), &[0], true),
            (Dialect::Vllm(vllm::Parameters { width: 4 }), &[42], false),
        ] {
            assert_eq!(public(dialect.clone(), numbers), is, "{dialect} {numbers:?}");
        }
    }
}
