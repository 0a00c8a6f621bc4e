//! Translates regular expressions of JSON Schema (ECMA-262) to the syntax of the `regex` crate.
//!
//! The two mostly agree. The differences: in ECMA-262, `\d`, `\w`, `\s` and `\b` mean ASCII (`\s` a list of its own),
//! here Unicode; there, `.` stops at four kinds of line ends; here, brackets nest. Lookahead at the beginning and
//! lookbehind at the end become separate patterns that must match too, or must not. Anything without a counterpart
//! (other lookaround, backreferences) is refused by the parser of the translation.

use crate::automata::automaton::{Automaton, NoAutomaton};
use crate::automata::budget::Budget;
use crate::automata::dfa::Dfa;
use crate::automata::syntax::{BadRegex, parse};

/// The texts in which a pattern matches somewhere; the error says why that is not possible.
pub(crate) fn pattern(budget: &Budget, pattern: &str) -> Result<Automaton, String> {
    let (looks, rest) = looks(pattern);
    let rest = search(budget, &rest)?;
    if looks.is_empty() {
        return Ok(rest);
    }
    let parts: Vec<(Automaton, bool)> =
        looks.iter().map(|(look, wanted)| Ok((search(budget, look)?, *wanted))).collect::<Result<_, String>>()?;
    let all: Vec<(&Automaton, bool)> =
        std::iter::once((&rest, true)).chain(parts.iter().map(|(part, wanted)| (part, *wanted))).collect();
    Automaton::all_of(budget, &all).map_err(no_automaton)
}

/// The lookaheads at the beginning of a pattern and lookbehinds at its end, as patterns that must match or must not;
/// and the pattern without them. Other lookaround is left where it is, and refused later.
///
/// `^(?!a)b` matches in a text in which `^b` does and `^(?:a)` does not.
fn looks(pattern: &str) -> (Vec<(String, bool)>, String) {
    let (mut looks, mut rest) = (Vec::new(), pattern.to_owned());
    if has_top_level_alternatives(pattern) {
        return (looks, rest);
    }
    while let Some(after) = rest.strip_prefix("^(?=").or_else(|| rest.strip_prefix("^(?!"))
        && let Some(end) = group_end(after)
    {
        looks.push((format!("^(?:{})", &after[..end]), rest.starts_with("^(?=")));
        rest = format!("^{}", &after[end + 1..]);
    }
    for (sign, wanted) in [("(?<=", true), ("(?<!", false)] {
        if let Some(at) = rest.rfind(sign)
            && let Some(end) = group_end(&rest[at + 4..])
            && &rest[at + 4 + end..] == ")$"
            && is_top_level(&rest, at)
        {
            looks.push((format!("(?:{})$", &rest[at + 4..at + 4 + end]), wanted));
            rest = format!("{}$", &rest[..at]);
        }
    }
    (looks, rest)
}

/// Each byte of a pattern that is neither escaped nor in a class: its position, the byte, and the number of groups
/// around it.
fn syntax(pattern: &str) -> impl Iterator<Item = (usize, u8, i32)> + '_ {
    let (mut escaped, mut in_class, mut depth) = (false, false, 0);
    pattern.bytes().enumerate().filter_map(move |(at, byte)| {
        if std::mem::take(&mut escaped) {
            return None;
        }
        match byte {
            b'\\' => escaped = true,
            b']' if in_class => in_class = false,
            _ if in_class => {}
            b'[' => in_class = true,
            b'(' => {
                depth += 1;
                return Some((at, byte, depth - 1));
            }
            b')' => {
                depth -= 1;
                return Some((at, byte, depth));
            }
            _ => return Some((at, byte, depth)),
        }
        None
    })
}

/// The end of the group that `rest` is the remainder of.
fn group_end(rest: &str) -> Option<usize> {
    syntax(rest).find(|&(_, byte, depth)| byte == b')' && depth < 0).map(|(at, ..)| at)
}

fn has_top_level_alternatives(pattern: &str) -> bool {
    syntax(pattern).any(|(_, byte, depth)| byte == b'|' && depth == 0)
}

fn is_top_level(pattern: &str, position: usize) -> bool {
    syntax(pattern).any(|(at, byte, depth)| at == position && byte == b'(' && depth == 0)
}

fn no_automaton(fault: NoAutomaton) -> String {
    match fault {
        NoAutomaton::Empty => "no text matches it".into(),
        NoAutomaton::TooLarge => "it has too many states".into(),
    }
}

fn search(budget: &Budget, pattern: &str) -> Result<Automaton, String> {
    let translated = translate(pattern)?;
    let dfa = parse(&translated).and_then(|_| Dfa::found(&translated, budget));
    let automaton = dfa.map_err(|fault| match fault {
        BadRegex::Syntax { fault, .. } => fault,
        BadRegex::Unsupported { construct, .. } => format!("{construct} is not supported"),
        fault => fault.to_string(),
    })?;
    automaton.automaton().map_err(no_automaton)
}

