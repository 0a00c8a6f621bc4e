//! The ways of marking texts of `tale` that the watermark tables compare.

use clap::Args;
use verdigris::watermark::dialects::synthid::{Bits, Score};
use verdigris::watermark::dialects::{kgw, native, native_gumbel, sbw, synthid, unigram, vllm};
use verdigris::watermark::{Context, ContextFunction, GreenShare};
use verdigris::{Dialect, Engine, Gamma, Key, Request, Sampling, Strength};

use crate::demo::secret;
use crate::error::Failure;

/// A way to mark.
pub(super) struct MarkConfig {
    pub(super) name: &'static str,
    dialect: Dialect,
    pub(super) delta: f64,
    bytes: usize,
    /// Only positions with more entropy than this, in nats, are marked.
    pub(super) entropy: Option<f64>,
    /// The number of variants of a key.
    variants: u8,
}

impl MarkConfig {
    /// The key of one sample.
    pub(super) fn key(&self, engine: &Engine, seed: u64, sample: u32) -> Result<Key, Failure> {
        let bytes = (0..).flat_map(|part| secret(seed, sample + (part << 20)));
        let secret: Vec<u8> = bytes.take(self.bytes).collect();
        let strength = Strength::soft(self.delta).expect("a bias of the table");
        let key = Key::new(secret, "bench", self.dialect.clone(), Some(strength), engine.reader().vocabulary())?;
        Ok(key.with_variants(self.variants)?)
    }
}

/// Keeps the rows with one of some words in their names, or all without words.
pub(super) fn named(rows: Vec<MarkConfig>, only: &[String]) -> Result<Vec<MarkConfig>, Failure> {
    let is_named = |way: &MarkConfig| only.is_empty() || only.iter().any(|word| way.name.contains(word.as_str()));
    let rows: Vec<_> = rows.into_iter().filter(is_named).collect();
    match rows.is_empty() {
        true => Err(Failure::Usage(format!("no row has {only:?} in its name"))),
        false => Ok(rows),
    }
}

/// Options for tables with a row for each way of marking the answers of a model.
#[derive(Args)]
pub(super) struct RowOptions {
    /// The sampling temperature
    #[arg(long, value_name = "T", default_value_t = Sampling::default().temperature)]
    pub(super) temperature: f64,
    /// The sampling top-p
    #[arg(long, value_name = "P", default_value_t = Sampling::TOP_P)]
    pub(super) top_p: f64,
    /// Only rows with this in their name; may be given several times
    #[arg(long, value_name = "WORD")]
    only: Vec<String>,
    /// The seed of all texts and keys
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(super) seed: u64,
    /// Print one JSON object per row
    #[arg(long)]
    pub(super) json: bool,
}

impl RowOptions {
    /// The ways of marking, without a row for no mark.
    pub(super) fn ways(&self) -> Result<Vec<MarkConfig>, Failure> {
        named(by_price(), &self.only)
    }

    /// A request for texts with the mark of a row, which also returns the model's log-probabilities.
    pub(super) fn request<'e>(
        &self,
        engine: &'e Engine,
        way: Option<&MarkConfig>,
        key: Option<&'e Key>,
    ) -> Request<'e> {
        let request = engine.request("").logprobs(0).temperature(self.temperature).top_p(self.top_p);
        let request = key.into_iter().fold(request, Request::watermark);
        way.and_then(|way| way.entropy).into_iter().fold(request, Request::entropy_threshold)
    }
}

fn native(function: ContextFunction, width: usize, gamma: f64) -> Dialect {
    let (gamma, context) =
        (Gamma::new(gamma).expect("dyadic"), Context::new(function, width).expect("a width of the table"));
    Dialect::Native(native::Parameters { gamma, context, payload_bits: None })
}

fn gumbel() -> Dialect {
    Dialect::NativeGumbel(native_gumbel::Parameters::default())
}

fn synthid() -> Dialect {
    Dialect::Synthid(synthid::Parameters { bits: Bits::Hash, ngram_len: 5, score: Score::WeightedMean })
}

