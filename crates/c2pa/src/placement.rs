//! The placement of a manifest: how a text and its manifest are joined.

use std::path::Path;

use crate::error::C2paError;

/// The placement of a manifest that is created for a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// In invisible characters at the end of the text (A.8).
    Text,
    /// In a comment or in front matter (A.9).
    Structured(Comments),
    /// In a separate file.
    Sidecar,
}

/// The notation of one-line comments in a format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Comments {
    /// The beginning of a comment.
    pub(crate) begin: &'static str,
    /// The end of a comment, if it has one.
    pub(crate) end: Option<&'static str>,
    /// Whether the format may begin with front matter.
    pub(crate) front_matter: bool,
}

const fn comments(begin: &'static str, end: Option<&'static str>) -> Comments {
    Comments { begin, end, front_matter: false }
}

/// Formats by file extension.
const FORMATS: &[(&[&str], Comments)] = &[
    (&["md", "markdown"], Comments { begin: "<!--", end: Some("-->"), front_matter: true }),
    (&["xml"], comments("<!--", Some("-->"))),
    (&["css"], comments("/*", Some("*/"))),
    (
        &[
            "c", "cc", "cpp", "cs", "go", "h", "hpp", "java", "js", "json5", "jsonc", "jsx", "kt", "rs", "swift", "ts",
            "tsx",
        ],
        comments("//", None),
    ),
    (&["bash", "jl", "pl", "py", "r", "rb", "sh", "toml", "yaml", "yml", "zsh"], comments("#", None)),
    (&["hs", "lua", "sql"], comments("--", None)),
    (&["erl", "tex"], comments("%", None)),
    (&["el", "ini", "lisp", "scm"], comments(";", None)),
];

impl Placement {
    /// Parses a location: `text`, `sidecar`, or a file extension whose format has comments, such as `md` or `py`.
    ///
    /// # Errors
    /// [`C2paError::Placement`] for any other name.
    pub fn from_name(name: &str) -> Result<Self, C2paError> {
        let lower = name.to_ascii_lowercase();
        match &*lower {
            "text" => Ok(Self::Text),
            "sidecar" => Ok(Self::Sidecar),
            _ => structured(&lower).map(Self::Structured).ok_or_else(|| C2paError::Placement { name: name.to_owned() }),
        }
    }

    /// The name in output.
    pub fn name(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Structured(_) => "structured",
            Self::Sidecar => "sidecar",
        }
    }

    /// Returns the location for a file of this name: in a comment if its format has them, next to the file if either
    /// other location would damage its content, and otherwise in invisible characters.
    pub fn of_file(path: &Path) -> Self {
        let end = path.extension().and_then(|end| end.to_str()).unwrap_or_default().to_ascii_lowercase();
        match &*end {
            "csv" | "htm" | "html" | "json" | "jsonl" | "ndjson" | "svg" | "tsv" => Self::Sidecar,
            end => structured(end).map_or(Self::Text, Self::Structured),
        }
    }
}

fn structured(end: &str) -> Option<Comments> {
    FORMATS.iter().find(|(ends, _)| ends.contains(&end)).map(|(_, comments)| *comments)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_files_have_their_forms() {
        assert_eq!(Placement::from_name("text").unwrap(), Placement::Text);
        assert_eq!(Placement::from_name("Sidecar").unwrap(), Placement::Sidecar);
        assert_eq!(Placement::from_name("PY").unwrap(), Placement::of_file(Path::new("a.py")));
        assert_eq!(Placement::of_file(Path::new("a.txt")), Placement::Text);
        assert_eq!(Placement::of_file(Path::new("tale")), Placement::Text);
        assert_eq!(Placement::of_file(Path::new("a.JSON")), Placement::Sidecar);
        assert!(matches!(
            Placement::of_file(Path::new("a.md")),
            Placement::Structured(Comments { front_matter: true, .. })
        ));
        let error = Placement::from_name("json").unwrap_err().to_string();
        assert!(error.contains("sidecar"), "{error}");
    }
}