/// ECMA-262, 12.2 and 12.3: white space and line terminators, as the inside of a class.
const SPACE: &str = r"\t\n\x0B\x0C\r \u{A0}\u{1680}\u{2000}-\u{200A}\u{2028}\u{2029}\u{202F}\u{205F}\u{3000}\u{FEFF}";

/// Translates a pattern; the error names what is not supported.
pub(crate) fn translate(pattern: &str) -> Result<String, String> {
    let mut out = String::with_capacity(pattern.len() + 16);
    let mut rest = pattern.chars().peekable();
    // Whether this is inside a class, and there right after a set of characters such as `\d`.
    let (mut in_class, mut after_set) = (false, false);
    while let Some(c) = rest.next() {
        let was_after_set = std::mem::take(&mut after_set);
        match c {
            '\\' => {
                after_set = in_class && rest.peek().is_some_and(|&c| is_set(c));
                escape(&mut rest, in_class, &mut out)?;
            }
            '[' if !in_class => {
                let negated = rest.next_if_eq(&'^').is_some();
                if rest.next_if_eq(&']').is_some() {
                    // `[]` matches no character, `[^]` any.
                    out.push_str(if negated { r"(?s:.)" } else { r"[^\s\S]" });
                } else {
                    out.push_str(if negated { "[^" } else { "[" });
                    in_class = true;
                }
            }
            ']' if in_class => {
                in_class = false;
                out.push(']');
            }
            // Inside a class, these begin nested classes and set operations here, but are literal in ECMA-262.
            '[' | '&' | '~' if in_class => literal(c, &mut out),
            // A set cannot end a range, so the hyphen next to it is literal.
            '-' if in_class => {
                let mut next = rest.clone();
                let before_set = next.next() == Some('\\') && next.next().is_some_and(is_set);
                match rest.peek() {
                    _ if was_after_set || before_set => literal(c, &mut out),
                    Some('-') => return Err("two hyphens in a class are not supported".into()),
                    _ => out.push(c),
                }
            }
            '.' if !in_class => out.push_str(r"[^\n\r\u{2028}\u{2029}]"),
            '(' if !in_class && rest.next_if_eq(&'?').is_some() => match rest.next() {
                Some(':') => out.push_str("(?:"),
                Some('<') if !matches!(rest.peek(), Some('=' | '!')) => {
                    // A name only serves references.
                    if !rest.by_ref().any(|c| c == '>') {
                        return Err("a group's name has no end".into());
                    }
                    out.push('(');
                }
                Some('=' | '!' | '<') => return Err("it looks around, which is not supported".into()),
                _ => return Err("it has a group of an unknown kind".into()),
            },
            _ => out.push(c),
        }
    }
    Ok(out)
}

fn is_set(letter: char) -> bool {
    matches!(letter, 'd' | 'D' | 'w' | 'W' | 's' | 'S')
}

type Chars<'a> = std::iter::Peekable<std::str::Chars<'a>>;

fn literal(c: char, out: &mut String) {
    out.push_str(&format!(r"\u{{{:X}}}", c as u32));
}

fn escape(rest: &mut Chars<'_>, in_class: bool, out: &mut String) -> Result<(), String> {
    let Some(c) = rest.next() else { return Err("it ends in a backslash".into()) };
    match (c, in_class) {
        ('d', true) => out.push_str("0-9"),
        ('d', false) => out.push_str("[0-9]"),
        ('D', _) => out.push_str("[^0-9]"),
        ('w', true) => out.push_str("0-9A-Za-z_"),
        ('w', false) => out.push_str("[0-9A-Za-z_]"),
        ('W', _) => out.push_str("[^0-9A-Za-z_]"),
        ('s', true) => out.push_str(SPACE),
        ('s', false) => out.push_str(&format!("[{SPACE}]")),
        ('S', _) => out.push_str(&format!("[^{SPACE}]")),
        ('b', false) => out.push_str(r"(?-u:\b)"),
        ('B', false) => out.push_str(r"(?-u:\B)"),
        ('b', true) => literal('\u{8}', out),
        ('n' | 'r' | 't' | 'v' | 'f', _) => out.push_str(match c {
            'n' => r"\n",
            'r' => r"\r",
            't' => r"\t",
            'v' => r"\x0B",
            _ => r"\x0C",
        }),
        ('0', _) if !rest.peek().is_some_and(char::is_ascii_digit) => literal('\0', out),
        ('x', _) => code(&hex(rest, 2)?, out)?,
        ('u', _) if rest.next_if_eq(&'{').is_some() => {
            let digits: String = rest.by_ref().take_while(|&c| c != '}').collect();
            code(&digits, out)?;
        }
        ('u', _) => {
            let digits = hex(rest, 4)?;
            code(&digits, out)?;
        }
        ('c', _) => match rest.next() {
            Some(letter) if letter.is_ascii_alphabetic() => literal(char::from(letter as u8 % 32), out),
            _ => return Err("\\c needs a letter".into()),
        },
        ('p' | 'P', _) => {
            out.push('\\');
            out.push(c);
        }
        ('1'..='9' | 'k', _) => return Err("it refers back to a group, which is not supported".into()),
        (c, _) if c.is_ascii_alphanumeric() => return Err(format!("\\{c} is not supported")),
        (c, _) => literal(c, out),
    }
    Ok(())
}

