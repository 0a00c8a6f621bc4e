//! Numbers in JSON texts that are not read exactly.

use serde_json::Value;

/// The keywords of bounds, and those of values, in which numbers may be nested.
const BOUNDS: [&str; 5] = ["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"];
const VALUES: [&str; 2] = ["const", "enum"];

/// Returns the first number of the schemas in a JSON text that [`serde_json::Value`] does not keep exactly, such as
/// 99999999999999999999: it would allow other numbers than it says. Only bounds and values of schemas are looked at.
/// `is_checked` is called with the names of the members of the outermost object, as they are written, and chooses those
/// that have schemas; with an empty name for any other text.
pub fn inexact_number(json: &str, is_checked: impl Fn(&str) -> bool) -> Option<&str> {
    let bytes = json.as_bytes();
    // The name before a value, and for each open array or object whether it is part of a value of a schema.
    let (mut name, mut open, mut is_watched) = ("", Vec::new(), is_checked(""));
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        let begun = at;
        at += 1;
        match byte {
            b'{' | b'[' => {
                open.push(open.last() == Some(&true) || VALUES.contains(&name));
                name = "";
            }
            b'}' | b']' => {
                open.pop();
                name = "";
            }
            b'"' => {
                while bytes.get(at).is_some_and(|&byte| byte != b'"') {
                    at += if bytes[at] == b'\\' { 2 } else { 1 };
                }
                at += 1;
                if json.get(at..).is_some_and(|rest| rest.trim_start().starts_with(':')) {
                    name = json.get(begun + 1..at - 1).unwrap_or_default();
                    if open.len() == 1 {
                        is_watched = is_checked(name);
                    }
                }
            }
            b'-' | b'0'..=b'9' => {
                while bytes.get(at).is_some_and(|byte| matches!(byte, b'0'..=b'9' | b'+' | b'-' | b'.' | b'e' | b'E')) {
                    at += 1;
                }
                let counts = open.last() == Some(&true) || VALUES.contains(&name) || BOUNDS.contains(&name);
                if is_watched && counts && !is_exact(&json[begun..at]) {
                    return Some(&json[begun..at]);
                }
            }
            _ => (),
        }
    }
    None
}

fn is_exact(number: &str) -> bool {
    // What is not a number is reported when the text is parsed.
    let Ok(read @ Value::Number(_)) = serde_json::from_str::<Value>(number) else { return true };
    canonical(number).is_some_and(|digits| Some(digits) == canonical(&read.to_string()))
}

/// The sign, the digits without zeros around them, and the exponent of the last of these; `None` for an exponent that
/// is far too large.
fn canonical(number: &str) -> Option<(bool, String, i64)> {
    let (negative, rest) = number.strip_prefix('-').map_or((false, number), |rest| (true, rest));
    let (mantissa, exponent) = rest.split_once(['e', 'E']).unwrap_or((rest, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = [whole, fraction].concat();
    let trimmed = digits.trim_end_matches('0');
    let exponent = exponent.parse::<i64>().ok()?;
    let exponent = exponent.checked_sub(fraction.len() as i64)?.checked_add((digits.len() - trimmed.len()) as i64)?;
    let trimmed = trimmed.trim_start_matches('0');
    if trimmed.is_empty() { Some((false, String::new(), 0)) } else { Some((negative, trimmed.into(), exponent)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_with_too_many_digits_are_found() {
        let found = |number: &str| inexact_number(&format!("{{\"const\": {number}}}"), |_| true).map(str::to_owned);
        for exact in [
            "0",
            "-0.0",
            "0e999999999999",
            "1.50",
            "100e-2",
            "18446744073709551615",
            "-9223372036854775808",
            "100000000000000000000",
            "1e300",
            "3.141592653589793",
            "\"123456789012345678901234567890\"",
            "\"\\\"123456789012345678901\"",
            "[1, 2.5",
            "x",
        ] {
            assert_eq!(found(exact), None, "{exact}");
        }
        for inexact in [
            "18446744073709551616",
            "-9223372036854775809",
            "99999999999999999999999999",
            "0.12345678901234567891",
            "1e-400",
        ] {
            assert_eq!(found(inexact).as_deref(), Some(inexact));
            assert_eq!(found(&format!("[\"a\", {{\"b\": {inexact}}}]")).as_deref(), Some(inexact));
        }
    }

    #[test]
    fn only_what_a_schema_says_about_numbers_counts() {
        let all = |json: &str| inexact_number(json, |_| true).map(str::to_owned);
        for (json, found) in [
            (r#"{"maximum": 1e-400}"#, true),
            (r#"{"items": [{"multipleOf" : 1e-400}]}"#, true),
            (r#"{"enum": [[{"default": 1e-400}]]}"#, true),
            (r#"{"enum": [1], "default": 1e-400}"#, false),
            (r#"{"properties": {"maximum": {"default": 1e-400}}}"#, false),
            ("1e-400", false),
        ] {
            assert_eq!(all(json).is_some(), found, "{json}");
        }
        let json = r#"{"a\"": {"const": 1e-400}, "deep": {"a": [{"const": 1e-401}]}, "const": 1e-402}"#;
        let found = |name: &'static str| inexact_number(json, move |of| of == name);
        assert_eq!([found("a\\\""), found("deep"), found("const")], [Some("1e-400"), Some("1e-401"), Some("1e-402")]);
        assert_eq!([found("a"), found("")], [None, None]);
    }
}
