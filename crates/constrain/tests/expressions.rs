//! Every supported expression matches the same texts as in the `regex` crate, whatever assertions it has; and grammars
//! accept and refuse the texts that they should.

use std::sync::{Arc, LazyLock};

use proptest::prelude::*;
use proptest::test_runner::{Config, TestCaseError};
use regex::Regex;
use verdigris_constrain::{BadRegex, Grammar, Language, Machine, TokenIndex};
use verdigris_logits::TokenId;
use verdigris_text::Tokenizer;

static TOKENIZER: LazyLock<Tokenizer> = LazyLock::new(|| {
    Tokenizer::from_json(include_bytes!("../../../fixtures/models/tale/tokenizer.json")).expect("it is a tokenizer")
});
static INDEX: LazyLock<Arc<TokenIndex>> = LazyLock::new(|| Arc::new(TokenIndex::new(TOKENIZER.vocabulary())));

const LOOKS: &[&str] = &[
    "^",
    "$",
    r"\A",
    r"\z",
    "(?m:^)",
    "(?m:$)",
    "(?mR:^)",
    "(?mR:$)",
    r"\b",
    r"\B",
    r"\b{start}",
    r"\b{end}",
    r"\b{start-half}",
    r"\b{end-half}",
    r"(?-u:\b)",
    r"(?-u:\B)",
    r"(?-u:\b{start})",
    r"(?-u:\b{end})",
    r"(?-u:\b{start-half})",
    r"(?-u:\b{end-half})",
];

/// The parts of short texts: word characters in ASCII and beyond, others in both, and line ends.
const SIGNS: [&str; 7] = ["a", "b", "-", "é", "—", "\n", "\r"];

fn expression() -> impl Strategy<Value = String> {
    let character = prop::sample::select(vec!["a", "b", "ab", "-", "é", "—", r"\n", r"\r", "aé-", ""]);
    let class = prop::sample::select(vec![
        "[ab]",
        "[^a]",
        r"\w",
        r"\W",
        r"(?-u:\w)",
        r"\s",
        ".",
        "(?s:.)",
        "(?R:.)",
        "[é—]",
        "[a-é]",
        r"[\n-]",
        "(?i:A)",
    ]);
    let look = prop::sample::select(LOOKS.to_vec());
    let leaf = prop_oneof![3 => character, 2 => class, 4 => look].prop_map(str::to_owned);
    leaf.prop_recursive(5, 24, 4, |inner| {
        let repeated =
            (inner.clone(), prop::sample::select(vec!["?", "*", "+", "{2}", "{0,2}", "{1,3}", "*?", "{2,}"]));
        prop_oneof![
            3 => prop::collection::vec(inner.clone(), 2..5).prop_map(|parts| parts.concat()),
            2 => prop::collection::vec(inner, 2..4).prop_map(|parts| format!("(?:{})", parts.join("|"))),
            2 => repeated.prop_map(|(part, times)| format!("(?:{part}){times}")),
        ]
    })
}

/// All texts of at most `signs` signs.
fn short_texts(signs: usize) -> Vec<String> {
    let mut all = vec![String::new()];
    let mut from = 0;
    for _ in 0..signs {
        let to = all.len();
        for at in from..to {
            all.extend(SIGNS.map(|sign| format!("{}{sign}", all[at])));
        }
        from = to;
    }
    all
}

/// A text of randomly chosen allowed tokens, completed after a while.
fn walked(machine: &Machine, mut choose: impl FnMut(usize) -> usize) -> Result<Vec<u8>, TestCaseError> {
    let (mut state, mut text) = (machine.start(), Vec::new());
    for _ in 0..12 {
        let mask = machine.mask(state);
        prop_assert_eq!(mask.accepts, machine.accepts(state));
        let tokens: Vec<TokenId> = mask.tokens.iter().collect();
        prop_assert!(mask.accepts || !tokens.is_empty(), "nothing can follow {:?}", text);
        if tokens.is_empty() || mask.accepts && choose(4) == 0 {
            break;
        }
        let bytes = TOKENIZER.vocabulary().bytes(tokens[choose(tokens.len())]);
        text.extend_from_slice(bytes);
        state = machine.next(state, bytes);
    }
    let rest = machine.completion(state);
    prop_assert!(rest.is_some(), "no end can be reached from {:?}", text);
    text.extend(rest.unwrap_or_default());
    Ok(text)
}

