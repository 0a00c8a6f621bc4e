//! The functions that a template may call. Each reserves the bytes of its result in advance.

use std::io::{self, Write};
use std::sync::Arc;

use minijinja::filters as f;
use minijinja::value::{Kwargs, Rest, ValueKind, ValueOrKwargs};
use minijinja::{AutoEscape, Environment, Error, ErrorKind, State, Value, escape_formatter};
use minijinja_contrib::pycompat::unknown_method_callback;
use serde::Serialize;
use serde_json::ser::{Formatter, PrettyFormatter, Serializer};

use super::budget::{Budget, NODE, is_a};
use super::guarded::{CUT, HELD, ITERATED, JOINED, KEPT, SEEN, TIMES};

/// The size of a filter's result.
#[derive(Clone, Copy)]
enum Makes {
    /// A list or a number; items of lists are not examined, or only by other filters.
    Little,
    /// Text of at most this multiple of the bytes of all arguments.
    Text(u64),
    /// A list of the pieces of a text.
    Pieces,
    /// A selection or order of items, which are compared.
    Order,
    /// Specific to the filter: see `pay`.
    Own,
}
use Makes::{Little, Order, Own, Pieces, Text};

/// All filters of minijinja except `tojson`, which is ours.
fn filters() -> Vec<(&'static str, Makes, Value)> {
    vec![
        ("safe", Text(1), Value::from_function(f::safe)),
        ("escape", Text(6), Value::from_function(f::escape)),
        ("e", Text(6), Value::from_function(f::escape)),
        ("lower", Text(3), Value::from_function(f::lower)),
        ("upper", Text(3), Value::from_function(f::upper)),
        ("title", Text(3), Value::from_function(f::title)),
        ("capitalize", Text(3), Value::from_function(f::capitalize)),
        ("trim", Text(5), Value::from_function(f::trim)),
        ("string", Text(1), Value::from_function(f::string)),
        ("pprint", Text(16), Value::from_function(f::pprint)),
        ("replace", Own, Value::from_function(f::replace)),
        ("join", Own, Value::from_function(f::join)),
        ("indent", Own, Value::from_function(f::indent)),
        ("format", Own, Value::from_function(f::format)),
        ("batch", Own, Value::from_function(f::batch)),
        ("slice", Own, Value::from_function(f::slice)),
        ("reverse", Pieces, Value::from_function(f::reverse)),
        ("split", Pieces, Value::from_function(f::split)),
        ("lines", Pieces, Value::from_function(f::lines)),
        ("list", Pieces, Value::from_function(f::list)),
        ("dictsort", Order, Value::from_function(f::dictsort)),
        ("sort", Order, Value::from_function(f::sort)),
        ("groupby", Order, Value::from_function(f::groupby)),
        ("unique", Order, Value::from_function(f::unique)),
        ("min", Order, Value::from_function(f::min)),
        ("max", Order, Value::from_function(f::max)),
        ("sum", Order, Value::from_function(f::sum)),
        ("select", Order, Value::from_function(f::select)),
        ("reject", Order, Value::from_function(f::reject)),
        ("selectattr", Order, Value::from_function(f::selectattr)),
        ("rejectattr", Order, Value::from_function(f::rejectattr)),
        ("length", Little, Value::from_function(f::length)),
        ("count", Little, Value::from_function(f::length)),
        ("items", Little, Value::from_function(f::items)),
        ("default", Little, Value::from_function(f::default)),
        ("d", Little, Value::from_function(f::default)),
        ("round", Little, Value::from_function(f::round)),
        ("abs", Little, Value::from_function(f::abs)),
        ("int", Little, Value::from_function(f::int)),
        ("float", Little, Value::from_function(f::float)),
        ("bool", Little, Value::from_function(f::bool)),
        ("attr", Little, Value::from_function(f::attr)),
        ("first", Little, Value::from_function(f::first)),
        ("last", Little, Value::from_function(f::last)),
        ("map", Little, Value::from_function(f::map)),
        ("chain", Little, Value::from_function(f::chain)),
        ("zip", Little, Value::from_function(f::zip)),
    ]
}

