//! Keys: a secret, the dialect it marks with, and the file that holds both.
//!
//! A key file is JSON, readable by its owner alone (mode 0600). It names the dialect with its parameters and the
//! vocabulary it was made for, so that writer and reader cannot disagree about them. The secret is wiped from memory
//! when the key is dropped, and neither `Debug` nor any error shows it.

mod error;
mod file;
mod format;
mod marking;
mod period;
mod public;
mod published;

use std::fmt;
use std::sync::{Arc, OnceLock};

use data_encoding::HEXLOWER_PERMISSIVE;
use zeroize::Zeroizing;

pub use self::error::{BadKeyFile, KeyError};
pub use self::format::{MAX_FILE, MAX_NAME, MAX_VARIANTS};
pub use self::marking::{GreenLists, Marking};
pub use self::period::{BadPeriod, Period};
use crate::dialect::{BadDialect, Dialect};
use crate::dialects::native::{self, Native};
use crate::dialects::spec::Secret;
use crate::dialects::synthid::{Bayesian, Score, SynthId};
use crate::embed::Embed;
use crate::kdf;
use crate::payload::Carrier;
use crate::scheme::{Scheme, Stage};
use crate::strength::Strength;
use crate::vocabulary_id::VocabularyId;

/// A key, needed to write marks and to read them.
///
/// ```no_run
/// use verdigris_watermark::{Key, Marking, VocabularyId};
///
/// // The size and the fingerprint of the tokenizer, from `Reader::vocabulary`.
/// let vocabulary = VocabularyId::new(4096, "e106f5b2af1d8f602ff85a4ace3e36b1")?.with_model("tale");
/// let key = Key::generate(Marking::default(), vocabulary);
/// // A new file, which its owner alone can read.
/// key.save("my.key".as_ref())?;
/// let same = Key::load("my.key".as_ref())?;
/// assert_eq!(same.id(), key.id());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Key {
    id: String,
    tenant: String,
    secret: Zeroizing<Vec<u8>>,
    dialect: Dialect,
    strength: Option<Strength>,
    vocabulary: VocabularyId,
    variants: u8,
    period: Period,
    /// The secret of the public part, if it is not derived from this secret but from that of all variants.
    public: Option<Zeroizing<Vec<u8>>>,
    schemes: Schemes,
}

/// The schemes of a key's variants, which are made when they are used for the first time.
type Schemes = OnceLock<Vec<Arc<dyn Scheme>>>;

impl Key {
    /// A new key with a secret from the operating system.
    ///
    /// # Panics
    /// If the operating system provides no random bytes.
    pub fn generate(marking: Marking, vocabulary: VocabularyId) -> Self {
        let (dialect, strength, variants) = marking.parts();
        let key = Self::new(random_secret(), random_id("vg"), dialect, strength, vocabulary);
        let key = key.and_then(|key| key.with_variants(variants));
        key.expect("32 bytes are a secret of our own schemes, whose parameters have been checked")
    }

    /// A key with a secret from the caller, who must ensure that it is secret.
    ///
    /// # Errors
    /// [`KeyError::Name`] if the id is too long.
    pub fn from_secret(
        secret: impl Into<Zeroizing<[u8; 32]>>,
        id: impl Into<String>,
        marking: Marking,
        vocabulary: VocabularyId,
    ) -> Result<Self, KeyError> {
        let (dialect, strength, variants) = marking.parts();
        Self::new(secret.into().to_vec(), id, dialect, strength, vocabulary)?.with_variants(variants)
    }

    /// A key of any dialect. `secret` has the bytes that the dialect takes: 32 for Verdigris' own, 8 (big-endian) for
    /// each integer of another system. Dialects with colours have a strength, delta 2 by default.
    ///
    /// # Errors
    /// [`KeyError::Dialect`] if secret and parameters do not make a scheme, and [`KeyError::Name`] if the id is too
    /// long.
    pub fn new(
        secret: impl Into<Zeroizing<Vec<u8>>>,
        id: impl Into<String>,
        dialect: Dialect,
        strength: Option<Strength>,
        vocabulary: VocabularyId,
    ) -> Result<Self, KeyError> {
        let strength = dialect.has_strength().then(|| strength.unwrap_or_default());
        let (id, tenant, secret, period) = (id.into(), String::new(), secret.into(), Period::default());
        let (variants, public, schemes) = (1, None, Schemes::new());
        Self { id, tenant, secret, dialect, strength, vocabulary, variants, period, public, schemes }.checked()
    }

