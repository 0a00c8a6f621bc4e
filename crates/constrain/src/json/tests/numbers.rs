//! Numbers: multiples, and numbers in all notations.

use serde_json::{Value, json};

use super::{accepts, with};
use crate::json::style::{NumberForms, Style};

/// Compares with arithmetic.
#[test]
fn steps_that_end_with_zeros() {
    for step in [10u64, 100, 250, 3000, 5000, 7500, 10_000, 86_400, 100_000, 1_000_000, 2_560_000] {
        let machine = with(&json!({"type": "integer", "multipleOf": step}), Style::default());
        for number in (0..400u64).flat_map(|i| [i, i * step, i * step / 10, i * step + 1, i * 9973, i * step / 2]) {
            for text in [number.to_string(), format!("-{number}")] {
                let is_one = number.is_multiple_of(step) && text != "-0";
                assert!(!is_one || accepts(&machine, &text), "{text} is a multiple of {step}");
                assert!(number.is_multiple_of(step) || !accepts(&machine, &text), "{text} is none of {step}");
            }
        }
    }
}

#[test]
fn numbers_in_all_forms() {
    let full = |schema: Value| with(&schema, Style::default().numbers(NumberForms::Full));
    for (schema, good, bad) in [
        (
            json!({"type": "integer"}),
            vec!["1", "1.0", "-20.00e2", "3E+7", "1e0"],
            vec!["1.5", "1e-1", "1.", "01", "1.0e", "e1"],
        ),
        (json!({"type": "number"}), vec!["1", "1.50e-12", "1e2", "2.0"], vec![".5", "1e", "--1", "1e+"]),
        (json!({"type": "integer", "minimum": 3}), vec!["3.0", "12"], vec!["2.0", "3.5", "1e2"]),
        (json!({"enum": [1, 2.5]}), vec!["1", "1.0", "2.5"], vec!["1.5", "2.50e1", "1e0"]),
        (json!({"multipleOf": 3, "type": "number"}), vec!["6.0", "9"], vec!["7.0", "3e1"]),
        // A floating-point parser misreads a number of more than 15 digits with a fraction.
        (
            json!({"type": "integer", "exclusiveMinimum": 900719925474099266u64, "maximum": 900719925474099300u64}),
            vec!["900719925474099267", "900719925474099300"],
            vec!["900719925474099300.0", "900719925474099300.000", "900719925474099267.0"],
        ),
        (json!({"type": "integer", "multipleOf": 3}), vec!["999999999999999.0"], vec!["9999999999999999.0"]),
    ] {
        let machine = full(schema.clone());
        good.iter().for_each(|text| assert!(accepts(&machine, text), "{schema} {text}"));
        bad.iter().for_each(|text| assert!(!accepts(&machine, text), "{schema} {text}"));
    }
}