fn hex(rest: &mut Chars<'_>, digits: usize) -> Result<String, String> {
    let hex: String = rest.by_ref().take(digits).collect();
    if hex.len() == digits { Ok(hex) } else { Err("an escape ends too soon".into()) }
}

fn code(digits: &str, out: &mut String) -> Result<(), String> {
    let character = u32::from_str_radix(digits, 16).ok().and_then(char::from_u32);
    let character = character.ok_or_else(|| format!("{digits:?} is not the code of a character"))?;
    literal(character, out);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(pattern: &str, text: &str) -> bool {
        let pattern = translate(pattern).unwrap();
        regex::Regex::new(&pattern).unwrap_or_else(|e| panic!("{pattern}: {e}")).is_match(text)
    }

    #[test]
    fn means_what_ecma_means() {
        for (pattern, yes, no) in [
            (r"^\d$", "7", "٧"),
            (r"^[\d-]+$", "1-2", "a"),
            (r"^\w$", "_", "é"),
            (r"^[^\w]$", "é", "a"),
            (r"^\s$", "\u{FEFF}", "\u{85}"),
            (r"^\S$", "\u{85}", "\u{A0}"),
            (r"^.$", "\u{85}", "\u{2028}"),
            (r"^[[&&~]+$", "[&~", "x"),
            (r"^a\/b\-c\@$", "a/b-c@", "a"),
            (r"^\u00e9\x41\cJ\0$", "éA\n\0", "e"),
            (r"^\u{1F600}$", "😀", "a"),
            (r"^(?<year>\d{4})$", "2026", "26"),
            (r"^[^]$", "\n", ""),
            (r"^([]|a)$", "a", "b"),
            (r"^[\b]$", "\u{8}", "b"),
            (r"\bé", "aé", "é"),
            (r"^a$", "a", "a\n"),
            (r"^[\w-.]$", "-", ","),
            (r"^[.-\d]$", "-", "/"),
            (r"^[a-c-]$", "-", "d"),
            (r"b+", "abba", "a"),
        ] {
            assert!(matches(pattern, yes), "{pattern} {yes:?}");
            assert!(!matches(pattern, no), "{pattern} {no:?}");
        }
    }

    #[test]
    fn looking_ahead_at_the_beginning_and_behind_at_the_end() {
        for (text, yes, no) in [
            ("^(?!a|b)[a-z]+$", &["cab", "x"][..], &["a", "ab", "bc", ""][..]),
            ("^(?=.*[0-9])(?=.*[a-z]).{3,}$", &["a1b", "12a"], &["abc", "123", "a1"]),
            ("^(?!.*\\)x)(?![)|])[a-c]", &["a", "b)"], &["c)x", "d", ")a"]),
            ("^[a-z]+(?<!ing|ed)$", &["go", "inge"], &["going", "ed", "walked"]),
            ("^a*(?<=aa)$", &["aa", "aaa"], &["a", ""]),
            ("^(?!no$)n", &["not", "n"], &["no", "x"]),
        ] {
            let automaton = pattern(&Budget::default(), text).unwrap_or_else(|fault| panic!("{text}: {fault}"));
            yes.iter().for_each(|yes| assert!(automaton.matches(yes.as_bytes()), "{text} {yes}"));
            no.iter().for_each(|no| assert!(!automaton.matches(no.as_bytes()), "{text} {no}"));
        }
        for text in ["a(?!b)c", "^(?!a)b|c", "^((?!a).)*$", "(?<!a)b", "^x(?<!y)?$", "(?!a)b"] {
            assert!(pattern(&Budget::default(), text).is_err_and(|fault| fault.contains("looks around")), "{text}");
        }
    }

    #[test]
    fn what_has_no_counterpart_is_refused() {
        for pattern in [
            r"(?!a)b",
            r"(?=a)",
            r"(?<=a)b",
            r"(a)\1",
            r"(?<n>a)\k<n>",
            r"\uD83D",
            "\\",
            r"\c1",
            r"(?i)a",
            r"\u12",
            "[+--]",
        ] {
            assert!(translate(pattern).is_err(), "{pattern}");
        }
    }
}
