//! A tokenizer ready for detection.

use std::io::Read;
use std::ops::Range;
use std::sync::Arc;

use verdigris_constrain::{Constraint, Grammar, Lexicon};
use verdigris_logits::TokenId;
use verdigris_text::{StreamPart, Tokenizer};
use verdigris_watermark::vocabulary_id::MAX_VOCABULARY;
use verdigris_watermark::{Detector, Detectors, Evidence, Key, Mark, Repeats, Scheme, VocabularyId};

use crate::error::DetectError;
use crate::evidence::{best_of, evidence, read};
use crate::look::Look;
use crate::manifest::Unwrapping;
use crate::obeyed::Obeyed;
use crate::tokens::Tokens;

/// Reads texts and judges them. Needs a tokenizer, but no model. C2PA manifests in a text are removed before it is read
/// ([`Unwrapped`](crate::Unwrapped)).
///
/// ```no_run
/// use verdigris_detector::{Key, Level, Reader, Tokenizer};
///
/// // The tokenizer of the model that the key was made for.
/// let reader = Reader::new(Tokenizer::from_json(&std::fs::read("tokenizer.json")?)?);
/// let key = Key::load("my.key".as_ref())?;
/// let evidence = reader.detect(&key, std::fs::File::open("tale.txt")?)?;
/// match evidence.is_marked(Level::DEFAULT)? {
///     true => println!("marked, p = {:.1e}", evidence.p()),
///     false => println!("no sign of a mark, p = {:.2}", evidence.p()),
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Reader {
    tokenizer: Arc<Tokenizer>,
    obeyed: Option<Obeyed>,
}

impl Reader {
    /// Creates a reader with a tokenizer.
    pub fn new(tokenizer: impl Into<Arc<Tokenizer>>) -> Self {
        Self { tokenizer: tokenizer.into(), obeyed: None }
    }

