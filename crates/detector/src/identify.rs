//! Finding the key, among many, that marked a text.

use serde::Serialize;
use verdigris_text::ReadError;
use verdigris_text::parallel::try_map;
use verdigris_watermark::dialect::BadDialect;
use verdigris_watermark::normalize::Repair;
use verdigris_watermark::{Dialect, Evidence, Key, KeyError, Level, Repeats};

use crate::error::DetectError;
use crate::evidence::{evidence, of_each};
use crate::forged::is_forged;
use crate::reader::Reader;
use crate::tokens::Tokens;
use crate::verdict::log10;
use crate::versions::Versions;

/// A key that a text may have been written with.
#[derive(Clone, Debug, Serialize)]
pub struct Candidate {
    /// The key's id, dialect and vocabulary size, as a phrase.
    pub candidate: String,
    /// The key's id.
    pub key_id: String,
    /// The key's tenant; empty for a key without one.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub tenant: String,
    /// The key's dialect.
    pub dialect: &'static str,
    /// The vocabulary size that was tried.
    pub vocabulary_size: usize,
    /// The green share that was tried; `None` for dialects without colours.
    pub gamma: Option<f64>,
    /// The number of tokens that were counted.
    pub scored: u64,
    /// Standard deviations of their sum above its expectation for unmarked text.
    pub z: f64,
    /// The p-value, corrected for all candidates and looks.
    pub p: f64,
    /// Its logarithm to base 10.
    pub log10_p: f64,
    /// Whether `p` is at or below the level.
    pub marked: bool,
    /// Whether the text was forged: the same tokens have the marks of several variants of the key.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub forged: bool,
    /// Whether the key is public, so that anyone can have written the mark.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub public: bool,
    /// The repairs of its best look, each with the number of times it was made.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub repairs: Vec<(Repair, usize)>,
    /// Its index in the list of candidates.
    #[serde(skip)]
    pub index: usize,
    /// Its evidence, corrected for everything that was tried.
    #[serde(skip)]
    pub evidence: Evidence,
}

/// Returns the candidates that [`Reader::identify`] can try for a key: its own vocabulary size and those of `sizes`,
/// each with its own green share and those of `gammas`, except sizes and shares that its dialect does not support, and
/// sizes that change nothing.
///
/// # Errors
/// Those of [`Key::with_vocabulary_size`] and [`Key::with_gamma`].
pub fn candidates(key: &Key, sizes: &[usize], gammas: &[f64]) -> Result<Vec<(String, Key)>, KeyError> {
    let own = key.vocabulary().size();
    // The colours and the noise of our own dialects depend on a token's number alone.
    let sizes = if matches!(key.dialect(), Dialect::Native(_) | Dialect::NativeGumbel(_)) { &[] } else { sizes };
    let mut candidates = Vec::new();
    for size in std::iter::once(own).chain(sizes.iter().copied().filter(|&size| size != own)) {
        let Some(key) = known(key.with_vocabulary_size(size))? else { continue };
        let gamma = key.dialect().gamma();
        for &other in gammas.iter().filter(|&&other| Some(other) != gamma) {
            if let Some(key) = known(key.with_gamma(other))? {
                candidates.push((label(&key), key));
            }
        }
        candidates.push((label(&key), key));
    }
    Ok(candidates)
}

/// The key's id, tenant, dialect and vocabulary size as a phrase.
fn label(key: &Key) -> String {
    // Keys of other systems may have the dialect as their id.
    let id = if key.id() == key.dialect().name() { "" } else { key.id() };
    let tenant = if key.tenant().is_empty() { String::new() } else { format!("tenant {}", key.tenant()) };
    let names: Vec<&str> = [id, &tenant].into_iter().filter(|name| !name.is_empty()).collect();
    let whose = if names.is_empty() { String::new() } else { names.join(", ") + ": " };
    format!("{whose}{}, {} tokens", key.dialect(), key.vocabulary().size())
}

/// Returns `None` if the key cannot have this share or size: it has no colours or only fixed shares, carries a payload,
/// or would have lists of one colour.
fn known(key: Result<Key, KeyError>) -> Result<Option<Key>, KeyError> {
    use BadDialect::{Gamma, NoColours, Payload, Split};
    match key {
        Err(KeyError::Dialect(NoColours(_) | Gamma(_) | Payload(_) | Split(_))) => Ok(None),
        key => key.map(Some),
    }
}

