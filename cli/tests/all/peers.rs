//! Options as users of other programs type them.

use crate::support::{Folder, Run, TALE_SMALL};

fn generate(folder: &Folder, arguments: &[&str]) -> Run {
    folder.run(&[&["generate", "--model", TALE_SMALL, "--seed", "3", "-n", "9"], arguments].concat())
}

#[test]
fn a_prompt_may_have_an_option() {
    let folder = Folder::new();
    let expected = generate(&folder, &["The captain"]).done().out;
    assert_eq!(generate(&folder, &["-p", "The captain"]).done().out, expected);
    assert_eq!(generate(&folder, &["--prompt", "The captain"]).done().out, expected);
    generate(&folder, &["The captain", "-p", "The captain"]).fails("cannot be used with");
    folder.write("prompt.txt", "The captain");
    generate(&folder, &["-p", "The captain", "-f", "prompt.txt"]).fails("cannot be used with");
    // A prompt may begin with a hyphen.
    assert_eq!(generate(&folder, &["-p", "- The"]).done().out, generate(&folder, &["--", "- The"]).done().out);
}

#[test]
fn the_context_may_be_limited() {
    let folder = Folder::new();
    let expected = generate(&folder, &["The captain"]).done().out;
    for all in ["0", "2048"] {
        assert_eq!(generate(&folder, &["The captain", "-c", all]).done().out, expected);
    }
    let tokens = |context: &str| {
        let written = generate(&folder, &["The captain", "-c", context, "--json"]).done().json();
        assert_eq!(written["stop"], if context == "0" { "length" } else { "context" });
        (written["prompt_tokens"].as_u64().unwrap(), written["tokens"].as_array().unwrap().len() as u64)
    };
    let (prompt, _) = tokens("0");
    assert_eq!(tokens(&(prompt + 4).to_string()), (prompt, 4));
    generate(&folder, &["The captain", "-c", &prompt.to_string()]).fails("context");
    generate(&folder, &["The captain", "-c", "-4"]).fails("it must be a whole number");
}

#[test]
fn layers_on_a_gpu_choose_the_device() {
    let folder = Folder::new();
    let expected = generate(&folder, &["The captain"]).done().out;
    for none in [&["-ngl", "0"][..], &["-ngl=0"], &["--n-gpu-layers", "0"], &["--gpu-layers", "0"]] {
        let run = generate(&folder, &[&["The captain"], none].concat()).done();
        assert_eq!((run.out, run.err.contains("warning")), (expected.clone(), false), "{none:?}");
    }
    if !cfg!(any(feature = "cuda", feature = "emulated-cuda", feature = "candle-cuda", feature = "candle-metal")) {
        for all in ["99", "-1", "all", "auto"] {
            let run = generate(&folder, &["The captain", "-ngl", all]).done();
            assert_eq!(run.out, expected);
            assert!(run.err.contains("warning: -ngl has no effect"), "{run:?}");
            assert!(!generate(&folder, &["The captain", "-ngl", all, "-q"]).done().err.contains("warning"));
        }
    }
    generate(&folder, &["The captain", "-ngl", "many"]).fails("whole number");
    generate(&folder, &["The captain", "-ngl"]).fails("a value is required");
    generate(&folder, &["The captain", "-ngl", "0", "--device", "cpu"]).fails("cannot be used with");
}

#[test]
fn all_tokens_have_several_numbers() {
    let folder = Folder::new();
    let expected = generate(&folder, &["The captain"]).done().out;
    for all in ["0", "-1"] {
        assert_eq!(generate(&folder, &["The captain", "--top-k", all]).done().out, expected);
    }
    generate(&folder, &["The captain", "--top-k", "-2"]).fails("or -1");
}
