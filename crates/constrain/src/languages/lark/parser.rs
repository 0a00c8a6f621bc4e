//! Definitions and expressions.

use foldhash::HashMap;

use crate::languages::expression::{Expression, MAX_NESTING, Operation, RuleId, Rules};
use crate::languages::fault::{Position, Result};
use crate::languages::scanner::{REPEAT_WHAT, Scanner, shown};

/// The name of the rule of ignored texts, which no rule of a grammar can have.
const IGNORED: &str = "%ignore";

pub(super) struct Parser<'t> {
    pub(super) scanner: Scanner<'t>,
    pub(super) rules: Rules,
    /// The terminals that `%ignore` lists.
    pub(super) ignored: Vec<Expression>,
    /// The position of the first `%ignore`.
    pub(super) ignored_at: Position,
    /// For each terminal, the terminals that it mentions.
    pub(super) terminals: Vec<(String, Position, Vec<String>)>,
    /// Whether a terminal is being defined, and what it mentions.
    pub(super) mentioned: Option<Vec<String>>,
}

/// Whether a name is one of a terminal.
pub(super) fn is_terminal(name: &str) -> bool {
    name.trim_start_matches('_').starts_with(|character: char| character.is_ascii_uppercase())
}

/// Whether a name can have a character.
pub(super) fn is_name(character: char) -> bool {
    character.is_ascii_alphanumeric() || matches!(character, '_' | '-')
}

impl<'t> Parser<'t> {
    pub(super) fn new(text: &'t str) -> Result<Self> {
        let (scanner, rules) = (Scanner::new(text)?, Rules::default());
        Ok(Self {
            scanner,
            rules,
            ignored: Vec::new(),
            ignored_at: Position::default(),
            terminals: Vec::new(),
            mentioned: None,
        })
    }

    /// All rules of the text, and which of them are terminals, each after those that it mentions.
    pub(super) fn rules(mut self) -> Result<(Rules, Vec<RuleId>)> {
        self.skip_lines();
        while self.scanner.peek().is_some() {
            match self.scanner.peek() {
                Some('%') => self.directive()?,
                _ => self.definition()?,
            }
            self.skip_space();
            if !matches!(self.scanner.peek(), None | Some('\n')) {
                let (at, found) = (self.scanner.position(), self.scanner.found());
                return at.wrong(format!("{found} is not part of a rule"), "begin the next rule on its own line");
            }
            self.skip_lines();
        }
        let terminals = self.terminals_in_order()?;
        let ignored = match self.ignored.is_empty() {
            true => Expression::empty(),
            false => {
                let body = Box::new(Expression::choice(std::mem::take(&mut self.ignored)));
                Expression::Lexeme { body, is_lazy: false, at: self.ignored_at }.repeated(0, None)
            }
        };
        self.rules.define(IGNORED, Position::default(), ignored)?;
        Ok((self.rules, terminals))
    }

    /// Skips white space and comments up to the end of the line.
    pub(super) fn skip_space(&mut self) {
        loop {
            self.scanner.take_while(|character| matches!(character, ' ' | '\t' | '\r' | '\u{c}'));
            let rest = self.scanner.rest();
            if rest.starts_with("//") || rest.starts_with('#') {
                self.scanner.take_while(|character| character != '\n');
            } else {
                return;
            }
        }
    }

    pub(super) fn skip_lines(&mut self) {
        self.skip_space();
        while self.scanner.eat("\n") {
            self.skip_space();
        }
    }

    /// The terminals in an order in which each comes after those that it mentions: none consists of itself.
    fn terminals_in_order(&mut self) -> Result<Vec<RuleId>> {
        let numbers: HashMap<&str, usize> =
            self.terminals.iter().enumerate().map(|(at, (name, ..))| (&**name, at)).collect();
        let (mut open, mut users) = (vec![0usize; self.terminals.len()], vec![Vec::new(); self.terminals.len()]);
        for (at, (.., parts)) in self.terminals.iter().enumerate() {
            for part in parts.iter().filter_map(|part| numbers.get(&**part)) {
                open[at] += 1;
                users[*part].push(at);
            }
        }
        let mut known: Vec<usize> = (0..open.len()).filter(|&at| open[at] == 0).collect();
        let mut order = Vec::new();
        while let Some(at) = known.pop() {
            order.push(at);
            for &user in &users[at] {
                open[user] -= 1;
                if open[user] == 0 {
                    known.push(user);
                }
            }
        }
        match open.iter().position(|&left| left > 0) {
            None => {
                let id = |at: usize| self.rules.mention(&self.terminals[at].0, self.terminals[at].1);
                Ok(order.into_iter().map(id).collect())
            }
            Some(at) => {
                let (name, at, _) = &self.terminals[at];
                let cure = "write it as a rule, in small letters";
                at.wrong(format!("the terminal {} consists of itself", shown(name)), cure)
            }
        }
    }