    /// Makes the reader one of texts that were written under a grammar: only tokens for which the grammar left a choice
    /// are scored, since a mark cannot change the others, and colours are weighted by the number of ways in which the
    /// text could have continued ([`weight_of_ways`](verdigris_watermark::weighted::weight_of_ways)). The p-value stays
    /// exact: these numbers depend on the text and the grammar, and not on the key.
    ///
    /// A text may be cut short anywhere, and there may be white space around it. Any other text that does not match the
    /// grammar is an error ([`DetectError::Constraint`]). The grammar must allow what the writer's did; with one that
    /// allows more, or writes white space differently, fewer of the forced tokens are found.
    ///
    /// Texts are then read as a whole, so memory grows with their length.
    ///
    /// ```
    /// use verdigris_detector::{Grammar, Key, Marking, Reader, Style, Tokenizer};
    ///
    /// let tokenizer = Tokenizer::from_json(include_bytes!("../../../fixtures/models/tale/tokenizer.json"))?;
    /// let schema = r#"{"properties": {"sea": {"type": "string"}}, "required": ["sea"], "additionalProperties":
    /// false}"#; let constraint = Grammar::json_schema(&schema.parse()?, Style::default())?; let reader =
    /// Reader::new(tokenizer).of_grammar(constraint); let key = Key::generate(Marking::lists(), reader.vocabulary());
    /// let evidence = reader.detect(&key, r#"{"sea": "The Red Sea is wide and deep"}"#.as_bytes())?;
    /// assert!(evidence.scored < evidence.tokens);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn of_grammar(self, grammar: impl Into<Arc<Grammar>>) -> Self {
        self.of_grammars([grammar.into()])
    }

    /// Like [`Reader::of_grammar`], for texts that were written under one of several grammars: the first one that a
    /// text obeys counts. For texts with a thought, they are [`Grammar::readings_with_thought`].
    #[must_use]
    pub fn of_grammars(self, grammars: impl IntoIterator<Item = Arc<Grammar>>) -> Self {
        // No end tokens: the text already ends somewhere, and the constraint only says where it may end.
        let lexicon = Lexicon::new(self.tokenizer.clone(), &[]);
        self.of_constraints(grammars.into_iter().map(|grammar| Constraint::new(grammar, &lexicon)))
    }

    /// Like [`Reader::of_grammar`], with an existing constraint over this tokenizer.
    #[must_use]
    pub fn of_constraint(self, constraint: Constraint) -> Self {
        self.of_constraints([constraint])
    }

    /// Like [`Reader::of_grammars`], with existing constraints over this tokenizer.
    #[must_use]
    pub fn of_constraints(self, constraints: impl IntoIterator<Item = Constraint>) -> Self {
        Self { obeyed: Obeyed::new(constraints.into_iter().collect()), ..self }
    }

    /// The constraint that a text of these tokens obeys: the first, if it obeys several. `None` without a constraint.
    ///
    /// # Errors
    /// [`DetectError::Constraint`] if the text obeys none.
    pub fn constraint_of(&self, tokens: &[TokenId]) -> Result<Option<&Constraint>, DetectError> {
        Ok(self.obeyed.as_ref().map(|obeyed| obeyed.of(b"", tokens)).transpose()?.map(|(constraint, _)| constraint))
    }

    /// Whether texts are known to obey a constraint.
    pub fn has_constraint(&self) -> bool {
        self.obeyed.is_some()
    }

    /// The constraints that texts are known to obey.
    pub(crate) fn obeyed(&self) -> Option<&Obeyed> {
        self.obeyed.as_ref()
    }

    /// The tokenizer.
    pub fn tokenizer(&self) -> &Arc<Tokenizer> {
        &self.tokenizer
    }

    /// Returns the bytes of a text that match the constraint: all of it, or all except the line end or the white space
    /// around it, which files and programs add. Returns the whole range if none of these match, and without a
    /// constraint.
    pub fn extent(&self, text: &str) -> Range<usize> {
        self.obeyed.as_ref().map_or(0..text.len(), |obeyed| obeyed.extent(text))
    }

    /// The properties of this tokenizer that a key for it contains.
    pub fn vocabulary(&self) -> VocabularyId {
        let vocabulary = self.tokenizer.vocabulary();
        let size = vocabulary.size().clamp(1, MAX_VOCABULARY);
        VocabularyId::new(size, vocabulary.fingerprint()).expect("the size is in bounds, and a fingerprint is short")
    }

    /// Returns the scheme of a key that was made for this tokenizer.
    ///
    /// # Errors
    /// [`DetectError::ForeignKey`] if it was not, and [`DetectError::Key`] if it has no scheme.
    pub fn scheme(&self, key: &Key) -> Result<Arc<dyn Scheme>, DetectError> {
        self.fits(key)?;
        Ok(key.scheme()?)
    }

    /// Checks that a key was made for this tokenizer.
    ///
    /// # Errors
    /// [`DetectError::ForeignKey`] if it was not.
    pub fn fits(&self, key: &Key) -> Result<(), DetectError> {
        let (theirs, ours) = (key.vocabulary(), self.tokenizer.vocabulary());
        if theirs.fingerprint() != ours.fingerprint() {
            return Err(DetectError::ForeignKey {
                id: key.id().to_owned(),
                key_model: theirs.model().map(str::to_owned),
                key_size: theirs.size(),
                key_fingerprint: theirs.fingerprint().to_owned(),
                size: ours.size(),
                fingerprint: ours.fingerprint().to_owned(),
            });
        }
        Ok(())
    }

    /// Returns the evidence of a text of any length, reading it once, in bounded memory.
    ///
    /// # Errors
    /// Those of [`Reader::scheme`], [`DetectError::Read`] if the text cannot be read or is not UTF-8, and
    /// [`DetectError::Constraint`] if it breaks the reader's constraint.
    pub fn detect(&self, key: &Key, text: impl Read) -> Result<Evidence, DetectError> {
        self.detect_repeats(key, text, Repeats::default())
    }

    /// The evidence of [`Reader::judge`], in all readings, for a text as it was delivered: one that breaks the reader's
    /// constraint, for example because a stop string ended it, is read without the constraint.
    ///
    /// # Errors
    /// Those of [`Reader::judge`], except [`DetectError::Constraint`].
    pub fn detect_delivered(&self, key: &Key, text: &str) -> Result<Evidence, DetectError> {
        let judge = |reader: &Self| reader.judge(&[key], text, &Look::default()).map(|judgement| judgement.evidence);
        match judge(self) {
            Err(DetectError::Constraint(_)) => judge(&self.without_constraint()),
            judged => judged,
        }
    }

    /// Whether a text with this evidence has no scored tokens because the reader's constraint left no choice: without
    /// the constraint some would be scored.
    pub fn is_forced(&self, key: &Key, text: &str, evidence: &Evidence) -> bool {
        let is_scored = |evidence: Evidence| evidence.scored > 0;
        evidence.scored == 0 && self.without_constraint().detect_delivered(key, text).is_ok_and(is_scored)
    }

    fn without_constraint(&self) -> Self {
        Self { obeyed: None, ..self.clone() }
    }

    /// Like [`Reader::detect_delivered`], for a text with control tokens, which the reader's constraint may require.
    /// Without the constraint, only the text between them is read.
    ///
    /// # Errors
    /// Those of [`Reader::detect_delivered`].
    pub fn detect_parts<'t>(
        &self,
        key: &Key,
        parts: impl Iterator<Item = StreamPart<'t>>,
    ) -> Result<Evidence, DetectError> {
        let (mut text, mut tokens, mut has_controls) = (String::new(), Vec::new(), false);
        for part in parts {
            match part {
                StreamPart::Text(part) => {
                    text.push_str(part);
                    tokens.extend(self.tokenizer.encode_long(part)?);
                }
                StreamPart::Control(name) => {
                    has_controls = true;
                    tokens.extend(self.tokenizer.id(name));
                }
            }
        }
        if has_controls && self.has_constraint() {
            match self.evidence(key, &tokens, Repeats::default()) {
                Err(DetectError::Constraint(_)) => {}
                read => return read,
            }
        }
        self.detect_delivered(key, &text)
    }

    /// Like [`Reader::detect`], with another rule for repeats. The payload that a text most likely carries is always
    /// read by context; the tokens that are green under it are then counted by the rule. If the rule is not the
    /// default, all tokens of a text under a key with payloads are held in memory.
    ///
    /// # Errors
    /// Those of [`Reader::detect`].
    pub fn detect_repeats(&self, key: &Key, text: impl Read, repeats: Repeats) -> Result<Evidence, DetectError> {
        if self.has_constraint() {
            self.fits(key)?;
            return evidence(key, &self.whole(text)?, repeats);
        }
        if key.payload_bits().is_some() {
            self.fits(key)?;
            if repeats != Repeats::Context {
                return evidence(key, &Tokens::new(self.tokens(text)?, None, b"")?, repeats);
            }
            let (mut reader, mut count) = (key.payload_reader()?, 0);
            self.tokenizer.encode_reader(Unwrapping::new(text), |_, tokens| {
                reader.push(tokens);
                count += tokens.len() as u64;
            })?;
            return Ok(reader.evidence(count));
        }
        self.fits(key)?;
        let mut detectors = Detectors::new(key.schemes()?, repeats);
        self.tokenizer.encode_reader(Unwrapping::new(text), |_, tokens| detectors.push(tokens))?;
        Ok(best_of(detectors.evidence(), f64::from(key.variants())))
    }

    /// Returns the evidence of a text of any length under a key with a single scheme, as [`Reader::detect`] does, and
    /// passes each token's bytes and mark to `each`, in order. For a key with variants or payloads, [`Reader::judge`]
    /// finds the one that the text has.
    ///
    /// # Errors
    /// Those of [`Reader::scheme`], and if the text cannot be read.
    pub fn detect_marked(
        &self,
        key: &Key,
        text: impl Read,
        mut each: impl FnMut(&[u8], Mark),
    ) -> Result<Evidence, DetectError> {
        let mut detector = Detector::new(self.scheme(key)?);
        let vocabulary = self.tokenizer.vocabulary();
        if self.has_constraint() {
            let tokens = self.whole(text)?;
            let evidence = read(key, &tokens, &mut detector);
            let mut detector = Detector::new(self.scheme(key)?);
            tokens.read(&mut detector, |tokens, marks| {
                for (&token, &mark) in tokens.iter().zip(marks) {
                    each(vocabulary.bytes(token), mark);
                }
            });
            return Ok(evidence);
        }
        self.tokenizer.encode_reader(Unwrapping::new(text), |_, tokens| {
            for (&token, &mark) in tokens.iter().zip(detector.push(tokens)) {
                each(vocabulary.bytes(token), mark);
            }
        })?;
        Ok(detector.evidence())
    }

    /// Returns the evidence of tokens under one key: one look, corrected for the payloads that it tries.
    ///
    /// # Errors
    /// Those of [`Reader::scheme`], and [`DetectError::Constraint`] if the tokens break the reader's constraint.
    pub fn evidence(&self, key: &Key, tokens: &[TokenId], repeats: Repeats) -> Result<Evidence, DetectError> {
        self.fits(key)?;
        evidence(key, &Tokens::new(tokens.to_vec(), self.obeyed(), b"")?, repeats)
    }

    /// Returns the tokens of a text of any length.
    fn tokens(&self, text: impl Read) -> Result<Vec<TokenId>, DetectError> {
        let mut all = Vec::new();
        self.tokenizer.encode_reader(Unwrapping::new(text), |_, tokens| all.extend_from_slice(tokens))?;
        Ok(all)
    }

    /// Reads the whole text and tokenizes it.
    fn whole(&self, text: impl Read) -> Result<Tokens, DetectError> {
        let mut all = String::new();
        self.tokenizer.encode_reader(Unwrapping::new(text), |piece, _| all.push_str(piece))?;
        Ok(Tokens::of(&self.tokenizer, self.obeyed(), &all)??)
    }
}

