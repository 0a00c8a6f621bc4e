//! Keys with a public part: the half of a mark that everyone may look for.
//!
//! A context belongs to the public half if the highest bit of its seed under the public part's secret is set. There the
//! writer takes the noise of that secret, elsewhere that of the key's own. The public secret is derived from the key's
//! irreversibly, so a published key can read, forge and remove the public half, and says nothing of the private one.
//! (Two keys in one text, of which one is published: TextSeal, arXiv 2605.12456, which chooses between them at random.)

use zeroize::Zeroizing;

use super::{Key, KeyError, Schemes, derived};
use crate::dialect::Dialect;
use crate::dialects::native_gumbel::{self, Part, public_id};
use crate::kdf::Purpose;

impl Key {
    /// The same key with a public part. It then reads only the private half of a text, so it takes about twice the
    /// tokens to find its mark; [`Key::published`] reads the other half.
    ///
    /// # Errors
    /// [`KeyError::NoPublicPart`] for keys that are not of noise, and for published ones.
    pub fn with_public_part(self) -> Result<Self, KeyError> {
        match self.dialect {
            Dialect::NativeGumbel(parameters) if parameters.part != Part::Public => {
                let parameters = native_gumbel::Parameters { part: Part::Private, ..parameters };
                Self { dialect: Dialect::NativeGumbel(parameters), ..self }.checked()
            }
            _ => Err(KeyError::NoPublicPart { id: self.id.clone() }),
        }
    }

    /// The key of the public part, to publish: it finds marks, and cannot write. Its id is that of this key with
    /// `-public`.
    ///
    /// # Errors
    /// [`KeyError::NoPublicPart`] if the key has none, and [`KeyError::Name`] if the id is too long.
    pub fn published(&self) -> Result<Self, KeyError> {
        let (Some(secret), Dialect::NativeGumbel(parameters)) = (self.public_secret(), &self.dialect) else {
            return Err(KeyError::NoPublicPart { id: self.id.clone() });
        };
        let parameters = native_gumbel::Parameters { part: Part::Public, ..*parameters };
        let dialect = Dialect::NativeGumbel(parameters);
        let (id, tenant, vocabulary) = (public_id(&self.id), self.tenant.clone(), self.vocabulary.clone());
        let (strength, variants, period, public, schemes) = (None, 1, self.period, None, Schemes::new());
        Self { id, tenant, secret, dialect, strength, vocabulary, variants, period, public, schemes }.checked()
    }

    /// Whether it is a published key, which cannot write.
    pub fn is_published(&self) -> bool {
        self.dialect.part() == Part::Public
    }

    /// The secret of the public part, if there is one.
    pub(super) fn public_secret(&self) -> Option<Zeroizing<Vec<u8>>> {
        let halves = [Purpose::PublicLow, Purpose::PublicHigh];
        let derive = || self.public.clone().unwrap_or_else(|| derived(&self.secret, halves, ""));
        (self.dialect.part() == Part::Private).then(derive)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Evidence, Marking, Observation, VocabularyId};
    use verdigris_logits::{Purpose as Draw, Random, Row, Sampler, TokenId, Transform};

    const VOCABULARY: usize = 300;

    fn key(tenant: &str) -> Key {
        let vocabulary = VocabularyId::new(VOCABULARY, "abc").unwrap();
        let key = Key::from_secret([0xab; 32], "a", Marking::default(), vocabulary).unwrap();
        key.with_tenant(tenant).unwrap().with_public_part().unwrap()
    }

    fn observed(key: &Key, text: &[TokenId]) -> Vec<Observation> {
        let mut observations = Vec::new();
        key.scheme().unwrap().observe(text, &mut observations);
        observations
    }

    /// A text of uniform tokens, marked with a variant of a key.
    fn write(key: &Key, variant: u8, n: u64) -> Vec<TokenId> {
        let embed = key.variant(variant).embed().unwrap().after(0.0);
        let (mut row, mut text) = (Row::default(), vec![1, 2, 3, 4]);
        let mut state = embed.start(&text);
        for position in 0..n {
            row.load(&[0.0; VOCABULARY]);
            embed.apply(&state, &mut row);
            let token = Sampler::Categorical.sample(&row, Random::new(1).uniform(position, Draw::Token)).unwrap();
            embed.advance(&mut state, token);
            text.push(token);
        }
        text
    }

