//! The formats of JSON Schema as regular languages, with real calendars, addresses and escapes.
//!
//! An unknown format is ignored, as the specification says (2020-12, validation, section 7.2.3).

mod regex;

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use crate::automata::automaton::Automaton;
use crate::automata::budget::Budget;
use crate::automata::dfa::Dfa;

/// The range of the formats for numbers of OpenAPI and schemars.
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

/// Years of four digits except 0000, which some parsers refuse; February has 29 days in leap years (RFC 3339, appendix
/// C).
const DATE: &str = "(?:(?:[0-9]{3}[1-9]|[0-9]{2}[1-9]0|[0-9][1-9]00|[1-9]000)-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)|02-(?:0[1-9]|1[0-9]|2[0-8]))|(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:0[48]|[2468][048]|[13579][26])00)-02-29)";

/// A leap second is the last second of a day in UTC: 23:59:60 with no offset. Parsers have a resolution of at most
/// nanoseconds.
const TIME: &str = "(?:(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\\.[0-9]{1,9})?(?:[Zz]|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])|23:59:60(?:\\.[0-9]{1,9})?(?:[Zz]|[+-]00:00))";

const V4: &str = "(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])";

/// RFC 4291, section 2.2.
fn ipv6() -> String {
    let h = "[0-9A-Fa-f]{1,4}";
    let last = format!("(?:{h}:{h}|{V4}(?:\\.{V4}){{3}})");
    let mut ways = vec![format!("(?:{h}:){{6}}{last}"), format!("::(?:{h}:){{0,5}}{last}")];
    for before in 1..=5 {
        let left = 5 - before;
        ways.push(format!("{h}(?::{h}){{{}}}::(?:{h}:){{0,{left}}}{last}", before - 1));
    }
    ways.push(format!("(?:{h}(?::{h}){{0,5}})?::{h}"));
    ways.push(format!("(?:{h}(?::{h}){{0,6}})?::"));
    ways.join("|")
}

/// Labels with dots between them. A label has at most 63 characters, and its third and fourth are two hyphens only
/// after `xn`: RFC 5891, section 4.2.3.1.
fn domain() -> String {
    let (end, any) = ("[0-9A-Za-z]", "[0-9A-Za-z-]");
    let short = format!("{end}(?:{any}?{end})?|{end}{any}{any}{end}");
    let long = format!("(?:{end}{any}(?:{end}{any}|-{end})|[Xx][Nn]--){any}{{0,58}}{end}");
    let label = format!("(?:{short}|{long})");
    format!("{label}(?:\\.{label})*")
}

