//! Objects in a notation that is not JSON: their properties in a fixed order, between signs.

use std::rc::Rc;

use foldhash::{HashSet, HashSetExt};
use verdigris_text::calls::{Kinds, Signs};

use super::{Compiler, Level};
use crate::grammar::step::{RETURN, StepIndex};
use crate::json::expand::NOTHING;
use crate::json::fault::{Result, bad};
use crate::json::flat::{Flat, Key, Objects, Types};

impl Compiler<'_> {
    /// The first step of an object between signs.
    pub(super) fn parameters(&mut self, objects: &Objects, signs: &Signs<Vec<u8>>, path: &str) -> Result<StepIndex> {
        let names = self.names(objects, signs, path)?;
        let required: HashSet<&String> = objects.required.iter().collect();
        let unsupported = [
            (objects.least > required.len() as u64, "\"minProperties\""),
            (objects.most.is_some_and(|most| most < names.len() as u64), "\"maxProperties\""),
            (!objects.some.is_empty(), "a demand that some property must meet"),
            (objects.properties.iter().any(|properties| !properties.patterns.is_empty()), "\"patternProperties\""),
            (self.allows_others(objects), "\"additionalProperties\" with a schema"),
        ];
        if let Some((_, keyword)) = unsupported.iter().find(|(is_used, _)| *is_used) {
            return bad(path, format!("{keyword} is not supported in the notation of this model's calls"));
        }
        let allowed = match &objects.names[..] {
            [] => None,
            names => Some(self.schemas.ways(&names.to_vec())?),
        };
        // From the end to the beginning: the steps at a property if none has been written, and if some has.
        let close = self.sign(&signs.close, RETURN);
        let (mut first, mut later) = (close, close);
        let is_uniform = signs.between.is_empty();
        for name in names.iter().rev() {
            self.schemas.budget.take(8 + name.len() as u64);
            self.check(path)?;
            let may_be = allowed.as_ref().is_none_or(|ways| {
                ways.iter().any(|flat| flat.types.has(Types::STRING) && self.accepts(&flat.strings, name))
            });
            let key = if may_be { self.schemas.property(objects, name) } else { vec![NOTHING] };
            let rule = match self.level {
                Level::Arguments => {
                    let kinds = self.kinds.get(name).copied().unwrap_or_default();
                    self.rule_at(key, Level::Parameter(kinds))
                }
                _ => self.rule(key),
            };
            let value = self.grammar.call(rule, later);
            let after_name = [&signs.before_name[..], name.as_bytes(), &signs.after_name].concat();
            let mut at = |between: &[u8], skipped: StepIndex| {
                let with = self.sign(&[between, &after_name].concat(), value);
                if required.contains(name) { with } else { self.grammar.fork(vec![with, skipped]) }
            };
            first = at(b"", first);
            later = if is_uniform { first } else { at(&signs.between, later) };
        }
        Ok(self.sign(&signs.open, first))
    }

    /// The names of the properties of an object, in the order in which they are written.
    fn names(&self, objects: &Objects, signs: &Signs<Vec<u8>>, path: &str) -> Result<Vec<String>> {
        let (mut names, mut known) = (Vec::new(), HashSet::new());
        let given = objects.properties.iter().flat_map(|properties| properties.named.iter().map(|(name, _)| name));
        for name in given.chain(&objects.required) {
            if known.insert(name) {
                names.push(name.clone());
            }
        }
        let ends_name = signs.after_name.first();
        let cannot_be = |name: &&String| {
            name.is_empty() || name.bytes().any(|byte| Some(&byte) == ends_name || byte.is_ascii_control())
        };
        if let Some(name) = names.iter().find(cannot_be) {
            return bad(path, format!("the name {name:?} cannot be written in the notation of this model's calls"));
        }
        if self.notation.is_some_and(|notation| notation.is_sorted) {
            names.sort_by_cached_key(|name| (name.to_lowercase(), name.clone()));
        }
        Ok(names)
    }

    /// Whether properties that the schema does not name have a schema.
    fn allows_others(&self, objects: &Objects) -> bool {
        objects.properties.iter().any(|properties| !properties.others.is_empty() && properties.others != [NOTHING])
    }

    /// Adds the types that each parameter may have.
    pub(super) fn add_kinds(&mut self, flats: &Rc<Vec<Flat>>, path: &str) -> Result<()> {
        for flat in flats.iter().filter(|flat| flat.types.has(Types::OBJECT)) {
            for name in flat.objects.properties.iter().flat_map(|properties| &properties.named) {
                self.check(path)?;
                let key = self.schemas.property(&flat.objects, &name.0);
                let kinds = self.kinds_of(&key)?;
                let known = self.kinds.entry(name.0.clone()).or_default();
                *known = known.or(kinds);
            }
            for name in &flat.objects.required {
                let key = self.schemas.property(&flat.objects, name);
                let kinds = self.kinds_of(&key)?;
                let known = self.kinds.entry(name.clone()).or_default();
                *known = known.or(kinds);
            }
        }
        Ok(())
    }

    /// The types that a value may have.
    fn kinds_of(&mut self, key: &Key) -> Result<Kinds> {
        let types = match &key[..] {
            [] => Types::ALL,
            _ => self.schemas.ways(key)?.iter().fold(Types::NONE, |types, flat| types.or(flat.types)),
        };
        let all = [
            (Types::NULL, Kinds::NULL),
            (Types::FALSE.or(Types::TRUE), Kinds::BOOLEAN),
            (Types::NUMBER, Kinds::NUMBER),
            (Types::STRING, Kinds::STRING),
            (Types::ARRAY, Kinds::ARRAY),
            (Types::OBJECT, Kinds::OBJECT),
        ];
        let found = all.into_iter().filter(|(of, _)| types.has(*of));
        Ok(found.fold(Kinds::default(), |kinds, (_, kind)| kinds.or(kind)))
    }
}