    #[test]
    fn each_half_is_read_by_its_key_alone() {
        for tenant in ["", "ann"] {
            let key = key(tenant);
            let published = key.published().unwrap();
            let plain: Vec<TokenId> = (0..4000).map(|i: u32| i.wrapping_mul(2_654_435_761) >> 8).collect();
            let plain: Vec<TokenId> = plain.iter().map(|token| token % VOCABULARY as u32).collect();
            let of_public = observed(&published, &plain);
            let count = of_public.iter().filter(|o| !o.score.is_nan()).count() as f64;
            assert!(
                (count - of_public.len() as f64 / 2.0).abs() < 4.0 * (of_public.len() as f64).sqrt() / 2.0,
                "{count}"
            );
            for variant in 0..8 {
                let of_private = observed(&key.variant(variant), &plain);
                let exactly_one = |(a, b): (&Observation, &Observation)| a.score.is_nan() != b.score.is_nan();
                assert!(of_private.iter().zip(&of_public).all(exactly_one), "variant {variant}");
            }

            let text = write(&key, 5, 400);
            let evidence = |key: &Key| Evidence::of(key.scheme().unwrap(), &text);
            let [private, public] = [evidence(&key.variant(5)), evidence(&published)];
            assert_eq!(private.scored + public.scored, 400, "{private:?} {public:?}");
            for half in [private, public] {
                assert!(half.ln_p < -200.0, "{half:?}");
            }
            let other = self::key(tenant).with_id("b").unwrap().published().unwrap();
            for other in [key.variant(4), other] {
                assert!(evidence(&other).p() > 1e-3, "{other:?}");
            }
        }
    }

    /// A text that a holder of the published key makes has the public half of the mark and not the private one.
    #[test]
    fn a_published_key_forges_the_public_half_only() {
        let published = key("").published().unwrap();
        assert!(matches!(published.embed(), Err(KeyError::Published { .. })), "by accident it writes nothing");
        let (scheme, mut row, mut text) = (published.scheme().unwrap(), Row::default(), vec![1, 2, 3, 4]);
        for position in 0..400 {
            row.load(&[0.0; VOCABULARY]);
            scheme.mark(&text[text.len() - 4..], crate::Strength::Hard, &mut row);
            text.push(Sampler::Categorical.sample(&row, Random::new(2).uniform(position, Draw::Token)).unwrap());
        }
        assert!(Evidence::of(scheme, &text).ln_p < -200.0);
        for variant in 0..8 {
            let private = Evidence::of(key("").variant(variant).scheme().unwrap(), &text);
            assert!(private.p() > 1e-3, "{variant}: {private:?}");
        }
    }

    #[test]
    fn a_published_key_is_a_key_of_its_own() {
        let key = key("ann");
        let published = key.published().unwrap();
        assert_eq!((published.id(), published.tenant(), published.variants()), ("a-public", "ann", 1));
        assert!(published.is_published() && published.is_public() && !key.is_public() && !key.is_published());
        assert_ne!(published.secret, key.secret);
        assert!(!published.marks_as(&key));
        assert_eq!(key.variant(3).published().unwrap().secret, published.secret, "variants share it");
        // Through a file, and back.
        let folder = tempfile::tempdir().unwrap();
        for (name, saved) in [("private", &key), ("public", &published)] {
            let path = folder.path().join(name);
            saved.save(&path).unwrap();
            let loaded = Key::load(&path).unwrap();
            assert!(loaded.marks_as(saved) && loaded.describe() == saved.describe());
            assert!(std::fs::read_to_string(&path).unwrap().contains(&format!("\"part\": \"{name}\"")));
        }
    }

    #[test]
    fn only_noise_has_a_public_part() {
        let vocabulary = || VocabularyId::new(VOCABULARY, "abc").unwrap();
        let lists = Key::from_secret([1; 32], "a", Marking::lists(), vocabulary()).unwrap();
        assert!(matches!(lists.published(), Err(KeyError::NoPublicPart { .. })));
        assert!(lists.with_public_part().is_err());
        let noise = Key::from_secret([1; 32], "a", Marking::default(), vocabulary()).unwrap();
        assert!(noise.published().is_err(), "unless it was made with one");
        let published = noise.with_public_part().unwrap().published().unwrap();
        assert!(published.published().is_err());
        assert!(published.with_public_part().is_err());
        let long = Key::from_secret([1; 32], "x".repeat(1000), Marking::default(), vocabulary()).unwrap();
        assert!(matches!(long.with_public_part().unwrap().published(), Err(KeyError::Name { .. })));
    }
}
