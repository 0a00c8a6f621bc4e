//! A model that is ready to write.

use std::path::Path;
use std::sync::{Arc, OnceLock};

use verdigris_constrain::Trie;
use verdigris_models::{Device, LanguageModel, LoadedModel, ModelFolder};

use crate::error::Error;
use crate::reader::Reader;
use crate::request::Request;

/// A loaded model with its tokenizer. Shared by any number of requests.
pub struct Engine {
    pub(crate) model: LoadedModel,
    reader: Reader,
    /// The vocabulary for constraints, made when the first of them needs it.
    trie: OnceLock<Arc<Trie>>,
}

impl Engine {
    /// Loads a Hugging Face model folder for the CPU.
    pub fn load(path: impl AsRef<Path>) -> Result<Self, Error> {
        Self::from_folder(&ModelFolder::at(path.as_ref()), &Device::Cpu)
    }

    /// Loads a model folder, on disk or embedded in the program, for a device.
    pub fn from_folder(folder: &ModelFolder, device: &Device) -> Result<Self, Error> {
        let model = folder.load(device)?;
        let reader = Reader::new(model.tokenizer.clone());
        Ok(Self { model, reader, trie: OnceLock::new() })
    }

    /// Begins a request to go on from `prompt`. An empty prompt begins a new text.
    pub fn request(&self, prompt: impl Into<String>) -> Request<'_> {
        Request::new(self, prompt.into())
    }

    /// The detector's side of this model: its tokenizer.
    pub fn reader(&self) -> &Reader {
        &self.reader
    }

    pub(crate) fn trie(&self) -> Arc<Trie> {
        self.trie.get_or_init(|| Arc::new(Trie::new(self.reader.tokenizer().vocabulary()))).clone()
    }

    /// The most tokens, prompt and output together, that the model can hold.
    pub fn context_length(&self) -> usize {
        self.model.decoder.context_length()
    }
}
