//! The registry: every dialect by name. A line names a dialect; its file in [`dialects`](crate::dialects) has the rest.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

pub use crate::dialects::error::BadDialect;
use crate::dialects::permutation::BadSplit;
use crate::dialects::spec::{Secret, Spec};
use crate::dialects::{
    hugging_face, kgw, native, native_gumbel, sbw, sglang, synthid, tgi, three_bricks, unigram, vllm,
};
use crate::scheme::Scheme;

macro_rules! registry {
    ($($(#[$about:meta])* $dialect:ident($parameters:path) = $name:literal,)*) => {
        /// The kind of mark that a key makes: a scheme without its secret. [`dialects`](crate::dialects) says which
        /// system each belongs to.
        ///
        /// In key files it is an object with the dialect's name, such as `native-gumbel`, and its parameters.
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
        #[serde(tag = "name", rename_all = "kebab-case")]
        #[non_exhaustive]
        pub enum Dialect {
            $($(#[$about])* $dialect($parameters),)*
        }

        impl Dialect {
            /// Its name, as in key files.
            pub fn name(&self) -> &'static str {
                match self {
                    $(Self::$dialect(_) => $name,)*
                }
            }

            pub(crate) fn spec(&self) -> &dyn Spec {
                match self {
                    $(Self::$dialect(parameters) => parameters,)*
                }
            }

            fn spec_mut(&mut self) -> &mut dyn Spec {
                match self {
                    $(Self::$dialect(parameters) => parameters,)*
                }
            }
        }
    };
}

registry! {
    /// Verdigris: green lists made by AES.
    Native(native::Parameters) = "native",
    /// Verdigris: Gumbel noise made by AES.
    NativeGumbel(native_gumbel::Parameters) = "native-gumbel",
    /// The KGW reference.
    #[serde(alias = "kgw-simple-1")]
    Kgw(kgw::Parameters) = "kgw",
    /// Text Generation Inference.
    Tgi(tgi::Parameters) = "tgi",
    /// Hugging Face transformers.
    HuggingFace(hugging_face::Parameters) = "hugging-face",
    /// Unigram.
    Unigram(unigram::Parameters) = "unigram",
    /// SBW.
    Sbw(sbw::Parameters) = "sbw",
    /// SynthID-Text.
    Synthid(synthid::Parameters) = "synthid",
    /// vLLM with one key.
    Vllm(vllm::Parameters) = "vllm",
    /// vLLM with two keys derived from one.
    VllmDual(vllm::DualParameters) = "vllm-dual",
    /// SGLang with one key.
    Sglang(sglang::Parameters) = "sglang",
    /// SGLang with two keys.
    SglangDual(sglang::DualParameters) = "sglang-dual",
    /// Three Bricks, colours.
    ThreeBricksMaryland(three_bricks::MarylandParameters) = "three-bricks-maryland",
    /// Three Bricks, Gumbel scores.
    ThreeBricksOpenai(three_bricks::OpenaiParameters) = "three-bricks-openai",
}

impl Dialect {
    /// Whether it is one of Verdigris' own dialects, whose secrets have 32 bytes and whose sub-keys depend on the key's
    /// id and tenant.
    pub fn is_native(&self) -> bool {
        self.spec().is_native()
    }

    /// Whether it prefers green tokens, by a strength; the other dialects act on noise and have none.
    pub fn has_strength(&self) -> bool {
        self.gamma().is_some()
    }

    /// The green share, where there are colours.
    pub fn gamma(&self) -> Option<f64> {
        self.spec().gamma()
    }

    /// The same dialect with another green share.
    ///
    /// # Errors
    /// [`BadDialect::NoColours`] if the dialect has no green share, [`BadDialect::GreenShare`] if the number is not a
    /// share, and [`BadDialect::Gamma`] if the dialect is native and the share is not a multiple of 1/256 above 0 and
    /// below 1.
    pub fn with_gamma(&self, share: f64) -> Result<Self, BadDialect> {
        if self.gamma().is_none() {
            return Err(BadDialect::NoColours(self.name()));
        }
        let mut other = self.clone();
        other.spec_mut().set_gamma(share)?;
        Ok(other)
    }

    /// The scheme under a secret. Only Verdigris' own dialects use `id` and `tenant`.
    ///
    /// # Errors
    /// [`BadDialect`] if secret, parameters and vocabulary do not fit together, and for keys with a public part, whose
    /// secret [`Key`](crate::Key) derives.
    pub fn scheme(
        &self,
        secret: &[u8],
        id: &str,
        tenant: &str,
        vocabulary: usize,
    ) -> Result<Arc<dyn Scheme>, BadDialect> {
        self.scheme_of(&Secret { dialect: self.name(), bytes: secret, id, tenant, public: None }, vocabulary)
    }

    pub(crate) fn scheme_of(&self, secret: &Secret<'_>, vocabulary: usize) -> Result<Arc<dyn Scheme>, BadDialect> {
        if vocabulary == 0 {
            return Err(BadSplit::Vocabulary(0).into());
        }
        self.spec().scheme(secret, vocabulary)
    }

    /// The part of a text that a key of this dialect marks and reads.
    pub fn part(&self) -> native_gumbel::Part {
        if let Self::NativeGumbel(parameters) = self { parameters.part } else { native_gumbel::Part::Whole }
    }
}

/// A description in words, such as `native, gamma 0.25, minimum over 4 tokens`.
impl fmt::Display for Dialect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())?;
        if let Some(gamma) = self.gamma() {
            write!(f, ", gamma {gamma}")?;
        }
        self.spec().describe(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The name in a key file is the displayed name, and a key file with an unknown parameter is refused.
    #[test]
    fn names_are_those_of_key_files() {
        let width = serde_json::json!({"width": 4, "alpha": 0.1, "mixing": 0.5, "gamma": 0.5, "seeding": "simple_1",
            "context": {"function": "all", "width": 4}, "bits": "hash", "ngram_len": 5, "score": "mean"});
        let names = [
            ("native", "gamma context"),
            ("native-gumbel", "context"),
            ("kgw", "seeding gamma"),
            ("tgi", "gamma"),
            ("hugging-face", "seeding width gamma"),
            ("unigram", "gamma"),
            ("sbw", "seeding gamma"),
            ("synthid", "bits ngram_len score"),
            ("vllm", "width"),
            ("vllm-dual", "width alpha"),
            ("sglang", "width"),
            ("sglang-dual", "width mixing"),
            ("three-bricks-maryland", "width gamma"),
            ("three-bricks-openai", "width"),
        ];
        for (name, fields) in names {
            let mut object = serde_json::json!({"name": name});
            fields.split(' ').for_each(|field| object[field] = width[field].clone());
            if name == "hugging-face" {
                object["seeding"] = "lefthash".into();
            }
            let dialect: Dialect = serde_json::from_value(object.clone()).unwrap_or_else(|e| panic!("{name}: {e}"));
            assert_eq!(dialect.name(), name);
            object["unknown"] = 1.into();
            assert!(serde_json::from_value::<Dialect>(object).is_err(), "{name} with a field that nobody knows");
        }
    }
}
