//! The terminals that `%import common` brings.

/// Each terminal with its expression.
const TERMINALS: &[(&str, &str)] = &[
    ("CNAME", "[_a-zA-Z][_a-zA-Z0-9]*"),
    ("CPP_COMMENT", "//[^\n]*"),
    ("CR", "\r"),
    ("C_COMMENT", r"/\*([^*]|\*+[^*/])*\*+/"),
    ("DECIMAL", r"[0-9]+\.[0-9]*|\.[0-9]+"),
    ("DIGIT", "[0-9]"),
    ("ESCAPED_STRING", "\"([^\"\\\\\n]|\\\\[^\n])*\""),
    ("FLOAT", r"[0-9]+[eE][+-]?[0-9]+|([0-9]+\.[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?"),
    ("HEXDIGIT", "[a-fA-F0-9]"),
    ("INT", "[0-9]+"),
    ("LCASE_LETTER", "[a-z]"),
    ("LETTER", "[a-zA-Z]"),
    ("LF", "\n"),
    ("NEWLINE", "(\r?\n)+"),
    ("NUMBER", r"[0-9]+([eE][+-]?[0-9]+)?|([0-9]+\.[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?"),
    ("SH_COMMENT", "#[^\n]*"),
    ("SIGNED_FLOAT", r"[+-]?([0-9]+[eE][+-]?[0-9]+|([0-9]+\.[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?)"),
    ("SIGNED_INT", "[+-]?[0-9]+"),
    ("SIGNED_NUMBER", r"[+-]?([0-9]+([eE][+-]?[0-9]+)?|([0-9]+\.[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?)"),
    ("SQL_COMMENT", "--[^\n]*"),
    ("UCASE_LETTER", "[A-Z]"),
    ("WORD", "[a-zA-Z]+"),
    ("WS", "[ \t\x0c\r\n]+"),
    ("WS_INLINE", "[ \t]+"),
];

/// The expression of a terminal.
pub(super) fn common(name: &str) -> Option<&'static str> {
    TERMINALS.iter().find(|(of, _)| *of == name).map(|(_, expression)| *expression)
}

/// The names of all terminals, for errors.
pub(super) fn names() -> String {
    TERMINALS.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ")
}
