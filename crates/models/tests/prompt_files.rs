//! Saved states of prompts: the same bits as without them, in every format and layout; and files that cannot be used.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use verdigris_models::prompt_file::{PromptFile, PromptFileError, digest_of, write};
use verdigris_models::{
    Batch, Bytes, CacheLayout, Device, Format, LanguageModel, ModelFolder, Rows, SavedSection, Sequence, StateId,
    Wanted,
};

const SCOPE: [u8; 32] = [7; 32];

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures")
}

fn folder(name: &str) -> ModelFolder {
    ModelFolder::at(fixtures().join("models").join(name))
}

fn on_cpu(layout: CacheLayout, format: Format) -> Arc<dyn LanguageModel> {
    folder("tale-small").cache_layout(layout).cached_as(format).model(&Device::Cpu).unwrap()
}

/// Some tokens of the vocabulary.
fn text(length: u32) -> Vec<u32> {
    (0..length).map(|i| (i * i * 31 + i * 7 + 113) % 1000).collect()
}

/// The rows of a batch, one after the other.
fn read(sequence: &mut dyn Sequence, batch: Batch<'_>) -> Vec<f32> {
    let mut rows = Rows::default();
    sequence.forward(&batch, &mut rows).unwrap();
    (0..rows.count()).flat_map(|i| rows.row(i).to_vec()).collect()
}

fn id(model: &Arc<dyn LanguageModel>) -> StateId {
    model.state_id(300).unwrap()
}

/// A sequence that has read these tokens.
fn begun(model: &Arc<dyn LanguageModel>, tokens: &[u32]) -> Box<dyn Sequence> {
    let mut sequence = model.clone().begin(300).unwrap();
    read(&mut *sequence, Batch::chain(tokens, Wanted::Last));
    sequence
}

/// A file with the state of the tokens from `start` on.
fn file(model: &Arc<dyn LanguageModel>, start: usize, tokens: &[u32]) -> Vec<u8> {
    let mut bytes = Vec::new();
    assert!(write(&mut bytes, &id(model), &SCOPE, start, tokens, &*begun(model, tokens)).unwrap());
    bytes
}

fn opened(bytes: Vec<u8>, model: &Arc<dyn LanguageModel>) -> Result<PromptFile, PromptFileError> {
    PromptFile::read(Bytes::new(Arc::new(bytes)), &id(model))
}

#[test]
fn a_restored_text_has_the_bits_of_one_that_was_read() {
    let tokens = text(200);
    let layouts = [CacheLayout::Paged { tokens: 64 }, CacheLayout::Paged { tokens: 5 }, CacheLayout::Contiguous];
    for format in [Format::F32, Format::F16, Format::Bf16, Format::Q8_0] {
        for (number, layout) in layouts.into_iter().enumerate() {
            let model = on_cpu(layout, format);
            let whole = opened(file(&model, 0, &tokens[..150]), &model).unwrap();
            assert_eq!(whole.tokens(), &tokens[..150]);
            whole.check(&SCOPE, 0, &digest_of(&[])).unwrap();
            let other = on_cpu(layouts[(number + 1) % 3], format);
            // Whole blocks, a part of one, and a single token; also into another layout.
            for (model, count) in [(&model, 150), (&model, 128), (&other, 77), (&other, 1)] {
                let mut sequence = model.clone().begin(300).unwrap();
                whole.restore(count, &mut *sequence).unwrap();
                assert_eq!(sequence.len(), count);
                let rows = read(&mut *sequence, Batch::chain(&tokens[count..200], Wanted::All));
                let mut plain = begun(model, &tokens[..count]);
                assert!(
                    rows == read(&mut *plain, Batch::chain(&tokens[count..200], Wanted::All)),
                    "{format:?} {count}"
                );
            }
        }
    }
}

