//! Every dialect with numbered keys, for suites that try them all.

use verdigris::logits::random::philox4x32;
use verdigris::watermark::dialects::synthid::{Bits, Score};
use verdigris::watermark::dialects::{
    hugging_face, kgw, native, native_gumbel, sbw, sglang, synthid, tgi, three_bricks, unigram, vllm,
};
use verdigris::watermark::{Context, ContextFunction, GreenShare, VocabularyId};
use verdigris::{Dialect, Gamma, Key};

/// A dialect with a name for tables and the bytes of its secret.
pub struct Kind {
    /// The name.
    pub name: &'static str,
    /// The dialect.
    pub dialect: Dialect,
    bytes: usize,
}

impl Kind {
    /// The key with the given number.
    ///
    /// # Panics
    /// If the vocabulary cannot be split.
    pub fn key(&self, number: u32, vocabulary: VocabularyId) -> Key {
        let words = (0..self.bytes.div_ceil(16) as u32).flat_map(|block| philox4x32([block, number, 0, 0], [5, 0]));
        let secret: Vec<u8> = words.flat_map(u32::to_le_bytes).take(self.bytes).collect();
        Key::new(secret, "kind", self.dialect.clone(), None, vocabulary).expect("a dialect with its secret")
    }
}

/// All dialects, each with its usual parameters, and the native ones with all context functions.
///
/// # Panics
/// Never: all parameters are valid.
pub fn every_kind() -> Vec<Kind> {
    let native = |function, width| {
        Dialect::Native(native::Parameters {
            gamma: Gamma::new(0.25).expect("dyadic"),
            context: Context::new(function, width).expect("a width"),
            payload_bits: None,
        })
    };
    let noise = |function, width| {
        Dialect::NativeGumbel(native_gumbel::Parameters::new(Context::new(function, width).expect("a width")))
    };
    let kgw = |seeding: &str| {
        Dialect::Kgw(kgw::Parameters { seeding: seeding.parse().expect("a name"), gamma: GreenShare::QUARTER })
    };
    let hugging_face =
        |seeding, width| Dialect::HuggingFace(hugging_face::Parameters { seeding, width, gamma: GreenShare::QUARTER });
    let synthid = |bits, score| Dialect::Synthid(synthid::Parameters { bits, ngram_len: 5, score });
    let kind = |name, dialect, bytes| Kind { name, dialect, bytes };
    vec![
        kind("native, all 1", native(ContextFunction::All, 1), 32),
        kind("native, all 2", native(ContextFunction::All, 2), 32),
        kind("native, all 4", native(ContextFunction::All, 4), 32),
        kind("native, min 4", native(ContextFunction::Min, 4), 32),
        kind("native, self-salted 4", native(ContextFunction::SelfSalted, 4), 32),
        kind("native-gumbel, all 4", noise(ContextFunction::All, 4), 32),
        kind("native-gumbel, min 4", noise(ContextFunction::Min, 4), 32),
        kind("kgw simple_1", kgw("simple_1"), 8),
        kind("kgw minhash", kgw("minhash"), 8),
        kind("kgw skipgram", kgw("skipgram"), 8),
        kind("kgw selfhash", kgw("selfhash"), 8),
        kind("tgi", Dialect::Tgi(tgi::Parameters { gamma: GreenShare::HALF }), 8),
        kind("hugging-face lefthash", hugging_face(hugging_face::Seeding::LeftHash, 1), 8),
        kind("hugging-face selfhash 4", hugging_face(hugging_face::Seeding::SelfHash, 4), 8),
        kind("unigram", Dialect::Unigram(unigram::Parameters { gamma: GreenShare::HALF }), 8),
        kind(
            "sbw simple_1",
            Dialect::Sbw(sbw::Parameters { seeding: sbw::Seeding::Simple1, gamma: GreenShare::HALF }),
            8,
        ),
        kind(
            "sbw simple_4",
            Dialect::Sbw(sbw::Parameters { seeding: sbw::Seeding::Simple4, gamma: GreenShare::QUARTER }),
            8,
        ),
        kind(
            "sbw selfhash",
            Dialect::Sbw(sbw::Parameters { seeding: sbw::Seeding::SelfHash, gamma: GreenShare::QUARTER }),
            8,
        ),
        kind("synthid table, mean", synthid(Bits::Table, Score::Mean), 240),
        kind("synthid hash, mean", synthid(Bits::Hash, Score::Mean), 240),
        kind("synthid table, weighted", synthid(Bits::Table, Score::WeightedMean), 240),
        kind("synthid hash, weighted", synthid(Bits::Hash, Score::WeightedMean), 240),
        kind("vllm", Dialect::Vllm(vllm::Parameters { width: 4 }), 8),
        kind("vllm-dual", Dialect::VllmDual(vllm::DualParameters { width: 4, alpha: 0.1 }), 8),
        kind("sglang", Dialect::Sglang(sglang::Parameters { width: 4 }), 8),
        kind("sglang-dual", Dialect::SglangDual(sglang::DualParameters { width: 4, mixing: 0.5 }), 16),
        kind(
            "three-bricks, colours",
            Dialect::ThreeBricksMaryland(three_bricks::MarylandParameters { width: 4, gamma: GreenShare::QUARTER }),
            16,
        ),
        kind("three-bricks, gumbel", Dialect::ThreeBricksOpenai(three_bricks::OpenaiParameters { width: 4 }), 16),
    ]
}
