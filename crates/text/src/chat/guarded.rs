//! Rewrites a template so that the budget is charged before anything that can create much.
//!
//! minijinja counts the steps of a template but not the size of their results, and has no hook where two texts are
//! joined. So its syntax tree of a template is rewritten: operands of operators that join values go through a filter
//! that charges the budget, as do values stored in variables. The names of these filters cannot be written in a
//! template.

use minijinja::Value;
use minijinja::machinery::ast::*;
use minijinja::machinery::{Span, Token, tokenize};
use minijinja::syntax::SyntaxConfig;

/// An operand of a concatenation or sum.
pub(super) const JOINED: &str = "joined~";
/// An operand of a comparison, search or test.
pub(super) const SEEN: &str = "seen==";
/// A value that is sliced or indexed.
pub(super) const CUT: &str = "cut[]";
/// A value that is iterated over.
pub(super) const ITERATED: &str = "iterated{}";
/// A value stored in a variable, or passed to a macro or a function.
pub(super) const KEPT: &str = "kept=";
/// A value stored in a namespace.
pub(super) const HELD: &str = "held.=";
/// A product, of which the other factor is the argument.
pub(super) const TIMES: &str = "times*";

/// The most tokens of a template in one tag.
const MAX_TOKENS: usize = 1000;

/// The most `elif`s of a template, since they are nested in the syntax tree.
const MAX_ELIFS: usize = 500;

/// Returns the fault of a template that could overflow the stack of the parser.
pub(super) fn too_long(source: &str, syntax: &SyntaxConfig) -> Option<&'static str> {
    let (mut tokens, mut elifs) = (0, 0);
    // Syntax errors are left to the parser.
    for token in tokenize(source, false, syntax.clone()).map_while(Result::ok) {
        match token.0 {
            Token::BlockStart | Token::VariableStart => tokens = 0,
            Token::Ident("elif") => elifs += 1,
            _ => tokens += 1,
        }
        if tokens > MAX_TOKENS {
            return Some("one of its tags is too long");
        }
        if elifs > MAX_ELIFS {
            return Some("it has too many `elif`s");
        }
    }
    None
}

/// Returns the template with guards.
pub(super) fn guarded<'a>(stmt: &Stmt<'a>) -> Stmt<'a> {
    match stmt {
        Stmt::Template(s) => Stmt::Template(at(s, Template { children: body(&s.children) })),
        Stmt::EmitExpr(s) => Stmt::EmitExpr(at(s, EmitExpr { expr: expr(&s.expr) })),
        // Text is written like a value, so that it is counted.
        Stmt::EmitRaw(s) => Stmt::EmitExpr(at(s, EmitExpr { expr: text(s.raw, s.span()) })),
        Stmt::ForLoop(s) => Stmt::ForLoop(at(
            s,
            ForLoop {
                target: expr(&s.target),
                iter: guard(ITERATED, &s.iter),
                filter_expr: s.filter_expr.as_ref().map(expr),
                recursive: s.recursive,
                body: body(&s.body),
                else_body: body(&s.else_body),
            },
        )),
        Stmt::IfCond(s) => Stmt::IfCond(at(
            s,
            IfCond { expr: expr(&s.expr), true_body: body(&s.true_body), false_body: body(&s.false_body) },
        )),
        Stmt::WithBlock(s) => {
            let assignments = s.assignments.iter().map(|(name, value)| (expr(name), guard(KEPT, value))).collect();
            Stmt::WithBlock(at(s, WithBlock { assignments, body: body(&s.body) }))
        }
        Stmt::Set(s) => {
            let how = if matches!(s.target, Expr::GetAttr(_)) { HELD } else { KEPT };
            Stmt::Set(at(s, Set { target: expr(&s.target), expr: guard(how, &s.expr) }))
        }
        Stmt::SetBlock(s) => Stmt::SetBlock(at(
            s,
            SetBlock { target: expr(&s.target), filter: s.filter.as_ref().map(expr), body: body(&s.body) },
        )),
        Stmt::AutoEscape(s) => Stmt::AutoEscape(at(s, AutoEscape { enabled: expr(&s.enabled), body: body(&s.body) })),
        Stmt::FilterBlock(s) => Stmt::FilterBlock(at(s, FilterBlock { filter: expr(&s.filter), body: body(&s.body) })),
        Stmt::Block(s) => Stmt::Block(at(s, Block { name: s.name, required: s.required, body: body(&s.body) })),
        Stmt::Import(s) => Stmt::Import(at(s, Import { expr: expr(&s.expr), name: expr(&s.name) })),
        Stmt::FromImport(s) => {
            let names = s.names.iter().map(|(name, alias)| (expr(name), alias.as_ref().map(expr))).collect();
            Stmt::FromImport(at(s, FromImport { expr: expr(&s.expr), names }))
        }
        Stmt::Extends(s) => Stmt::Extends(at(s, Extends { name: expr(&s.name) })),
        Stmt::Include(s) => Stmt::Include(at(s, Include { name: expr(&s.name), ignore_missing: s.ignore_missing })),
        Stmt::Macro(s) => Stmt::Macro(named(s)),
        Stmt::CallBlock(s) => {
            Stmt::CallBlock(at(s, CallBlock { call: call(&s.call), macro_decl: named(&s.macro_decl) }))
        }
        Stmt::Continue(s) => Stmt::Continue(at(s, Continue)),
        Stmt::Break(s) => Stmt::Break(at(s, Break)),
        Stmt::Do(s) => Stmt::Do(at(s, Do { call: call(&s.call) })),
    }
}

