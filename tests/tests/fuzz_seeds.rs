//! The seeds of the fuzz targets, and mutations of them, as ordinary tests.

use std::fs;
use std::path::Path;

use verdigris::logits::random::philox4x32;
use verdigris_tests::fuzz;

/// Runs all seeds of a target, and each with some bytes changed, removed or duplicated.
fn run(target: &str, body: fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/seeds").join(target);
    let mut seeds = 0;
    for entry in fs::read_dir(&folder).unwrap() {
        let seed = fs::read(entry.unwrap().path()).unwrap();
        body(&seed);
        seeds += 1;
        for n in 0..150u32 {
            let mut mutated = seed.clone();
            for round in 0..=n % 3 {
                let [place, what, with, length] = philox4x32([n, round, 0, 0], [seeds, 11]);
                let at = place as usize % mutated.len().max(1);
                let end = (at + 1 + length as usize % 8).min(mutated.len());
                match what % 4 {
                    _ if mutated.is_empty() => {}
                    0 => mutated[at] = with as u8,
                    1 => mutated[at] ^= 1 << (with % 8),
                    2 => _ = mutated.drain(at..end),
                    _ => {
                        let part = mutated[at..end].to_vec();
                        mutated.splice(at..at, part);
                    }
                }
            }
            body(&mutated);
        }
    }
    assert!(seeds >= 5, "{target} has {seeds} seeds");
}

/// A test of each target.
macro_rules! seeds {
    ($($target:ident)*) => {$(
        #[test]
        fn $target() {
            run(stringify!($target), |data| {
                fuzz::$target(data);
            });
        }
    )*};
}

seeds! {
    key_file detector_input server manifest normalization regex schema walk safetensors_file tokenizer_file
    chat_template pickle checkpoint signed_report prompt_file grammar structural_tag
}

/// Refused seeds would exercise too little code.
#[test]
fn seeds_are_accepted() {
    let read = |target: &str| {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/seeds").join(target);
        fs::read_dir(folder).unwrap().map(|entry| fs::read(entry.unwrap().path()).unwrap()).collect::<Vec<_>>()
    };
    assert!(read("pickle").iter().all(|seed| fuzz::pickle(seed)));
    assert!(read("checkpoint").iter().all(|seed| fuzz::checkpoint(seed)));
    assert!(read("signed_report").iter().all(|seed| fuzz::signed_report(seed)));
    assert!(read("prompt_file").iter().all(|seed| fuzz::prompt_file(seed)));
    assert!(read("grammar").iter().all(|seed| fuzz::grammar(seed)));
    assert!(read("structural_tag").iter().all(|seed| fuzz::structural_tag(seed)));
}
