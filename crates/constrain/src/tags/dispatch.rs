//! Free text in which triggers begin structure, and lists of tags.

use serde_json::Value;

use super::fault::{Result, bad};
use super::fields::{Fields, items};
use super::format::{Formats, Tag, free, sized};
use crate::grammar::Grammar;

/// The ways that a structure begins: a trigger, and what follows it.
type Ways = Vec<(Vec<u8>, Grammar)>;

/// How often structure comes.
struct Times {
    at_least_one: bool,
    stop_after_first: bool,
}

impl Formats<'_> {
    pub(super) fn triggered_tags(
        &mut self,
        fields: &mut Fields<'_>,
        path: &str,
        ends: &[Vec<u8>],
        depth: u32,
    ) -> Result<Grammar> {
        let (triggers_path, triggers) = (fields.path("triggers"), fields.texts("triggers")?);
        let triggers: Vec<Vec<u8>> = triggers.into_iter().map(|text| self.spell(text)).collect();
        let marks = self.free_marks(fields, ends)?;
        self.triggered(fields, path, (triggers, &triggers_path), marks, depth)
    }

    pub(super) fn token_triggered_tags(
        &mut self,
        fields: &mut Fields<'_>,
        path: &str,
        ends: &[Vec<u8>],
        depth: u32,
    ) -> Result<Grammar> {
        let (triggers, triggers_path) = fields.need("trigger_tokens")?;
        let triggers = items(triggers, &triggers_path)?.map(|token| self.token(token)).collect::<Result<_>>()?;
        self.exclude_tokens(fields)?;
        let marks = self.free_marks(fields, ends)?;
        self.triggered(fields, path, (triggers, &triggers_path), marks, depth)
    }

    /// Tags that triggers begin, in text without `marks`.
    fn triggered(
        &mut self,
        fields: &mut Fields<'_>,
        path: &str,
        (triggers, triggers_path): (Vec<Vec<u8>>, &str),
        marks: Vec<Vec<u8>>,
        depth: u32,
    ) -> Result<Grammar> {
        let times = times(fields)?;
        if triggers.is_empty() || triggers.iter().any(Vec::is_empty) {
            return bad(triggers_path, "there must be at least one trigger, and none may be empty");
        }
        let mut ways: Vec<(Vec<u8>, Vec<Grammar>)> =
            triggers.into_iter().map(|trigger| (trigger, Vec::new())).collect();
        for (tag, path) in self.tags(fields, depth)? {
            let mut found = ways.iter_mut().filter(|(trigger, _)| tag.begin.starts_with(trigger));
            let (Some((trigger, rests)), None) = (found.next(), found.next()) else {
                return bad(&path, "its begin must have exactly one of the triggers as a prefix");
            };
            let rest = Grammar::text(&tag.begin[trigger.len()..]);
            rests.push(sized(Grammar::sequence([rest, tag.rest]), &path)?);
        }
        let mut all = Ways::new();
        for (trigger, mut rests) in ways {
            let Some(first) = rests.pop() else {
                return bad(triggers_path, "a trigger is not a prefix of the begin of any tag");
            };
            all.push((trigger, sized(Grammar::one_of(first, rests), path)?));
        }
        self.dispatched(all, marks, &times, path)
    }

    /// Free text in which strings, or tokens, begin formats.
    pub(super) fn dispatch(
        &mut self,
        fields: &mut Fields<'_>,
        path: &str,
        ends: &[Vec<u8>],
        depth: u32,
    ) -> Result<Grammar> {
        let (rules, rules_path) = fields.need("rules")?;
        let times = Times { at_least_one: false, stop_after_first: !fields.flag_or("loop", true)? };
        let of_tokens = fields.text("type")? == "token_dispatch";
        if of_tokens {
            self.exclude_tokens(fields)?;
        }
        let marks = self.free_marks(fields, ends)?;
        let mut ways = Ways::new();
        for (rule, path) in items(rules, &rules_path)? {
            let (trigger, format) = match rule.as_array().map(Vec::as_slice) {
                Some([token, format]) if of_tokens => (self.token((token, format!("{path}/0")))?, format),
                Some([Value::String(trigger), format]) => (self.spell(trigger), format),
                _ => return bad(&path, "it must be an array of a string, or a token, and a format"),
            };
            let format = self.format(format, &format!("{path}/1"), ends, depth + 1)?;
            if trigger.is_empty() || ways.iter().any(|(other, _)| *other == trigger) {
                return bad(&path, "it must not begin with an empty string, or as another rule does");
            }
            ways.push((trigger, format));
        }
        if ways.is_empty() {
            return bad(&rules_path, "it must have at least one rule");
        }
        self.dispatched(ways, marks, &times, path)
    }

    /// Free text without `marks`, in which triggers begin structure.
    fn dispatched(&self, ways: Ways, mut marks: Vec<Vec<u8>>, times: &Times, path: &str) -> Result<Grammar> {
        let others = marks.len();
        marks.extend(ways.iter().map(|(trigger, _)| trigger.clone()));
        let (mut after_text, mut at_once) = (Vec::new(), Vec::new());
        for ((trigger, rest), which) in ways.into_iter().zip(others..) {
            let Some(text) = Grammar::up_to_one(&marks, which) else {
                return bad(path, format!("no text has the trigger {:?} first", String::from_utf8_lossy(&trigger)));
            };
            at_once.push(sized(Grammar::sequence([Grammar::text(trigger), rest.clone()]), path)?);
            after_text.push(sized(Grammar::sequence([text, rest]), path)?);
        }
        let any_of = |mut ways: Vec<Grammar>| match ways.pop() {
            Some(last) => sized(Grammar::one_of(last, ways), path),
            None => bad(path, "it must have at least one tag"),
        };
        let (after_text, at_once) = (any_of(after_text)?, any_of(at_once)?);
        let text = free(&marks);
        let whole = match (times.at_least_one, times.stop_after_first) {
            (true, true) => Ok(at_once),
            (false, true) => Grammar::one_of(text, [after_text]),
            (is_required, false) => after_text.repeat(0, None).and_then(|more| {
                let first = is_required.then_some(at_once);
                Grammar::sequence(first.into_iter().chain([more, text]))
            }),
        };
        sized(whole, path)
    }

    pub(super) fn tags_with_separator(&mut self, fields: &mut Fields<'_>, path: &str, depth: u32) -> Result<Grammar> {
        let (separator, times) = (self.spell(fields.text("separator")?), times(fields)?);
        let mut all = Vec::new();
        for (tag, path) in self.tags(fields, depth)? {
            all.push(sized(Grammar::sequence([Grammar::text(tag.begin), tag.rest]), &path)?);
        }
        let Some(last) = all.pop() else { return bad(path, "it must have at least one tag") };
        let one = sized(Grammar::one_of(last, all), path)?;
        let list = match times.stop_after_first {
            true => Ok(one),
            false => {
                let more = Grammar::sequence([Grammar::text(separator), one.clone()]);
                more.and_then(|more| Grammar::sequence([one, more.repeat(0, None)?]))
            }
        };
        let least = u32::from(times.at_least_one);
        sized(list.and_then(|list| list.repeat(least, Some(1))), path)
    }

    /// Takes the tags, with their paths.
    fn tags(&mut self, fields: &mut Fields<'_>, depth: u32) -> Result<Vec<(Tag, String)>> {
        let (tags, path) = fields.need("tags")?;
        let mut all = Vec::new();
        for (tag, path) in items(tags, &path)? {
            let mut fields = Fields::of(tag, &path)?;
            if fields.value("type").is_some_and(|kind| kind != "tag") {
                return bad(&path, "it must be a tag");
            }
            let tag = self.tag(&mut fields, &[], depth + 1)?;
            fields.end()?;
            all.push((tag, path));
        }
        Ok(all)
    }
}

/// Takes how often tags come.
fn times(fields: &mut Fields<'_>) -> Result<Times> {
    Ok(Times { at_least_one: fields.flag("at_least_one")?, stop_after_first: fields.flag("stop_after_first")? })
}