/// Layers with states: gated delta nets, state-space models, convolutions, alone and next to attention. A text
/// continues from the end of the file and from the snapshot inside it without reading anything again, and elsewhere
/// after reading some tokens again, always with the same bits.
#[test]
fn states_of_fixed_size_are_restored_where_they_are_known() {
    let mut snapshots = 0;
    for name in ["qwen3_5_text", "mamba2", "lfm2", "granitemoehybrid-experts"] {
        let model = ModelFolder::at(fixtures().join("golden/architectures").join(name)).model(&Device::Cpu).unwrap();
        let context = model.context_length().min(700);
        let tokens: Vec<u32> = (0..context as u32).map(|i| (i * i * 31 + i * 7 + 11) % 61).collect();
        let begin = || model.clone().begin(context).unwrap();
        let id = model.state_id(context).unwrap();
        // The file ends before the last token of the prompt, and a snapshot is made after 512 tokens.
        let end = context - 20;
        let (mut origin, mut bytes) = (begin(), Vec::new());
        for part in tokens[..=end].chunks(100) {
            read(&mut *origin, Batch::chain(part, Wanted::Last));
        }
        let origin = origin.fork_at(end).unwrap();
        let known = origin.saved_ends().unwrap();
        assert_eq!((known.last(), known.len()), (Some(&end), if context > 600 { 2 } else { 1 }), "{name}: {known:?}");
        snapshots += known.len() - 1;
        assert!(write(&mut bytes, &id, &SCOPE, 0, &tokens[..end], &*origin).unwrap());
        let file = PromptFile::read(Bytes::new(Arc::new(bytes)), &id).unwrap();
        assert_eq!(file.tokens(), &tokens[..end]);
        for count in [end, end - 1, known[0], known[0] - 1, 3] {
            let usable = known.iter().rev().find(|&&end| end <= count).copied().unwrap_or(0);
            assert_eq!(file.usable(count, &*begin()), usable, "{name}");
            for restored in [usable, count] {
                let mut sequence = begin();
                file.restore(restored, &mut *sequence).unwrap();
                let known = sequence.saved_ends().unwrap();
                assert_eq!(known.contains(&restored), restored == usable && usable > 0, "{name}: {known:?}");
                let rows = read(&mut *sequence, Batch::chain(&tokens[restored..], Wanted::All));
                let mut plain = begin();
                read(&mut *plain, Batch::chain(&tokens[..restored], Wanted::Last));
                let expected = read(&mut *plain, Batch::chain(&tokens[restored..], Wanted::All));
                assert!(rows == expected, "{name}, {restored} tokens");
                // Cut back past what was restored.
                let back = restored / 2;
                sequence.truncate(back);
                let rows = read(&mut *sequence, Batch::chain(&tokens[back..back + 5], Wanted::All));
                plain.truncate(back);
                assert!(rows == read(&mut *plain, Batch::chain(&tokens[back..back + 5], Wanted::All)), "{name} {back}");
            }
        }
        // A sequence that had read another text, of which nothing may be left: it had an earlier snapshot.
        let mut used = begin();
        let other: Vec<u32> = tokens.iter().rev().copied().collect();
        for part in other[..end].chunks(110) {
            read(&mut *used, Batch::chain(part, Wanted::Last));
        }
        used.truncate(0);
        file.restore(end, &mut *used).unwrap();
        let back = 540.min(end - 9);
        used.truncate(back);
        let rows = read(&mut *used, Batch::chain(&tokens[back..], Wanted::All));
        let mut plain = begin();
        read(&mut *plain, Batch::chain(&tokens[..back], Wanted::Last));
        assert!(rows == read(&mut *plain, Batch::chain(&tokens[back..], Wanted::All)), "{name}");
        // States of another size.
        let mut sections = origin.save(0..end).unwrap();
        sections[1].bytes.to_mut().truncate(4);
        assert!(!begin().restore(&tokens[..end], end, &sections).unwrap());
    }
    assert!(snapshots > 0);
}

