//! The version and features that this program was built with.

use serde::Serialize;

use crate::doctor::finding::Finding;

/// The optional features of `cli/Cargo.toml`, and whether they are enabled.
const FEATURES: [(&str, bool); 11] = [
    ("train", cfg!(feature = "train")),
    ("hub", cfg!(feature = "hub")),
    ("parquet", cfg!(feature = "parquet")),
    ("serve", cfg!(feature = "serve")),
    ("mcp", cfg!(feature = "mcp")),
    ("ledger", cfg!(feature = "ledger")),
    ("cuda", cfg!(feature = "cuda")),
    ("emulated-cuda", cfg!(feature = "emulated-cuda")),
    ("candle", cfg!(feature = "candle")),
    ("candle-cuda", cfg!(feature = "candle-cuda")),
    ("candle-metal", cfg!(feature = "candle-metal")),
];

#[derive(Serialize)]
pub(super) struct Build {
    pub(super) version: &'static str,
    /// The enabled features, by their names in `cli/Cargo.toml`.
    pub(super) features: Vec<&'static str>,
    /// Whether it was built without debug assertions.
    optimised: bool,
}

impl Build {
    pub(super) fn of_this_program() -> Self {
        let features = FEATURES.into_iter().filter(|(_, is_on)| *is_on).map(|(name, _)| name).collect();
        Self { version: env!("CARGO_PKG_VERSION"), features, optimised: !cfg!(debug_assertions) }
    }

    pub(super) fn finding(&self) -> Finding {
        let features = match &self.features[..] {
            [] => "no features".into(),
            features => format!("features {}", features.join(", ")),
        };
        let value = format!("verdigris {}, {features}", self.version);
        match self.optimised {
            true => Finding::fine("program", value),
            false => Finding::better(
                "program",
                format!("{value}, with debug assertions, which cost most of its speed"),
                "cargo install --path cli",
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_feature_is_named() {
        let features = include_str!("../../Cargo.toml").split("[features]").nth(1).unwrap();
        let lines = features.lines().take_while(|line| !line.starts_with('['));
        let mut declared: Vec<&str> = lines.filter_map(|line| Some(line.split_once(" = ")?.0)).collect();
        declared.retain(|name| *name != "default" && !name.starts_with('#'));
        declared.sort_unstable();
        let mut named = FEATURES.map(|(name, _)| name);
        named.sort_unstable();
        assert_eq!(declared, named);
    }
}
