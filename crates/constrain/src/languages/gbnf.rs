//! GBNF, the grammar language of llama.cpp.

use super::bnf::{Dialect, parse};
use super::compile::compile;
use super::fault::BadGrammar;
use crate::automata::budget::Budget;
use crate::grammar::Grammar;

impl Grammar {
    /// Creates the grammar of a text in GBNF, the language of llama.cpp. The rule `root` is the whole text.
    ///
    /// Left recursion is allowed. Control tokens are written by their text: `<|end|>`.
    ///
    /// # Errors
    /// The grammar is malformed, has a construct that is not supported, is too large, or no text obeys it.
    #[doc(alias = "bnf")]
    pub fn gbnf(text: &str) -> Result<Self, BadGrammar> {
        compile(parse(text, Dialect::Gbnf)?, "root", &Budget::default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{accepts, is_grammar_of, machine_of};

    #[test]
    fn texts_are_those_of_the_rules() {
        for (grammar, texts, others) in [
            ("root ::= \"a\" b | c\nb ::= \"b\"\nc ::= \"c\"", &["ab", "c"][..], &["a", "b", "abc", ""][..]),
            ("root ::= (\"a\"\n | \"b\" # or\n)+ |\n  \"c\"", &["a", "abba", "c"], &["", "cc", "ac"]),
            (
                "# first\nroot ::=\n  [a-cé]{2} [^a-c\\]-] .?\n",
                &["abd", "éc\n", "aad\u{10ffff}"],
                &["abc", "aa]", "aa-", "ad"],
            ),
            ("root ::= \"\\x41\\u00e9\\U0001F600\\t\\\\\\\"\"", &["Aé😀\t\\\""], &["A"]),
            ("root ::= a{2,} \"-\" a{0} a{1,2}\na ::= \"x\" a?", &["xx-x", "xxxxx-xx"], &["x-x", "xx-", "xx"]),
            ("root ::= \"(\" root \")\" |", &["", "()", "((()))"], &["(", "())", ")("]),
            ("root ::= root \"-\" n | n\nn ::= [0-9]+", &["1", "12-3-4"], &["-", "1-", "1--2", ""]),
            ("root ::= root root | \"a\" | \"\"", &["", "a", "aaaa"], &["b", "ab"]),
            ("root ::= \"\" | ws \"a\"\nws ::= ([ \\n] ws)?", &["", "a", " \n a"], &[" ", "a "]),
            ("root ::= [a-]+ [-a]", &["a-a", "--"], &["a", "b-"]),
        ] {
            let read = Grammar::gbnf(grammar).unwrap();
            is_grammar_of(grammar, read, texts, others);
        }
    }

    #[test]
    fn faults_name_their_place_and_cure() {
        for (grammar, message) in [
            ("root ::= \"a\"\nroot ::= \"b\"", "line 2, column 1: the rule root is defined twice"),
            ("top ::= \"a\"", "line 1, column 1: missing is the rule root"),
            ("root ::= a\n", "line 1, column 10: the rule a is not defined"),
            ("root ::= \"a\" * )", "line 1, column 16: ')' is not part of a rule"),
            ("root ::= *", "line 1, column 10: there is nothing to repeat"),
            ("root ::= (\"a\"", "line 1, column 10: a parenthesis is not closed"),
            ("root ::= \"a", "line 1, column 10: a text in quotes is not closed"),
            ("root ::= [a", "line 1, column 10: a class is not closed"),
            ("root ::= [b-a]", "line 1, column 11: the range 'b'-'a' is reversed"),
            ("root ::= [b-\n]", "line 1, column 11: the range 'b'-'\\n' is reversed"),
            ("root ::= \"\\q\"", "line 1, column 11: unknown escape \\q"),
            ("root ::= \"a\"{,3}", "line 1, column 13: a repetition has no least number"),
            ("root ::= \"a\"{3,2}", "line 1, column 13: {3,2} is reversed"),
            ("root = \"a\"", "line 1, column 6: '=' follows the name"),
            ("root ::= <[7]>", "a token by its number at line 1, column 10"),
            ("root ::= root", "no text obeys the grammar"),
            ("root ::= \"a\"{1000000}", "the grammar is too large"),
        ] {
            let fault = Grammar::gbnf(grammar).unwrap_err().to_string();
            assert!(fault.contains(message) && !fault.contains('\n'), "{grammar}: {fault}");
        }
        let deep = format!("root ::= {}\"a\"{}", "(".repeat(1000), ")".repeat(1000));
        assert!(Grammar::gbnf(&deep).unwrap_err().to_string().contains("too many parentheses"));
    }

    /// A text of an ambiguous grammar has more readings than can be counted, but they share their states.
    #[test]
    fn ambiguity_does_not_multiply() {
        let machine = machine_of(Grammar::gbnf("root ::= root root | root root root | \"a\" | \"\"").unwrap());
        assert!(accepts(&machine, &"a".repeat(60)));
        let sums = "root ::= root [+*] root | \"-\" root | \"(\" root \")\" | [0-9]";
        let machine = machine_of(Grammar::gbnf(sums).unwrap());
        assert!(accepts(&machine, &format!("{}1", "-(1)*2+".repeat(300))));
        assert!(machine.states_memory() < 1 << 20, "{}", machine.states_memory());
    }
}