/// Installs the functions that a template may call, with a shared budget.
pub(super) fn install(environment: &mut Environment<'_>, budget: &Arc<Budget>) {
    for (name, makes, filter) in filters() {
        let budget = budget.clone();
        environment.add_filter(name, move |state: &mut State, args: Rest<ValueOrKwargs>| {
            let args = args.into_values();
            pay(&budget, name, makes, &args)?;
            filter.call(state, &args)
        });
    }
    let guard = |how: fn(&Budget, Value) -> Result<Value, Error>| {
        let budget = budget.clone();
        move |value: Value| how(&budget, value)
    };
    environment.add_filter(JOINED, guard(joined));
    environment.add_filter(SEEN, guard(|budget, value| budget.weigh(&value).map(|_| value)));
    environment.add_filter(CUT, guard(cut));
    environment.add_filter(ITERATED, guard(iterated));
    environment.add_filter(KEPT, guard(kept));
    environment.add_filter(HELD, guard(|budget, value| budget.keep(&value)));
    let by = budget.clone();
    environment.add_filter(TIMES, move |value: Value, other: Value| times(&by, &value, &other));
    let json = budget.clone();
    environment.add_filter("tojson", move |value: Value, options: Kwargs| to_json(&json, &value, options));
    let methods = budget.clone();
    environment.set_unknown_method_callback(move |state, value, method, args| {
        pay_method(&methods, value, method, args)?;
        unknown_method_callback(state, value, method, args)
    });
    let written = budget.clone();
    environment.set_formatter(move |out, state, value| {
        // Writing nothing has a cost too, which covers macros. A character becomes at most six when it is escaped.
        let each = if matches!(state.auto_escape(), AutoEscape::None) { 1 } else { 6 };
        written.make(4 * NODE + each * written.weigh(value)?)?;
        escape_formatter(out, state, value)
    });
    // It writes the whole context.
    environment.remove_global("debug");
    environment.add_function("raise_exception", raise);
    let clock = budget.clone();
    environment.add_function("strftime_now", move |format: String| now(&clock, &format));
}

fn pay(budget: &Budget, name: &str, makes: Makes, args: &[Value]) -> Result<(), Error> {
    match makes {
        Little => args.iter().try_for_each(|arg| budget.count(arg).map(drop)),
        Text(times) => budget.make(weigh(budget, args)?.saturating_mul(times)),
        Pieces => args.iter().try_for_each(|arg| pieces(budget, arg)),
        Order => {
            let weight = weigh(budget, args)?;
            // A sum of texts creates a text for each item.
            let count = if name == "sum" { args.first().and_then(Value::len).unwrap_or(0) as u64 } else { 16 };
            budget.work(weight.saturating_mul(count))?;
            args.iter().try_for_each(|arg| budget.list(arg).and_then(|bytes| budget.make(2 * bytes)))
        }
        Own => {
            let weight = weigh(budget, args)?;
            let text = |at: usize| args.get(at).and_then(Value::as_str).unwrap_or_default();
            budget.make(match name {
                "replace" => replaced(text(0), text(1), text(2)),
                "join" => joints(budget, args.first(), weight)?,
                // For each line at most the sum of all numeric arguments.
                "indent" => {
                    let lines = text(0).split('\n').count() as u64 + 1;
                    numbers(args).saturating_mul(lines).saturating_add(weight)
                }
                "format" => formatted(text(0), &args[1..], weight),
                // At most that number of items is filled in.
                _ => numbers(args).saturating_mul(NODE).saturating_add(weight),
            })
        }
    }
}

fn pay_method(budget: &Budget, value: &Value, method: &str, args: &[Value]) -> Result<(), Error> {
    let Some(text) = value.as_str() else { return budget.count(value).map(drop) };
    let weight = weigh(budget, args)?.saturating_add(budget.weigh(value)?);
    let argument = |at: usize| args.get(at).and_then(Value::as_str).unwrap_or_default();
    budget.make(match method {
        "replace" => replaced(text, argument(0), argument(1)),
        "join" => match args.first() {
            Some(items) => (text.len() as u64).saturating_mul(budget.count(items)?).saturating_add(weight),
            None => 0,
        },
        "format" => formatted(text, args, weight),
        "split" | "splitlines" => return pieces(budget, value),
        _ => weight.saturating_mul(5),
    })
}

