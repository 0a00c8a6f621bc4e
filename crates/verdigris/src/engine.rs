//! A model that is ready to write.

use std::path::Path;
use std::sync::{Arc, OnceLock};

use verdigris_constrain::{Constraint, Grammar, Lexicon};
use verdigris_decoding::{Alpha, Perplexity, Steered, perplexity};
use verdigris_detector::Reader;
use verdigris_logits::{TokenId, TokenSet};
use verdigris_models::{ChatSource, Device, LanguageModel, LoadedModel, ModelFolder};
use verdigris_text::{ChatTemplate, Message, Tokenizer, Vocabulary};

use crate::backend;
use crate::draft_memories::DraftMemories;
use crate::error::Error;
use crate::prompt::{Prompt, PromptReader};
use crate::request::Request;
use crate::steering::{Members, Steering};

/// A loaded model with its tokenizer. Shared by any number of requests.
///
/// ```no_run
/// use verdigris::{Engine, Message};
///
/// // A folder, a GGUF file, or a model on the Hugging Face hub.
/// let engine = Engine::load("Qwen/Qwen2.5-0.5B-Instruct")?;
/// let answer = engine.chat([Message::system("Be brief."), Message::user("What is a spar?")]).text()?;
/// println!("{}", answer.text);
/// # Ok::<(), verdigris::Error>(())
/// ```
pub struct Engine {
    pub(crate) model: Arc<dyn LanguageModel>,
    /// The same, if it is steered, and how its members read prompts of their own.
    pub(crate) steered: Option<(Arc<Steered>, Members)>,
    reader: Reader,
    /// The tokens that end a text.
    pub(crate) end: Vec<TokenId>,
    pub(crate) prompts: Arc<PromptReader>,
    /// The vocabulary for constraints, made when the first of them needs it.
    lexicon: OnceLock<Lexicon>,
    /// The ids that a text may hold, where those are not all: see [`Engine::known`].
    known: OnceLock<Option<TokenSet>>,
    pub(crate) draft_memories: DraftMemories,
}

impl Engine {
    /// Loads a model for the CPU: a Hugging Face model folder, a GGUF file, or the name of a model on the
    /// [`hub`](verdigris_models::hub), which is fetched where it is not there yet.
    ///
    /// # Errors
    /// [`Error::Model`]: as [`ModelFolder::find`] and [`ModelFolder::load`].
    pub fn load(source: impl AsRef<Path>) -> Result<Self, Error> {
        Self::from_folder(&ModelFolder::find(source, |_| ())?, &Device::Cpu)
    }

    /// Loads a model folder, on disk or embedded in the program, for a [`device`](fn@verdigris_models::device). With
    /// the feature `candle`, an architecture that the decoders of this project lack is computed by candle.
    ///
    /// # Errors
    /// [`Error::Model`]: as [`ModelFolder::load`].
    pub fn from_folder(folder: &ModelFolder, device: &Device) -> Result<Self, Error> {
        let LoadedModel { model, tokenizer, end, begin, chat, .. } = backend::load(folder, device)?;
        Ok(Self::of(model, tokenizer, end, begin, chat))
    }

    /// A model of one's own, such as a [`Foreign`](verdigris_models::Foreign) one, with its tokenizer and the tokens
    /// that end a text, of which the first also begins one without a prompt.
    pub fn new(model: Arc<dyn LanguageModel>, tokenizer: Tokenizer, end: Vec<TokenId>) -> Self {
        let begin = end.first().copied();
        Self::of(model, tokenizer, end, begin, None)
    }

    fn of(
        model: Arc<dyn LanguageModel>,
        tokenizer: impl Into<Arc<Tokenizer>>,
        end: Vec<TokenId>,
        begin: Option<TokenId>,
        chat: Option<ChatSource>,
    ) -> Self {
        let reader = Reader::new(tokenizer);
        let prompts = Arc::new(PromptReader { tokenizer: reader.tokenizer().clone(), chat, begin });
        let (lexicon, known, draft_memories) = (OnceLock::new(), OnceLock::new(), DraftMemories::default());
        Self { model, steered: None, reader, end, prompts, lexicon, known, draft_memories }
    }

    /// Steers this model by pairs of an expert and an anti-expert: `(expert, anti, alpha)`. All must write the
    /// same tokens under the same ids; how far their rows are padded does not matter. [`Engine::steered_by`] has all
    /// else that steering can be.
    ///
    /// # Errors
    /// [`Error::Alpha`] for a weight that is no number, and [`Error::ForeignExpert`] for models of other tokens.
    pub fn steered(self, pairs: &[(&Engine, &Engine, f64)]) -> Result<Self, Error> {
        let mut steering = Steering::new();
        for &(expert, anti, alpha) in pairs {
            steering = steering.pair(expert, anti, Alpha::constant(alpha)?);
        }
        self.steered_by(&steering)
    }