fn agrees(pattern: &str, short: &[String], seed: u64) -> Result<(), TestCaseError> {
    let judge = match Regex::new(&format!(r"\A(?:{pattern})\z")) {
        Ok(judge) => judge,
        Err(_) => {
            prop_assert!(Grammar::regex(pattern).is_err(), "the judge refuses it");
            return Ok(());
        }
    };
    let machine = match Grammar::regex(pattern) {
        Ok(grammar) => Machine::new(grammar, INDEX.clone()),
        Err(BadRegex::Empty) => {
            let some = short.iter().find(|text| judge.is_match(text));
            prop_assert!(some.is_none(), "{some:?} matches");
            return Ok(());
        }
        Err(fault) => return Err(TestCaseError::fail(fault.to_string())),
    };
    for text in short {
        let state = machine.next(machine.start(), text.as_bytes());
        prop_assert_eq!(machine.accepts(state), judge.is_match(text), "{:?}", text);
    }
    let mut random = seed | 1;
    let mut choose = |count: usize| {
        random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        (random >> 33) as usize % count
    };
    for _ in 0..8 {
        let text = String::from_utf8(walked(&machine, &mut choose)?);
        prop_assert!(text.as_ref().is_ok_and(|text| judge.is_match(text)), "{:?} does not match", text);
    }
    Ok(())
}

#[test]
fn expressions_match_what_the_regex_crate_matches() {
    let short = short_texts(3);
    let mut runner =
        proptest::test_runner::TestRunner::new(Config { cases: 600, failure_persistence: None, ..Config::default() });
    runner
        .run(&(expression(), any::<u64>()), |(pattern, seed)| {
            agrees(&pattern, &short, seed).map_err(|fault| TestCaseError::fail(format!("{pattern:?}: {fault}")))
        })
        .unwrap_or_else(|fault| panic!("{fault}"));
}

/// Each assertion between every two neighbours, and inside unbounded repetition.
#[test]
fn every_look_is_decided_by_its_neighbours() {
    let short = short_texts(4);
    for look in LOOKS {
        for pattern in
            [format!("(?s:.*){look}(?s:.*)"), format!("(?s)(?:.{look}.?|é)*"), format!("(?:{look}|a)+(?s:.)?")]
        {
            agrees(&pattern, &short, 1).unwrap_or_else(|fault| panic!("{pattern:?}: {fault}"));
        }
    }
}

/// More states than are built at once, and more characters than letters.
#[test]
fn large_expressions_look_around_too() {
    let short = short_texts(3);
    let many: String = ('\u{4e00}'..'\u{4f00}').map(|c| format!("{c}{c}|")).collect();
    for pattern in [
        r"(?s:.)*(?:a\b|\bb)[ab-]{14}|(?:\w\b\W){0,2}",
        r"(?:[ab]*a[ab]{14}$|-)\B(?:\s?)",
        &format!(r"(?-u:\b)(?:{many}a|b)(?-u:\b)-?"),
        &format!(r"(?m:^)(?:{many}a|b)$"),
    ] {
        agrees(pattern, &short, 3).unwrap_or_else(|fault| panic!("{pattern:?}: {fault}"));
    }
    let fault = Grammar::regex(&format!(r"\b(?:{many}a)")).unwrap_err().to_string();
    assert!(fault.contains(r"(?-u:\b) asks after ASCII alone"), "{fault}");
}

fn accepts(machine: &Machine, text: &str) -> bool {
    machine.accepts(machine.next(machine.start(), text.as_bytes()))
}