fn weigh(budget: &Budget, args: &[Value]) -> Result<u64, Error> {
    args.iter().try_fold(0u64, |sum, arg| Ok(sum.saturating_add(budget.weigh(arg)?)))
}

/// Returns the bytes of a text after a replacement.
fn replaced(text: &str, from: &str, to: &str) -> u64 {
    let places = if from.is_empty() { text.len() + 1 } else { text.matches(from).count() } as u64;
    places.saturating_mul(to.len() as u64).saturating_add(text.len() as u64)
}

/// Returns the bytes of the joined items of a list: the separator has at most the bytes of all other arguments.
fn joints(budget: &Budget, items: Option<&Value>, weight: u64) -> Result<u64, Error> {
    let Some(items) = items else { return Ok(weight) };
    let between = weight.saturating_sub(budget.weigh(items)?);
    Ok(between.saturating_mul(budget.count(items)?).saturating_add(weight))
}

/// Returns a bound on the bytes of a formatted text: each field has at most the bytes of all arguments, and at most the
/// width of all numbers in the format together.
fn formatted(format: &str, args: &[Value], weight: u64) -> u64 {
    let digits = format.split(|c: char| !c.is_ascii_digit()).filter(|digits| !digits.is_empty());
    let mut wide = digits.fold(0u64, |sum, digits| sum.saturating_add(digits.parse().unwrap_or(u64::MAX)));
    if format.contains('*') {
        wide = wide.saturating_add(numbers(args));
    }
    let places = format.matches(['%', '{']).count() as u64 + 1;
    places.saturating_mul(weight.saturating_mul(6)).saturating_add(wide.saturating_mul(4))
}

/// Returns the sum of the numbers among arguments, including named ones.
fn numbers(args: &[Value]) -> u64 {
    let number = |value: &Value| value.as_i64().map_or(0, i64::unsigned_abs);
    let named = |value: &Value| {
        let keys = value.try_iter().ok().filter(|_| value.is_kwargs()).into_iter().flatten();
        keys.filter_map(|key| value.get_item(&key).ok()).map(|value| number(&value)).fold(0, u64::saturating_add)
    };
    args.iter().fold(0, |sum, arg| sum.saturating_add(number(arg)).saturating_add(named(arg)))
}

fn pieces(budget: &Budget, value: &Value) -> Result<(), Error> {
    budget.make(budget.list(value)?)
}

fn joined(budget: &Budget, value: Value) -> Result<Value, Error> {
    let weight = budget.weigh(&value)?;
    if value.kind() != ValueKind::Number {
        budget.make(weight)?;
    }
    Ok(value)
}

fn cut(budget: &Budget, value: Value) -> Result<Value, Error> {
    match value.kind() {
        ValueKind::String => budget.count(&value).and_then(|bytes| budget.make(bytes))?,
        ValueKind::Iterable => budget.count(&value).map(drop)?,
        _ => {}
    }
    Ok(value)
}

fn iterated(budget: &Budget, value: Value) -> Result<Value, Error> {
    // Each character of a text becomes a text.
    if value.as_str().is_some() {
        pieces(budget, &value)?
    } else {
        budget.count(&value).map(drop)?
    }
    Ok(value)
}

fn kept(budget: &Budget, value: Value) -> Result<Value, Error> {
    // A namespace and the current loop are not copied.
    if is_a(&value, "Namespace") || is_a(&value, "Loop") { Ok(value) } else { budget.keep(&value) }
}

