//! A loaded model.

use std::path::Path;
use std::sync::{Arc, OnceLock};

use verdigris_constrain::{Constraint, Grammar, Lexicon};
use verdigris_decoding::{Perplexity, Steered, embeddings, perplexity};
use verdigris_detector::Reader;
use verdigris_logits::{TokenId, TokenSet};
use verdigris_models::{ChatSource, Device, LanguageModel, LoadedModel, ModelFolder};
use verdigris_text::{ChatTemplate, ReasoningSyntax, Tokenizer, Vocabulary};

use crate::backend;
use crate::draft_memories::DraftMemories;
use crate::error::Error;
use crate::prompt::{Members, Prompt, PromptReader};

/// A loaded model with its tokenizer, shared by any number of requests.
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
    /// The same model if it is steered, and the prompt readers of its members.
    pub(crate) steered: Option<(Arc<Steered>, Members)>,
    reader: Reader,
    /// The tokens that end a text.
    pub(crate) end: Vec<TokenId>,
    pub(crate) prompts: Arc<PromptReader>,
    /// The vocabulary for constraints, made when the first of them needs it.
    lexicon: OnceLock<Lexicon>,
    /// The ids that a text may contain, or `None` for all: see [`Engine::known`].
    known: OnceLock<Option<TokenSet>>,
    reasoning: OnceLock<Option<&'static ReasoningSyntax>>,
    pub(crate) draft_memories: DraftMemories,
}

impl Engine {
    /// Loads a model for the CPU: a Hugging Face model folder, a GGUF file, or the name of a model on the
    /// [`hub`](verdigris_models::hub), which is downloaded unless it is cached.
    ///
    /// # Errors
    /// [`Error::Model`]: as [`ModelFolder::find`] and [`ModelFolder::load`].
    pub fn load(source: impl AsRef<Path>) -> Result<Self, Error> {
        Self::from_folder(&ModelFolder::find(source, |_| ())?, &Device::Cpu)
    }

    /// Loads a model folder, on disk or embedded in the program, for a [`device`](fn@verdigris_models::device). With
    /// the feature `candle`, architectures that the decoders of this project lack are computed by candle.
    ///
    /// # Errors
    /// [`Error::Model`]: as [`ModelFolder::load`].
    pub fn from_folder(folder: &ModelFolder, device: &Device) -> Result<Self, Error> {
        let LoadedModel { model, tokenizer, end, begin, chat, .. } = backend::load(folder, device)?;
        Ok(Self::of(model, tokenizer, end, begin, chat))
    }

