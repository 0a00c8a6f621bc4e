//! Numbers in JSON texts that are not read exactly.

use serde_json::Value;

/// The keywords of bounds, and those of values, in which numbers may be nested.
const BOUNDS: [&str; 5] = ["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"];
const VALUES: [&str; 2] = ["const", "enum"];

/// A number of a schema that [`Value`] does not keep exactly, such as 99999999999999999999: it would allow other
/// numbers than it says.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{number} is not read exactly: {}", Self::CURE)]
pub struct InexactNumber {
    /// The number as it is written.
    pub number: String,
}

impl InexactNumber {
    /// The cure that messages give.
    pub(crate) const CURE: &str = "write it with at most 15 digits";
}

/// A text that cannot be read as a schema.
#[derive(Debug, thiserror::Error)]
pub enum UnreadableSchema {
    /// It is not JSON.
    #[error("invalid JSON: {0}")]
    Json(#[from] serde_json::Error),
    /// It has a number that is not kept exactly.
    #[error(transparent)]
    Number(#[from] InexactNumber),
}

/// Reads the text of a schema, which may begin with the byte order mark that some editors write.
///
/// # Errors
/// It is not JSON, or has a number that is not kept exactly.
pub fn parse_schema(json: &[u8]) -> Result<Value, UnreadableSchema> {
    let json = json.strip_prefix(b"\xef\xbb\xbf").unwrap_or(json);
    let schema = serde_json::from_slice(json)?;
    check_numbers(str::from_utf8(json).expect("JSON is UTF-8"), |_| true)?;
    Ok(schema)
}

/// Checks that the numbers of the schemas in a JSON text are kept exactly. Only bounds and values of schemas are looked
/// at. `is_checked` is called with the names of the members of the outermost object, as they are written, and chooses
/// those that have schemas; with an empty name for any other text.
///
/// # Errors
/// The first number that is not.
pub fn check_numbers(json: &str, is_checked: impl Fn(&str) -> bool) -> Result<(), InexactNumber> {
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
                    return Err(InexactNumber { number: json[begun..at].to_owned() });
                }
            }
            _ => (),
        }
    }
    Ok(())
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
        let found = |number: &str| {
            check_numbers(&format!("{{\"const\": {number}}}"), |_| true).err().map(|inexact| inexact.number)
        };
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
        let all = |json: &str| check_numbers(json, |_| true);
        for (json, found) in [
            (r#"{"maximum": 1e-400}"#, true),
            (r#"{"items": [{"multipleOf" : 1e-400}]}"#, true),
            (r#"{"enum": [[{"default": 1e-400}]]}"#, true),
            (r#"{"enum": [1], "default": 1e-400}"#, false),
            (r#"{"properties": {"maximum": {"default": 1e-400}}}"#, false),
            ("1e-400", false),
        ] {
            assert_eq!(all(json).is_err(), found, "{json}");
        }
        let json = r#"{"a\"": {"const": 1e-400}, "deep": {"a": [{"const": 1e-401}]}, "const": 1e-402}"#;
        let found = |name: &str| check_numbers(json, |of| of == name).map_err(|inexact| inexact.number);
        for (name, number) in [("a\\\"", "1e-400"), ("deep", "1e-401"), ("const", "1e-402")] {
            assert_eq!(found(name), Err(number.to_owned()));
        }
        assert_eq!([found("a"), found("")], [Ok(()), Ok(())]);
    }

    #[test]
    fn a_schema_is_read_or_refused_with_the_cause() {
        assert_eq!(parse_schema(b"\xef\xbb\xbf{\"const\": 1}").unwrap(), serde_json::json!({"const": 1}));
        let fault = |json: &[u8]| parse_schema(json).unwrap_err().to_string();
        assert!(fault(b"{").starts_with("invalid JSON: EOF"));
        assert!(fault(b"\"\xff\"").starts_with("invalid JSON: invalid unicode"));
        let number = "18446744073709551617 is not read exactly: write it with at most 15 digits";
        assert_eq!(fault(b"{\"maximum\": 18446744073709551617}"), number);
    }
}