    fn definition(&mut self) -> Result<()> {
        self.scanner.take_while(|character| matches!(character, '!' | '?'));
        let at = self.scanner.position();
        let name = self.scanner.take_while(is_name);
        if !name.starts_with(|character: char| character.is_ascii_alphabetic() || character == '_') {
            let found = self.scanner.found();
            return at.wrong(format!("a rule cannot begin with {found}"), "begin it with its name, as in start: \"a\"");
        }
        if self.scanner.rest().starts_with('{') {
            return at.unsupported("a template", "write a rule for each of its uses");
        }
        if self.scanner.rest().starts_with("::") {
            return at.unsupported("a rule with a parameter", "write a rule for each of its values");
        }
        if self.scanner.eat(".") && self.scanner.number()?.is_none() {
            return self.scanner.position().wrong("a priority is not a number", "write one, or leave it out");
        }
        let (options, is_one) = if self.scanner.eat("[") { self.options()? } else { (Vec::new(), false) };
        self.skip_space();
        if !self.scanner.eat(":") {
            let (at, found) = (self.scanner.position(), self.scanner.found());
            return at.wrong(format!("{found} follows the name of a rule"), "write : after the name");
        }
        // The texts of options are shortest matches of one terminal, without ignored texts in it.
        let is_one = is_terminal(name) || is_one;
        self.mentioned = is_one.then(Vec::new);
        let mut body = self.alternatives(0)?;
        if let Some(parts) = self.mentioned.take()
            && is_terminal(name)
        {
            self.terminals.push((name.to_owned(), at, parts));
        }
        for suffix in options {
            let operands = vec![Expression::Sequence(std::iter::once(body).chain(suffix).collect())];
            body = Expression::Of { operation: Operation::Lazy, operands, at };
        }
        if is_one && !is_terminal(name) {
            body = self.lexeme(body, at);
        }
        self.rules.define(name, at, body).map(drop)
    }

    pub(super) fn alternatives(&mut self, depth: usize) -> Result<Expression> {
        let mut ways = vec![self.conjunction(depth)?];
        loop {
            // An alternative may begin the next line.
            let mut ahead = self.scanner.clone();
            self.skip_lines();
            if !self.scanner.eat("|") {
                std::mem::swap(&mut self.scanner, &mut ahead);
                return Ok(Expression::choice(ways));
            }
            self.skip_lines();
            ways.push(self.conjunction(depth)?);
        }
    }

    /// Texts that are those of several sequences at once.
    fn conjunction(&mut self, depth: usize) -> Result<Expression> {
        let first = self.sequence(depth)?;
        let at = self.scanner.position();
        if self.scanner.peek() != Some('&') {
            return Ok(first);
        }
        self.in_terminal(at, "&")?;
        let mut operands = vec![first];
        while self.scanner.eat("&") {
            self.skip_lines();
            operands.push(self.sequence(depth)?);
        }
        Ok(Expression::Of { operation: Operation::And, operands, at })
    }

    /// Operations are for terminals alone.
    fn in_terminal(&self, at: Position, operator: &str) -> Result<()> {
        match self.mentioned {
            Some(_) => Ok(()),
            None => at.wrong(format!("{operator} is in a rule"), "use it in a terminal, whose name is in capitals"),
        }
    }

    fn sequence(&mut self, depth: usize) -> Result<Expression> {
        let mut parts = Vec::new();
        loop {
            match depth {
                0 => self.skip_space(),
                _ => self.skip_lines(),
            }
            let at = self.scanner.position();
            match self.scanner.peek() {
                Some('-') if self.scanner.eat("->") => {
                    self.skip_space();
                    let alias = self.scanner.take_while(is_name);
                    if alias.is_empty() {
                        return at.wrong("-> has no name", "write one, or leave it out");
                    }
                    self.skip_space();
                    return Ok(Expression::sequence(parts));
                }
                Some('*' | '+' | '?') => return at.wrong("there is nothing to repeat", REPEAT_WHAT),
                Some('"' | '/' | '(' | '[' | '<' | '~' | '%' | '@') => {}
                Some(character) if character.is_ascii_alphabetic() || character == '_' => {}
                _ => return Ok(Expression::sequence(parts)),
            }
            let part = self.atom(depth)?;
            parts.push(self.repeated(part)?);
        }
    }

