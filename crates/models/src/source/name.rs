//! The names of models on the Hugging Face hub.

/// A model on the hub: `owner/name`, `owner/name@revision`, and, for a file of llama.cpp, `owner/name:file.gguf`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HubName {
    pub(super) repository: String,
    pub(super) revision: String,
    pub(super) file: Option<String>,
}

/// The progress of fetching a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fetched<'a> {
    /// The name of the file.
    pub file: &'a str,
    /// Bytes fetched so far.
    pub bytes: u64,
    /// Bytes of the whole file.
    pub of: u64,
}

impl HubName {
    /// Parses a name; `None` for other texts, such as paths.
    pub fn parse(text: &str) -> Option<Self> {
        let (text, file) = match text.split_once(':') {
            Some((text, file)) => (text, Some(file)),
            None => (text, None),
        };
        let (repository, revision) = text.split_once('@').unwrap_or((text, "main"));
        let (owner, name) = repository.split_once('/')?;
        let is_word = |word: &str| {
            let known = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
            !word.is_empty() && !word.starts_with('.') && word.chars().all(known)
        };
        let is_file = |file: &str| is_word(file) && file.to_ascii_lowercase().ends_with(".gguf");
        let is_revision = revision.split('/').all(is_word);
        (is_word(owner) && is_word(name) && is_revision && file.is_none_or(is_file)).then(|| Self {
            repository: repository.to_owned(),
            revision: revision.to_owned(),
            file: file.map(str::to_owned),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_told_from_paths() {
        let name = |text| HubName::parse(text).map(|name| (name.repository, name.revision, name.file));
        let of = |repository: &str, revision: &str, file: Option<&str>| {
            Some((repository.to_owned(), revision.to_owned(), file.map(str::to_owned)))
        };
        assert_eq!(name("Qwen/Qwen2.5-0.5B"), of("Qwen/Qwen2.5-0.5B", "main", None));
        assert_eq!(name("a/b@refs/pr/1"), of("a/b", "refs/pr/1", None));
        assert_eq!(name("a/b@v1:c-Q8_0.gguf"), of("a/b", "v1", Some("c-Q8_0.gguf")));
        for path in
            ["model", "./model", "../a", "a/b/c", "/a/b", "a/", "C:/models", "a/b:c.txt", "a/b:../c.gguf", "~/a", ""]
        {
            assert_eq!(name(path), None, "{path:?}");
        }
    }
}
