//! The parser of the two dialects in the notation of Backus and Naur.

use regex_syntax::hir::{ClassUnicode, ClassUnicodeRange};

use super::expression::{Expression, MAX_NESTING, Rules};
use super::fault::{Position, Result};
use super::regular::Regular;
use super::scanner::{REPEAT_WHAT, Scanner};

/// A dialect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dialect {
    /// llama.cpp's: a rule ends with its line.
    Gbnf,
    /// XGrammar's: a rule ends where a line defines the next one.
    Ebnf,
}

/// The rules of a grammar.
pub(super) fn parse(text: &str, dialect: Dialect) -> Result<Rules> {
    let mut parser = Parser { scanner: Scanner::new(text)?, dialect, rules: Rules::default() };
    parser.skip_lines();
    while parser.scanner.peek().is_some() {
        parser.rule()?;
        parser.skip_lines();
    }
    Ok(parser.rules)
}

pub(super) struct Parser<'t> {
    pub(super) scanner: Scanner<'t>,
    dialect: Dialect,
    rules: Rules,
}

impl Dialect {
    fn is_name(self, character: char) -> bool {
        character.is_ascii_alphanumeric() || matches!(character, '-' | '_') || character == '.' && self == Self::Ebnf
    }

    fn begins_name(self, character: char) -> bool {
        match self {
            Self::Gbnf => self.is_name(character),
            Self::Ebnf => character.is_ascii_alphabetic() || character == '_',
        }
    }

    /// The characters of one-letter escapes, and those that are themselves after a backslash.
    fn escaped(self, letter: char, in_class: bool) -> Option<char> {
        match (letter, self) {
            ('t', _) => Some('\t'),
            ('r', _) => Some('\r'),
            ('n', _) => Some('\n'),
            ('\\' | '"', _) | ('[' | ']' | '-' | '^', Self::Gbnf) => Some(letter),
            ('/' | '\'' | '?', Self::Ebnf) => Some(letter),
            ('b', Self::Ebnf) => Some('\u{8}'),
            ('f', Self::Ebnf) => Some('\u{c}'),
            ('a', Self::Ebnf) => Some('\u{7}'),
            ('v', Self::Ebnf) => Some('\u{b}'),
            ('0', Self::Ebnf) => Some('\0'),
            ('e', Self::Ebnf) => Some('\u{1b}'),
            ('^' | '$' | '.' | '*' | '+' | '(' | ')' | '[' | ']' | '{' | '}' | '|' | '-', Self::Ebnf) if in_class => {
                Some(letter)
            }
            _ => None,
        }
    }

    fn escapes(self) -> &'static str {
        match self {
            Self::Gbnf => "write one of \\\\ \\\" \\[ \\] \\- \\^ \\t \\r \\n \\xHH \\uHHHH \\UHHHHHHHH",
            Self::Ebnf => {
                "write one of \\\\ \\\" \\/ \\' \\? \\n \\r \\t \\b \\f \\a \\v \\0 \\e \\xH \\uHHHH \\UHHHHHHHH, and \\ before \
                 punctuation in a class"
            }
        }
    }
}

