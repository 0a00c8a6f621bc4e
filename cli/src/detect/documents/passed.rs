//! Files of folders that are passed over.

use std::collections::BTreeMap;

use super::KINDS;

/// How many entries of folders are passed over, and why.
#[derive(Debug, Default)]
pub(super) struct Passed {
    /// Files of other kinds, by their endings.
    kinds: BTreeMap<String, u64>,
    pub(super) hidden: u64,
    /// Links to folders, which could lead in a circle.
    pub(super) links: u64,
}

impl Passed {
    /// Counts a file of another kind, by its ending, which may be empty.
    pub(super) fn add(&mut self, ending: &str) {
        let kind = if ending.is_empty() { "without an ending".into() } else { format!(".{ending}") };
        *self.kinds.entry(kind).or_default() += 1;
    }

    /// All of it as a sentence; nothing where nothing was passed over.
    pub(super) fn sentence(&self) -> Option<String> {
        let plural = |count: u64, one: &str, many: &str| format!("{count} {}", if count == 1 { one } else { many });
        let files: u64 = self.kinds.values().sum();
        let mut parts = Vec::new();
        if files > 0 {
            let kinds: Vec<String> = self.kinds.iter().map(|(kind, count)| format!("{count} {kind}")).collect();
            let read = KINDS.map(|kind| format!(".{kind}")).join(", ");
            parts.push(format!(
                "{} ({}): in folders {read} are read, other files where they are named",
                plural(files, "file", "files"),
                kinds.join(", ")
            ));
        }
        if self.hidden > 0 {
            parts.push(plural(self.hidden, "hidden entry", "hidden entries"));
        }
        if self.links > 0 {
            parts.push(plural(self.links, "linked folder", "linked folders"));
        }
        (!parts.is_empty()).then(|| format!("skipped {}", parts.join("; ")))
    }
}
