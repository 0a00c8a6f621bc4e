//! Values that are listed in a schema, and all others.

use std::rc::Rc;

use serde_json::Value;

use super::demands::NOTHING;
use super::ways::{item_is, some_property};
use super::{Schemas, Source};
use crate::json::fault::{Result, check};
use crate::json::flat::{Flat, Items, Key, Properties, SomeNames, Types};
use crate::json::number::Decimal;

impl<'a> Schemas<'a> {
    /// Values that are listed in the schema; or all others, if not `wanted`.
    pub(super) fn values(&mut self, values: &'a [Value], wanted: bool, path: &str) -> Result<Vec<Flat>> {
        let mut scalars = Flat::of(Types::NONE);
        let (mut numbers, mut strings, mut composite) = (Vec::new(), Vec::new(), Vec::new());
        for value in values {
            match value {
                Value::Null => scalars.types = scalars.types.or(Types::NULL),
                Value::Bool(false) => scalars.types = scalars.types.or(Types::FALSE),
                Value::Bool(true) => scalars.types = scalars.types.or(Types::TRUE),
                Value::Number(number) => {
                    let number = Decimal::parse(&number.to_string());
                    self.budget.take(number.digits() as u64 / 8);
                    check(&self.budget, path)?;
                    numbers.push(number);
                }
                Value::String(text) => strings.push(text.clone()),
                _ => composite.push(value),
            }
        }
        if !wanted {
            let mut others = Flat::of(Types::ALL.without(scalars.types));
            others.numbers.except = numbers;
            others.strings.except = strings;
            let mut others = vec![others];
            for value in composite {
                let other = self.other_than(value, path);
                others = self.cross(&others, &other, path)?;
            }
            return Ok(others);
        }
        if !numbers.is_empty() {
            scalars.types = scalars.types.or(Types::NUMBER);
            scalars.numbers.among = Some(Rc::new(numbers));
        }
        if !strings.is_empty() {
            scalars.types = scalars.types.or(Types::STRING);
            scalars.strings.among = Some(Rc::new(strings));
        }
        let mut flats = Vec::new();
        if scalars.types != Types::NONE {
            flats.push(scalars);
        }
        for value in composite {
            let mut constant = |value: &'a Value| vec![(self.number(Source::Constant(value), path), true)];
            let mut flat = match value {
                Value::Array(items) => {
                    let mut flat = Flat::of(Types::ARRAY);
                    flat.arrays.least = items.len() as u64;
                    flat.arrays.most = Some(items.len() as u64);
                    let first = items.iter().map(&mut constant).collect();
                    flat.arrays.items = vec![Rc::new(Items { first, rest: vec![NOTHING] })];
                    flat
                }
                Value::Object(properties) => {
                    let mut flat = Flat::of(Types::OBJECT);
                    flat.objects.required = properties.keys().cloned().collect();
                    let named = properties.iter().map(|(name, value)| (name.clone(), constant(value))).collect();
                    let others = vec![NOTHING];
                    flat.objects.properties = vec![Rc::new(Properties { named, others, ..Properties::default() })];
                    flat
                }
                _ => unreachable!("scalars have been handled"),
            };
            flat.objects.least = flat.objects.required.len() as u64;
            flats.push(flat);
        }
        self.merge(flats, path)
    }

    /// All values except an array or an object.
    fn other_than(&mut self, value: &'a Value, path: &str) -> Vec<Flat> {
        let mut differs = |value: &'a Value| vec![(self.number(Source::Constant(value), path), false)];
        match value {
            Value::Array(items) => {
                let mut ways = vec![Flat::of(Types::ALL.without(Types::ARRAY)), Flat::of(Types::ARRAY)];
                ways[1].arrays.least = items.len() as u64 + 1;
                if let Some(most) = items.len().checked_sub(1) {
                    ways.push(Flat::of(Types::ARRAY));
                    ways[2].arrays.most = Some(most as u64);
                }
                ways.extend(items.iter().enumerate().map(|(at, item)| item_is(at, differs(item))));
                ways
            }
            Value::Object(properties) => {
                let mut ways = vec![Flat::of(Types::ALL.without(Types::OBJECT))];
                let mut named: Vec<(String, Key)> =
                    properties.iter().map(|(name, value)| (name.clone(), differs(value))).collect();
                ways.extend(Properties { named: named.clone(), ..Properties::default() }.one_of_these(|_| true));
                named.iter_mut().for_each(|(_, key)| key.clear());
                let names = SomeNames::Other(Rc::new(Properties { named, ..Properties::default() }));
                ways.push(some_property(names, Key::new()));
                ways
            }
            _ => unreachable!("scalars have been handled"),
        }
    }
}