/// The regular expression of a format, in the syntax of the `regex` crate.
fn expression(format: &str) -> Option<String> {
    let ipv4 = format!("{V4}(?:\\.{V4}){{3}}");
    Some(match format {
        "date" => DATE.to_owned(),
        "time" => TIME.to_owned(),
        "date-time" => format!("{DATE}[Tt]{TIME}"),
        // ISO 8601 as in RFC 3339, appendix A, limited to the ten thousand years of calendars.
        "duration" => {
            let [second, minute] = ["[0-9]{1,9}S", "[0-9]{1,9}M"];
            let time = format!("T(?:[0-9]{{1,8}}H(?:{minute}(?:{second})?)?|{minute}(?:{second})?|{second})");
            let [day, month] = ["[0-9]{1,6}D", "[0-9]{1,5}M"];
            let date = format!("(?:{day}|{month}(?:{day})?|[0-9]{{1,4}}Y(?:{month}(?:{day})?)?)(?:{time})?");
            format!("P(?:{date}|{time}|[0-9]{{1,6}}W)")
        }
        "ipv4" => ipv4,
        "ipv6" => ipv6(),
        "uuid" => "[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}".to_owned(),
        // RFC 1123, section 2.1.
        "hostname" => domain(),
        // RFC 5321, section 4.1.2.
        "email" => {
            let atom = "[0-9A-Za-z!#$%&'*+/=?^_`{|}~-]+";
            let quoted = "\"(?:[ !#-\\[\\]-~]|\\\\[ -~])*\"";
            format!("(?:{atom}(?:\\.{atom})*|{quoted})@(?:{}|\\[{ipv4}\\])", domain())
        }
        "uri" | "uri-reference" => uri(format == "uri", "", ""),
        // RFC 3987, section 2.2.
        "iri" | "iri-reference" => {
            let planes = (1..=14).map(|plane| format!("\\u{{{plane:X}0000}}-\\u{{{plane:X}FFFD}}")).collect::<String>();
            let planes = planes.replace("\\u{E0000}", "\\u{E1000}");
            let more = format!("\\u{{A0}}-\\u{{D7FF}}\\u{{F900}}-\\u{{FDCF}}\\u{{FDF0}}-\\u{{FFEF}}{planes}");
            let private = "\\u{E000}-\\u{F8FF}\\u{F0000}-\\u{FFFFD}\\u{100000}-\\u{10FFFD}";
            uri(format == "iri", &more, private)
        }
        // RFC 6570, section 2.
        "uri-template" => {
            let hex = "%[0-9A-Fa-f]{2}";
            let literal = format!("[^\\x00- \"'%<>\\\\^`{{|}}\\x7F-\\u{{9F}}]|{hex}");
            let letter = format!("(?:[0-9A-Za-z_]|{hex})");
            let variable = format!("{letter}(?:\\.?{letter})*(?::[1-9][0-9]{{0,3}}|\\*)?");
            format!("(?:{literal}|\\{{[+#./;?&]?{variable}(?:,{variable})*\\}})*")
        }
        "json-pointer" => POINTER.to_owned(),
        "relative-json-pointer" => format!("(?:0|[1-9][0-9]*)(?:#|{POINTER})"),
        _ => return None,
    })
}

/// RFC 6901, section 3.
const POINTER: &str = "(?:/(?:[^~/]|~[01])*)*";

/// RFC 3986, appendix A, with additional characters: `more` anywhere, and `private` in queries only.
fn uri(absolute: bool, more: &str, private: &str) -> String {
    let hex = "%[0-9A-Fa-f]{2}";
    let ascii = "-0-9A-Za-z._~!$&'()*+,;=";
    let c = format!("{ascii}{more}");
    let pchar = format!("(?:[{c}:@]|{hex})");
    let address = format!("\\[(?:{}|[vV][0-9A-Fa-f]+\\.[{ascii}:]+)\\]", ipv6());
    let authority = format!("(?:(?:[{c}:]|{hex})*@)?(?:{address}|(?:[{c}]|{hex})*)(?::[0-9]*)?");
    let rooted = format!("/(?:{pchar}+(?:/{pchar}*)*)?");
    let tail = format!("(?:\\?(?:[{c}:@/?{private}]|{hex})*)?(?:#(?:{pchar}|[/?])*)?");
    let full =
        format!("[A-Za-z][0-9A-Za-z+.-]*:(?://{authority}(?:/{pchar}*)*|{rooted}|{pchar}+(?:/{pchar}*)*|){tail}");
    if absolute {
        return full;
    }
    let first = format!("(?:[{c}@]|{hex})+");
    format!("{full}|(?://{authority}(?:/{pchar}*)*|{rooted}|{first}(?:/{pchar}*)*|){tail}")
}

/// The maximum number of characters in a format.
pub(crate) fn longest(format: &str) -> Option<u64> {
    match format {
        // RFC 1035, section 2.3.4, without the dot of the root.
        "hostname" => Some(253),
        // RFC 5321, section 4.5.3.1.3, without the angle brackets.
        "email" => Some(254),
        _ => None,
    }
}

/// Returns a function that builds the automaton of a format of strings.
pub(crate) fn of_strings(format: &str) -> Option<impl FnOnce() -> Automaton + use<>> {
    let expression = match format {
        "regex" => None,
        format => Some(expression(format)?),
    };
    let format = format.to_owned();
    // Some take long to build, and there are few of them.
    static KNOWN: Mutex<BTreeMap<String, Automaton>> = Mutex::new(BTreeMap::new());
    let make = move |format: &String| {
        let Some(expression) = expression else { return regex::expressions() };
        let dfa = Dfa::new(&expression).expect("formats are regular expressions");
        let all = dfa.automaton().expect("every format has texts");
        if format == "email" { with_short_names(&all) } else { all }
    };
    Some(move || {
        let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        known.entry(format).or_insert_with_key(make).clone()
    })
}

