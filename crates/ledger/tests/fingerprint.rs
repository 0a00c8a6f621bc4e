//! Fingerprints compared with a second implementation, `fixtures/golden/fingerprint.py`.

use std::path::Path;

use serde_json::Value;
use verdigris_ledger::{Fingerprint, Ledger, NewEntry, words};

#[test]
fn a_second_implementation_has_the_same_fingerprints() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/golden/fingerprint.json");
    let cases: Vec<Value> = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    assert!(cases.len() > 5);
    for case in &cases {
        let text = case["text"].as_str().unwrap();
        let print = Fingerprint::of(text);
        assert_eq!(
            words(text).collect::<Vec<_>>(),
            serde_json::from_value::<Vec<String>>(case["words"].clone()).unwrap()
        );
        let digest: String = print.digest().iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(digest, case["digest"], "{text:?}");
        assert_eq!((print.shingles().len(), print.rate()), (number(&case["shingles"]), number(&case["rate"]) as u32));
        let sample: Vec<String> = print.sample(print.rate()).iter().map(|hash| format!("{hash:016x}")).collect();
        assert_eq!(sample, serde_json::from_value::<Vec<String>>(case["sample"].clone()).unwrap(), "{text:?}");
        // Signatures are not public: this one is read from the file.
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.ledger");
        Ledger::create(&path).unwrap().add(&NewEntry::new("a", &print)).unwrap();
        let file = rusqlite::Connection::open(&path).unwrap();
        let signature: String =
            file.query_row("SELECT lower(hex(signature)) FROM entries", [], |row| row.get(0)).unwrap();
        assert_eq!(signature, case["signature"], "{text:?}");
    }
}

fn number(value: &Value) -> usize {
    value.as_u64().unwrap() as usize
}
