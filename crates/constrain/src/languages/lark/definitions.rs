//! Directives, and the options of rules.

use super::common::{common, names};
use super::parser::{Parser, is_name, is_terminal};
use crate::automata::syntax::parse;
use crate::languages::expression::Expression;
use crate::languages::fault::{Position, Result};
use crate::languages::regular::Regular;
use crate::languages::scanner::shown;

impl Parser<'_> {
    /// For each option by which a rule ends as soon as it can, the text that ends it, if there is one; and whether the
    /// options make the rule a terminal.
    pub(super) fn options(&mut self) -> Result<(Vec<Option<Expression>>, bool)> {
        let (mut options, mut is_terminal) = (Vec::new(), false);
        loop {
            self.skip_lines();
            let at = self.scanner.position();
            let name = self.scanner.take_while(is_name);
            self.skip_space();
            let has_value = self.scanner.eat("=");
            self.skip_space();
            is_terminal |= matches!(name, "lazy" | "suffix" | "stop");
            match (name, has_value) {
                ("lazy", false) => options.push(None),
                ("suffix", true) => {
                    self.mentioned = Some(Vec::new());
                    let suffix = self.atom(0)?;
                    options.push(Some(suffix));
                }
                ("stop", true) => {
                    let text = self.text(self.scanner.position())?;
                    // Without a text, it ends where it cannot continue, as any terminal.
                    if !text.is_empty() {
                        options.push(Some(Expression::literal(text.into_bytes())));
                    }
                }
                ("capture" | "stop_capture" | "temperature", _) => {
                    if has_value {
                        match self.scanner.peek() {
                            Some('"') => drop(self.text(self.scanner.position())?),
                            _ => drop(self.scanner.take_while(|character| !matches!(character, ',' | ']' | '\n'))),
                        }
                    }
                }
                ("max_tokens", _) => {
                    return at.unsupported("max_tokens", "bound the characters instead, as in /.{1,100}/");
                }
                _ => {
                    return at.wrong(
                        format!("{} is not an option of a rule", if name.is_empty() { "this" } else { name }),
                        "write lazy, suffix=, stop=, capture or temperature=",
                    );
                }
            }
            self.skip_lines();
            if self.scanner.eat("]") {
                return Ok((options, is_terminal));
            }
            if !self.scanner.eat(",") {
                return self.scanner.position().wrong("the options of a rule are not closed", "write ] after the last");
            }
        }
    }

    pub(super) fn directive(&mut self) -> Result<()> {
        let at = self.scanner.position();
        self.scanner.next();
        let name = self.scanner.take_while(is_name);
        self.skip_space();
        match name {
            "ignore" => {
                self.mentioned = Some(Vec::new());
                let ignored = self.alternatives(0)?;
                self.mentioned = None;
                if self.ignored.is_empty() {
                    self.ignored_at = at;
                }
                self.ignored.push(ignored);
                Ok(())
            }
            "import" => self.import(at),
            "llguidance" => match self.json(at)? {
                serde_json::Value::Object(options) if options.keys().all(|key| key == "no_forcing") => Ok(()),
                _ => at.unsupported("an option of llguidance", "leave it out"),
            },
            _ => at.unsupported(format!("the directive %{}", shown(name)), "use %ignore and %import common"),
        }
    }

    fn import(&mut self, at: Position) -> Result<()> {
        if !self.scanner.eat("common") {
            return at.unsupported("an import from another file", "write its rules here; %import common.NAME is known");
        }
        let mut imported = Vec::new();
        if self.scanner.eat(".") {
            let name = self.scanner.take_while(is_name);
            self.skip_space();
            let alias = match self.scanner.eat("->") {
                true => {
                    self.skip_space();
                    self.scanner.take_while(is_name)
                }
                false => name,
            };
            imported.push((name, alias));
        } else {
            self.skip_space();
            if !self.scanner.eat("(") {
                return at.wrong("an import names nothing", "write %import common.NAME or %import common (NAME, NAME)");
            }
            loop {
                self.skip_lines();
                let name = self.scanner.take_while(is_name);
                imported.push((name, name));
                self.skip_lines();
                if self.scanner.eat(")") {
                    break;
                }
                if !self.scanner.eat(",") {
                    return at.wrong("an import is not closed", "write ) after the last name");
                }
            }
        }
        for (name, alias) in imported {
            let Some(expression) = common(name) else {
                return at.wrong(format!("common has no {}", shown(name)), format!("it has {}", names()));
            };
            if !is_terminal(alias) {
                return at.wrong(format!("{} is not a name of a terminal", shown(alias)), "write it in capitals");
            }
            let hir = parse(expression).expect("it is an expression");
            self.rules.define(alias, at, Expression::Regular(Regular::of(hir)))?;
            self.terminals.push((alias.to_owned(), at, Vec::new()));
        }
        Ok(())
    }
}