    /// Checks what holds for every key: it makes a scheme, and its file can be read back.
    fn checked(mut self) -> Result<Self, KeyError> {
        self.schemes = Schemes::new();
        for (what, name) in [("id", &self.id), ("tenant", &self.tenant)] {
            if name.len() > MAX_NAME {
                return Err(KeyError::Name { what, bytes: name.len() });
            }
        }
        let most = if self.dialect.is_native() && self.payload_bits().is_none() { MAX_VARIANTS } else { 1 };
        if !(1..=most).contains(&self.variants) {
            return Err(KeyError::VariantCount { variants: self.variants });
        }
        self.any_scheme()?;
        Ok(self)
    }

    /// The same key under another id, which gives unrelated sub-keys.
    ///
    /// # Errors
    /// [`KeyError::Name`] if it is longer than [`MAX_NAME`].
    pub fn with_id(mut self, id: impl Into<String>) -> Result<Self, KeyError> {
        self.id = id.into();
        self.checked()
    }

    /// A key for one tenant. In Verdigris' own dialects its secret is derived from this one's, irreversibly: the holder
    /// of the tenant's key knows neither this key nor those of other tenants. Other systems' secrets are unchanged, and
    /// the tenant is only a note.
    ///
    /// # Errors
    /// [`KeyError::Name`] if the name is longer than [`MAX_NAME`].
    pub fn with_tenant(mut self, tenant: impl Into<String>) -> Result<Self, KeyError> {
        self.tenant = tenant.into();
        if self.dialect.is_native() && !self.tenant.is_empty() {
            let halves = [kdf::Purpose::TenantLow, kdf::Purpose::TenantHigh];
            self.secret = derived(&self.secret, halves, &self.tenant);
        }
        self.checked()
    }

    /// The same key with a number of variants: keys with secrets derived from this one's. Each text is written with one
    /// of them, chosen at random, and read with all. A forger that learns from texts how this key marks learns a
    /// mixture of its variants, and a text that was forged with it is found under several of them (Aremu et al., arXiv
    /// 2507.07871).
    ///
    /// # Errors
    /// [`KeyError::VariantCount`] for a number outside 1 to [`MAX_VARIANTS`], or above 1 for keys of other systems and
    /// with payloads.
    pub fn with_variants(self, variants: u8) -> Result<Self, KeyError> {
        Self { variants, ..self }.checked()
    }

    /// The same key with a period.
    #[must_use]
    pub fn with_period(mut self, period: Period) -> Self {
        self.period = period;
        self
    }

    /// The same key with another vocabulary size, to look for marks of a writer whose vocabulary size is not known.
    ///
    /// # Errors
    /// [`KeyError::Dialect`] if the size is out of range.
    pub fn with_vocabulary_size(&self, size: usize) -> Result<Self, KeyError> {
        self.like(self.dialect.clone(), self.vocabulary.clone().with_size(size).map_err(BadDialect::from)?)
    }

    /// The same key with another green share.
    ///
    /// # Errors
    /// [`KeyError::Dialect`] with [`BadDialect::NoColours`] if the dialect has no green share, or with another error if
    /// the share is invalid.
    pub fn with_gamma(&self, gamma: f64) -> Result<Self, KeyError> {
        self.like(self.dialect.with_gamma(gamma)?, self.vocabulary.clone())
    }

    fn like(&self, dialect: Dialect, vocabulary: VocabularyId) -> Result<Self, KeyError> {
        let (id, tenant, secret) = (self.id.clone(), self.tenant.clone(), self.secret.clone());
        let Self { strength, variants, period, .. } = *self;
        let (public, schemes) = (self.public.clone(), Schemes::new());
        Self { id, tenant, secret, dialect, strength, vocabulary, variants, period, public, schemes }.checked()
    }

    /// The public name of the key.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The tenant whose key it is; empty for none.
    pub fn tenant(&self) -> &str {
        &self.tenant
    }

    /// The vocabulary it was made for.
    pub fn vocabulary(&self) -> &VocabularyId {
        &self.vocabulary
    }

