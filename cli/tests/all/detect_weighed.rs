//! Detection that weighs tokens by the model's expectation.

use crate::support::Folder;
use crate::support::detection::detect;
use serde_json::json;

/// `--weigh` also judges a text after repair, and options that it does not support are refused.
#[test]
fn a_text_is_weighed_after_repair_too() {
    let folder = Folder::with_key();
    let write = ["generate", "--seed", "3", "--max-tokens", "200", "--key", "my.key"];
    folder.write("text.txt", &folder.run(&write).out);
    folder.write("zw.txt", &folder.run(&["attack", "zero-width", "text.txt", "--strength", "0.4"]).out);
    for method in ["likelihood-ratio", "ewd", "sweet"] {
        let weighed = |text: &str, rest: &[&str]| {
            let run = detect(&folder, &[&[text, "--weigh", method, "--json"], rest].concat());
            run.lines().remove(0)
        };
        let (plain, repaired) = (weighed("text.txt", &[]), weighed("zw.txt", &[]));
        assert_eq!((&plain["verdict"], &repaired["verdict"]), (&json!("marked"), &json!("marked")), "{repaired}");
        assert_eq!((&plain["looks"], &repaired["looks"]), (&json!(1.0), &json!(2.0)), "{plain} {repaired}");
        assert_eq!((plain.get("repairs"), &repaired["repairs"][0][0]), (None, &json!("invisible")), "{repaired}");
        for field in ["log10_p", "expected_log10_p"] {
            let [with, without] = [&repaired, &plain].map(|line| line[field].as_f64().unwrap());
            assert!((with - without - 2f64.log10()).abs() < 1e-9, "{field}: {plain} {repaired}");
        }
        assert_ne!(weighed("zw.txt", &["--no-repair"])["verdict"], "marked");
    }
    let run = detect(&folder, &["zw.txt", "--weigh", "ewd"]);
    assert!(run.out.contains("2 looks") && run.out.contains("repaired"), "{run:?}");
    let weigh = |method: &str, rest: &[&str]| detect(&folder, &[&["text.txt", "--weigh", method], rest].concat());
    for method in ["ewd", "likelihood-ratio"] {
        weigh(method, &["--entropy-threshold", "7"]).fails("--entropy-threshold is for --weigh sweet: leave it out");
    }
    for nats in ["nan", "inf", "-1"] {
        weigh("sweet", &["--entropy-threshold", nats]).fails("but must be a number, 0 or more");
    }
    assert_eq!(weigh("sweet", &["--entropy-threshold", "0.5"]).status, 0);
    let offsets = weigh("ewd", &["--offsets", "6"]);
    assert!(offsets.status == 2 && offsets.err.contains("--offsets"), "{offsets:?}");
    folder.write_private("n.key", &crate::support::KEY.replace("\"gamma\"", "\"payload_bits\": 8, \"gamma\""));
    let run = folder.run(&["detect", "text.txt", "--key", "n.key", "--weigh", "ewd"]);
    run.fails("--weigh is for keys that carry no payload, but vg-c0ffee00 carries one: leave --weigh out");
    // Hints do not suggest options that `--weigh` refuses.
    folder.write("plain.txt", &folder.run(&["generate", "--seed", "8", "--max-tokens", "450"]).out);
    let of = |rest: &[&str]| detect(&folder, &[&["plain.txt"], rest].concat());
    assert!(of(&[]).out.contains("--windows"), "{:?}", of(&[]));
    let weighed = of(&["--weigh", "ewd"]);
    assert!(weighed.status == 1 && !weighed.out.contains("--windows"), "{weighed:?}");
}
