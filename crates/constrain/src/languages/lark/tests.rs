//! Texts that grammars accept and refuse, and faults.

use crate::fixture::{LEXICON, is_grammar_of, machine_of};
use crate::grammar::Grammar;

#[test]
fn texts_are_those_of_the_rules() {
    for (grammar, texts, others) in [
        ("start: a b\na: \"x\"\n  | \"y\" // c\nb: \"z\" # d\n", &["xz", "yz"][..], &["x", "z"][..]),
        ("?start: a?\n!a.2: \"A\"i -> b\n", &["", "a", "A"], &["aA"]),
        ("start: A ~ 2..3 \"!\"{,1} B{2}\nA.5: \"a\"..\"c\"\nB: /b/", &["abbb", "abc!bb"], &["abb", "ab!!bb"]),
        ("start: [\"a\"] (\"b\" | \"c\")* |\n \"d\"", &["", "abc", "d"], &["da", "ba"]),
        (
            "start: WORD \" \" INT\n%import common.WORD\n%import common (INT, WS)\n%import common.CNAME -> N",
            &["ab 1"],
            &["1 ab"],
        ),
        (
            "start: A B\n%ignore \" \"\n%ignore /\\t/\nA: \"a\" \"x\"\nB: \"b\"",
            &["axb", "ax \t b  "],
            &[" axb", "a xb"],
        ),
        ("start: A\nA: /[a-z]+/ & ~/(?s:.*)b(?s:.*)/ | \"bb\"", &["ac", "bb"], &["ab", ""]),
        ("start: A \"!\"?\nA: ~\"a\"+ & /[a-z]*/", &["b!", "!", "aa!", "ba"], &["a!!", "B"]),
        ("start: A\nA: \"a\" & \"b\" | \"c\"", &["c"], &["a", "b"]),
        ("start: t /.*/s\nt[lazy]: /.*<e>/", &["a<e>b<e>\n", "<e>"], &["a<e", "a\n<e>"]),
        ("start: t \"x\"\nt[suffix=\"<e>\"]: /[a<e>]*/", &["<e>x", "a<e>x"], &["<e>a<e>x", "x"]),
        ("start: t \"b\"\nt[stop=\"!\"]: /[a-c]*/", &["!b", "a!b"], &["b", "ab", "a!"]),
        ("start: t \"!\"\nt[stop=\"\"]: /[ab]/ \"c\"*", &["a!", "bcc!"], &["a", "c!"]),
        ("start: /a.b/ /(?i)c/ /d # e\n/x\n", &["a\u{e9}bCd"], &["a\nbcd"]),
        ("start: \"\\x41\\u00e9\\ud83d\\ude00\\n\\/\"", &["A\u{e9}\u{1f600}\n/"], &["A"]),
        ("start: e\ne: e \"+\" t | t\nt: \"(\" e \")\" | /[0-9]+/\n%ignore / +/", &["1 + (2+3) ", "1"], &["1+", "()"]),
        (
            "start: \"<\" %json {\"type\": \"object\",\n \"properties\": {\"a\": {\"type\": \"null\"}}, \"additionalProperties\": false} \">\"",
            &["<{\"a\":null}>", "<{}>"],
            &["<>"],
        ),
        (
            "start: S \".\"\nS: %regex {\"substring_words\": \"foo bar baz\"}",
            &[".", "foo bar.", " baz."],
            &["fo.", "foo baz."],
        ),
        (
            "start: %regex {\"substring_chunks\": [\"ab\", \"c\"]} %regex {\"substring_chars\": \"xy\"}",
            &["", "abcx", "cxy"],
            &["b"],
        ),
        ("start:\n", &[""], &["a"]),
        ("start: | \"a\"", &["", "a"], &["aa"]),
    ] {
        let read = Grammar::lark(grammar).unwrap_or_else(|fault| panic!("{grammar}: {fault}"));
        is_grammar_of(grammar, read, texts, others);
    }
}