    /// The dialect that it marks with.
    pub fn dialect(&self) -> &Dialect {
        &self.dialect
    }

    /// The strength of the mark, where it can be chosen.
    pub fn strength(&self) -> Option<Strength> {
        self.strength
    }

    /// The bias that it adds to the logits of green tokens. Hard lists, which allow green tokens only, count as 10:
    /// more than the distance between the tokens that a model considers.
    pub fn delta(&self) -> f64 {
        if let Some(Strength::Soft(delta)) = self.strength { delta.value() } else { 10.0 }
    }

    /// The days on which it is used for writing.
    pub fn period(&self) -> Period {
        self.period
    }

    /// The number of its variants.
    pub fn variants(&self) -> u8 {
        self.variants
    }

    /// The variant with this index, modulo their number, as a key without variants. That of a key with one variant is
    /// the key itself.
    #[must_use]
    pub fn variant(&self, index: u8) -> Self {
        let halves = [kdf::Purpose::VariantLow, kdf::Purpose::VariantHigh];
        let secret = match self.variants {
            1 => self.secret.clone(),
            variants => derived(&self.secret, halves, &(index % variants).to_string()),
        };
        let (id, tenant, dialect) = (self.id.clone(), self.tenant.clone(), self.dialect.clone());
        let Self { strength, period, .. } = *self;
        let (vocabulary, public) = (self.vocabulary.clone(), self.public_secret());
        let (variants, schemes) = (1, Schemes::new());
        Self { id, tenant, secret, dialect, strength, vocabulary, variants, period, public, schemes }
    }

    /// The stage of sampling at which it marks.
    pub fn stage(&self) -> Stage {
        self.any_scheme().expect("checked when the key was made").embed_rules().stage
    }

    /// The number of payload bits that its mark carries.
    pub fn payload_bits(&self) -> Option<u8> {
        if let Dialect::Native(native::Parameters { payload_bits, .. }) = self.dialect { payload_bits } else { None }
    }

    /// The dialect in words, such as `native, gamma 0.25, minimum over 4 tokens`.
    pub fn describe(&self) -> String {
        let public =
            if self.is_public() { " (its secret is publicly known: anyone can find and forge the mark)" } else { "" };
        let variants = if self.variants > 1 { format!(", {} variants", self.variants) } else { String::new() };
        format!("{}{variants}{public}", self.dialect)
    }

    /// Whether another key marks with the same lists or the same noise, so that looking for both would be looking
    /// twice.
    pub fn marks_as(&self, other: &Self) -> bool {
        let names = |key: &Self| key.dialect.is_native().then(|| (key.id.clone(), key.tenant.clone()));
        self.secret == other.secret
            && self.dialect == other.dialect
            && self.variants == other.variants
            && self.vocabulary.size() == other.vocabulary.size()
            && names(self) == names(other)
    }

    /// The scheme under this key, for a detector.
    ///
    /// A key that carries payloads has one scheme for each of them: see [`Key::carrier`] and [`Key::payload_reader`].
    /// One with several variants has one for each: see [`Key::schemes`].
    ///
    /// # Errors
    /// [`KeyError::Payload`] if the key carries payloads, and [`KeyError::Variants`] if it has several variants.
    pub fn scheme(&self) -> Result<Arc<dyn Scheme>, KeyError> {
        match (self.payload_bits(), self.variants) {
            (None, 1) => Ok(self.schemes()?[0].clone()),
            (None, variants) => Err(KeyError::Variants { id: self.id.clone(), variants }),
            (Some(_), _) => Err(KeyError::Payload { id: self.id.clone(), carries: true }),
        }
    }

    /// The schemes of its variants, for a detector that tries all.
    ///
    /// # Errors
    /// [`KeyError::Payload`] if the key carries payloads.
    pub fn schemes(&self) -> Result<Vec<Arc<dyn Scheme>>, KeyError> {
        if self.payload_bits().is_some() {
            return Err(KeyError::Payload { id: self.id.clone(), carries: true });
        }
        if let Some(known) = self.schemes.get() {
            return Ok(known.clone());
        }
        let made = match self.variants {
            1 => vec![self.any_scheme()?],
            variants => (0..variants).map(|index| self.variant(index).any_scheme()).collect::<Result<_, _>>()?,
        };
        Ok(self.schemes.get_or_init(|| made).clone())
    }