/// The rows of the power table.
pub(super) fn by_power() -> Vec<MarkConfig> {
    let min = |gamma| native(ContextFunction::Min, 4, gamma);
    let kgw =
        Dialect::Kgw(kgw::Parameters { seeding: "simple_1".parse().expect("a name"), gamma: GreenShare::QUARTER });
    let sbw = Dialect::Sbw(sbw::Parameters { seeding: sbw::Seeding::Simple4, gamma: GreenShare::QUARTER });
    let way = |name, dialect, delta, bytes| MarkConfig { name, dialect, delta, bytes, entropy: None, variants: 1 };
    vec![
        way("native min 4, .25, delta 1", min(0.25), 1.0, 32),
        way("native min 4, .25, delta 2", min(0.25), 2.0, 32),
        way("native min 4, .5, delta 2", min(0.5), 2.0, 32),
        way("native min 4, .25, delta 4", min(0.25), 4.0, 32),
        way("native all 1, .25, delta 2", native(ContextFunction::All, 1, 0.25), 2.0, 32),
        way("native self-salted 4, .25, delta 2", native(ContextFunction::SelfSalted, 4, 0.25), 2.0, 32),
        way("kgw simple_1, .25, delta 2", kgw, 2.0, 8),
        way("sbw simple_4, .25, delta 2", sbw, 2.0, 8),
        way("native-gumbel all 4", gumbel(), 2.0, 32),
        way("vllm-dual, alpha .1", Dialect::VllmDual(vllm::DualParameters { width: 4, alpha: 0.1 }), 2.0, 8),
        way("synthid hash, weighted", synthid(), 2.0, 240),
    ]
}

/// The rows of the price table.
fn by_price() -> Vec<MarkConfig> {
    let min = |gamma| native(ContextFunction::Min, 4, gamma);
    let way = |name, dialect, delta, bytes| MarkConfig { name, dialect, delta, bytes, entropy: None, variants: 1 };
    let selfhash =
        Dialect::Kgw(kgw::Parameters { seeding: "selfhash".parse().expect("a name"), gamma: GreenShare::QUARTER });
    let sbw = Dialect::Sbw(sbw::Parameters { seeding: sbw::Seeding::Simple4, gamma: GreenShare::QUARTER });
    vec![
        way("native .5, delta 1", min(0.5), 1.0, 32),
        way("native .5, delta 2", min(0.5), 2.0, 32),
        way("native .5, delta 3", min(0.5), 3.0, 32),
        way("native .25, delta 1", min(0.25), 1.0, 32),
        way("native .25, delta 1.5", min(0.25), 1.5, 32),
        way("native .25, delta 2", min(0.25), 2.0, 32),
        way("native .25, delta 3", min(0.25), 3.0, 32),
        way("native .25, delta 4", min(0.25), 4.0, 32),
        MarkConfig { entropy: Some(0.4), ..way("native .25, delta 2 above .4 nats", min(0.25), 2.0, 32) },
        MarkConfig { entropy: Some(0.4), ..way("native .25, delta 3 above .4 nats", min(0.25), 3.0, 32) },
        way("native-gumbel, 1 variant", gumbel(), 2.0, 32),
        MarkConfig { variants: 8, ..way("native-gumbel, 8 variants", gumbel(), 2.0, 32) },
        way("synthid hash, weighted", synthid(), 2.0, 240),
        way("kgw selfhash, .25, delta 2", selfhash, 2.0, 8),
        way("sbw simple_4, .25, delta 2", sbw, 2.0, 8),
    ]
}

/// The rows of the forging table, for keys with a number of variants.
pub(super) fn by_forging(variants: u8) -> Vec<MarkConfig> {
    let way = |name, dialect| MarkConfig { name, dialect, delta: 2.0, bytes: 32, entropy: None, variants };
    let noise_min = Dialect::NativeGumbel(native_gumbel::Parameters::new(Context::default()));
    vec![
        way("native min 4", native(ContextFunction::Min, 4, 0.25)),
        way("native all 1", native(ContextFunction::All, 1, 0.25)),
        way("native all 4", native(ContextFunction::All, 4, 0.25)),
        way("native self-salted 4", native(ContextFunction::SelfSalted, 4, 0.25)),
        way("native-gumbel min 4", noise_min),
        way("native-gumbel all 4", gumbel()),
    ]
}

/// The columns of the robustness table.
pub(super) fn by_robustness() -> Vec<MarkConfig> {
    let way = |name, dialect, bytes| MarkConfig { name, dialect, delta: 2.0, bytes, entropy: None, variants: 1 };
    let native = |function, width| native(function, width, 0.25);
    vec![
        way("all 1", native(ContextFunction::All, 1), 32),
        way("all 2", native(ContextFunction::All, 2), 32),
        way("all 4", native(ContextFunction::All, 4), 32),
        way("min 2", native(ContextFunction::Min, 2), 32),
        way("min 4", native(ContextFunction::Min, 4), 32),
        way("self-salted 4", native(ContextFunction::SelfSalted, 4), 32),
        way("gumbel all 4", gumbel(), 32),
        way("synthid", synthid(), 240),
        way("unigram", Dialect::Unigram(unigram::Parameters { gamma: GreenShare::HALF }), 8),
    ]
}