/// Every terminal of `common` accepts its examples.
#[test]
fn common_terminals() {
    for (name, texts, others) in [
        ("CNAME", &["_a1", "A"][..], &["1a", ""][..]),
        ("CPP_COMMENT", &["// a", "//"], &["/ /", "//\n"]),
        ("C_COMMENT", &["/**/", "/* a\n* / **/"], &["/*/", "/* */ */"]),
        ("DECIMAL", &["1.", "1.5", ".5"], &["1", "."]),
        ("ESCAPED_STRING", &["\"\"", "\"a\\\"b\""], &["\"", "\"a\"b\"", "\"\n\""]),
        ("FLOAT", &["1.", "1e5", ".5e-3"], &["1", "e5"]),
        ("NUMBER", &["1", "1.5", "1e+5"], &["-1", "1e"]),
        ("SIGNED_NUMBER", &["-1", "+.5"], &["--1"]),
        ("SIGNED_INT", &["-1", "12"], &["1.0"]),
        ("SIGNED_FLOAT", &["-1.0", "+1e9"], &["-1"]),
        ("NEWLINE", &["\n", "\r\n\n"], &["\r"]),
        ("WS", &[" \t\n"], &["", "a"]),
        ("WS_INLINE", &[" \t"], &["\n"]),
        ("SH_COMMENT", &["# a"], &["a"]),
        ("SQL_COMMENT", &["-- a"], &["- a"]),
        ("HEXDIGIT", &["f", "A", "0"], &["g"]),
        ("WORD", &["Ab"], &["a1"]),
    ] {
        let grammar = format!("start: {name}\n%import common.{name}");
        let read = Grammar::lark(&grammar).unwrap();
        is_grammar_of(name, read, texts, others);
    }
}

/// The longest text of all terminals that are allowed together wins. The answers are those of llguidance.
#[test]
fn texts_are_divided_by_the_longest_match() {
    for (grammar, texts, others) in [
        ("start: /[a-z]+/ (\"x\" | \"!\")", &["ab!"][..], &["abx", "x", "!"][..]),
        ("start: \"a\" \"b\" | \"ab\" \"c\"", &["abc"], &["ab"]),
        // Only where a name may come, it is read together with the keyword.
        ("start: \"if\" N\nN: /[a-z]+/", &["ifx"], &["if"]),
        ("start: \"if\" N | N \"=\"\nN: /[a-z]+/\n%ignore \" \"", &["ifx=", "if x", "if ="], &["ifx"]),
        // The longest match of one terminal can be shorter than that of another path.
        ("start: x \"c\" | y \"bc\"\nx: \"a\"+\ny: \"aa\"", &["aabc", "ac"], &["aac", "aaac"]),
        ("start: A B\nA: /a/ | /ab/\nB: /b?c/", &["abc", "abbc", "ac"], &["ab"]),
        ("start: a+ \"b\"\na: \"ab\" | \"a\"", &["abb"], &["ab", "aab"]),
        ("start: (/[0-9]+/ | /[0-9]+\\.[0-9]+/) /\\.x/", &["1.2.x"], &["1.x"]),
        // A terminal that consists of others is one.
        ("start: S\nS: A B\nA: /a+/\nB: /a/", &["aa", "aaa"], &["a"]),
        ("start: s\ns: A B | \"c\"\nA: /a+/\nB: /a/", &["c"], &["aa"]),
        // Empty terminals keep what cannot follow.
        ("start: A E B | \"c\"\nA: /a+/\nE: /e*/\nB: /[ab]/", &["ab", "aeb", "aea", "c"], &["aa", "aaa"]),
        ("start: A B\nA: /x/\nB: /y/\n%ignore /z/\n%ignore /zz!/", &["xzz!y"], &["xzzy", "xz!y"]),
        // Left recursion, and a rule that is used twice.
        (
            "start: \"(\" e \")\" | e \"else\"\ne: e \"+\" N | N\nN: /[a-z]+/",
            &["(a+b)", "(else)"],
            &["a+belse", "(a", "aelse"],
        ),
        ("start: e \"+\" | \"-\"\ne: e \"++\" | /a/", &["a+", "a+++", "-"], &["a++"]),
        ("start: N %json {\"type\": \"boolean\"} | N %json {\"type\": \"integer\"}\nN: /[a-z]+/", &["a1"], &["atrue"]),
    ] {
        let read = Grammar::lark(grammar).unwrap_or_else(|fault| panic!("{grammar}: {fault}"));
        is_grammar_of(grammar, read, texts, others);
    }
}