    fn any_scheme(&self) -> Result<Arc<dyn Scheme>, KeyError> {
        let public = self.public_secret();
        let secret = Secret { public: public.as_ref().map(|secret| &secret[..]), ..self.named_secret() };
        Ok(self.dialect.scheme_of(&secret, self.vocabulary.size())?)
    }

    /// The secret with its names, without that of a public part.
    fn named_secret(&self) -> Secret<'_> {
        let (dialect, bytes, public) = (self.dialect.name(), &self.secret[..], None);
        Secret { dialect, bytes, id: &self.id, tenant: &self.tenant, public }
    }

    /// The scheme of a SynthID key.
    pub(crate) fn synthid(&self) -> Option<SynthId> {
        let Dialect::Synthid(parameters) = &self.dialect else { return None };
        Some(parameters.synthid(&self.named_secret(), self.vocabulary.size()).expect("checked when the key was made"))
    }

    /// The same SynthID key with a Bayesian score.
    ///
    /// # Errors
    /// [`KeyError::Dialect`] if the parameters do not fit the keys.
    pub(crate) fn with_bayesian_score(&self, score: Bayesian) -> Result<Self, KeyError> {
        let mut dialect = self.dialect.clone();
        if let Dialect::Synthid(parameters) = &mut dialect {
            parameters.score = Score::Bayesian(score);
        }
        self.like(dialect, self.vocabulary.clone())
    }

    fn native(&self) -> Result<(Native, u8), KeyError> {
        let Dialect::Native(native::Parameters { gamma, context, payload_bits: Some(bits) }) = self.dialect else {
            return Err(KeyError::Payload { id: self.id.clone(), carries: false });
        };
        let secret = self.secret[..].try_into().expect("checked when the key was made");
        Ok((Native::new(secret, &self.id, &self.tenant, gamma, context, self.vocabulary.size()), bits))
    }

    /// The two AES-128 keys of the native scheme, for contexts and for lists, so that an implementation on another
    /// device can make green lists. They are as secret as the key, since they suffice to write and read its mark.
    /// `None` for other dialects, and for keys with several variants, each of which has its own.
    pub fn sub_keys(&self) -> Option<[Zeroizing<[u8; 16]>; 2]> {
        let native = matches!(self.dialect, Dialect::Native(_)) && self.variants == 1;
        native.then(|| native::sub_keys(&self.secret, &self.id, &self.tenant))
    }

    /// The scheme that writes a payload.
    ///
    /// # Errors
    /// [`KeyError::Payload`] if the key carries no payloads, and [`KeyError::Dialect`] if `payload` has too many bits.
    pub fn carrier(&self, payload: u32) -> Result<Arc<dyn Scheme>, KeyError> {
        let (native, bits) = self.native()?;
        Ok(Arc::new(Carrier::new(native, bits, payload).map_err(BadDialect::from)?))
    }

    /// A reader of payloads.
    ///
    /// # Errors
    /// [`KeyError::Payload`] if the key carries no payloads.
    pub fn payload_reader(&self) -> Result<crate::payload::PayloadReader, KeyError> {
        let (native, bits) = self.native()?;
        Ok(crate::payload::PayloadReader::new(Arc::new(native), bits))
    }

    /// The step that embeds this key's mark.
    ///
    /// # Errors
    /// [`KeyError::Payload`] if the key carries payloads: use [`Key::embed_payload`]; [`KeyError::Published`] for a
    /// published key.
    pub fn embed(&self) -> Result<Embed, KeyError> {
        if self.is_published() {
            return Err(KeyError::Published { id: self.id.clone() });
        }
        Ok(self.embedding(self.scheme()?))
    }

    /// The step that embeds this key's mark with a payload.
    ///
    /// # Errors
    /// [`KeyError::Payload`] if the key carries no payloads, and [`KeyError::Dialect`] if `payload` has too many bits.
    pub fn embed_payload(&self, payload: u32) -> Result<Embed, KeyError> {
        Ok(self.embedding(self.carrier(payload)?))
    }

    fn embedding(&self, scheme: Arc<dyn Scheme>) -> Embed {
        Embed::new(scheme, self.strength.unwrap_or(Strength::Hard))
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key {{ id: {:?}, scheme: {:?}, secret: redacted }}", self.id, self.describe())
    }
}