#[test]
fn a_file_may_begin_after_other_tokens() {
    let (tokens, model) = (text(140), on_cpu(CacheLayout::Paged { tokens: 64 }, Format::F16));
    let later = opened(file(&model, 70, &tokens[..130]), &model).unwrap();
    assert_eq!(later.tokens(), &tokens[70..130]);
    later.check(&SCOPE, 70, &digest_of(&tokens[..70])).unwrap();
    let mut sequence = begun(&model, &tokens[..70]);
    later.restore(60, &mut *sequence).unwrap();
    let rows = read(&mut *sequence, Batch::chain(&tokens[130..], Wanted::All));
    assert!(rows == read(&mut *begun(&model, &tokens[..130]), Batch::chain(&tokens[130..], Wanted::All)));
    for (scope, before) in [([8; 32], &tokens[..70]), (SCOPE, &tokens[..69]), (SCOPE, &tokens[1..71])] {
        let checked = later.check(&scope, before.len(), &digest_of(before));
        assert!(matches!(checked, Err(PromptFileError::OtherSettings)));
    }
}

/// Whatever differs in a model differs in its id, and a copy of a model has the same one.
#[test]
fn ids_are_those_of_models_and_settings() {
    let layout = CacheLayout::Paged { tokens: 64 };
    let model = on_cpu(layout, Format::F16);
    assert_eq!(id(&model), id(&on_cpu(CacheLayout::Contiguous, Format::F16)));
    let of_f32 = id(&on_cpu(layout, Format::F32));
    assert_eq!(of_f32.model, id(&model).model);
    assert_ne!(of_f32.settings, id(&model).settings);
    // A single weight of a copy is changed.
    let changed = tempfile::tempdir().unwrap();
    for name in ["config.json", "tokenizer.json", "model.safetensors"] {
        std::fs::copy(fixtures().join("models/tale-small").join(name), changed.path().join(name)).unwrap();
    }
    let copy = || ModelFolder::at(changed.path()).model(&Device::Cpu).unwrap();
    let before = id(&copy());
    assert_eq!(before.model, id(&model).model);
    let path = changed.path().join("model.safetensors");
    let mut bytes = std::fs::read(&path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&path, bytes).unwrap();
    assert_ne!(id(&copy()).model, before.model);
    // The base, an adapter of it, and one that differs in a single weight are three models.
    let adapter = fixtures().join("golden/adapters/linear");
    for name in ["adapter_config.json", "adapter_model.safetensors"] {
        std::fs::copy(adapter.join(name), changed.path().join(name)).unwrap();
    }
    let path = changed.path().join("adapter_model.safetensors");
    let mut bytes = std::fs::read(&path).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    std::fs::write(&path, bytes).unwrap();
    let base = || ModelFolder::at(fixtures().join("golden/architectures/llama"));
    let models = [base(), base().with_adapter(&adapter), base().with_adapter(changed.path())];
    let ids: HashSet<_> =
        models.iter().map(|folder| folder.model(&Device::Cpu).unwrap().state_id(64).unwrap().model).collect();
    assert_eq!(ids.len(), 3);
}

#[test]
fn the_capacity_counts_where_the_computation_depends_on_it() {
    let architectures = fixtures().join("golden/architectures");
    let mut found = Vec::new();
    for folder in std::fs::read_dir(&architectures).unwrap().map(|entry| entry.unwrap().path()) {
        let Ok(model) = ModelFolder::at(&folder).model(&Device::Cpu) else { continue };
        let [Some(a), Some(b)] = [8, 9].map(|capacity| model.state_id(capacity)) else { continue };
        assert_eq!(a != b, model.pages().depends_on_capacity, "{folder:?}");
        found.push(a != b);
    }
    assert!(found.contains(&true) && found.contains(&false), "{found:?}");
}

