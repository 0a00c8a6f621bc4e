//! Properties and items that keywords have evaluated, and the demands on all others.

use std::rc::Rc;

use super::{Schemas, Source};
use crate::json::document::Keywords;
use crate::json::fault::{Result, below};
use crate::json::flat::{EvaluatedItems, Flat, Items, Key, Properties};

impl<'a> Schemas<'a> {
    /// Applies the demands of `unevaluatedProperties` and `unevaluatedItems` to everything that has not been evaluated.
    ///
    /// Of `anyOf`, all branches that hold count. It is enough that some set of them holds and is evaluated, since
    /// evaluating more leaves less to obey.
    pub(super) fn unevaluated(&mut self, keywords: &'a Keywords, path: &str, ways: &mut [Flat]) -> Result<()> {
        if let Some(schema) = self.document.value_of(keywords, "unevaluatedProperties") {
            let demand = self.demand(schema, &below(path, "unevaluatedProperties"));
            for Flat { objects, .. } in &mut *ways {
                if !objects.evaluated.iter().any(|properties| properties.evaluates_others) {
                    let mut rest =
                        Properties { others: demand.clone(), evaluates_others: true, ..Properties::default() };
                    for properties in &objects.evaluated {
                        rest.named.extend(properties.named.iter().map(|(name, _)| (name.clone(), Key::new())));
                        rest.patterns.extend(properties.patterns.iter().map(|&(content, _)| (content, Key::new())));
                    }
                    let rest = Rc::new(rest);
                    objects.properties.push(rest.clone());
                    objects.evaluated.push(rest);
                }
            }
        }
        if let Some(schema) = self.document.value_of(keywords, "unevaluatedItems") {
            let path = below(path, "unevaluatedItems");
            let demand = self.demand(schema, &path);
            for Flat { arrays, .. } in ways {
                let evaluated = std::mem::take(&mut arrays.evaluated);
                if !evaluated.all {
                    let rest = match &evaluated.found[..] {
                        [] => demand.clone(),
                        found => {
                            let branches: Vec<Key> = found.iter().chain([&demand]).cloned().collect();
                            vec![(self.number(Source::Any(branches.into()), &path), true)]
                        }
                    };
                    arrays.items.push(Rc::new(Items { first: vec![Key::new(); evaluated.first], rest }));
                }
                arrays.evaluated.all = true;
            }
        }
        Ok(())
    }
}

/// Resets what is evaluated: a schema that is tested for failure does not evaluate anything.
pub(super) fn has_looked_at_nothing(ways: &mut [Flat]) {
    for way in ways {
        way.objects.evaluated.clear();
        way.arrays.evaluated = EvaluatedItems::default();
    }
}