fn body<'a>(stmts: &[Stmt<'a>]) -> Vec<Stmt<'a>> {
    let mut out = Vec::with_capacity(stmts.len());
    for stmt in stmts {
        // A macro is charged for by writing an empty text, which has a cost.
        let span = match stmt {
            Stmt::Macro(s) => Some(s.span()),
            Stmt::CallBlock(s) => Some(s.span()),
            _ => None,
        };
        out.extend(span.map(|span| Stmt::EmitExpr(Spanned::new(EmitExpr { expr: text("", span) }, span))));
        out.push(guarded(stmt));
    }
    out
}

fn at<T, U>(old: &Spanned<T>, new: U) -> Spanned<U> {
    Spanned::new(new, old.span())
}

fn text<'a>(text: &str, span: Span) -> Expr<'a> {
    Expr::Const(Spanned::new(Const { value: Value::from_safe_string(text.to_owned()) }, span))
}

fn guard<'a>(name: &'static str, guarded: &Expr<'a>) -> Expr<'a> {
    let span = guarded.span();
    Expr::Filter(Spanned::new(Filter { name, expr: Some(expr(guarded)), args: Vec::new() }, span))
}

fn named<'a>(old: &Spanned<Macro<'a>>) -> Spanned<Macro<'a>> {
    let args = old.args.iter().map(expr).collect();
    let defaults = old.defaults.iter().map(|default| guard(KEPT, default)).collect();
    at(old, Macro { name: old.name, args, defaults, body: body(&old.body) })
}

fn call<'a>(old: &Spanned<Call<'a>>) -> Spanned<Call<'a>> {
    at(old, Call { expr: expr(&old.expr), args: arguments(&old.args, |arg| guard(KEPT, arg)) })
}

fn arguments<'a>(args: &[CallArg<'a>], each: impl Fn(&Expr<'a>) -> Expr<'a>) -> Vec<CallArg<'a>> {
    let argument = |arg: &CallArg<'a>| match arg {
        CallArg::Pos(value) => CallArg::Pos(each(value)),
        CallArg::Kwarg(name, value) => CallArg::Kwarg(name, each(value)),
        CallArg::PosSplat(value) => CallArg::PosSplat(each(value)),
        CallArg::KwargSplat(value) => CallArg::KwargSplat(each(value)),
    };
    args.iter().map(argument).collect()
}

