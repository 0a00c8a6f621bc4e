//! EBNF, the grammar language of XGrammar.

use super::bnf::{Dialect, Parser, parse};
use super::compile::compile;
use super::expression::Expression;
use super::fault::{BadGrammar, Position, Result};
use super::pattern::pattern;
use super::regular::Regular;
use super::substring::{Chunks, substring};
use crate::automata::budget::Budget;
use crate::grammar::Grammar;

impl Grammar {
    /// Creates the grammar of a text in EBNF, the language of XGrammar. The rule `root` is the whole text.
    ///
    /// # Errors
    /// The grammar is malformed, has a construct that is not supported, is too large, or no text obeys it.
    pub fn ebnf(text: &str) -> Result<Self, BadGrammar> {
        compile(parse(text, Dialect::Ebnf)?, "root", &Budget::default())
    }
}

/// The macros that name tokens by their numbers, or dispatch on texts or tokens.
const UNSUPPORTED: &[(&str, &str)] = &[
    ("Token", "a grammar does not know the numbers of tokens: constrain the text"),
    ("ExcludeToken", "a grammar does not know the numbers of tokens: constrain the text"),
    ("TagDispatch", "write the free text as Regex(\"...\"), and the rules after it"),
    ("TokenTagDispatch", "a grammar does not know the numbers of tokens: constrain the text"),
];

impl Parser<'_> {
    /// Skips the options of a rule, as far as they do not change its texts.
    pub(super) fn options(&mut self) -> Result<()> {
        if !self.scanner.eat("[") {
            return Ok(());
        }
        loop {
            self.skip_lines();
            let at = self.scanner.position();
            let name = self.scanner.take_while(|character| character.is_ascii_alphabetic() || character == '_');
            match name {
                "temperature" | "capture" => {}
                "lazy" | "max_tokens" | "max_chars" => {
                    let cure = "bound the rule by repetitions, as in [a-z]{1,20}";
                    return at.unsupported(format!("the option {name}"), cure);
                }
                _ => return at.wrong("this is not an option of a rule", "write temperature or capture, or nothing"),
            }
            self.skip_lines();
            if self.scanner.eat("=") || self.scanner.eat("(") {
                self.skip_lines();
                let quoted = self.scanner.position();
                match self.scanner.peek() {
                    Some('"') => drop(self.text(quoted)?),
                    _ => drop(self.scanner.take_while(|character| !matches!(character, ',' | ')' | ']' | '\n'))),
                }
                self.skip_lines();
                self.scanner.eat(")");
                self.skip_lines();
            }
            if self.scanner.eat("]") {
                return Ok(());
            }
            if !self.scanner.eat(",") {
                let at = self.scanner.position();
                return at.wrong("the options of a rule are not closed", "write ] after the last");
            }
        }
    }

    /// A call of a macro, whose opening parenthesis comes next; `None` if this is not the name of one.
    pub(super) fn call(&mut self, name: &str, at: Position) -> Result<Option<Expression>> {
        if let Some((_, cure)) = UNSUPPORTED.iter().find(|(unsupported, _)| *unsupported == name) {
            return at.unsupported(format!("the macro {name}"), *cure);
        }
        if !matches!(name, "Regex" | "Substring") {
            return Ok(None);
        }
        let mut texts = Vec::new();
        self.scanner.eat("(");
        loop {
            self.skip_lines();
            let quoted = self.scanner.position();
            match self.scanner.peek() {
                Some('"') => texts.push(self.text(quoted)?),
                Some(')') => break,
                _ => return quoted.wrong(format!("{name} needs texts in quotes"), "write them as in \"text\""),
            }
            self.skip_lines();
            self.scanner.eat(",");
        }
        self.scanner.eat(")");
        match (name, &texts[..]) {
            ("Regex", [text]) => Ok(Some(Expression::Regular(Regular::of(pattern(text, at)?)))),
            ("Substring", [text]) => Ok(Some(substring(Chunks::Characters(text))?)),
            ("Substring", [_, _, ..]) => Ok(Some(substring(Chunks::Given(&texts))?)),
            _ => at.wrong(format!("{name} has {} texts", texts.len()), "give it one"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::is_grammar_of;

    #[test]
    fn texts_are_those_of_the_rules() {
        for (grammar, texts, others) in [
            ("root ::= \"a\" |\n  \"b\"\n  | c.d\nc.d ::= \"c\"\n\"d\"", &["a", "b", "cd"][..], &["c", ""][..]),
            ("root ::= root \"-\" n | n\nn ::= [0-9]+ # digits\n", &["1", "12-3"], &["1-"]),
            ("root ::= \"\\x1F600\\e\\0\\a\" [^]", &["😀\u{1b}\0\u{7}\n"], &["😀"]),
            ("root ::= [\\-\\]\\.a-c]{2} (\"x\"+)+ ()", &["-]x", "..xx", "abx"], &["d-x", "--"]),
            ("root[temperature=0.7, capture=\"a]b\"] ::= \"a\"{0} b\nb[temperature=1] ::= \"b\"", &["b"], &["ab"]),
            ("root ::= Regex(\"^(?:[a-c]+|\\\\d)$\") \"!\"", &["abc!", "7!"], &["!", "d!"]),
            ("root ::= \"<\" Substring(\"ab\", \"c\", \"d\") \">\"", &["<>", "<abc>", "<cd>"], &["<b>", "<ac>"]),
            ("root ::= Substring(\"abc\") | Token", &["b", "T"], &["ac"]),
        ] {
            let grammar = format!("{grammar}\nToken ::= \"T\"");
            let read = Grammar::ebnf(&grammar).unwrap_or_else(|fault| panic!("{grammar}: {fault}"));
            is_grammar_of(&grammar, read, texts, others);
        }
    }

    #[test]
    fn faults_name_their_place_and_cure() {
        for (grammar, message) in [
            ("root ::= \"a\"{2}{3}", "line 1, column 16: there is nothing to repeat"),
            ("root ::= \"a\" other ::= \"b\"", "line 1, column 14: a rule begins inside a line"),
            ("root ::= \"a\n\"", "line 1, column 10: a text in quotes is not closed"),
            ("root ::= [\\d]", "line 1, column 11: unknown escape \\d"),
            ("root ::= Token(7)", "the macro Token at line 1, column 10"),
            ("root ::= TagDispatch((\"a\", b))", "the macro TagDispatch at line 1, column 10"),
            ("root ::= \"a\" (= \"b\")", "a look-ahead at line 1, column 14"),
            ("root[max_tokens=3] ::= \"a\"", "the option max_tokens at line 1, column 6"),
            ("root ::= Regex(\"(\")", "line 1, column 10: the regular expression is wrong"),
            ("root ::= Regex(\"a\\\\bc\")", "an expression that looks around at line 1, column 10"),
        ] {
            let fault = Grammar::ebnf(grammar).unwrap_err().to_string();
            assert!(fault.contains(message) && !fault.contains('\n'), "{grammar}: {fault}");
        }
    }
}
