//! Draft heads for `tale-small`, from prompts to a folder.

use std::fs;
use std::path::{Path, PathBuf};

use verdigris_models::{DraftHead, Format, ModelFolder};
use verdigris_train::draft::options::{HeadShape, Options, TextSource};
use verdigris_train::draft::{Event, Summary};
use verdigris_train::{Steps, TrainError, train_draft};

const FEATURE: HeadShape = HeadShape::Feature { inner: Some(64) };
const MEDUSA: HeadShape = HeadShape::Medusa { heads: 2, own_outputs: false };

fn model(name: &str) -> ModelFolder {
    ModelFolder::at(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/models").join(name))
}

fn options(folder: &Path, out: &str, head: HeadShape) -> Options {
    let path = folder.join("prompts.txt");
    let subjects = ["The captain", "The old house", "\"My dear", "A storm", "It was", "When she"];
    let verbs = [" was", " had been", " came", " of the"];
    let prompts: String = subjects.iter().flat_map(|a| verbs.map(|b| format!("{a}{b}\n"))).collect();
    fs::write(&path, prompts).unwrap();
    Options {
        target: model("tale-small"),
        target_name: "tale-small".into(),
        source: TextSource::Prompts { path, chat: false, max_tokens: 24 },
        head,
        out: folder.join(out),
        replace: false,
        draft_vocabulary: Some(128),
        batch: 8,
        window: 40,
        steps: Steps {
            count: 12,
            max_minutes: None,
            learning_rate: 1e-2,
            warm_up: 2,
            weight_decay: 0.01,
            max_norm: 1.0,
            seed: 1,
            checkpoint_minutes: 1e9,
            heldout_every: 1000,
        },
    }
}

fn run(options: &Options) -> Summary {
    train_draft(options, |_| true).unwrap().unwrap()
}

fn read(out: &Path, file: &str) -> Vec<u8> {
    fs::read(out.join(file)).unwrap()
}

fn files(out: &Path) -> Vec<PathBuf> {
    let mut names: Vec<PathBuf> = fs::read_dir(out).unwrap().map(|entry| entry.unwrap().file_name().into()).collect();
    names.sort();
    names
}

/// The share of accepted drafts on held-out prompts grows, and the output is a head for this model and no other.
#[test]
fn training_makes_heads_that_agree_more_and_load_for_their_target() {
    let folder = tempfile::tempdir().unwrap();
    let own_outputs = HeadShape::Medusa { heads: 1, own_outputs: true };
    for (name, head, guesses) in [("feature", FEATURE, 4), ("medusa", MEDUSA, 2), ("own", own_outputs, 1)] {
        let options = options(folder.path(), name, head);
        let summary = run(&options);
        let (before, after) = (summary.heldout_before.clone().unwrap(), summary.heldout.clone().unwrap());
        assert_eq!((after.same.len(), after.overlap.len(), after.loss.len()), (guesses, guesses, guesses));
        assert!(after.loss[0] < before.loss[0] - 0.2, "{name}: {before:?} to {after:?}");
        assert!(after.overlap[0] > before.overlap[0] + 0.02, "{name}: {before:?} to {after:?}");
        assert_eq!((summary.texts, summary.heldout_texts, summary.draft_vocabulary), (23, 1, 128));
        let expected = ["config.json", "model.safetensors", "texts.jsonl", "training.json"];
        assert_eq!(files(&options.out), expected.map(PathBuf::from));
        let head = DraftHead::load(&ModelFolder::at(&options.out), &model("tale-small")).unwrap();
        assert_eq!(head.tokens().len(), 128);
        assert!(matches!((name, head), ("feature", DraftHead::Feature(_)) | (_, DraftHead::Medusa(_))));
        let error = DraftHead::load(&ModelFolder::at(&options.out), &model("tale")).unwrap_err().to_string();
        assert!(error.contains("it was trained for tale-small"), "{error}");
    }
}

/// The same texts and the same head as without interruptions, bit for bit, and no other files.
#[test]
fn an_interrupted_run_goes_on_as_if_nothing_had_been() {
    let folder = tempfile::tempdir().unwrap();
    let with = |out: &str| {
        let mut options = options(folder.path(), out, MEDUSA);
        let TextSource::Prompts { path, .. } = &options.source else { unreachable!() };
        // More than are written at a time.
        let prompts = fs::read_to_string(path).unwrap();
        let longer = folder.path().join("more.txt");
        fs::write(&longer, prompts.repeat(2)).unwrap();
        options.source = TextSource::Prompts { path: longer, chat: false, max_tokens: 8 };
        options.steps.count = 6;
        options
    };
    let (whole, cut) = (with("whole"), with("cut"));
    run(&whole);
    let begun = |event: &Event| !matches!(event, Event::Writing { texts: 32, .. });
    assert!(train_draft(&cut, begun).unwrap().is_none());
    // A kill in the middle of a line.
    let texts = cut.out.join("texts.jsonl");
    let written = fs::read(&texts).unwrap();
    assert_eq!(written.iter().filter(|&&byte| byte == b'\n').count(), 32);
    fs::write(&texts, [&written[..], b"{\"prompt\":[1,"].concat()).unwrap();
    assert!(train_draft(&cut, |event| !matches!(event, Event::Step(step) if step.step == 4)).unwrap().is_none());
    assert!(!cut.out.join("model.safetensors").exists(), "no half-trained head");
    let mut written = false;
    let summary = train_draft(&cut, |event| {
        written |= matches!(event, Event::Writing { .. });
        true
    });
    assert_eq!(summary.unwrap().unwrap().resumed_at, Some(4));
    assert!(!written, "all texts are there");
    for file in ["model.safetensors", "texts.jsonl", "config.json"] {
        assert!(read(&cut.out, file) == read(&whole.out, file), "{file}");
    }
    assert_eq!(files(&cut.out), files(&whole.out));
    // The texts of one run can be used by another.
    let texts = whole.out.join("texts.jsonl");
    let other = Options { out: folder.path().join("other"), source: TextSource::Texts(texts), ..whole.clone() };
    run(&other);
    assert!(read(&other.out, "model.safetensors") == read(&whole.out, "model.safetensors"));
}

/// The heads of the fixtures are for `tale`, and for no other model.
#[test]
fn heads_of_the_fixtures_load() {
    for (name, guesses_among) in [("tale-draft", 2048), ("tale-medusa", 2048)] {
        let head = DraftHead::load(&model(name), &model("tale")).unwrap();
        assert_eq!(head.tokens().len(), guesses_among, "{name}");
        assert!(DraftHead::load(&model(name), &model("tale-small")).is_err());
    }
}

/// Arbitrary texts, as tokens.
fn noise(folder: &Path, vocabulary: usize) -> TextSource {
    let path = folder.join(format!("noise-{vocabulary}.jsonl"));
    let token = |i: usize| i * i % vocabulary;
    let line = |i: usize| {
        let tokens = |from: usize, to: usize| (from..to).map(|j| token(7 * i + j)).collect::<Vec<_>>();
        serde_json::json!({ "prompt": tokens(0, 3), "text": tokens(3, 9 + i) }).to_string() + "\n"
    };
    fs::write(&path, (0..5).map(line).collect::<String>()).unwrap();
    TextSource::Texts(path)
}

/// For targets with all norms, positions, caps of logits and numbers of heads.
#[test]
fn every_architecture_can_be_drafted_for() {
    let folder = tempfile::tempdir().unwrap();
    let all = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/golden/architectures");
    let mut trained = 0;
    for entry in fs::read_dir(all).unwrap() {
        let (name, path) = entry.map(|entry| (entry.file_name().into_string().unwrap(), entry.path())).unwrap();
        let target = ModelFolder::at(path);
        for (kind, head) in [("feature", FEATURE), ("medusa", MEDUSA)] {
            let mut options = options(folder.path(), &format!("{name}-{kind}"), head);
            options.source = noise(folder.path(), target.config().unwrap().vocabulary);
            (options.target, options.window, options.steps.count) = (target.clone(), 16, 2);
            if target.config().unwrap().logit_scale.is_some() {
                // Heads are judged by logits without the scale.
                let refused = train_draft(&options, |_| true);
                assert!(matches!(refused, Err(TrainError::ScaledLogits)), "{name} {kind}");
                continue;
            }
            let summary = run(&options);
            assert!(summary.heldout.unwrap().loss.iter().all(|loss| loss.is_finite()), "{name} {kind}");
            DraftHead::load(&ModelFolder::at(&options.out), &target).unwrap_or_else(|error| panic!("{name}: {error}"));
            trained += 1;
        }
    }
    assert!(trained > 40, "{trained}");
}

/// Quantisation does not change a model's identity: a head trained for one format drafts for the other.
#[test]
fn a_gguf_file_is_a_target() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tale-small.gguf");
    model("tale-small").convert(&path, Format::Q4_0, false, |_, _| ()).unwrap();
    let mut options = options(folder.path(), "out", FEATURE);
    (options.target, options.steps.count) = (ModelFolder::at(path), 1);
    run(&options);
    for target in [&options.target, &model("tale-small")] {
        DraftHead::load(&ModelFolder::at(&options.out), target).unwrap();
    }
}