    /// Steers this model.
    ///
    /// # Errors
    /// [`Error::GuidanceScale`] and [`Error::Budget`] for a scale and a budget that are none, [`Error::Parameter`] for
    /// a filter that is none, those of [`TokenClass::tokens`](crate::TokenClass::tokens), and [`Error::ForeignExpert`]
    /// for models of other tokens.
    pub fn steered_by(self, steering: &Steering<'_>) -> Result<Self, Error> {
        let (steered, members) = steering.steer(&self)?;
        let steered = Arc::new(steered);
        Ok(Self {
            model: steered.clone(),
            steered: Some((steered, members)),
            draft_memories: DraftMemories::default(),
            ..self
        })
    }

    /// The expert that drafts where a request says so ([`Request::draft_by_expert`](crate::Request::draft_by_expert)).
    pub fn drafting_expert(&self) -> Option<&Arc<dyn LanguageModel>> {
        self.steered.as_ref().and_then(|(steered, _)| steered.first_expert())
    }

    /// Whether another model can be used beside this one: the first token that differs is an error. Rows of models of
    /// one tokenizer are often padded to different lengths, which is none.
    pub(crate) fn fits(&self, other: &Self) -> Result<(), Error> {
        self.shares_tokens(other.reader.tokenizer())
    }

    /// Whether a tokenizer has the tokens of this model.
    pub(crate) fn shares_tokens(&self, other: &Tokenizer) -> Result<(), Error> {
        let (ours, theirs) = (self.reader.tokenizer().vocabulary(), other.vocabulary());
        let differs = (0..ours.size() as TokenId)
            .find(|&t| ours.bytes(t) != theirs.bytes(t) || ours.is_special(t) != theirs.is_special(t));
        if let Some(token) = differs {
            let show = |vocabulary: &Vocabulary| match vocabulary.is_special(token) {
                true => "a control token".to_owned(),
                false => format!("{:?}", String::from_utf8_lossy(vocabulary.bytes(token))),
            };
            return Err(Error::ForeignExpert { token, ours: show(ours), theirs: show(theirs) });
        }
        Ok(())
    }

    /// The ids that a text may hold, where the rows of the model have others too: padding, of which the tokenizer knows
    /// nothing.
    pub(crate) fn known(&self) -> Option<&TokenSet> {
        let known = self.known.get_or_init(|| {
            let vocabulary = self.reader.tokenizer().vocabulary();
            let rows = self.model.vocabulary_size() as TokenId;
            let is_known = |token: TokenId| {
                !vocabulary.bytes(token).is_empty() || vocabulary.is_special(token) || self.end.contains(&token)
            };
            if (0..rows).all(is_known) {
                return None;
            }
            let mut known = TokenSet::new(rows as usize);
            (0..rows).filter(|&token| is_known(token)).for_each(|token| known.insert(token));
            Some(known)
        });
        known.as_ref()
    }

    /// Begins a request to go on from `prompt`. An empty prompt begins a new text.
    pub fn request(&self, prompt: impl Into<String>) -> Request<'_> {
        Request::new(self, Prompt::Text(prompt.into()))
    }

    /// Begins a request for the model's next message in a conversation, by its chat template. What a message says stays
    /// text: `<|im_end|>` in it ends nothing.
    pub fn chat(&self, messages: impl IntoIterator<Item = Message>) -> Request<'_> {
        Request::new(self, messages.into_iter().collect::<Vec<_>>().into())
    }

    /// The model's chat template.
    ///
    /// # Errors
    /// [`Error::NoChatTemplate`] where there is none, and [`Error::Chat`] where it is no template.
    pub fn chat_template(&self) -> Result<ChatTemplate, Error> {
        self.prompts.chat_template()
    }

    /// The tokens of a prompt, at least one: requests that go on from these share them.
    ///
    /// # Errors
    /// Where the prompt cannot be read, and where it has no token and this model has none to begin with.
    pub fn prompt_tokens(&self, prompt: &Prompt) -> Result<Arc<[TokenId]>, Error> {
        self.prompts.tokens(prompt)
    }

    /// The detector's side of this model: its tokenizer.
    pub fn reader(&self) -> &Reader {
        &self.reader
    }

    /// The model itself, as decoding sees it.
    pub fn model(&self) -> &Arc<dyn LanguageModel> {
        &self.model
    }

    /// A grammar as a constraint on what this model writes.
    pub fn constraint(&self, grammar: Grammar) -> Constraint {
        Constraint::new(grammar, self.lexicon())
    }

    /// The tokens that this model writes with, for [`Constraint`]s of one's own.
    pub fn lexicon(&self) -> &Lexicon {
        self.lexicon.get_or_init(|| Lexicon::new(self.reader.tokenizer().clone(), &self.end))
    }

    /// How well this model predicts windows of text, each on its own.
    ///
    /// # Errors
    /// [`Error::Decode`] where the model fails.
    #[doc(alias = "score")]
    pub fn perplexity<'a>(&self, windows: impl IntoIterator<Item = &'a [TokenId]>) -> Result<Perplexity, Error> {
        Ok(perplexity(&self.model, windows)?)
    }

    /// The tokens that end a text.
    pub fn end(&self) -> &[TokenId] {
        &self.end
    }

    /// The most tokens, prompt and output together, that the model can hold.
    pub fn context_length(&self) -> usize {
        self.model.context_length()
    }
}