#[cfg(test)]
mod tests {
    use verdigris_watermark::dialects::native;
    use verdigris_watermark::{Context, ContextFunction, Dialect, Gamma, Strength};

    use super::*;
    use crate::look::Look;
    use crate::written::{reader, words, written};

    const FEW: &str = "sea|ship|shore|land|deck|wind";

    /// A marked text of words, by turns one of many and two of a few.
    fn marked(reader: &Reader, key: &Key, payload: u32) -> String {
        let many = words(reader, |word| word.iter().all(u8::is_ascii_lowercase));
        let few = words(reader, |word| FEW.split('|').any(|one| one.as_bytes() == word));
        assert!(many.len() > 500 && few.len() > 2);
        let of_place = |place: usize| if place.is_multiple_of(3) { &many[..] } else { &few };
        written(reader, &key.embed_payload(payload).unwrap(), 240, of_place)
    }

    /// With its constraint and without, by every rule, as a text and as tokens.
    #[test]
    fn a_text_with_a_payload_has_one_p_value() {
        let plain = reader();
        let (gamma, context) = (Gamma::new(0.25).unwrap(), Context::new(ContextFunction::All, 2).unwrap());
        let dialect = Dialect::Native(native::Parameters { gamma, context, payload_bits: Some(16) });
        let strength = Some(Strength::soft(2.0).unwrap());
        let key = Key::new(vec![5; 32], "p", dialect, strength, plain.vocabulary()).unwrap();
        let text = marked(&plain, &key, 0xbeef);
        let tokens = plain.tokenizer().encode(&text).unwrap();
        let constraint = Grammar::regex(&format!("( [a-z]+ ({FEW}) ({FEW}))+")).unwrap();
        let mut seen = Vec::new();
        for reader in [&plain.clone().of_grammar(constraint), &plain] {
            for repeats in [Repeats::Context, Repeats::Observation, Repeats::Nothing] {
                let look = Look { repeats, repair: false, ..Look::default() };
                let judgement = reader.judge(&[&key], &text, &look).unwrap();
                assert_eq!(judgement.payload.unwrap().payload, 0xbeef);
                let judged = judgement.evidence;
                assert!(judged.ln_p_corrected() < -10.0 && judged.tried == 65_536.0, "{judged:?}");
                assert_eq!(reader.evidence(&key, &tokens, repeats).unwrap(), judged, "{repeats:?}");
                assert_eq!(reader.detect_repeats(&key, text.as_bytes(), repeats).unwrap(), judged, "{repeats:?}");
                seen.push(judged);
            }
        }
        // Under a constraint tokens have weights, and each rule counts at least as many tokens as the one before it.
        assert!(seen[0].z != seen[3].z && seen[3].scored <= seen[4].scored && seen[4].scored <= seen[5].scored);
    }
}
