//! The formats of JSON Schema, as regular languages: with real calendars, addresses and escapes.
//!
//! A format that is not known here says nothing, as the specification has it (2020-12, validation, section 7.2.3).

use crate::automaton::Automaton;
use crate::regex::Dfa;

/// The range of the formats that OpenAPI and schemars have for numbers.
pub(crate) fn of_numbers(format: &str) -> Option<(Option<i128>, Option<i128>)> {
    let bits = |prefix: &str| format.strip_prefix(prefix).and_then(|bits| bits.parse::<u32>().ok());
    match format {
        "float" | "double" => Some((None, None)),
        "int" => Some((Some(i64::MIN.into()), Some(i64::MAX.into()))),
        "uint" => Some((Some(0), Some(u64::MAX.into()))),
        _ => match (bits("int"), bits("uint")) {
            (Some(bits @ (8 | 16 | 32 | 64)), _) => Some((Some(-(1 << (bits - 1))), Some((1 << (bits - 1)) - 1))),
            (_, Some(bits @ (8 | 16 | 32 | 64))) => Some((Some(0), Some((1 << bits) - 1))),
            (Some(128), _) => Some((None, None)),
            (_, Some(128)) => Some((Some(0), None)),
            _ => None,
        },
    }
}

/// Full years of four digits; February has 29 days in leap years (RFC 3339, appendix C).
const DATE: &str = "(?:[0-9]{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)|02-(?:0[1-9]|1[0-9]|2[0-8]))|(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])00)-02-29)";

/// A leap second is the last one of a day in Greenwich: 23:59:60 with no offset.
const TIME: &str = "(?:(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\\.[0-9]+)?(?:[Zz]|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])|23:59:60(?:\\.[0-9]+)?(?:[Zz]|[+-]00:00))";

const V4: &str = "(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])";

/// The regular expression of a format, in the syntax of the `regex` crate.
fn expression(format: &str) -> Option<String> {
    let ipv4 = format!("{V4}(?:\\.{V4}){{3}}");
    Some(match format {
        "date" => DATE.to_owned(),
        "time" => TIME.to_owned(),
        "date-time" => format!("{DATE}[Tt]{TIME}"),
        // ISO 8601 as in RFC 3339, appendix A.
        "duration" => {
            let time = "T(?:[0-9]+H(?:[0-9]+M(?:[0-9]+S)?)?|[0-9]+M(?:[0-9]+S)?|[0-9]+S)";
            let day = "[0-9]+D";
            let date = format!("(?:{day}|[0-9]+M(?:{day})?|[0-9]+Y(?:[0-9]+M(?:{day})?)?)(?:{time})?");
            format!("P(?:{date}|{time}|[0-9]+W)")
        }
        "ipv4" => ipv4,
        "ipv6" => {
            // RFC 4291, section 2.2.
            let h = "[0-9A-Fa-f]{1,4}";
            let last = format!("(?:{h}:{h}|{ipv4})");
            let mut ways = vec![format!("(?:{h}:){{6}}{last}"), format!("::(?:{h}:){{0,5}}{last}")];
            for before in 1..=5 {
                let left = 5 - before;
                ways.push(format!("{h}(?::{h}){{{}}}::(?:{h}:){{0,{left}}}{last}", before - 1));
            }
            ways.push(format!("(?:{h}(?::{h}){{0,5}})?::{h}"));
            ways.push(format!("(?:{h}(?::{h}){{0,6}})?::"));
            ways.join("|")
        }
        "uuid" => "[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}".to_owned(),
        // RFC 1123, section 2.1; labels are at most 63 long.
        "hostname" => {
            let label = "[0-9A-Za-z](?:[0-9A-Za-z-]{0,61}[0-9A-Za-z])?";
            format!("{label}(?:\\.{label})*")
        }
        // RFC 5321, section 4.1.2.
        "email" => {
            let atom = "[0-9A-Za-z!#$%&'*+/=?^_`{|}~-]+";
            let label = "[0-9A-Za-z](?:[0-9A-Za-z-]{0,61}[0-9A-Za-z])?";
            let quoted = "\"(?:[ !#-\\[\\]-~]|\\\\[ -~])*\"";
            format!("(?:{atom}(?:\\.{atom})*|{quoted})@(?:{label}(?:\\.{label})*|\\[{ipv4}\\])")
        }
        "uri" | "uri-reference" => uri(format == "uri"),
        "json-pointer" => POINTER.to_owned(),
        "relative-json-pointer" => format!("(?:0|[1-9][0-9]*)(?:#|{POINTER})"),
        _ => return None,
    })
}

/// RFC 6901, section 3.
const POINTER: &str = "(?:/(?:[^~/]|~[01])*)*";

/// RFC 3986, appendix A, with addresses in brackets taken loosely.
fn uri(absolute: bool) -> String {
    let hex = "%[0-9A-Fa-f]{2}";
    let c = "-0-9A-Za-z._~!$&'()*+,;=";
    let pchar = format!("(?:[{c}:@]|{hex})");
    let authority = format!(
        "(?:(?:[{c}:]|{hex})*@)?(?:\\[(?:[0-9A-Fa-f:.]+|[vV][0-9A-Fa-f]+\\.[{c}:]+)\\]|(?:[{c}]|{hex})*)(?::[0-9]*)?"
    );
    let rooted = format!("/(?:{pchar}+(?:/{pchar}*)*)?");
    let tail = format!("(?:\\?(?:{pchar}|[/?])*)?(?:#(?:{pchar}|[/?])*)?");
    let full =
        format!("[A-Za-z][0-9A-Za-z+.-]*:(?://{authority}(?:/{pchar}*)*|{rooted}|{pchar}+(?:/{pchar}*)*|){tail}");
    if absolute {
        return full;
    }
    let first = format!("(?:[{c}@]|{hex})+");
    format!("{full}|(?://{authority}(?:/{pchar}*)*|{rooted}|{first}(?:/{pchar}*)*|){tail}")
}

