//! The ways to break schemas.

use serde_json::Value;

use super::assertion::{Assertion, KeywordUse};
use super::demands::joined;
use super::evaluated::has_looked_at_nothing;
use super::{Schemas, Source, weight};
use crate::json::document::Keywords;
use crate::json::fault::{Result, bad, check};
use crate::json::flat::{Flat, Key, Types};

impl<'a> Schemas<'a> {
    /// The ways to break some keyword of a schema.
    pub(super) fn broken(&mut self, keywords: &'a Keywords, path: &str) -> Result<Vec<Flat>> {
        let mut ways = Vec::new();
        for assertion in self.breakable(keywords, KeywordUse::Broken, path)? {
            ways.extend(self.against(&assertion, path)?);
        }
        let mut ways = self.merge(ways, path)?;
        has_looked_at_nothing(&mut ways);
        Ok(ways)
    }

    /// The ways to break some keyword of a schema and none before it, as far as that is one way.
    pub(super) fn broken_apart(&mut self, schema: u32) -> Result<Vec<Flat>> {
        let Source::Schema(Value::Object(keywords)) = self.sources[schema as usize] else {
            return Ok(self.flats((schema, false))?.to_vec());
        };
        let path = self.paths[schema as usize].clone();
        let mut ways = Vec::new();
        let mut before = Flat::of(Types::ALL);
        for assertion in self.breakable(keywords, KeywordUse::BrokenApart, &path)? {
            let broken = match &assertion {
                Assertion::Schema((schema, true)) => self.some_broken_apart(&vec![(*schema, true)], &path)?,
                other => self.against(other, &path)?,
            };
            ways.extend(broken.iter().filter_map(|way| before.and(way)));
            let holds = match assertion {
                // A missing name is handled with its value.
                Assertion::Plain { holds, .. } => <[Flat; 1]>::try_from(holds).ok().map(|[holds]| holds),
                Assertion::Schema(demand) => self.only_way(&vec![demand])?,
                _ => None,
            };
            if let Some(both) = holds.filter(|holds| holds.objects.required.is_empty()).and_then(|it| before.and(&it)) {
                before = both;
            }
            check(&self.budget, &path)?;
        }
        has_looked_at_nothing(&mut ways);
        Ok(ways)
    }

    /// The meaning of the keywords of a schema that must not all hold.
    fn breakable(&mut self, keywords: &'a Keywords, asked: KeywordUse, path: &str) -> Result<Vec<Assertion>> {
        for keyword in ["unevaluatedProperties", "unevaluatedItems"] {
            if self.document.value_of(keywords, keyword).is_some_and(|schema| *schema != Value::Bool(true)) {
                return unbreakable(path, keyword);
            }
        }
        self.assertions(keywords, asked, path)
    }

    /// The ways to break a keyword.
    fn against(&mut self, assertion: &Assertion, path: &str) -> Result<Vec<Flat>> {
        Ok(match assertion {
            Assertion::Plain { broken: Ok(broken), .. } => broken.clone(),
            Assertion::Plain { broken: Err(keyword), .. } => return unbreakable(path, keyword),
            Assertion::Schema((schema, wanted)) => self.flats((*schema, !wanted))?.to_vec(),
            Assertion::Any(branches) => self.none_of(branches, path)?,
            Assertion::One(branches) => {
                // None of them, or two.
                let mut ways = self.none_of(branches, path)?;
                for (i, a) in branches.iter().enumerate() {
                    for b in &branches[i + 1..] {
                        let both = self.ways(&joined(a, b))?;
                        self.budget.take(weight(&both));
                        ways.extend_from_slice(&both);
                        check(&self.budget, path)?;
                    }
                }
                ways
            }
            Assertion::If(condition, then, otherwise) => {
                let then = self.some_broken(then, path)?;
                let holds = self.flats(*condition)?;
                let mut ways = self.cross(&holds, &then, path)?;
                let otherwise = self.some_broken(otherwise, path)?;
                let fails = self.flats((condition.0, !condition.1))?;
                ways.extend(self.cross(&fails, &otherwise, path)?);
                ways
            }
        })
    }

    /// The ways to break every branch, by breaking some demand of each.
    pub(super) fn none_of(&mut self, branches: &[Key], path: &str) -> Result<Vec<Flat>> {
        let all: Vec<&Key> = branches.iter().collect();
        self.breaking(vec![Flat::of(Types::ALL)], &all, path)
    }

    /// The ways to break one of several demands.
    pub(super) fn some_broken(&mut self, key: &Key, path: &str) -> Result<Vec<Flat>> {
        let mut ways = Vec::new();
        for &(schema, wanted) in key {
            let broken = self.flats((schema, !wanted))?;
            self.budget.take(weight(&broken));
            ways.extend_from_slice(&broken);
        }
        self.merge(ways, path)
    }
}

fn unbreakable<T>(path: &str, keyword: &str) -> Result<T> {
    bad(path, format!("{keyword:?} below \"not\" (or in \"oneOf\" or \"if\") is not supported"))
}
