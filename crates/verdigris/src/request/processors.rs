//! Options that favour, forbid or force tokens.

use std::sync::Arc;

use verdigris_logits::{Chain, Dry, ForcedToken, MinTokens, NoRepeatNgram, SequenceBias, TokenId, TokenSet, Transform};

use crate::error::Error;
use crate::request::Request;
use crate::request::options::Processors;

impl Request<'_> {
    /// The default of [`Request::dry_sequence_breakers`].
    pub const DRY_SEQUENCE_BREAKERS: [&'static str; 4] = ["\n", ":", "\"", "*"];

    /// Adds a number, from -100 to 100, to the logit of a token; can be called for several tokens. For one token the
    /// last call counts.
    pub fn logit_bias(mut self, token: TokenId, bias: f64) -> Self {
        self.processors.logit_bias.push((token, bias));
        self
    }

    /// Adds a number, from -100 to 100, to the logit of the last token of a text where it is preceded by the text's
    /// other tokens; can be called for several texts. The tokens are those that the tokenizer makes of the text alone
    /// and after a space: the same letters split into other tokens are not matched.
    pub fn sequence_bias(mut self, text: impl Into<String>, bias: f64) -> Self {
        self.processors.sequence_bias.push((text.into(), bias));
        self
    }

    /// Forbids the completion of this word; can be called for several words. Its tokens are matched as in
    /// [`Request::sequence_bias`], and may begin in the prompt.
    pub fn bad_words(mut self, word: impl Into<String>) -> Self {
        self.processors.bad_words.push(word.into());
        self
    }

    /// Forbids tokens.
    pub fn suppress_tokens(mut self, tokens: impl IntoIterator<Item = TokenId>) -> Self {
        self.processors.suppress_tokens.extend(tokens);
        self
    }

    /// Texts that break runs: every token that contains one does. They replace [`Request::DRY_SEQUENCE_BREAKERS`].
    pub fn dry_sequence_breakers(mut self, texts: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.processors.dry_breakers = Some(texts.into_iter().map(Into::into).collect());
        self
    }

    /// Sets the first token of the text.
    pub fn forced_bos_token_id(mut self, token: TokenId) -> Self {
        self.processors.forced_bos_token_id = Some(token);
        self
    }

    /// Sets the token at the last position that [`Request::max_tokens`] and the model's context allow, if the text has
    /// not ended before. An end token ends the text there, and is not part of it.
    pub fn forced_eos_token_id(mut self, token: TokenId) -> Self {
        self.processors.forced_eos_token_id = Some(token);
        self
    }

    /// Adds a custom step after the penalties and before the constraint and the watermark: tokens that it forbids stay
    /// forbidden, and it cannot allow tokens that the constraint forbids. Several steps act in the order in which they
    /// are added. [`Transform`] defines what a step may do. If a constraint and a step together forbid every token, the
    /// text ends with an error.
    ///
    /// ```no_run
    /// use verdigris::Engine;
    /// use verdigris::logits::{Row, TokenId, Transform};
    ///
    /// /// Adds a number to the logits of some tokens.
    /// struct Bias(Vec<(TokenId, f32)>);
    ///
    /// impl Transform for Bias {
    ///     type State = ();
    ///     fn start(&self, _prompt: &[TokenId]) {}
    ///     fn apply(&self, _: &(), row: &mut Row) {
    ///         self.0.iter().for_each(|&(token, by)| row.logits_mut()[token as usize] += by);
    ///     }
    ///     fn advance(&self, _: &mut (), _: TokenId) {}
    /// }
    ///
    /// let engine = Engine::load("fixtures/models/tale")?;
    /// let written = engine.request("The captain").transform(Bias(vec![(13, -4.0)])).text()?;
    /// # Ok::<(), verdigris::Error>(())
    /// ```
    pub fn transform<T: Transform + Send + Sync + 'static>(mut self, step: T) -> Self {
        let before = match self.processors.own.take() {
            Some(own) => Chain::new().then(own),
            None => Chain::new(),
        };
        self.processors.own = Some(Arc::new(before.then(step)));
        self
    }

    /// Adds the steps of [`Request::logit_bias`], [`Request::sequence_bias`] and [`Request::bad_words`].
    pub(super) fn push_biases(&self, transforms: &mut Chain) -> Result<(), Error> {
        let mut biases = SequenceBias::new();
        for &(token, bias) in &self.processors.logit_bias {
            self.must_be_known(token)?;
            biases = biases.bias(&[token], bias)?;
        }
        for (text, bias) in &self.processors.sequence_bias {
            for tokens in self.tokens_of_word(text)? {
                biases = biases.bias(&tokens, *bias)?;
            }
        }
        for word in &self.processors.bad_words {
            for tokens in self.tokens_of_word(word)? {
                biases = biases.forbid(&tokens);
            }
        }
        if !biases.is_empty() {
            let Processors { logit_bias, sequence_bias, bad_words, .. } = &self.processors;
            let name = match (logit_bias.is_empty(), sequence_bias.is_empty(), bad_words.is_empty()) {
                (false, true, true) => "logit_bias",
                (true, false, true) => "sequence_bias",
                (true, true, false) => "bad_words",
                _ => "biases",
            };
            transforms.push_named(name, biases);
        }
        Ok(())
    }

    /// Adds the steps that restrict repetitions, delay the end and force tokens, for a text of at most `room` tokens.
    pub(super) fn push_repeats_and_ends(&self, transforms: &mut Chain, room: usize) -> Result<(), Error> {
        let (asked, size) = (&self.processors, self.engine.model.vocabulary_size());
        let sampling = &self.sampling;
        let (multiplier, base, allowed_length) =
            (sampling.dry_multiplier, sampling.dry_base, sampling.dry_allowed_length);
        let breakers = if multiplier == 0.0 { TokenSet::new(size) } else { self.dry_breakers()? };
        let dry = Dry::new(multiplier, base, allowed_length, breakers)?;
        if multiplier != 0.0 {
            transforms.push_named("dry_multiplier", dry);
        } else if asked.dry_breakers.is_some() || (base, allowed_length) != (Dry::BASE, Dry::ALLOWED_LENGTH) {
            let needs = "a multiplier (dry_multiplier)";
            return Err(Error::Unused { what: "a rule of DRY", needs });
        }
        if let Some(n) = sampling.no_repeat_ngram_size {
            transforms.push_named("no_repeat_ngram_size", NoRepeatNgram::new(n)?);
        }
        if sampling.min_tokens > 0 {
            transforms.push_named("min_tokens", MinTokens::new(&self.engine.end, sampling.min_tokens, size));
        }
        let last = room.checked_sub(1);
        let forced = [
            ("forced_bos_token_id", asked.forced_bos_token_id, Some(0)),
            ("forced_eos_token_id", asked.forced_eos_token_id, last),
        ];
        for (name, token, place) in forced {
            if let (Some(token), Some(place)) = (token, place) {
                self.must_be_known(token)?;
                transforms.push_named(name, ForcedToken::new(token, place, size));
            }
        }
        Ok(())
    }

    /// The tokens that break runs.
    fn dry_breakers(&self) -> Result<TokenSet, Error> {
        let usual = || Self::DRY_SEQUENCE_BREAKERS.map(str::to_owned).to_vec();
        let texts = self.processors.dry_breakers.clone().unwrap_or_else(usual);
        if texts.iter().any(String::is_empty) {
            return Err(Error::EmptyWord);
        }
        let (vocabulary, size) = (self.engine.reader().tokenizer().vocabulary(), self.engine.model.vocabulary_size());
        let mut breakers = TokenSet::new(size);
        for token in 0..size as TokenId {
            let bytes = vocabulary.bytes(token);
            if texts.iter().any(|text| bytes.windows(text.len()).any(|part| part == text.as_bytes())) {
                breakers.insert(token);
            }
        }
        Ok(breakers)
    }

    pub(super) fn must_be_known(&self, token: TokenId) -> Result<(), Error> {
        let size = self.engine.model.vocabulary_size();
        let is_known = match self.engine.known() {
            Some(known) => known.contains(token),
            None => (token as usize) < size,
        };
        if is_known { Ok(()) } else { Err(Error::UnknownToken { token, size }) }
    }

    /// The tokens of a text alone, and those that it has after a space.
    fn tokens_of_word(&self, text: &str) -> Result<Vec<Vec<TokenId>>, Error> {
        let tokenizer = self.engine.reader().tokenizer();
        let mut all = vec![tokenizer.encode(text)?];
        if all[0].is_empty() {
            return Err(Error::EmptyWord);
        }
        if !text.starts_with(' ') {
            let spaced = tokenizer.encode(&format!(" {text}"))?;
            if spaced != all[0] {
                all.push(spaced);
            }
        }
        Ok(all)
    }
}
