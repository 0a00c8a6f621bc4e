//! Several sequences in one call, long prompts in chunks, paths kept of a tree, and layouts of caches: the same bits
//! each time.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use verdigris_models::{
    Batch, BoxError, CacheLayout, Device, Foreign, Format, Forward, LanguageModel, ModelFolder, Sequence, Wanted,
};

use crate::distributions::{read, text};

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures")
}

fn folder() -> ModelFolder {
    ModelFolder::at(fixtures().join("models/tale-small"))
}

/// The same model as another library would have it: it cannot go back, and returns only the row of the last token.
struct Stubborn(Mutex<Box<dyn Sequence>>);

impl Forward for Stubborn {
    fn forward(&mut self, tokens: &[u32], held: usize) -> Result<Vec<f32>, BoxError> {
        let sequence = self.0.get_mut().unwrap();
        assert_eq!(held, sequence.len());
        Ok(read(&mut **sequence, Batch::chain(tokens, Wanted::Last)))
    }

    fn fork(&self) -> Result<Self, BoxError> {
        Ok(Self(Mutex::new(self.0.lock().unwrap().fork()?)))
    }
}

/// The same model in every way that it can run.
fn models() -> Vec<(&'static str, Arc<dyn LanguageModel>)> {
    let on_cpu = |layout, format| folder().cache_layout(layout).cached_as(format).model(&Device::Cpu).unwrap();
    vec![
        ("in pages", on_cpu(CacheLayout::Paged { tokens: 64 }, Format::F32)),
        ("in small pages", on_cpu(CacheLayout::Paged { tokens: 5 }, Format::F32)),
        ("in one piece", on_cpu(CacheLayout::Contiguous, Format::F32)),
        ("in pages of half precision", on_cpu(CacheLayout::Paged { tokens: 7 }, Format::F16)),
        ("of another library", {
            let model = on_cpu(CacheLayout::Contiguous, Format::F32);
            let (size, context) = (model.vocabulary_size(), model.context_length());
            Arc::new(Foreign::new(size, context, Stubborn(Mutex::new(model.begin(100).unwrap()))))
        }),
    ]
}

/// Models with windows, slopes or learned positions.
fn architectures() -> Vec<(String, Arc<dyn LanguageModel>)> {
    let names = ["bloom", "gemma2", "gpt2", "mistral"];
    let all = fixtures().join("golden/architectures");
    names.map(|name| (name.to_owned(), ModelFolder::at(all.join(name)).model(&Device::Cpu).unwrap())).into()
}

/// A prompt that is longer than one pass through the layers.
#[test]
fn a_long_prompt_is_read_in_chunks() {
    let model = folder().cached_as(Format::F32).model(&Device::Cpu).unwrap();
    let size = model.vocabulary_size();
    let context = model.context_length();
    let prompt = text(context.min(700), 3, size);
    assert!(prompt.len() > 512, "longer than a chunk");
    let mut by_hand = model.clone().begin(prompt.len()).unwrap();
    let expected: Vec<f32> =
        prompt.chunks(100).flat_map(|some| read(&mut *by_hand, Batch::chain(some, Wanted::All))).collect();
    let mut whole = model.clone().begin(prompt.len()).unwrap();
    assert!(read(&mut *whole, Batch::chain(&prompt, Wanted::All)) == expected);
    whole.truncate(0);
    assert!(read(&mut *whole, Batch::chain(&prompt, Wanted::Last)) == expected[expected.len() - size..]);
}

#[test]
fn several_sequences_have_the_rows_that_each_has_alone() {
    models().iter().for_each(|(name, model)| crate::distributions::together_as_alone(name, model, None));
    architectures().iter().for_each(|(name, model)| crate::distributions::together_as_alone(name, model, None));
}

#[test]
fn a_path_of_a_tree_is_kept() {
    models().iter().for_each(|(name, model)| crate::distributions::a_path_of_a_tree_is_kept(name, model, None));
}

#[test]
fn forks_go_their_own_ways() {
    models().iter().for_each(|(name, model)| crate::distributions::forks_go_their_own_ways(name, model));
}