/// Each construct of each grammar language, and each difference between the dialects, has a case.
#[test]
fn grammars_have_the_known_texts() {
    let cases: serde_json::Value =
        serde_json::from_str(include_str!("../../../tests/cases/grammars.json")).expect("it is JSON");
    let texts = |list: &serde_json::Value| -> Vec<String> {
        list.as_array().into_iter().flatten().filter_map(|text| text.as_str().map(String::from)).collect()
    };
    for case in cases.as_array().expect("it is a list") {
        let text = |key: &str| case[key].as_str().unwrap_or_default();
        let about = format!("{}: {}", text("language"), text("about"));
        let language: Language = text("language").parse().expect("it is one");
        match (Grammar::parse(language, text("grammar")), case["fault"].as_str()) {
            (Err(fault), Some(expected)) => assert!(fault.to_string().contains(expected), "{about}: {fault}"),
            (Ok(grammar), None) => {
                let machine = Machine::new(grammar, INDEX.clone());
                let (accepted, refused) = (texts(&case["accepts"]), texts(&case["refuses"]));
                accepted.iter().for_each(|text| assert!(accepts(&machine, text), "{about}: {text:?} is refused"));
                refused.iter().for_each(|text| assert!(!accepts(&machine, text), "{about}: {text:?} is accepted"));
            }
            (other, expected) => panic!("{about}: {other:?}, but expected is {expected:?}"),
        }
    }
}

/// The examples of the documentation: texts of their languages, and texts with one fault.
#[test]
fn example_grammars_have_the_texts_of_their_languages() {
    for (name, texts, others) in [
        (
            "json.gbnf",
            &["{\"a\": [1, -2.5e3, true, null], \"\\u00e9\": \"\"}", "[]"][..],
            &["{a: 1}", "[1,]", "01"][..],
        ),
        ("arithmetic.ebnf", &["1+2", "a*(b-1.5)^-2", "max(1,x%2)-3", "-(-1)"], &["1+", "(1", "f(,)", "1..2"]),
        (
            "sql.lark",
            &[
                "SELECT * FROM a",
                "select a.b as c, count(*) from t join u on t.x = u.x where a > 1 and not b is null group by a order by c desc limit 3;",
                "SELECT 1 FROM (SELECT x FROM y) AS z UNION ALL SELECT 'it''s' FROM w",
            ],
            &["SELECT FROM a", "SELECT * FROM a WHERE", "SELECT a b FROM", "INSERT INTO a"],
        ),
        (
            "c.lark",
            &[
                "int main(void v) { return 0; }",
                "int f(char *s, const unsigned int n) {\n  int i = 0, a[3];\n  for (i = 0; i < n && s[i]; i++) { g(s, i * 2 + 1); } // end\n  return i ? -i : *s; /* x */\n}",
                "double x = 1.5;",
            ],
            &["int main( { }", "int f(int a) { return 0 }", "x = 1;", "int f(int a) { if a b(); }"],
        ),
        (
            "python.lark",
            &[
                "lambda x, y: x ** -y if x not in (1, 2,) else {k: v for k, v in d if k}",
                "f(a, *b, c=1)[1:2].g + 'it' \"s\" - [x for x in range(10)][-1]",
                "not a or b is not None",
            ],
            &["f(", "1 +", "lambda: ", "a b", "[1, 2"],
        ),
        (
            "chess.gbnf",
            &["1. e4 e5 2. Nf3 Nc6 3. Bb5 a6 4. O-O Nxe4 ", "1. f3 e5 2. g4 Qh4# 0-1", "37. exd8=Q+ "],
            &["1. e9 ", "e4", "1. Xe4 "],
        ),
    ] {
        let path = format!("{}/../../fixtures/grammars/{name}", env!("CARGO_MANIFEST_DIR"));
        let (_, extension) = name.split_once('.').expect("it has an extension");
        let text = std::fs::read_to_string(&path).expect("it is there");
        let grammar = Grammar::parse(extension.parse().expect("it is a language"), &text);
        let machine = Machine::new(grammar.unwrap_or_else(|fault| panic!("{name}: {fault}")), INDEX.clone());
        texts.iter().for_each(|text| assert!(accepts(&machine, text), "{name}: {text:?} is refused"));
        others.iter().for_each(|text| assert!(!accepts(&machine, text), "{name}: {text:?} is accepted"));
    }
}
