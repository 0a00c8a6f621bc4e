//! The shapes of objects.

use std::rc::Rc;
use std::sync::Arc;

use foldhash::{HashMap, HashMapExt, HashSet, HashSetExt};

use super::{Compiler, MAX_COUNTS};
use crate::automata::automaton::{Automaton, NoAutomaton};
use crate::grammar::object::{CountedNames, ObjectShape, OtherNames, Property, ValueOf};
use crate::json::expand::{NOTHING, Schemas, normal};
use crate::json::fault::{Result, bad};
use crate::json::flat::{Key, Objects, Properties, SomeNames, SomeProperty, Types};
use crate::json::style::{Escapes, Extra, Order};
use crate::terminal::Terminal;
use crate::terminal::characters::Characters;
use crate::terminal::content::written;
use crate::terminal::fresh::shortest_texts;
use crate::terminal::names::{MAX_BYTES, NameTable};
use crate::terminal::quoted::Quoted;
use crate::terminal::string_content::StringContent;

/// The maximum number of demands of one object that some property must meet.
const MAX_SOME: usize = 4;

impl Compiler<'_> {
    pub(super) fn object(&mut self, objects: &Objects, path: &str) -> Result<ObjectShape> {
        let mut names: Vec<String> = Vec::new();
        let mut known: HashMap<String, u32> = HashMap::new();
        let named =
            |properties: &'_ Properties| properties.named.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
        let of_some = objects.some.iter().flat_map(|some| match &some.names {
            SomeNames::Other(properties) => named(properties),
            _ => Vec::new(),
        });
        let implied = objects.implies.iter().flat_map(|(a, b)| [a.clone(), b.clone()]);
        let implied = implied.chain(objects.never.iter().flatten().cloned());
        let given = objects.properties.iter().flat_map(|properties| named(properties));
        for name in given.chain(objects.required.iter().cloned()).chain(implied).chain(of_some) {
            if !known.contains_key(&name) {
                known.insert(name.clone(), names.len() as u32);
                names.push(name);
            }
        }
        let some = self.some(objects, path)?;
        // The demands on names, as strings.
        let allowed = match &objects.names[..] {
            [] => None,
            names => {
                let ways = self.schemas.ways(&names.to_vec())?;
                Some(
                    ways.iter()
                        .filter(|flat| flat.types.has(Types::STRING))
                        .map(|flat| flat.strings.clone())
                        .collect::<Vec<_>>(),
                )
            }
        };
        let closed = self.style.objects == Extra::Closed
            && !names.is_empty()
            && some.is_empty()
            && objects
                .properties
                .iter()
                .all(|properties| properties.others.is_empty() && properties.patterns.is_empty());
        let required: HashSet<&String> = objects.required.iter().collect();
        let mut properties: Vec<Property> = Vec::new();
        let too_long = "the names of \"properties\" are too long for an automaton";
        if names.iter().map(String::len).sum::<usize>() > MAX_BYTES {
            return bad(path, too_long);
        }
        let patterns: usize = objects.properties.iter().map(|properties| properties.patterns.len()).sum();
        let weight = 4 + (objects.properties.len() + patterns) as u64;
        for name in &names {
            // A node of the tree of names takes some units too.
            self.schemas.budget.take(weight * (1 + name.len() as u64 / 8) + name.len() as u64);
            self.check(path)?;
            let mut key = self.schemas.property(objects, name);
            let may_be = allowed.as_ref().is_none_or(|ways| ways.iter().any(|strings| self.accepts(strings, name)));
            if !may_be {
                key = vec![NOTHING];
            }
            let meets =
                (0..).zip(&some).filter(|(_, some)| some.may_have(name, &self.schemas)).map(|(i, _)| 1 << i).sum();
            let value = self.value(&key, meets, &some);
            let name_bytes = 2 + name.bytes().map(written).sum::<u64>();
            let required = required.contains(name);
            properties.push(Property { name: name.clone(), name_bytes, value, required, implies: Vec::new() });
        }
        for (name, implied) in &objects.implies {
            properties[known[name] as usize].implies.push(known[implied]);
        }
        let (others, kinds) = match closed {
            true => (None, Vec::new()),
            false => self.other_names(objects, &some, allowed.as_deref(), path)?,
        };
        let texts: Vec<&str> = names.iter().map(String::as_str).collect();
        let Some(table) = NameTable::new(&texts, others) else {
            return bad(path, too_long);
        };
        let table = Arc::new(table);
        let bound = |n: u64| u32::try_from(n).unwrap_or(u32::MAX);
        // Required properties are always present, and one more if some property is demanded.
        let certain = required.len().max(usize::from(!some.is_empty()));
        let least = if objects.least <= certain as u64 { 0 } else { bound(objects.least) };
        let lengths_matter = least > 0 || !some.is_empty();
        let lengths = if lengths_matter { table.shortest_others(kinds.len()) } else { vec![0; kinds.len()] };
        if closed && least as usize > names.len() {
            self.narrower.get_or_insert_with(|| format!("objects are closed, and {path} names too few properties"));
        }
        let more = least - least.min(required.len() as u32);
        if more > MAX_COUNTS && !kinds.is_empty() {
            return bad(path, format!("\"minProperties\" asks for more than {MAX_COUNTS} names that are not given"));
        }
        let mut others = Vec::new();
        for ((kind, (key, meets)), name_bytes) in (0..).zip(&kinds).zip(lengths) {
            let value = self.value(key, *meets, &some);
            let counted = if least > 1 { self.counted_names(&table, kind, &names, least, path)? } else { None };
            others.push(OtherNames { name_bytes, value, counted });
        }
        Ok(ObjectShape {
            escapes: self.style.escapes,
            punctuation: self.punctuation,
            table,
            properties,
            others,
            never: objects.never.iter().map(|names| names.iter().map(|name| known[name]).collect()).collect(),
            some: (1 << some.len()) - 1,
            least,
            most: objects.most.map(bound),
            any_order: self.style.order == Order::Any,
        })
    }

    /// The terminal of names of a kind that are counted, and the shortest of these names: two more than required, since
    /// some may have come already and one may be incomplete.
    fn counted_names(
        &mut self,
        table: &NameTable,
        kind: u32,
        given: &[String],
        least: u32,
        path: &str,
    ) -> Result<Option<CountedNames>> {
        let budget = self.schemas.budget.clone();
        let large = "\"minProperties\" is about names that are too large for an automaton";
        let Some(mut characters) = table.others_of(|other| other == kind) else { return Ok(None) };
        if !given.is_empty() {
            let Ok(given) = Automaton::literals(given) else { return self.large(path, large) };
            characters = match Automaton::all_of(&budget, &[(&characters.automaton, true), (&given, false)]) {
                Ok(automaton) => Arc::new(Characters::new(automaton)),
                Err(NoAutomaton::Empty) => return Ok(None),
                Err(NoAutomaton::TooLarge) => return self.large(path, large),
            };
        }
        let text = StringContent::new(characters, 0, None);
        let Some(text) = text.or_else(|_| self.large(path, large))? else { return Ok(None) };
        let terminal = self.grammar.terminal(Terminal::Text(Quoted::new(text, Escapes::Minimal)));
        let shared = self.grammar.kept_terminal(terminal).clone();
        budget.take(400 * u64::from(least));
        let names = shortest_texts(&*shared, least as usize + 2);
        Ok(Some(((terminal, shared), names)))
    }

    /// The value of a property, with a rule for each combination of the demands on some property that it may meet.
    fn value(&mut self, key: &Key, meets: u32, some: &[Demanded]) -> ValueOf {
        let rule = self.rule(key.clone());
        let mut meeting = Vec::new();
        for met in (1..1 << some.len()).filter(|met| met & !meets == 0) {
            let demands = some.iter().enumerate().filter(|(i, _)| met >> i & 1 == 1).flat_map(|(_, some)| &some.value);
            let key = normal(key.iter().chain(demands).copied().collect());
            if key != [NOTHING] {
                meeting.push((met, self.rule(key)));
            }
        }
        ValueOf { rule, meeting }
    }

    /// The demands that some property must meet.
    fn some(&mut self, objects: &Objects, path: &str) -> Result<Vec<Demanded>> {
        if objects.some.is_empty() {
            return Ok(Vec::new());
        }
        if objects.some.len() > MAX_SOME {
            return bad(path, format!("more than {MAX_SOME} demands that some property must meet are not supported"));
        }
        if objects.least.max(1) > objects.required.len().max(1) as u64 || objects.most.is_some() {
            return bad(
                path,
                "\"minProperties\" or \"maxProperties\" where \"additionalProperties\" and its kind must not hold is \
                 not supported",
            );
        }
        let mut all = Vec::new();
        for SomeProperty { names, value } in &objects.some {
            let (names, patterns, with) = match names {
                SomeNames::Other(properties) => {
                    let names = properties.named.iter().map(|(name, _)| name.clone()).collect();
                    (names, properties.patterns.iter().map(|(pattern, _)| *pattern).collect(), false)
                }
                SomeNames::Pattern(pattern) => (HashSet::new(), vec![*pattern], true),
                SomeNames::Obeying(key) => {
                    let mut patterns = Vec::new();
                    let ways = self.schemas.ways(key)?;
                    for flat in ways.iter().filter(|flat| flat.types.has(Types::STRING)) {
                        if let Some(automaton) = self.content_of(&flat.strings, path)? {
                            self.schemas.contents.push(Rc::new(automaton));
                            patterns.push(self.schemas.contents.len() as u32 - 1);
                        }
                    }
                    (HashSet::new(), patterns, true)
                }
            };
            all.push(Demanded { names, patterns, with, value: value.clone() });
        }
        Ok(all)
    }
}

/// A demand that some property must meet.
pub(super) struct Demanded {
    /// Names that the property must not have.
    pub(super) names: HashSet<String>,
    /// Patterns: the name must match one of them if `with` is set, else none.
    pub(super) patterns: Vec<u32>,
    pub(super) with: bool,
    /// The demands on the value.
    pub(super) value: Key,
}

impl Demanded {
    /// Whether the property may have this name.
    fn may_have(&self, name: &str, schemas: &Schemas<'_>) -> bool {
        let matches = |&pattern: &u32| schemas.contents[pattern as usize].matches(name.as_bytes());
        !self.names.contains(name) && self.patterns.iter().any(matches) == self.with
    }
}