#[test]
fn prompts_may_be_json_lines() {
    let folder = tempfile::tempdir().unwrap();
    let mut lines = options(folder.path(), "lines", MEDUSA);
    lines.steps.count = 1;
    let mut json = Options { out: folder.path().join("json"), ..lines.clone() };
    let TextSource::Prompts { path, .. } = &lines.source else { unreachable!() };
    let text = fs::read_to_string(path).unwrap();
    let path = folder.path().join("prompts.jsonl");
    let objects: String =
        text.lines().map(|line| format!("{}\n", serde_json::json!({ "kind": "tale", "prompt": line }))).collect();
    fs::write(&path, objects).unwrap();
    json.source = TextSource::Prompts { path, chat: false, max_tokens: 24 };
    run(&lines);
    run(&json);
    assert!(read(&json.out, "texts.jsonl") == read(&lines.out, "texts.jsonl"));
}

#[test]
fn what_cannot_be_trained_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let good = options(folder.path(), "out", FEATURE);
    let says = |options: &Options, said: &str| {
        let error = train_draft(options, |_| true).unwrap_err().to_string();
        assert!(error.contains(said) && !error.contains('\n'), "{error:?} should say {said:?}");
    };
    let from = |name: &str, content: &str, chat: bool| {
        let path = folder.path().join(name);
        fs::write(&path, content).unwrap();
        Options { source: TextSource::Prompts { path, chat, max_tokens: 24 }, ..good.clone() }
    };
    says(&from("empty.txt", "\n\n", false), "empty.txt has no prompts: write one a line");
    says(
        &from("mixed.jsonl", "{\"prompt\": \"a\"}\n{\"text\": \"b\"}\n", false),
        "mixed.jsonl, line 2: it is not a JSON object",
    );
    says(&from("long.txt", &"word ".repeat(3000), false), "leave no room in the target's context of 2048");
    says(&from("chat.txt", "Hello\n", true), "no chat template: leave out --chat");
    says(&Options { head: HeadShape::Medusa { heads: 17, own_outputs: false }, ..good.clone() }, "--heads is 17");
    says(&Options { draft_vocabulary: Some(1), ..good.clone() }, "--draft-vocabulary is 1, but must be at least 2");
    let granite = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/golden/architectures/granite");
    says(&Options { target: ModelFolder::at(granite), ..good.clone() }, "a model that scales its logits");
    says(&Options { window: 4000, ..good.clone() }, "at most the target's context length");
    assert!(!good.out.exists(), "nothing is written before everything is read");

    says(&from("one.txt", "The captain\n", false), "1 texts have two tokens or more");
    // Texts after other prompts do not belong to this run.
    let error = train_draft(&good, |_| true).unwrap_err();
    assert!(matches!(error, TrainError::ForeignTexts { line: 1, .. }), "{error}");
    fs::remove_dir_all(&good.out).unwrap();
    assert!(train_draft(&good, |event| matches!(event, Event::Writing { .. })).unwrap().is_none());
    let mut other = good.clone();
    other.steps.learning_rate = 0.5;
    let error = train_draft(&other, |_| true).unwrap_err();
    assert!(matches!(error, TrainError::ForeignCheckpoint { .. }), "{error}");
    run(&good);
    says(&good, "holds a model already: choose another --out");
    let foreign = folder.path().join("foreign.jsonl");
    fs::write(&foreign, "{\"prompt\": [1], \"text\": [5000, 2]}\n").unwrap();
    let out = folder.path().join("foreign");
    says(&Options { source: TextSource::Texts(foreign), out, ..good }, "line 1: 5000 is not a token of the target");
}