/// Returns the product of numbers, or of a text or a list and a number.
fn times(budget: &Budget, value: &Value, other: &Value) -> Result<Value, Error> {
    let fault = |fault: String| Error::new(ErrorKind::InvalidOperation, fault);
    let is_many = |value: &Value| matches!(value.kind(), ValueKind::String | ValueKind::Seq | ValueKind::Iterable);
    let (many, by) = if is_many(value) { (value, other) } else { (other, value) };
    if !is_many(many) {
        let whole = |value: &Value| i128::try_from(value.clone()).ok().filter(|_| value.kind() != ValueKind::None);
        let float = |value: &Value| f64::try_from(value.clone()).ok();
        let is_float = |value: &Value| value.is_number() && !value.is_integer();
        if !is_float(value)
            && !is_float(other)
            && let (Some(a), Some(b)) = (whole(value), whole(other))
        {
            let product = a.checked_mul(b).ok_or_else(|| fault(format!("{a} * {b} is too large")))?;
            return Ok(i64::try_from(product).map_or_else(|_| Value::from(product), Value::from));
        }
        return match (float(value), float(other)) {
            (Some(a), Some(b)) => Ok(Value::from(a * b)),
            _ => Err(fault(format!("{} cannot be multiplied with {}", value.kind(), other.kind()))),
        };
    }
    let times = by.as_usize().ok_or_else(|| fault("texts and lists are multiplied with whole numbers".into()))?;
    let weight = if many.as_str().is_some() { budget.weigh(many)? } else { budget.list(many)? };
    budget.work(weight.saturating_mul(times as u64))?;
    budget.make(weight.saturating_mul(times as u64))?;
    if let Some(text) = many.as_str() {
        return Ok(Value::from(text.repeat(times)));
    }
    let items = many.try_iter()?.checked().collect::<Result<Vec<_>, _>>()?;
    let times = if items.is_empty() { 0 } else { times };
    Ok(Value::from(std::iter::repeat_n(items, times).flatten().collect::<Vec<_>>()))
}

fn raise(message: String) -> Result<String, Error> {
    Err(Error::new(ErrorKind::InvalidOperation, message))
}

/// Formats the local time, in the notation of `strftime`.
fn now(budget: &Budget, format: &str) -> Result<String, Error> {
    // No directive produces more.
    budget.make((format.len() as u64).saturating_mul(64))?;
    let now = jiff::Zoned::now();
    jiff::fmt::strtime::format(format, &now).map_err(|error| Error::new(ErrorKind::InvalidOperation, error.to_string()))
}

/// Like Python's `json.dumps`, with a space after commas and colons.
fn to_json(budget: &Budget, value: &Value, options: Kwargs) -> Result<Value, Error> {
    let indent: Option<usize> = options.get("indent")?;
    // The other options of `transformers` have no effect here.
    let (_, _): (Option<bool>, Option<bool>) = (options.get("ensure_ascii")?, options.get("sort_keys")?);
    options.assert_all_used()?;
    // Refuses values that are too deep for the serializer.
    budget.weigh(value)?;
    let mut out = Paid { budget, bytes: Vec::new() };
    let written = match indent {
        Some(indent) => {
            let spaces = " ".repeat(indent.min(16));
            let formatter = PrettyFormatter::with_indent(spaces.as_bytes());
            value.serialize(&mut Serializer::with_formatter(&mut out, formatter))
        }
        None => value.serialize(&mut Serializer::with_formatter(&mut out, Spaced)),
    };
    written.map_err(|error| Error::new(ErrorKind::BadSerialization, error.to_string()))?;
    Ok(Value::from_safe_string(String::from_utf8_lossy(&out.bytes).into_owned()))
}

/// A buffer that reserves bytes as they are written.
struct Paid<'b> {
    budget: &'b Budget,
    bytes: Vec<u8>,
}

impl Write for Paid<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.budget.make(bytes.len() as u64).map_err(|error| io::Error::other(error.to_string()))?;
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A value as JSON with a space after commas and colons, like Python's `json.dumps`.
pub(crate) fn spaced_json(value: &serde_json::Value) -> String {
    let mut out = Vec::new();
    match value.serialize(&mut Serializer::with_formatter(&mut out, Spaced)) {
        Ok(()) => String::from_utf8_lossy(&out).into_owned(),
        Err(_) => value.to_string(),
    }
}

struct Spaced;

impl Formatter for Spaced {
    fn begin_array_value<W: ?Sized + Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        if first { Ok(()) } else { writer.write_all(b", ") }
    }

    fn begin_object_key<W: ?Sized + Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        if first { Ok(()) } else { writer.write_all(b", ") }
    }

    fn begin_object_value<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        writer.write_all(b": ")
    }
}