    /// A part with the operator after it, if there is one.
    fn repeated(&mut self, part: Expression) -> Result<Expression> {
        let at = self.scanner.position();
        let (least, most) = match self.scanner.peek() {
            Some('*') => (0, None),
            Some('+') => (1, None),
            Some('?') => (0, Some(1)),
            Some('{') => return self.bounded(part, at),
            _ => {
                self.skip_space();
                if !self.scanner.eat("~") {
                    return Ok(part);
                }
                self.skip_space();
                let Some(least) = self.scanner.number()? else {
                    return at.wrong("~ is not followed by a number", "write a repetition as \"a\"~3 or \"a\"~2..4");
                };
                self.skip_space();
                let most = if self.scanner.eat("..") { self.scanner.number()? } else { Some(least) };
                return between(part, at, least, most);
            }
        };
        self.scanner.next();
        Ok(part.repeated(least, most))
    }

    fn bounded(&mut self, part: Expression, at: Position) -> Result<Expression> {
        self.scanner.next();
        self.skip_space();
        let least = self.scanner.number()?;
        self.skip_space();
        let has_comma = self.scanner.eat(",");
        self.skip_space();
        let most = if has_comma { self.scanner.number()? } else { least };
        self.skip_space();
        if !self.scanner.eat("}") || (least.is_none() && most.is_none()) {
            return at.wrong("a repetition is malformed", "write it as {2}, {2,}, {,3} or {2,3}");
        }
        between(part, at, least.unwrap_or(0), most)
    }

    pub(super) fn atom(&mut self, depth: usize) -> Result<Expression> {
        let at = self.scanner.position();
        if depth >= MAX_NESTING {
            return at.wrong("too many parentheses are inside each other", "give the inner ones a rule of their own");
        }
        match self.scanner.peek() {
            Some(open @ ('(' | '[')) => {
                self.scanner.next();
                let inside = self.alternatives(depth + 1)?;
                self.skip_lines();
                let close = if open == '(' { ")" } else { "]" };
                if !self.scanner.eat(close) {
                    return at
                        .wrong(format!("{open} is not closed"), format!("write {close} after the last part inside"));
                }
                Ok(if open == '(' { inside } else { inside.repeated(0, Some(1)) })
            }
            Some('~') => {
                self.in_terminal(at, "~")?;
                self.scanner.next();
                self.skip_space();
                let operands = vec![self.atom(depth + 1)?];
                Ok(Expression::Of { operation: Operation::Not, operands, at })
            }
            Some('@') => at.unsupported("another grammar", "write its rules here, or %json with its schema"),
            Some(character) if is_name(character) => {
                let name = self.scanner.take_while(is_name);
                let rule = Expression::Rule(self.rules.mention(name, at));
                match (&mut self.mentioned, is_terminal(name)) {
                    (Some(parts), true) => {
                        parts.push(name.to_owned());
                        Ok(rule)
                    }
                    (Some(_), false) => at.wrong(
                        format!("the rule {} is in a terminal", shown(name)),
                        "write it in capitals, or the terminal as a rule",
                    ),
                    (None, true) => Ok(self.lexeme(rule, at)),
                    (None, false) => Ok(rule),
                }
            }
            _ => {
                let terminal = self.terminal(at)?;
                Ok(if self.mentioned.is_some() { terminal } else { self.lexeme(terminal, at) })
            }
        }
    }

    /// Whether a terminal is being defined.
    pub(super) fn is_in_terminal(&self) -> bool {
        self.mentioned.is_some()
    }

    /// A terminal in a rule: ignored texts may follow it.
    fn lexeme(&mut self, terminal: Expression, at: Position) -> Expression {
        let ignored = self.rules.mention(IGNORED, at);
        let terminal = Expression::Lexeme { body: Box::new(terminal), is_lazy: false, at };
        Expression::Sequence(vec![terminal, Expression::Rule(ignored)])
    }
}

fn between(part: Expression, at: Position, least: u32, most: Option<u32>) -> Result<Expression> {
    match most {
        Some(most) if most < least => {
            at.wrong(format!("the repetition from {least} to {most} is reversed"), "write the smaller number first")
        }
        most => Ok(part.repeated(least, most)),
    }
}