/// A secret of 32 bytes, derived irreversibly from another one.
fn derived(secret: &[u8], halves: [kdf::Purpose; 2], name: &str) -> Zeroizing<Vec<u8>> {
    let mut derived = Zeroizing::new(Vec::with_capacity(32));
    for half in halves {
        derived.extend_from_slice(&kdf::derive(secret, half, "", name)[..]);
    }
    derived
}

/// 32 bytes from the operating system.
///
/// # Panics
/// If the operating system provides no random bytes.
pub fn random_secret() -> Zeroizing<Vec<u8>> {
    let mut secret = Zeroizing::new(vec![0; 32]);
    getrandom::fill(&mut secret).expect("the operating system gives random bytes");
    secret
}

/// A name for a new key: eight random digits after a prefix.
///
/// # Panics
/// If the operating system provides no random bytes.
pub fn random_id(prefix: &str) -> String {
    let mut id = [0; 4];
    getrandom::fill(&mut id).expect("the operating system gives random bytes");
    format!("{prefix}-{}", HEXLOWER_PERMISSIVE.encode(&id))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialects::synthid::{self, Bits, Score};
    use crate::dialects::tgi;

    fn vocabulary() -> VocabularyId {
        VocabularyId::new(4096, "abc").unwrap()
    }

    fn judge(key: &Key) -> Vec<crate::Observation> {
        let mut observations = Vec::new();
        key.scheme().unwrap().observe(&(0..200).collect::<Vec<_>>(), &mut observations);
        observations
    }

    fn key(id: &str) -> Key {
        Key::from_secret([0xab; 32], id, Marking::lists(), vocabulary()).unwrap()
    }

    /// Another device gets the keys that the scheme here uses, different for each key and tenant.
    #[test]
    fn sub_keys_are_those_of_the_lists() {
        let key = |id: &str| Key::from_secret([7; 32], id, Marking::lists(), vocabulary()).unwrap();
        let [context, list] = key("a").sub_keys().unwrap();
        assert_eq!(*context, *kdf::derive(&[7; 32], kdf::Purpose::Context, "a", ""));
        assert_eq!(*list, *kdf::derive(&[7; 32], kdf::Purpose::List, "a", ""));
        for other in [key("b"), key("a").with_tenant("t").unwrap()] {
            let [their_context, their_list] = other.sub_keys().unwrap();
            assert!(context != their_context && list != their_list);
        }
        let theirs = Dialect::Tgi(tgi::Parameters { gamma: crate::GreenShare::HALF });
        assert!(Key::new(vec![0; 8], "a", theirs, None, vocabulary()).unwrap().sub_keys().is_none());
    }

    #[test]
    fn ids_and_tenants_have_their_own_lists() {
        let lists = |id: &str, tenant: &str| judge(&key(id).with_tenant(tenant).unwrap());
        assert_eq!(lists("a", ""), lists("a", ""));
        assert_ne!(lists("a", ""), lists("b", ""));
        assert_ne!(lists("a", ""), lists("a", "t"));
        let renamed = key("a").with_tenant("t").unwrap().with_id("b").unwrap();
        assert_eq!(judge(&renamed), lists("b", "t"), "in whatever order");
    }

    /// A tenant's key reveals neither the secret it was derived from nor another tenant's key.
    #[test]
    fn a_tenants_key_does_not_hold_the_secret_it_came_from() {
        let [one, two] = ["one", "two"].map(|tenant| key("a").with_tenant(tenant).unwrap());
        assert!(*one.secret != *key("a").secret && *one.secret != *two.secret && one.secret.len() == 32);
        assert_ne!(judge(&key("a").with_tenant("two").unwrap()), judge(&one.with_tenant("two").unwrap()));
        let kgw = Dialect::Tgi(tgi::Parameters { gamma: crate::GreenShare::HALF });
        let kgw = Key::new(vec![7; 8], "k", kgw, None, vocabulary()).unwrap().with_tenant("one").unwrap();
        assert_eq!(*kgw.secret, [7; 8], "others' schemes know no tenants");
    }

    /// Variants are keys without relation to each other or to a key without variants, the same in every program.
    #[test]
    fn variants_are_keys_of_their_own() {
        let many = key("a").with_variants(3).unwrap();
        let of = |index: u8| judge(&many.variant(index));
        assert!(of(0) != of(1) && of(1) != of(2) && of(0) != of(2) && of(0) != judge(&key("a")));
        assert_eq!(of(4), of(1), "modulo their number");
        assert_eq!(judge(&key("a").variant(7)), judge(&key("a")), "a key with one variant is that variant");
        let secret = [kdf::Purpose::VariantLow, kdf::Purpose::VariantHigh];
        let secret = secret.map(|half| *kdf::derive(&[0xab; 32], half, "", "1")).concat();
        let by_hand = Key::new(secret, "a", many.dialect().clone(), None, vocabulary()).unwrap();
        assert_eq!(of(1), judge(&by_hand));
        let schemes = many.schemes().unwrap();
        assert_eq!(schemes.len(), 3);
        assert!(matches!(many.scheme(), Err(KeyError::Variants { variants: 3, .. })) && many.sub_keys().is_none());
        let tenants = ["one", "two"].map(|tenant| key("a").with_tenant(tenant).unwrap().with_variants(3).unwrap());
        assert_ne!(judge(&tenants[0].variant(0)), judge(&tenants[1].variant(0)));
        assert!(!many.marks_as(&key("a")) && many.marks_as(&key("a").with_variants(3).unwrap()));
        assert!(many.describe().ends_with("3 variants"), "{}", many.describe());
    }

    /// Schemes that were made for a key are not those of keys that are made from it.
    #[test]
    fn a_used_key_makes_keys_of_their_own() {
        let used = || {
            let key = key("a");
            judge(&key);
            key
        };
        let changes: [fn(Key) -> Key; 4] = [
            |key| key.with_id("b").unwrap(),
            |key| key.with_tenant("b").unwrap(),
            |key| key.with_gamma(0.5).unwrap(),
            |key| key.with_variants(3).unwrap().variant(1),
        ];
        for change in changes {
            let changed = change(used());
            assert_eq!(judge(&changed), judge(&change(key("a"))));
            assert_ne!(judge(&changed), judge(&key("a")));
            assert_eq!(judge(&changed), judge(&changed));
        }
        assert_eq!(used().with_variants(3).unwrap().schemes().unwrap().len(), 3);
    }

    #[test]
    fn a_number_of_variants_has_bounds() {
        for bad in [0, MAX_VARIANTS + 1] {
            assert!(matches!(key("a").with_variants(bad), Err(KeyError::VariantCount { .. })), "{bad}");
        }
        assert!(key("a").with_variants(MAX_VARIANTS).is_ok());
        let theirs = Dialect::Tgi(tgi::Parameters { gamma: crate::GreenShare::HALF });
        let theirs = Key::new(vec![7; 8], "k", theirs, None, vocabulary()).unwrap();
        assert!(theirs.with_variants(2).is_err(), "other systems know no variants");
        let GreenLists { gamma, context, .. } = GreenLists::default();
        let payload = Dialect::Native(native::Parameters { gamma, context, payload_bits: Some(16) });
        assert!(Key::new(vec![7; 32], "k", payload, None, vocabulary()).unwrap().with_variants(2).is_err());
    }

    #[test]
    fn names_have_a_longest() {
        for bad in [key("a").with_id("x".repeat(70_000)), key("a").with_tenant("x".repeat(1001))] {
            assert!(matches!(bad, Err(KeyError::Name { .. })), "{bad:?}");
        }
        assert!(Key::from_secret([1; 32], "x".repeat(1001), Marking::lists(), vocabulary()).is_err());
        assert!(key("a").with_id("x".repeat(1000)).is_ok());
    }

    #[test]
    fn keys_that_mark_alike_are_known() {
        assert!(key("a").marks_as(&key("a").with_period(Period::new(Some("2026-01-01"), None).unwrap())));
        assert!(!key("a").marks_as(&key("b")));
        assert!(!key("a").marks_as(&key("a").with_gamma(0.5).unwrap()));
        let synthid = |id| {
            let dialect = Dialect::Synthid(synthid::Parameters { bits: Bits::Hash, ngram_len: 5, score: Score::Mean });
            Key::new((0..80).collect::<Vec<_>>(), id, dialect, None, vocabulary()).unwrap()
        };
        assert!(synthid("a").marks_as(&synthid("b")), "the name of another system's key is ours alone");
    }
}
