//! Texts, expressions, schemas and tokens.

use std::sync::Arc;

use regex_syntax::hir::{ClassUnicode, ClassUnicodeRange};
use serde_json::Value;

use super::parser::Parser;
use crate::grammar::Grammar;
use crate::json::exact::{InexactNumber, check_numbers};
use crate::json::style::Style;
use crate::languages::expression::Expression;
use crate::languages::fault::{Position, Result};
use crate::languages::pattern::{is_lazy, pattern};
use crate::languages::regular::Regular;
use crate::languages::substring::{Chunks, substring};

impl Parser<'_> {
    /// A terminal without a name.
    pub(super) fn terminal(&mut self, at: Position) -> Result<Expression> {
        match self.scanner.peek() {
            Some('"') => self.quoted(at),
            Some('/') => self.expression(at),
            Some('<') => self.token(at),
            Some('%') if self.scanner.eat("%json") => self.schema(at),
            Some('%') if self.scanner.eat("%regex") => self.structured(at),
            _ => {
                let found = self.scanner.found();
                at.wrong(format!("{found} is not part of a rule"), "write a name, a text in quotes or /an expression/")
            }
        }
    }

    /// A text in quotes, or a range of characters.
    fn quoted(&mut self, at: Position) -> Result<Expression> {
        let text = self.text(at)?;
        let rest = self.scanner.rest();
        if rest.starts_with('i') && !rest[1..].starts_with(|next: char| next.is_ascii_alphanumeric() || next == '_') {
            self.scanner.next();
            let any_case = format!("(?i){}", regex_syntax::escape(&text));
            return Ok(Expression::Regular(Regular::of(pattern(&any_case, at)?)));
        }
        if !rest.trim_start_matches([' ', '\t']).starts_with("..") {
            return Ok(Expression::literal(text.into_bytes()));
        }
        self.skip_space();
        self.scanner.eat("..");
        self.skip_space();
        let end = self.text(self.scanner.position())?;
        let single = |text: &str| text.chars().next().filter(|first| first.len_utf8() == text.len());
        match (single(&text), single(&end)) {
            (Some(first), Some(last)) if first <= last => {
                let class = ClassUnicode::new([ClassUnicodeRange::new(first, last)]);
                Ok(Expression::Regular(Regular::class(class)))
            }
            _ => at.wrong("a range is not one of characters", "write it as \"a\"..\"z\", its smaller end first"),
        }
    }

    /// A text in quotes.
    pub(super) fn text(&mut self, at: Position) -> Result<String> {
        const CURE: &str = "write \" before and after it, and \\n for a line end in it";
        if !self.scanner.eat("\"") {
            return at.wrong("this is not a text in quotes", CURE);
        }
        let mut text = String::new();
        loop {
            let here = self.scanner.position();
            match self.scanner.next() {
                Some('"') => return Ok(text),
                Some('\\') => text.push(match self.scanner.next() {
                    Some('n') => '\n',
                    Some('r') => '\r',
                    Some('t') => '\t',
                    Some('b') => '\u{8}',
                    Some('f') => '\u{c}',
                    Some('x') => self.scanner.hexadecimal(2)?,
                    Some('u') => self.unicode()?,
                    Some('U') => self.scanner.hexadecimal(8)?,
                    Some(character @ ('"' | '\\' | '/')) => character,
                    _ => {
                        let cure = "write one of \\n \\r \\t \\b \\f \\\" \\\\ \\/ \\xHH \\uHHHH \\UHHHHHHHH";
                        return here.wrong("this escape is unknown", cure);
                    }
                }),
                None | Some('\n') => return at.wrong("a text in quotes is not closed", CURE),
                Some(character) => text.push(character),
            }
        }
    }

    /// A character by four digits, or by two surrogates, as in JSON.
    fn unicode(&mut self) -> Result<char> {
        let rest = self.scanner.rest();
        let digits = |from: usize| rest.get(from..from + 4).and_then(|digits| u16::from_str_radix(digits, 16).ok());
        if let (Some(high @ 0xd800..=0xdbff), Some(low), Some("\\u")) = (digits(0), digits(6), rest.get(4..6))
            && let Some(Ok(character)) = char::decode_utf16([high, low]).next()
        {
            self.scanner.skip(10);
            return Ok(character);
        }
        self.scanner.hexadecimal(4)
    }

    fn expression(&mut self, at: Position) -> Result<Expression> {
        self.scanner.next();
        let mut text = String::new();
        loop {
            match self.scanner.next() {
                Some('/') => break,
                Some('\\') => match self.scanner.next() {
                    Some('/') => text.push('/'),
                    next => {
                        text.push('\\');
                        text.extend(next);
                    }
                },
                None => return at.wrong("an expression is not closed", "write / after it"),
                Some(character) => text.push(character),
            }
        }
        let flags = self.scanner.take_while(|character| character.is_ascii_alphabetic());
        if let Some(flag) = flags.chars().find(|flag| !"imsux".contains(*flag)) {
            return at.unsupported(format!("the flag {flag} of an expression"), "the flags are i, m, s, u and x");
        }
        let text = match (flags.is_empty(), flags.contains('x')) {
            (true, _) => text,
            (false, false) => format!("(?{flags}:{text})"),
            // A comment at the end would hide the parenthesis.
            (false, true) => format!("(?{flags}:{text}\n)"),
        };
        let hir = pattern(&text, at)?;
        match is_lazy(&hir) {
            true => at.unsupported("a lazy repetition", "write the option lazy after the name of its rule"),
            false => Ok(Expression::Regular(Regular::of(hir))),
        }
    }

    fn token(&mut self, at: Position) -> Result<Expression> {
        if self.scanner.rest().starts_with("<[") {
            return at.unsupported("a token by its number", "write its text, as in <|end|>");
        }
        if self.is_in_terminal() {
            return at.wrong("a token is in a terminal", "write it in a rule, whose name is in small letters");
        }
        self.scanner.next();
        let name = self.scanner.take_while(|character| !matches!(character, '>' | '<' | '"' | '\n'));
        match self.scanner.eat(">") && !name.is_empty() {
            true => Ok(self.rules.control(&format!("<{name}>"))),
            false => at.wrong("a token is not closed", "write > after its text"),
        }
    }

    /// JSON, which may have several lines.
    pub(super) fn json(&mut self, at: Position) -> Result<Value> {
        self.skip_space();
        let mut values = serde_json::Deserializer::from_str(self.scanner.rest()).into_iter::<Value>();
        match values.next() {
            Some(Ok(value)) => {
                let bytes = values.byte_offset();
                if let Err(InexactNumber { number }) = check_numbers(&self.scanner.rest()[..bytes], |_| true) {
                    return at.wrong(format!("{number} is not read exactly"), InexactNumber::CURE);
                }
                self.scanner.skip(bytes);
                Ok(value)
            }
            Some(Err(fault)) => at.wrong(format!("this is not JSON ({fault})"), "write an object, as in %json {}"),
            None => at.wrong("JSON is missing", "write an object, as in %json {}"),
        }
    }

    fn schema(&mut self, at: Position) -> Result<Expression> {
        if self.is_in_terminal() {
            return at.wrong("a schema is in a terminal", "write it in a rule, whose name is in small letters");
        }
        let schema = self.json(at)?;
        match Grammar::json_schema(&schema, Style::default()) {
            Ok(grammar) => Ok(Expression::Grammar(Arc::new(grammar))),
            Err(fault) => at.wrong(fault.to_string(), "correct the schema"),
        }
    }

    fn structured(&mut self, at: Position) -> Result<Expression> {
        const CURE: &str = "write %regex {\"substring_words\": \"...\"}, or substring_chars or substring_chunks";
        let value = self.json(at)?;
        let Some((key, value)) =
            value.as_object().filter(|object| object.len() == 1).and_then(|object| object.iter().next())
        else {
            return at.wrong("%regex has not one property", CURE);
        };
        match (key.as_str(), value) {
            ("substring_words", Value::String(text)) => substring(Chunks::Words(text)),
            ("substring_chars", Value::String(text)) => substring(Chunks::Characters(text)),
            ("substring_chunks", Value::Array(chunks)) => {
                let chunks: Option<Vec<String>> = chunks.iter().map(|chunk| chunk.as_str().map(String::from)).collect();
                match chunks {
                    Some(chunks) => substring(Chunks::Given(&chunks)),
                    None => at.wrong("a chunk is not a text", CURE),
                }
            }
            _ => at.unsupported("this property of %regex", CURE),
        }
    }
}