    /// An engine for a custom model, such as a [`Foreign`](verdigris_models::Foreign) one, with its tokenizer and the
    /// tokens that end a text. The first of these also begins a text without a prompt.
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
        let (lexicon, known, reasoning) = (OnceLock::new(), OnceLock::new(), OnceLock::new());
        let draft_memories = DraftMemories::default();
        Self { model, steered: None, reader, end, prompts, lexicon, known, reasoning, draft_memories }
    }

    /// The same engine with the model as it is steered.
    pub(crate) fn with_steered(self, steered: Arc<Steered>, members: Members) -> Self {
        Self {
            model: steered.clone(),
            steered: Some((steered, members)),
            draft_memories: DraftMemories::default(),
            ..self
        }
    }

    /// The same engine with another chat template instead of the model's own. The tokens that end a text stay the same,
    /// and so do the templates of models that steer it.
    ///
    /// # Errors
    /// [`Error::Chat`] if the template is invalid.
    pub fn with_chat_template(self, template: impl Into<String>) -> Result<Self, Error> {
        let vocabulary = self.reader.tokenizer().vocabulary();
        let name = |token: Option<TokenId>| token.and_then(|token| vocabulary.control(token)).map(str::to_owned);
        let (begin, end) = match &self.prompts.chat {
            Some(chat) => (chat.begin.clone(), chat.end.clone()),
            None => (name(self.prompts.begin), name(self.end.first().copied())),
        };
        let chat = Some(ChatSource { template: template.into(), begin, end });
        let PromptReader { tokenizer, begin, .. } = &*self.prompts;
        let prompts = PromptReader { tokenizer: tokenizer.clone(), chat, begin: *begin };
        prompts.chat_template()?;
        Ok(Self { prompts: prompts.into(), reasoning: OnceLock::new(), ..self })
    }

    /// The expert that drafts for requests with [`Request::draft_by_expert`](crate::Request::draft_by_expert).
    pub fn drafting_expert(&self) -> Option<&Arc<dyn LanguageModel>> {
        self.steered.as_ref().and_then(|(steered, _)| steered.first_expert())
    }

    /// Checks that another model can be used with this one: the first token that differs is an error. Different padding
    /// of rows is allowed, since it is common among models with one tokenizer.
    pub(crate) fn fits(&self, other: &Self) -> Result<(), Error> {
        self.shares_tokens(other.reader.tokenizer())
    }

    /// Checks that a tokenizer has the tokens of this model.
    pub(crate) fn shares_tokens(&self, other: &Tokenizer) -> Result<(), Error> {
        if std::ptr::eq(other, &**self.reader.tokenizer()) {
            return Ok(());
        }
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

    /// The ids that a text may contain, or `None` if these are all ids in the model's rows. Other ids are padding that
    /// the tokenizer does not know.
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

    /// The model's chat template.
    ///
    /// # Errors
    /// [`Error::NoChatTemplate`] if there is none, and [`Error::Chat`] if it is invalid.
    pub fn chat_template(&self) -> Result<ChatTemplate, Error> {
        self.prompts.chat_template()
    }

    /// The syntax of the thoughts that the model's answers to conversations may begin with, by its chat template.
    pub fn reasoning(&self) -> Option<&'static ReasoningSyntax> {
        *self.reasoning.get_or_init(|| self.prompts.chat_template().ok()?.reasoning())
    }

    /// The tokens of a prompt, at least one. Requests that continue these tokens share them.
    ///
    /// # Errors
    /// If the prompt cannot be tokenized, or if it is empty and this model has no token that begins texts.
    pub fn prompt_tokens(&self, prompt: &Prompt) -> Result<Arc<[TokenId]>, Error> {
        self.prompts.tokens(prompt)
    }

    /// The number of first tokens of a prompt that depend only on the instructions at the beginning of a conversation
    /// (system messages) and its tools: 0 for other prompts. Prompts with the same instructions share them.
    pub fn instruction_tokens(&self, prompt: &Prompt, tokens: &[TokenId]) -> usize {
        self.prompts.instruction_tokens(prompt, tokens)
    }

    /// The tokenizer of this model, ready for detection.
    pub fn reader(&self) -> &Reader {
        &self.reader
    }

    /// The model itself.
    pub fn model(&self) -> &Arc<dyn LanguageModel> {
        &self.model
    }

    /// Makes a constraint on the output of this model from a grammar.
    pub fn constraint(&self, grammar: Grammar) -> Constraint {
        Constraint::new(grammar, self.lexicon())
    }

    /// The tokens of this model, for custom [`Constraint`]s.
    pub fn lexicon(&self) -> &Lexicon {
        self.lexicon.get_or_init(|| Lexicon::new(self.reader.tokenizer().clone(), &self.end))
    }

    /// The perplexity of this model on windows of text, each read separately.
    ///
    /// # Errors
    /// [`Error::Decode`] if the model fails.
    #[doc(alias = "score")]
    pub fn perplexity<'a>(&self, windows: impl IntoIterator<Item = &'a [TokenId]>) -> Result<Perplexity, Error> {
        Ok(perplexity(&self.model, windows)?)
    }

    /// The [`embeddings`](fn@embeddings) of texts by this model, which experts do not change: vectors of length 1.
    ///
    /// # Errors
    /// [`Error::Decode`], for instance if the model keeps no hidden states.
    pub fn embeddings(&self, texts: &[&[TokenId]]) -> Result<Vec<Vec<f32>>, Error> {
        Ok(embeddings(&self.model, texts)?)
    }

    /// The tokens that end a text.
    pub fn end(&self) -> &[TokenId] {
        &self.end
    }

    /// The maximum number of tokens of prompt and output together.
    pub fn context_length(&self) -> usize {
        self.model.context_length()
    }
}
