//! Entries of folders that are skipped.

use std::collections::BTreeMap;

/// The endings of files that are read in folders.
pub(super) const KINDS: [&str; 6] = ["txt", "md", "text", "jsonl", "ndjson", "parquet"];

/// The numbers of skipped entries of folders, by reason.
#[derive(Debug, Default)]
pub(super) struct Passed {
    /// Files of other kinds, by extension.
    kinds: BTreeMap<String, u64>,
    pub(super) hidden: u64,
    /// Links to folders, which could form a cycle.
    pub(super) links: u64,
}

impl Passed {
    /// Counts a file of another kind, by its extension, which may be empty.
    pub(super) fn add(&mut self, ending: &str) {
        let kind = if ending.is_empty() { "without an extension".into() } else { format!(".{ending}") };
        *self.kinds.entry(kind).or_default() += 1;
    }

    /// A sentence about all of them; `None` if nothing was skipped.
    pub(super) fn sentence(&self) -> Option<String> {
        let plural = |count: u64, one: &str, many: &str| format!("{count} {}", if count == 1 { one } else { many });
        let files: u64 = self.kinds.values().sum();
        let mut parts = Vec::new();
        if files > 0 {
            let kinds: Vec<String> = self.kinds.iter().map(|(kind, count)| format!("{count} {kind}")).collect();
            let read = KINDS.map(|kind| format!(".{kind}")).join(", ");
            parts.push(format!(
                "{} ({}): in folders only {read} files are read; name others to read them",
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