fn expr<'a>(old: &Expr<'a>) -> Expr<'a> {
    let all = |items: &[Expr<'a>]| items.iter().map(expr).collect();
    let some = |item: &Option<Expr<'a>>| item.as_ref().map(expr);
    match old {
        Expr::Var(s) => Expr::Var(at(s, Var { id: s.id })),
        Expr::Const(s) => Expr::Const(at(s, Const { value: s.value.clone() })),
        Expr::Slice(s) => Expr::Slice(at(
            s,
            Slice { expr: guard(CUT, &s.expr), start: some(&s.start), stop: some(&s.stop), step: some(&s.step) },
        )),
        Expr::UnaryOp(s) => {
            #[allow(clippy::needless_match, reason = "the kind can't be copied")]
            let op = match s.op {
                UnaryOpKind::Not => UnaryOpKind::Not,
                UnaryOpKind::Neg => UnaryOpKind::Neg,
            };
            Expr::UnaryOp(at(s, UnaryOp { op, expr: expr(&s.expr) }))
        }
        Expr::BinOp(s) => {
            let how = match s.op {
                BinOpKind::Mul => {
                    let args = vec![CallArg::Pos(expr(&s.right))];
                    return Expr::Filter(at(s, Filter { name: TIMES, expr: Some(expr(&s.left)), args }));
                }
                BinOpKind::Add | BinOpKind::Concat => Some(JOINED),
                BinOpKind::Eq
                | BinOpKind::Ne
                | BinOpKind::Lt
                | BinOpKind::Lte
                | BinOpKind::Gt
                | BinOpKind::Gte
                | BinOpKind::In => Some(SEEN),
                // These only take numbers, or return an operand.
                BinOpKind::ScAnd
                | BinOpKind::ScOr
                | BinOpKind::Sub
                | BinOpKind::Div
                | BinOpKind::FloorDiv
                | BinOpKind::Rem
                | BinOpKind::Pow => None,
            };
            let side = |side: &Expr<'a>| how.map_or_else(|| expr(side), |how| guard(how, side));
            Expr::BinOp(at(s, BinOp { op: s.op, left: side(&s.left), right: side(&s.right) }))
        }
        Expr::Compare(s) => {
            let ops = s.ops.iter().map(|other| CompareOp { op: other.op, expr: guard(SEEN, &other.expr) }).collect();
            Expr::Compare(at(s, Compare { expr: guard(SEEN, &s.expr), ops }))
        }
        Expr::IfExpr(s) => Expr::IfExpr(at(
            s,
            IfExpr { test_expr: expr(&s.test_expr), true_expr: expr(&s.true_expr), false_expr: some(&s.false_expr) },
        )),
        // Filters that a template can name charge the budget themselves.
        Expr::Filter(s) => {
            Expr::Filter(at(s, Filter { name: s.name, expr: some(&s.expr), args: arguments(&s.args, expr) }))
        }
        Expr::Test(s) => {
            let args = arguments(&s.args, |arg| guard(SEEN, arg));
            Expr::Test(at(s, Test { name: s.name, expr: guard(SEEN, &s.expr), args }))
        }
        Expr::GetAttr(s) => Expr::GetAttr(at(s, GetAttr { expr: expr(&s.expr), name: s.name })),
        Expr::GetItem(s) => {
            Expr::GetItem(at(s, GetItem { expr: guard(CUT, &s.expr), subscript_expr: expr(&s.subscript_expr) }))
        }
        Expr::Call(s) => Expr::Call(call(s)),
        Expr::List(s) => Expr::List(at(s, List { items: all(&s.items) })),
        Expr::Tuple(s) => Expr::Tuple(at(s, Tuple { items: all(&s.items) })),
        Expr::Map(s) => Expr::Map(at(s, Map { keys: all(&s.keys), values: all(&s.values) })),
    }
}
