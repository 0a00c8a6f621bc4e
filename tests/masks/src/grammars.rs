//! Grammars for the comparison of masks: the examples, and random languages of names, numbers, texts and operators.

use std::path::Path;

use verdigris_constrain::Language;
use verdigris_logits::{Purpose, Random};

/// A grammar in one of our languages, and the same in Lark for the other engine.
pub struct Both {
    pub id: String,
    pub language: Language,
    pub grammar: String,
    pub lark: String,
}

/// The examples that are not written in Lark, in Lark. Their texts are divided into characters there too.
const TRANSLATED: [(&str, &str); 3] = [
    (
        "json",
        r#"start: ws value ws
value: object | array | string | number | "true" | "false" | "null"
object: "{" ws (member (ws "," ws member)*)? ws "}"
member: string ws ":" ws value
array: "[" ws (value (ws "," ws value)*)? ws "]"
string: /"([^"\\\x00-\x1F]|\\(["\\\/bfnrt]|u[0-9a-fA-F]{4}))*"/
number: /-?(0|[1-9][0-9]{0,15})(\.[0-9]{1,15})?([eE][-+]?[0-9]{1,3})?/
ws: /[ \t\n]{0,20}/
"#,
    ),
    (
        "arithmetic",
        r#"start: sum
sum: sum ("-" | "+") product | product
product: product ("*" | "/" | "%") power | power
power: factor "^" power | factor
factor: "-" factor | number | call | name | "(" sum ")"
call: name "(" (sum ("," sum)*)? ")"
name: /[a-z_][a-z0-9_]{0,15}/
number: /[0-9]+(\.[0-9]+)?/
"#,
    ),
    (
        "chess",
        r#"start: turn{1,100} result?
turn: /[1-9][0-9]{0,2}\. / move (" " move)? " "
move: (pawn | piece | "O-O" "-O"?) /[+#]?[!?]{0,2}/
piece: /[KQRBN][a-h]?[1-8]?x?/ square
pawn: (/[a-h]x/)? square (/=[QRBN]/)?
square: /[a-h][1-8]/
result: "1-0" | "0-1" | "1/2-1/2"
"#,
    ),
];

/// The example grammars in a folder.
pub fn examples(folder: &Path) -> Vec<Both> {
    let mut names: Vec<_> =
        std::fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("a file").path()).collect();
    names.sort();
    let example = |path: std::path::PathBuf| {
        let part = |part: Option<&std::ffi::OsStr>| part.expect("a name").to_string_lossy().into_owned();
        let (id, language) = (part(path.file_stem()), part(path.extension()).parse().expect("a language"));
        let grammar = std::fs::read_to_string(&path).expect("a text");
        let translated = TRANSLATED.iter().find(|(name, _)| *name == id).map(|(_, lark)| (*lark).to_owned());
        Both { id, language, lark: translated.unwrap_or_else(|| grammar.clone()), grammar }
    };
    names.into_iter().map(example).collect()
}

/// A random language with statements and expressions in Lark.
pub fn random(seed: u64) -> Both {
    let random = Random::new(seed);
    let mut count = 0;
    let mut below = |most: usize| {
        count += 1;
        (random.uniform(count, Purpose::Token) * most as f64) as usize
    };
    let mut some = |of: &[&'static str], least: usize, more: usize| -> Vec<&'static str> {
        let mut left = of.to_vec();
        let chosen = least + below(more + 1);
        (0..chosen.min(of.len())).map(|_| left.remove(below(left.len()))).collect()
    };
    let words = some(&["if", "while", "return", "let", "for", "print", "fn", "match", "yield", "del"], 3, 4);
    let operators = some(&["+", "-", "*", "/", "%", "**", "//", "<<", ">>", "&", "|", "and", "or"], 3, 4);
    let relations = some(&["==", "!=", "<", "<=", ">", ">=", "in", "is", "like"], 2, 3);
    let atoms = some(&["NUMBER", "STRING", "list", "map", "call", "\"(\" sum \")\"", "\"-\" atom", "\"null\""], 3, 4);
    let names = some(&["[a-z]+", "[a-zA-Z_][a-zA-Z0-9_]*", "[a-z_][a-z0-9_]{0,15}", r"\p{L}[\p{L}0-9]*"], 1, 0);
    let texts = some(&[r#"/"([^"\\\n]|\\.)*"/"#, "/'([^'\\n]|'')*'/", "/`[^`]*`/"], 1, 0);
    let ignored = some(&["/[ \\t]+/", "/[ \\n]+/", "/\\s+/"], 1, 0);
    let quoted = |words: &[&str]| words.iter().map(|word| format!("\"{word}\"")).collect::<Vec<_>>().join(" | ");
    let statements: Vec<String> = words
        .iter()
        .enumerate()
        .map(|(at, word)| match at % 4 {
            0 => format!("\"{word}\" test block (\"else\" block)?"),
            1 => format!("\"{word}\" NAME \"=\" test \";\""),
            2 => format!("\"{word}\" test? \";\""),
            _ => format!("\"{word}\" \"(\" (NAME (\",\" NAME)*)? \")\" block"),
        })
        .collect();
    let grammar = format!(
        "start: statement+\nstatement: {}\n    | NAME \"=\" test \";\" | test \";\"\nblock: \"{{\" statement* \"}}\"\n\
         test: sum (({}) sum)*\nsum: sum ({}) atom | atom\natom: NAME | {}\nlist: \"[\" (test (\",\" test)*)? \"]\"\n\
         map: \"{{\" (STRING \":\" test (\",\" STRING \":\" test)*)? \"}}\"\ncall: NAME \"(\" (test (\",\" test)*)? \")\"\n\
         NAME: /{}/\nSTRING: {}\nNUMBER: /[0-9]+(\\.[0-9]+)?(e[+-]?[0-9]+)?/\n%ignore {}\n",
        statements.join("\n    | "),
        quoted(&relations),
        quoted(&operators),
        atoms.join(" | "),
        names[0],
        texts[0],
        ignored[0],
    );
    Both { id: format!("random {seed}"), language: Language::Lark, lark: grammar.clone(), grammar }
}