#[test]
fn faults_name_their_place_and_cure() {
    for (grammar, message) in [
        ("start: a", "line 1, column 8: the rule a is not defined"),
        ("a: \"b\"", "line 1, column 1: missing is the rule start"),
        ("start: A\nA: B\nB: A", "line 2, column 1: the terminal A consists of itself"),
        ("start: A\nA: b\nb: \"c\"", "line 2, column 4: the rule b is in a terminal"),
        ("start: \"a\" & \"b\"", "line 1, column 12: & is in a rule"),
        ("start: ~\"a\"", "line 1, column 8: ~ is in a rule"),
        ("start: \"a\nb\"", "line 1, column 8: a text in quotes is not closed"),
        ("start: 'a'", "line 1, column 8: '\\'' is not part of a rule"),
        ("start: /a", "line 1, column 8: an expression is not closed"),
        ("start: /a/l", "the flag l of an expression at line 1, column 8"),
        ("start: /a*?/", "a lazy repetition at line 1, column 8"),
        ("start: /a(?=b)/", "line 1, column 8: the regular expression has a look-ahead"),
        ("start: /(a/", "line 1, column 8: the regular expression is wrong"),
        ("start: \"a\"+?", "line 1, column 12: there is nothing to repeat"),
        ("start: \"a\"{3,2}", "line 1, column 11: the repetition from 3 to 2 is reversed"),
        ("start: \"z\"..\"a\"", "line 1, column 8: a range is not one of characters"),
        ("start: <[7]>", "a token by its number at line 1, column 8"),
        ("start: A\nA: <|a|>", "line 2, column 4: a token is in a terminal"),
        ("start: %json {", "line 1, column 8: this is not JSON"),
        ("start: %json {\"type\": 3}", "line 1, column 8: the schema cannot be used"),
        ("start: %regex {}", "line 1, column 8: %regex has not one property"),
        ("start: X\n%import common.X", "line 2, column 1: common has no X"),
        ("start: a\n%import .other.a", "an import from another file at line 2, column 1"),
        ("start: a{\"x\"}\na{x}: x", "line 1, column 9"),
        ("start[max_tokens=5]: /a/", "max_tokens at line 1, column 7"),
        ("start[lazy]: A\nA: \"a\"\nstart: \"b\"", "line 3, column 1: the rule start is defined twice"),
        ("start: \"a\"\n%declare B", "the directive %declare at line 2, column 1"),
        ("start: start", "no text obeys the grammar"),
        ("start: N N\nN: /[a-z]+/", "no text obeys the grammar"),
        ("start: N\nN: /[ab]*a[ab]{40}/", "line 1, column 8: a terminal has too many states"),
    ] {
        let fault = Grammar::lark(grammar).unwrap_err().to_string();
        assert!(fault.contains(message) && !fault.contains('\n'), "{grammar}: {fault}");
    }
}

/// Tokens that the tokenizer does not have are found when the grammar meets it.
#[test]
fn unknown_control_tokens_are_named() {
    let grammar = Grammar::lark("start: <|other|> a\na: \"b\" <|other|> | <|more|>").unwrap();
    assert_eq!(grammar.controls().collect::<Vec<_>>(), ["<|other|>", "<|more|>"]);
    assert_eq!(LEXICON.missing_control(&grammar), Some("<|other|>"));
    assert_eq!(LEXICON.missing_control(&Grammar::gbnf("root ::= \"a\"").unwrap()), None);
    let machine = machine_of(grammar);
    let spelled = [b"\xff<|other|>\xfe", &b"b\xff<|other|>\xfe"[..]].concat();
    assert!(machine.accepts(machine.next(machine.start(), &spelled)));
}