/// The tokens of a version of the text, and the repairs that made it.
pub(crate) type TokenizedVersion = (Tokens, Vec<(Repair, usize)>);

impl Reader {
    /// Tries keys that may differ in dialect, vocabulary size and green share; the best come first. Each is tried on
    /// the original text and on each repaired version of it ([`Versions`]). The keys may have been made for another
    /// tokenizer: the text is tokenized with the reader's.
    ///
    /// # Errors
    /// [`DetectError::NoKey`] without a candidate, [`DetectError::Read`] if the text cannot be tokenized,
    /// [`DetectError::Constraint`] if no version of it obeys the reader's constraint, and [`DetectError::Key`] if a key
    /// cannot be used.
    pub fn identify(
        &self,
        candidates: &[(String, Key)],
        text: &str,
        repeats: Repeats,
        level: Level,
    ) -> Result<Vec<Candidate>, DetectError> {
        if candidates.is_empty() {
            return Err(DetectError::NoKey);
        }
        let readings = self.tokenized_versions(text)?;
        let looks = (candidates.len() * readings.len()) as f64;
        let indices: Vec<usize> = (0..candidates.len()).collect();
        let mut found = try_map(&indices, |&index| {
            let (label, key) = &candidates[index];
            let mut best: Option<(Evidence, &TokenizedVersion)> = None;
            for reading in &readings {
                let evidence = evidence(key, &reading.0, repeats)?;
                if best.is_none_or(|(best, _)| evidence.ln_p < best.ln_p) {
                    best = Some((evidence.best_of(evidence.tried * looks), reading));
                }
            }
            let (evidence, (tokens, repairs)) = best.expect("a text has at least one reading");
            let is_marked = evidence.reaches(level);
            Ok::<_, DetectError>(Candidate {
                candidate: label.clone(),
                key_id: key.id().into(),
                tenant: key.tenant().into(),
                dialect: key.dialect().name(),
                vocabulary_size: key.vocabulary().size(),
                gamma: key.dialect().gamma(),
                scored: evidence.scored,
                z: evidence.z,
                p: evidence.p(),
                log10_p: log10(evidence.ln_p_corrected()),
                marked: is_marked,
                forged: is_marked && has_variants(key, tokens, (repeats, level), evidence.tried)?,
                public: key.is_public(),
                repairs: repairs.clone(),
                index,
                evidence,
            })
        })?;
        // Corrected p-values are at most 1, and some are equal.
        let order = |a: &Evidence, b: &Evidence| {
            a.ln_p_corrected().total_cmp(&b.ln_p_corrected()).then(a.ln_p.total_cmp(&b.ln_p))
        };
        found.sort_by(|a, b| order(&a.evidence, &b.evidence));
        Ok(found)
    }

    /// Returns the tokens of all versions of a text that obey the reader's constraint.
    pub(crate) fn tokenized_versions(&self, text: &str) -> Result<Vec<TokenizedVersion>, DetectError> {
        let versions = Versions::of(text, true);
        let readings = versions.look(|version| {
            let tokens = Tokens::of(self.tokenizer(), self.obeyed(), version.text)?;
            Ok::<_, ReadError>(tokens.map(|tokens| (tokens, version.repairs())))
        })?;
        Ok(readings?)
    }
}

/// Whether the same tokens have the marks of several variants of a key, as [`Reader::judge`] finds them.
fn has_variants(key: &Key, tokens: &Tokens, rules: (Repeats, Level), tried: f64) -> Result<bool, DetectError> {
    if key.variants() == 1 {
        return Ok(false);
    }
    let (repeats, level) = rules;
    let each = of_each(key, key.schemes()?, tokens, repeats).into_iter().map(|evidence| evidence.best_of(tried));
    let marked = (0..).zip(each).filter(|(_, evidence)| evidence.reaches(level));
    let marked: Vec<u8> = marked.map(|(variant, _)| variant).collect();
    is_forged(key, &marked, tokens, rules, tried)
}