impl Parser<'_> {
    /// Skips white space and comments, and line ends too if the rule continues behind them.
    fn skip_space(&mut self, lines: bool) {
        let lines = lines || self.dialect == Dialect::Ebnf;
        loop {
            self.scanner
                .take_while(|character| matches!(character, ' ' | '\t') || lines && matches!(character, '\r' | '\n'));
            match self.scanner.peek() {
                Some('#') => drop(self.scanner.take_while(|character| !matches!(character, '\r' | '\n'))),
                _ => return,
            }
        }
    }

    pub(super) fn skip_lines(&mut self) {
        self.skip_space(true);
    }

    fn rule(&mut self) -> Result<()> {
        let at = self.scanner.position();
        if !self.scanner.begins_line() {
            return at.wrong("a rule begins inside a line", "begin it on its own line");
        }
        let dialect = self.dialect;
        let name = match self.scanner.peek() {
            Some(first) if dialect.begins_name(first) => {
                self.scanner.take_while(|character| dialect.is_name(character))
            }
            _ => {
                let found = self.scanner.found();
                return at
                    .wrong(format!("a rule begins with {found}"), "begin each with its name: letters, digits and -");
            }
        };
        if dialect == Dialect::Ebnf {
            self.options()?;
        }
        self.skip_space(false);
        if !self.scanner.eat("::=") {
            let (at, found) = (self.scanner.position(), self.scanner.found());
            return at.wrong(format!("{found} follows the name of a rule"), "write ::= after the name");
        }
        self.skip_lines();
        let body = self.alternatives(0)?;
        let ends = match dialect {
            Dialect::Gbnf => matches!(self.scanner.peek(), None | Some('\r' | '\n')),
            Dialect::Ebnf => self.scanner.peek().is_none_or(|character| dialect.begins_name(character)),
        };
        if !ends {
            let (at, found) = (self.scanner.position(), self.scanner.found());
            return at.wrong(format!("{found} is not part of a rule"), "begin the next rule on its own line");
        }
        self.rules.define(name, at, body).map(drop)
    }

    fn alternatives(&mut self, depth: usize) -> Result<Expression> {
        let mut ways = vec![self.sequence(depth)?];
        while self.scanner.eat("|") {
            self.skip_lines();
            ways.push(self.sequence(depth)?);
        }
        Ok(Expression::choice(ways))
    }

    fn sequence(&mut self, depth: usize) -> Result<Expression> {
        let mut parts: Vec<Expression> = Vec::new();
        let mut is_repeated = false;
        loop {
            let at = self.scanner.position();
            match (self.scanner.peek(), self.dialect) {
                (Some('*' | '+' | '?' | '{'), dialect) => {
                    // llama.cpp repeats a repetition, XGrammar does not.
                    let Some(part) = parts.pop().filter(|_| !(is_repeated && dialect == Dialect::Ebnf)) else {
                        return at.wrong("there is nothing to repeat", REPEAT_WHAT);
                    };
                    let (least, most) = self.times()?;
                    parts.push(part.repeated(least, most));
                    is_repeated = true;
                }
                (Some('"' | '[' | '('), _) | (Some('.' | '<' | '!'), Dialect::Gbnf) => {
                    parts.push(self.part(depth)?);
                    is_repeated = false;
                }
                (Some(character), dialect) if dialect.begins_name(character) && !self.begins_rule() => {
                    parts.push(self.part(depth)?);
                    is_repeated = false;
                }
                _ => return Ok(Expression::sequence(parts)),
            }
            self.skip_space(depth > 0);
        }
    }

    /// Whether a line defines the next rule.
    fn begins_rule(&self) -> bool {
        if self.dialect == Dialect::Gbnf {
            return false;
        }
        let mut ahead = self.scanner.clone();
        ahead.take_while(|character| Dialect::Ebnf.is_name(character));
        if ahead.eat("[") {
            // The value of an option may have a bracket in it.
            let rest = ahead.rest();
            let line = &rest[..rest.find('\n').unwrap_or(rest.len())];
            return line.rfind(']').is_some_and(|end| line[end + 1..].trim_start().starts_with("::="));
        }
        ahead.take_while(char::is_whitespace);
        ahead.rest().starts_with("::=")
    }

    fn part(&mut self, depth: usize) -> Result<Expression> {
        let at = self.scanner.position();
        if depth >= MAX_NESTING {
            return at.wrong("too many parentheses are inside each other", "give the inner ones a rule of their own");
        }
        match self.scanner.peek() {
            Some('"') => self.literal(at),
            Some('[') => self.class(at),
            Some('.') => {
                self.scanner.next();
                Ok(Expression::Regular(Regular::any()))
            }
            Some('(') => {
                self.scanner.next();
                self.skip_lines();
                if self.scanner.rest().starts_with('=') && self.dialect == Dialect::Ebnf {
                    return at.unsupported("a look-ahead", "leave it out: it only makes XGrammar faster");
                }
                let inside = self.alternatives(depth + 1)?;
                self.skip_lines();
                match self.scanner.eat(")") {
                    true => Ok(inside),
                    false => at.wrong("a parenthesis is not closed", "write ) after the last part inside"),
                }
            }
            Some('<') => self.token(at),
            Some('!') => at.unsupported("a token that may not come", "list the texts that may come instead"),
            _ => {
                let dialect = self.dialect;
                let name = self.scanner.take_while(|character| dialect.is_name(character));
                if dialect == Dialect::Ebnf
                    && self.scanner.rest().starts_with('(')
                    && let Some(part) = self.call(name, at)?
                {
                    return Ok(part);
                }
                Ok(Expression::Rule(self.rules.mention(name, at)))
            }
        }
    }

    /// A control token, by its text.
    fn token(&mut self, at: Position) -> Result<Expression> {
        if self.scanner.rest().starts_with("<[") {
            return at.unsupported("a token by its number", "write its text, as in <|end|>");
        }
        self.scanner.next();
        let name = self.scanner.take_while(|character| !matches!(character, '>' | '\r' | '\n'));
        if !self.scanner.eat(">") {
            return at.wrong("a token is not closed", "write > after its text");
        }
        Ok(self.rules.control(&format!("<{name}>")))
    }

    fn literal(&mut self, at: Position) -> Result<Expression> {
        Ok(Expression::literal(self.text(at)?.into_bytes()))
    }

    /// A text in quotes.
    pub(super) fn text(&mut self, at: Position) -> Result<String> {
        self.scanner.next();
        let mut text = String::new();
        loop {
            match self.scanner.peek() {
                Some('"') => break,
                Some('\\') => text.push(self.escape(false)?),
                Some(character) if character != '\n' || self.dialect == Dialect::Gbnf => {
                    text.push(character);
                    self.scanner.next();
                }
                _ => return at.wrong("a text in quotes is not closed", "write \" after it"),
            }
        }
        self.scanner.next();
        Ok(text)
    }

    fn escape(&mut self, in_class: bool) -> Result<char> {
        let at = self.scanner.position();
        self.scanner.next();
        match (self.scanner.next(), self.dialect) {
            (Some('x'), Dialect::Gbnf) => self.scanner.hexadecimal(2),
            (Some('x'), Dialect::Ebnf) => {
                let digits = self.scanner.rest().bytes().take_while(u8::is_ascii_hexdigit).count();
                self.scanner.hexadecimal(digits.clamp(1, 8))
            }
            (Some('u'), _) => self.scanner.hexadecimal(4),
            (Some('U'), _) => self.scanner.hexadecimal(8),
            (letter, dialect) => match letter.and_then(|letter| dialect.escaped(letter, in_class)) {
                Some(character) => Ok(character),
                None => {
                    let letter = letter.map_or_else(String::new, |letter| letter.escape_debug().to_string());
                    at.wrong(format!("unknown escape \\{letter}"), dialect.escapes())
                }
            },
        }
    }

    fn class(&mut self, at: Position) -> Result<Expression> {
        self.scanner.next();
        let negated = self.scanner.eat("^");
        let mut ranges = Vec::new();
        loop {
            let start = self.scanner.position();
            let first = match self.scanner.peek() {
                Some(']') => break,
                Some(character) if character != '\n' || self.dialect == Dialect::Gbnf => self.character()?,
                _ => return at.wrong("a class is not closed", "write ] after its last character"),
            };
            let is_range = self.scanner.rest().starts_with('-') && !self.scanner.rest().starts_with("-]");
            let last = match is_range {
                true => {
                    self.scanner.next();
                    match self.scanner.peek() {
                        Some(_) => self.character()?,
                        None => return at.wrong("a class is not closed", "write ] after its last character"),
                    }
                }
                false => first,
            };
            if first > last {
                return start.wrong(format!("the range {first:?}-{last:?} is reversed"), "write its smaller end first");
            }
            ranges.push(ClassUnicodeRange::new(first, last));
        }
        self.scanner.next();
        if ranges.is_empty() && !negated {
            return at.wrong("a class has no characters", "list them, as in [a-z]; any character is .");
        }
        let mut class = ClassUnicode::new(ranges);
        if negated {
            class.negate();
        }
        Ok(Expression::Regular(Regular::class(class)))
    }

    fn character(&mut self) -> Result<char> {
        match self.scanner.peek() {
            Some('\\') => self.escape(true),
            other => {
                self.scanner.next();
                Ok(other.unwrap_or_default())
            }
        }
    }

    /// How often the part before may come.
    fn times(&mut self) -> Result<(u32, Option<u32>)> {
        let at = self.scanner.position();
        match self.scanner.next() {
            Some('*') => return Ok((0, None)),
            Some('+') => return Ok((1, None)),
            Some('?') => return Ok((0, Some(1))),
            _ => {}
        }
        self.skip_space(false);
        let Some(least) = self.scanner.number()? else {
            return at.wrong("a repetition has no least number", "write it with one, as in {0,3}");
        };
        self.skip_space(false);
        let most = match self.scanner.eat(",") {
            true => {
                self.skip_space(false);
                self.scanner.number()?
            }
            false => Some(least),
        };
        self.skip_space(false);
        if !self.scanner.eat("}") {
            return at.wrong("a repetition is not closed", "write it as {2}, {2,} or {2,3}");
        }
        match most {
            Some(most) if most < least => {
                at.wrong(format!("{{{least},{most}}} is reversed"), "write the smaller number first")
            }
            most => Ok((least, most)),
        }
    }
}
