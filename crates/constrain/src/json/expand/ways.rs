//! Demands that are one way to obey or to break a keyword.

use std::rc::Rc;

use super::demands::NOTHING;
use crate::json::flat::{Demand, Flat, Items, Key, Properties, SomeNames, SomeProperty, Types};

/// The maximum number of properties whose order is kept in the ways to break one of them.
pub(super) const MAX_KEPT: usize = 64;

impl Properties {
    /// The ways in which one of the named properties is present and breaks a demand; or is absent, if it is required.
    pub(super) fn one_wrong(&self, is_required: impl Fn(&str) -> bool) -> Vec<Flat> {
        let turned = |key: &Key| key.iter().map(|&(schema, wanted)| (schema, !wanted)).collect();
        let named = self.named.iter().map(|(name, key)| (name.clone(), turned(key))).collect();
        Self { named, ..Self::default() }.one_of_these(is_required)
    }

    /// Like [`Properties::one_wrong`], but each way requires the properties before it to be right. Those whose values
    /// are listed come first, since they most often distinguish schemas.
    pub(super) fn one_wrong_apart(
        &self,
        is_required: impl Fn(&str) -> bool,
        is_tag: impl Fn(&str) -> bool,
    ) -> Vec<Flat> {
        let mut order: Vec<usize> = (0..self.named.len()).collect();
        order.sort_by_key(|&at| !is_tag(&self.named[at].0));
        let mut named: Vec<(String, Key)> = self.named.iter().map(|(name, _)| (name.clone(), Key::new())).collect();
        let (mut required, mut ways) = (Vec::new(), Vec::new());
        for at in order {
            let (name, key) = &self.named[at];
            for &(schema, wanted) in key {
                named[at].1 = vec![(schema, !wanted)];
                let mut flat = Flat::of(Types::OBJECT);
                flat.objects.required.clone_from(&required);
                if !is_required(name) {
                    flat.objects.required.push(name.clone());
                }
                flat.objects.properties = vec![Rc::new(Self { named: named.clone(), ..Self::default() })];
                ways.push(flat);
            }
            named[at].1.clone_from(key);
            if is_required(name) && !key.is_empty() {
                required.push(name.clone());
            }
        }
        ways
    }

    /// Objects in which all named properties that are present are right.
    pub(super) fn all_right(&self) -> Flat {
        let mut flat = Flat::of(Types::OBJECT);
        flat.objects.properties = vec![Rc::new(Self { named: self.named.clone(), ..Self::default() })];
        flat
    }

    /// The ways in which one of the named properties is present and obeys one of its demands; or is absent, if it `may`
    /// be.
    pub(super) fn one_of_these(&self, may: impl Fn(&str) -> bool) -> Vec<Flat> {
        // If there are few, all are named, to keep their order.
        let others = if self.named.len() > MAX_KEPT { &[] } else { &self.named[..] };
        let wrong = |(at, demand): (usize, &Demand)| {
            let this = &self.named[at].0;
            let mut named: Vec<(String, Key)> = others.iter().map(|(name, _)| (name.clone(), Key::new())).collect();
            match named.get_mut(at) {
                Some((_, key)) => key.push(*demand),
                None => named.push((this.clone(), vec![*demand])),
            }
            let mut flat = Flat::of(Types::OBJECT);
            flat.objects.required = if may(this) { Vec::new() } else { vec![this.clone()] };
            flat.objects.properties = vec![Rc::new(Self { named, ..Self::default() })];
            flat
        };
        let demands =
            self.named.iter().enumerate().flat_map(|(at, (_, key))| key.iter().map(move |demand| (at, demand)));
        demands.map(wrong).collect()
    }
}

/// Objects that do not have a property.
pub(super) fn without(name: &str) -> Flat {
    let mut flat = Flat::of(Types::OBJECT);
    let named = vec![(name.to_owned(), vec![NOTHING])];
    flat.objects.properties = vec![Rc::new(Properties { named, ..Properties::default() })];
    flat
}

/// Arrays that have an item at an index, which obeys some demands.
pub(super) fn item_is(at: usize, what: Key) -> Flat {
    let mut flat = Flat::of(Types::ARRAY);
    flat.arrays.least = at as u64 + 1;
    let mut first = vec![Key::new(); at];
    first.push(what);
    flat.arrays.items = vec![Rc::new(Items { first, rest: Key::new() })];
    flat
}

/// Objects that have a property with one of some names, whose value obeys some demands.
pub(super) fn some_property(names: SomeNames, value: Key) -> Flat {
    let mut flat = Flat::of(Types::OBJECT);
    flat.objects.some = vec![SomeProperty { names, value }];
    flat
}