#[cfg(test)]
mod tests {
    use verdigris_watermark::attack::Attack;
    use verdigris_watermark::dialects::tgi;
    use verdigris_watermark::{GreenShare, Marking};

    use super::*;
    use crate::written::{numbered, reader, words, written};

    fn key(reader: &Reader) -> Key {
        Key::from_secret([3; 32], "k", Marking::lists(), reader.vocabulary()).unwrap()
    }

    /// A text of one-token words that the key marked.
    fn marked(reader: &Reader, key: &Key) -> String {
        let words = words(reader, |word| word.iter().all(u8::is_ascii_lowercase));
        written(reader, &key.embed().unwrap(), 200, |_| &words)
    }

    #[test]
    fn characters_are_repaired_and_the_look_is_paid_for() {
        let reader = reader();
        let other = Key::from_secret([4; 32], "other", Marking::lists(), reader.vocabulary()).unwrap();
        let text = marked(&reader, &key(&reader));
        let candidates = [("other".to_owned(), other), ("own".to_owned(), key(&reader))];
        let identify = |text: &str| reader.identify(&candidates, text, Repeats::default(), Level::DEFAULT).unwrap();
        let plain = &identify(&text)[0];
        assert_eq!((plain.index, plain.evidence.tried, &plain.repairs[..]), (1, 2.0, &[][..]));
        for (attack, strength) in [(Attack::ZeroWidth, 0.5), (Attack::Homoglyphs, 0.2)] {
            let found = identify(&attack.apply(&text, strength, 1, ""));
            let best = &found[0];
            assert_eq!((&*best.candidate, best.index, best.evidence.tried), ("own", 1, 4.0));
            assert_eq!((best.marked, best.evidence.ln_p), (true, plain.evidence.ln_p));
            assert!(!best.repairs.is_empty() && !found[1].marked);
        }
    }

    /// A key with payloads counts as one candidate per payload.
    #[test]
    fn payloads_are_paid_for() {
        let reader = reader();
        let text = marked(&reader, &key(&reader));
        let candidates = [("own".to_owned(), key(&reader)), ("payloads".to_owned(), numbered(&reader))];
        let mut found = reader.identify(&candidates, &text, Repeats::default(), Level::DEFAULT).unwrap();
        found.sort_by_key(|one| one.index);
        assert_eq!([found[0].evidence.tried, found[1].evidence.tried], [2.0, 2.0 * 65_536.0]);
    }

    #[test]
    fn candidates_of_several_tenants_are_told_apart() {
        let reader = reader();
        let labels = ["", "one", "two"].map(|tenant| {
            let key = key(&reader).with_tenant(tenant).unwrap();
            candidates(&key, &[], &[]).unwrap().remove(0).0
        });
        assert!(labels[0].starts_with("k: native, gamma 0.25"), "{labels:?}");
        assert!(labels[1].starts_with("k, tenant one: native") && labels[2].starts_with("k, tenant two: native"));
    }

    /// Sizes and shares that one key of a ring does not support may fit the others.
    #[test]
    fn shares_and_sizes_that_a_key_cannot_have_are_passed_over() {
        let reader = reader();
        let payload = numbered(&reader);
        let shares = |key: &Key, sizes: &[usize], gammas: &[f64]| -> Vec<(usize, f64)> {
            let candidates = candidates(key, sizes, gammas).unwrap();
            candidates.iter().map(|(_, key)| (key.vocabulary().size(), key.dialect().gamma().unwrap())).collect()
        };
        assert_eq!(shares(&payload, &[], &[0.25, 0.5]), [(4096, 0.25)]);
        assert_eq!(shares(&key(&reader), &[], &[0.25, 0.5, 0.3]), [(4096, 0.5), (4096, 0.25)]);
        let tgi = Dialect::Tgi(tgi::Parameters { gamma: GreenShare::HALF });
        let tgi = Key::new(vec![7; 8], "t", tgi, None, reader.vocabulary()).unwrap();
        // A vocabulary of one token cannot have two colours, nor can a green list of less than one token.
        assert_eq!(shares(&tgi, &[1, 50], &[0.001]), [(4096, 0.001), (4096, 0.5), (50, 0.5)]);
        assert!(candidates(&tgi, &[usize::MAX], &[]).is_err(), "no key has a vocabulary of this size");
    }
}