#[test]
fn files_that_do_not_fit_are_refused_by_their_kind() {
    let model = on_cpu(CacheLayout::Paged { tokens: 64 }, Format::F16);
    let bytes = file(&model, 0, &text(40));
    let fault = |bytes: &[u8], model| opened(bytes.to_vec(), model).unwrap_err();
    let other = folder("tale").model(&Device::Cpu).unwrap();
    assert!(matches!(fault(&bytes, &other), PromptFileError::OtherModel));
    let of_f32 = on_cpu(CacheLayout::Paged { tokens: 64 }, Format::F32);
    assert!(matches!(fault(&bytes, &of_f32), PromptFileError::OtherSettings));
    let mut later = bytes.clone();
    later[8] += 1;
    assert!(matches!(fault(&later, &model), PromptFileError::OtherSettings));
    for foreign in [&b""[..], b"A letter.", &[0; 200], &bytes[1..]] {
        assert!(matches!(fault(foreign, &model), PromptFileError::Foreign));
    }
    let folder = tempfile::tempdir().unwrap();
    assert!(matches!(PromptFile::open(folder.path(), &id(&model)), Err(PromptFileError::Foreign)));
    assert!(matches!(PromptFile::open(&folder.path().join("none"), &id(&model)), Err(PromptFileError::Read(_))));
}

/// Every length, and every changed byte: an error, or (in data that are not needed) the right tokens.
#[test]
fn damage_is_found() {
    let (model, tokens) = (on_cpu(CacheLayout::Paged { tokens: 64 }, Format::Q8_0), text(70));
    let bytes = file(&model, 0, &tokens);
    let uses = |bytes: Vec<u8>, count: usize| -> Result<(), PromptFileError> {
        let file = opened(bytes, &model)?;
        file.check(&SCOPE, 0, &digest_of(&[]))?;
        let mut sequence = model.clone().begin(300)?;
        let restored = file.restore(count, &mut *sequence);
        assert_eq!(sequence.len(), if restored.is_ok() { count } else { 0 });
        restored
    };
    uses(bytes.clone(), 70).unwrap();
    let step = 1 + bytes.len() / 400;
    let ends = bytes.len() - 700..bytes.len();
    for at in (0..bytes.len()).step_by(step).chain(ends).chain(0..48) {
        assert!(uses(bytes[..at].to_vec(), 70).is_err(), "{at} bytes");
        let mut changed = bytes.clone();
        changed[at] ^= 0x10;
        assert!(uses(changed, 70).is_err(), "byte {at}");
    }
    // The second block is not needed for the tokens of the first.
    let mut changed = bytes.clone();
    let second = 48 + (bytes.len() - 48) * 65 / 70;
    changed[second] ^= 1;
    assert!(uses(changed.clone(), 64).is_ok() && uses(changed, 65).is_err());
}

/// A state with a section that the model does not know is not a state of it.
#[test]
fn unknown_sections_are_refused() {
    let (model, tokens) = (on_cpu(CacheLayout::Paged { tokens: 64 }, Format::F16), text(10));
    let (saved, all) = (begun(&model, &tokens).save(0..10).unwrap(), text(11));
    let mut sequence = model.clone().begin(20).unwrap();
    let more = SavedSection { name: "recurrent".into(), bytes: b"1".as_slice().into() };
    let [other, more] =
        [vec![SavedSection { name: "recurrent".into(), ..saved[0].clone() }], vec![saved[0].clone(), more.clone()]];
    // Nor does this model have layers with states.
    let states = [saved[0].clone(), SavedSection { name: "states".into(), bytes: more[1].bytes.clone() }];
    for sections in [&other[..], &more, &states, &[]] {
        assert!(!sequence.restore(&tokens, 10, sections).unwrap());
    }
    assert!(!sequence.restore(&tokens, 11, &saved).unwrap() && !sequence.restore(&all, 10, &saved).unwrap());
    assert!(sequence.restore(&tokens, 10, &saved).unwrap() && sequence.restore(&tokens, 10, &saved).unwrap());
    assert!(!sequence.restore(&tokens[..1], 10, &saved).unwrap(), "there is room for 20 tokens");
    assert_eq!(sequence.len(), 20);
    assert!(sequence.save(0..21).is_none());
}