/// RFC 5321, section 4.5.3.1.1: the part before the at sign has at most 64 characters.
fn with_short_names(addresses: &Automaton) -> Automaton {
    let short = Automaton::explore(
        (0u8, false, false, false),
        |byte| if matches!(byte, b'@' | b'"' | b'\\') { byte } else { 0 },
        |&(count, quoted, escaped, done), byte| match byte {
            _ if done => Some((count, quoted, escaped, done)),
            b'@' if !quoted => Some((0, false, false, true)),
            _ if count == 64 => None,
            b'"' if !escaped => Some((count + 1, !quoted, false, false)),
            b'\\' => Some((count + 1, quoted, !escaped, false)),
            _ => Some((count + 1, quoted, false, false)),
        },
        |&(.., done)| done,
    );
    let short = short.expect("it is small");
    Automaton::all_of(&Budget::without_end(), &[(addresses, true), (&short, true)]).expect("short addresses are there")
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
        assert!(!automaton.matches(b"0000-01-01"));
        for year in 1..10_000u32 {
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
            &[
                "joe",
                "@x",
                ".a@x.y",
                "a..b@x.y",
                "a@-x.y",
                &format!("{}@x.y", "a".repeat(65)),
                &format!("\"{}\"@x.y", "\\a".repeat(32)),
            ],
        );
        let long = |length: usize| "ab-".repeat(22)[..length].to_owned();
        check(
            "hostname",
            &["a", "ab", "a-b", "a--b", "abc-d", "abc--d", "www.example.com", "xn--a", "XN--a-b", &long(62), &long(1)],
            &["", "-a", "a-", "ab-", "a--", "a..b", "a_b", "ab--c", "ab--cd.e", "xn--", &long(65), &"a".repeat(64)],
        );
        check("email", &["a@xn--b.c", "a@b--c"], &["a@bc--d", "a@b.c-"]);
    }

    #[test]
    fn regular_expressions() {
        check(
            "regex",
            &[
                "",
                "^[a-z0-9_-]{3,16}$",
                "(foo|bar)+?",
                "^(\\d{3}-){2}\\d{4}$",
                "[^&<>]*",
                "^\\s*$|é",
                "(?:a(b(c)))",
                "[-a]\\.\\/",
                "[ -~]",
                "a{2,12}b{12,}c{45,67}",
                "\\u00e9\\x41",
                "[\\w.\\-]+@x",
            ],
            &[
                "*",
                "\\",
                "(",
                ")",
                "[",
                "a**",
                "[z-a]",
                "a{2,1}",
                "a{30,12}",
                "^*",
                "[]",
                "(?=a)",
                "a{",
                "]",
                "\\a",
                "[a",
                "\\1",
                "\\ud800",
                "(?<n>a)",
                "[a&&b]",
                "((((a))))",
                "((a{2}){2}){2}",
                "a{100}",
            ],
        );
    }

    /// For all texts of a few signs, the accepted ones are valid for another parser and as ECMA-262.
    #[test]
    fn regular_expressions_are_read() {
        let automaton = of_strings("regex").unwrap()();
        assert!(automaton.states() < 3_000, "groups are copies of one automaton: {}", automaton.states());
        let signs = ["a", "2", "-", "]", "[", "^", "&", "(", ")", "{", "}", ",", "*", "?", "\\", "d", "|", "é", ":"];
        let mut open = vec![String::new()];
        let mut accepted = 0;
        while let Some(text) = open.pop() {
            if automaton.matches(text.as_bytes()) {
                accepted += 1;
                ::regex::Regex::new(&text).unwrap_or_else(|fault| panic!("{text}: {fault}"));
                crate::json::pattern::translate(&text).unwrap_or_else(|fault| panic!("{text}: {fault}"));
            }
            let longer = signs.iter().map(|sign| format!("{text}{sign}"));
            open.extend(
                longer.filter(|longer| longer.chars().count() < 5 && automaton.after(longer.as_bytes()).is_some()),
            );
        }
        assert!(accepted > 1_000, "{accepted}");
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
