//! Masks equal their definition byte by byte for tokens that continue after characters of a class: with others, or with
//! more of them; after any number, or at most some.

mod lexicon;

use std::collections::BTreeSet;

use verdigris_constrain::{Grammar, Language, Lexicon, Machine};
use verdigris_logits::{Purpose, Random};

use crate::lexicon::lexicon_of;

/// Names of up to three letters, each with any of some ends.
fn lexicon() -> Lexicon {
    const ENDS: [&str; 14] = ["", "(", "()", "(a", ", ", ",b", "-", "-a", "!", "é", "éa", " ", " a", ";"];
    let mut names = vec![String::new()];
    let mut last = names.clone();
    for _ in 0..3 {
        last = last.iter().flat_map(|name| ["a", "b", "z"].map(|letter| format!("{name}{letter}"))).collect();
        names.extend_from_slice(&last);
    }
    let tokens: BTreeSet<String> = names
        .iter()
        .flat_map(|name| ENDS.map(|end| format!("{name}{end}")))
        .filter(|token| !token.is_empty())
        .collect();
    lexicon_of(&tokens.into_iter().collect::<Vec<_>>())
}

#[test]
fn masks_of_classes_are_those_of_the_definition() {
    let lexicon = lexicon();
    for (language, grammar) in [
        (Language::Ebnf, r#"root ::= [a-z]+ ("(" | ", " root | "-" [a-z]+ | "; ")"#),
        (Language::Ebnf, r#"root ::= [a-z]+ ([a-e] "!" | "é" | " " root | "")"#),
        (Language::Ebnf, r#"root ::= [a-z]{1,5} ("," root | "(" root? ")" | "-" | "!")"#),
        (Language::Ebnf, r#"root ::= [ a-z]{3,9} ("!" | "," root)"#),
        (Language::Ebnf, r#"root ::= [a-zé]+ ("!" [é-ï]+ | "(" root ")")"#),
        (Language::Lark, "start: NAME (\"-\" NAME | \"(\" start \")\")*\nNAME: /[a-z_]{1,7}/\n%ignore \" \"\n"),
        (Language::Lark, "start: \"b\" NAME | NAME \",\" start | NAME \"!\"\nNAME: /[a-zA-Z]+/\n%ignore /[ \\n]+/\n"),
    ] {
        for seed in 0..12 {
            // The tokens of a class are found once several states have asked for them.
            let machine = Machine::new(Grammar::parse(language, grammar).unwrap(), lexicon.index().clone());
            let (random, mut text) = (Random::new(seed), Vec::new());
            for at in 0..10 {
                let state = machine.next(machine.start(), &text);
                let mask = machine.mask(state);
                for token in 1..lexicon.index().vocabulary_size() as u32 {
                    let bytes = lexicon.bytes(token);
                    let may_come = machine.goes_on(machine.next(state, bytes));
                    let about = || format!("{grammar}: {:?} after {:?}", lossy(bytes), lossy(&text));
                    assert_eq!(mask.tokens.contains(token), may_come, "{}", about());
                }
                let tokens: Vec<u32> = mask.tokens.iter().collect();
                let chosen = (random.uniform(at, Purpose::Token) * tokens.len() as f64) as usize;
                let Some(&token) = tokens.get(chosen) else { break };
                text.extend_from_slice(lexicon.bytes(token));
            }
        }
    }
}

fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