/// The most characters of a text of a format: RFC 1035, section 2.3.4, without the dot of the root.
pub(crate) fn longest(format: &str) -> Option<u64> {
    (format == "hostname").then_some(253)
}

/// Makes the automaton of a format of texts.
pub(crate) fn of_strings(format: &str) -> Option<impl FnOnce() -> Automaton + use<>> {
    let expression = expression(format)?;
    let automaton = |expression: &str| {
        let dfa = Dfa::new(expression).expect("formats are regular expressions");
        dfa.automaton().expect("every format has texts")
    };
    let is_email = format == "email";
    Some(move || {
        let all = automaton(&expression);
        if !is_email {
            return all;
        }
        // RFC 5321, section 4.5.3.1.1: what stands before the sign has at most 64 characters.
        let short = automaton("(?:[^\"@]{1,64}|\"(?:[^\"\\\\]|\\\\.){0,62}\")@(?s:.*)");
        Automaton::all_of(&[(&all, true), (&short, true)]).expect("short addresses are there")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(format: &str, good: &[&str], bad: &[&str]) {
        let automaton = of_strings(format).expect("a format")();
        for text in good {
            assert!(automaton.matches(text.as_bytes()), "{format} {text}");
        }
        for text in bad {
            assert!(!automaton.matches(text.as_bytes()), "{format} {text}");
        }
    }

    #[test]
    fn calendars_are_real() {
        let automaton = of_strings("date").unwrap()();
        for year in 0..10_000u32 {
            let leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
            assert_eq!(automaton.matches(format!("{year:04}-02-29").as_bytes()), leap, "{year}");
            if year.is_multiple_of(97) {
                for (month, days) in [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31].into_iter().enumerate() {
                    for day in 0..=32 {
                        let valid = (1..=days).contains(&day) || month == 1 && day == 29 && leap;
                        let text = format!("{year:04}-{:02}-{day:02}", month + 1);
                        assert_eq!(automaton.matches(text.as_bytes()), valid, "{text}");
                    }
                }
            }
        }
        check(
            "date-time",
            &["1990-12-31T23:59:60Z", "2024-02-29t01:02:03.5+01:00"],
            &["1990-02-31T15:59:59Z", "1990-12-31T15:59:60Z", "1998-12-31T22:59:60Z", "2024-02-29 01:02:03Z"],
        );
        check("time", &["08:30:06Z", "08:30:06.283185-23:59"], &["24:00:00Z", "08:30:06", "8:3:6Z", "08:30:06+24:00"]);
        check(
            "duration",
            &["P4DT12H30M5S", "P1Y", "PT0S", "P4W", "P1M", "P1YT1S"],
            &["P", "PT", "P1YT", "4D", "P1D2H", "P2S", "P1Y2W", "P1Y1D"],
        );
    }

    #[test]
    fn addresses() {
        check("ipv4", &["0.0.0.0", "255.255.255.255", "127.0.0.1"], &["256.1.1.1", "1.1.1", "01.1.1.1", "1.1.1.1.1"]);
        check(
            "ipv6",
            &[
                "::",
                "::1",
                "1::",
                "1:2:3:4:5:6:7:8",
                "::ffff:192.168.0.1",
                "1::2:3:4:5:6:7",
                "1:2:3:4:5:6:7::",
                "1:2::8",
            ],
            &[
                "1:2:3:4:5:6:7",
                "1::2::3",
                ":::",
                "12345::",
                "1:2:3:4:5:6:7:8:9",
                "::1.2.3.256",
                "1:2:3:4:5:6:7:8::",
                "1:2:3:4:5::6:7:8:9",
                ":1",
            ],
        );
        check(
            "email",
            &["joe@example.com", "a+b.c@x.y", "\"a b\"@x.y", "j@[127.0.0.1]"],
            &["joe", "@x", ".a@x.y", "a..b@x.y", "a@-x.y", &format!("{}@x.y", "a".repeat(65))],
        );
        check("hostname", &["a", "www.example.com", "xn--a"], &["", "-a", "a-", "a..b", "a_b", &"a".repeat(64)]);
    }

    #[test]
    fn references() {
        check(
            "uri",
            &[
                "http://foo.bar/?baz=qux#quux",
                "urn:oasis:names",
                "mailto:a@b.c",
                "http://[::1]:80/a%20b",
                "file:///etc",
            ],
            &["//foo.bar", "/abc", "foo", "http:// x", "a b:c", "http://a\\b", "bar,:x", "http://x/%zz"],
        );
        check("uri-reference", &["/abc", "#frag", "", "a/b?c", "http://x"], &["\\a", "a b", ":x", "#a\\b"]);
        check("uuid", &["2EB8AA08-aa98-11ea-b4aa-73b441d16380"], &["2eb8aa08-aa98-11ea-b4aa73b441d16380", "2eb8"]);
        check("json-pointer", &["", "/", "/a~0b/~1", "/é"], &["a", "/~2", "/~"]);
        check("relative-json-pointer", &["0", "1/a", "2#"], &["01/a", "/a", "-1", "1#/"]);
    }
}
