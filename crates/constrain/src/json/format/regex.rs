//! The format `regex`: an automaton over regular expressions that tracks the open groups.

use crate::automata::automaton::Automaton;
use crate::automata::dfa::Dfa;

/// The maximum nesting depth of groups.
const DEEPEST: u8 = 3;

/// The part of an expression between two parentheses: what belongs to the parenthesis, or the terms after it.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum RegexPart {
    /// After `(`: the kind of the group.
    Opened,
    /// After the `)` of a group without inner groups, which may be repeated a number of times.
    Flat,
    /// After the `)` of any other group.
    Nested,
    Terms,
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct RegexState {
    part: RegexPart,
    state: u32,
    depth: u8,
    /// Whether the innermost open group contains a group.
    has_group: bool,
}

/// Regular expressions (ECMA-262, 22.2.1, with Unicode) that other dialects read alike: without names, backreferences,
/// lookaround and properties of characters; groups are nested at most three deep, and repeated a number of times (up to
/// 99, groups up to 9) only if they contain no group.
pub(super) fn expressions() -> Automaton {
    let automaton = |expression: &str| {
        let dfa = Dfa::new(expression).expect("it is a regular expression");
        dfa.automaton().expect("there are texts")
    };
    let (terms, few) = terms();
    let parts = [r"(?:\?:)?", &format!(r"(?:(?:[*+?]|{few})\??)?"), r"(?:[*+?]\??)?", &terms].map(automaton);
    let of = |part: RegexPart| &parts[part as usize];
    Automaton::explore(
        RegexState { part: RegexPart::Terms, state: Automaton::START, depth: 0, has_group: false },
        |byte| (parts.each_ref().map(|part| part.class(byte)), matches!(byte, b'(' | b')').then_some(byte)),
        |at, byte| {
            let to = |part, state| RegexState { part, state, ..at.clone() };
            if let Some(state) = of(at.part).next(at.state, byte) {
                return Some(to(at.part, state));
            }
            if !of(at.part).accepts(at.state) {
                return None;
            }
            let begin = |part, depth, has_group| RegexState { part, state: Automaton::START, depth, has_group };
            match byte {
                b'(' if at.depth < DEEPEST => Some(begin(RegexPart::Opened, at.depth + 1, false)),
                b')' if at.depth > 0 => {
                    let part = if at.has_group { RegexPart::Nested } else { RegexPart::Flat };
                    Some(begin(part, at.depth - 1, at.depth > 1))
                }
                _ if at.part == RegexPart::Terms => None,
                _ => of(RegexPart::Terms).next(Automaton::START, byte).map(|state| to(RegexPart::Terms, state)),
            }
        },
        |at| at.depth == 0 && of(at.part).accepts(at.state),
    )
    .expect("it is small")
}

/// Alternatives of terms without groups, and the numbers of repetitions of a group.
fn terms() -> (String, String) {
    let hex = "[0-9A-Fa-f]";
    let code = format!("x{hex}{{2}}|u(?:[0-9A-CEFa-cef]{hex}{{3}}|[dD][0-7]{hex}{{2}})");
    let escape = format!(r"\\(?:[dDwWsStnrfv^$.*+?()\[\]{{}}|/\\]|{code})");
    // The first of a range comes before the second.
    let range = |first: char, last: char| {
        let ranges: Vec<String> = (first..=last).map(|low| format!("{low}-[{low}-{last}]")).collect();
        ranges.join("|")
    };
    let ranges = [range('0', '9'), range('A', 'Z'), range('a', 'z')].join("|");
    let one = format!(r"[ !-%'-,./0-Z_`a-z{{}}[^\x00-\x7F]]|[ !]-~|{ranges}|{escape}|\\-");
    // Signs that are operators in other dialects when doubled occur only once.
    let class = format!(r"\[\^?(?:-?(?:[&|~]?(?:{one}))+[&|~]?-?|-|[&|~])\]");
    let digits = ('0'..='9').map(|low| format!("{low},[{low}-9]")).collect::<Vec<_>>().join("|");
    let tens = (1..=9).map(|ten| {
        let same = ('0'..='9').map(|low| format!("{ten}{low},{ten}[{low}-9]")).collect::<Vec<_>>().join("|");
        if ten < 9 { format!("{same}|{ten}[0-9],[{}-9][0-9]", ten + 1) } else { same }
    });
    let tens = tens.collect::<Vec<_>>().join("|");
    let few = format!(r"\{{(?:[0-9],?|{digits})\}}");
    let many = format!(r"\{{(?:[0-9]{{1,2}},?|{digits}|[0-9],[1-9][0-9]|{tens})\}}");
    let atom = format!(r"[^\\^$.*+?()\[\]{{}}|]|\.|{escape}|{class}");
    let plain = format!(r"(?:{atom})(?:(?:[*+?]|{many})\??)?|[\^$]|\\[bB]");
    (format!(r"(?:{plain}|\|)*"), few)
}
