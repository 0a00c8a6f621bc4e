#!/usr/bin/env python3
"""Compares grammars with other libraries on random small grammars and texts, and on the example grammars.

Usage: grammars.py PROGRAM [GRAMMARS], where PROGRAM is the built example `grammars` of crates/constrain. It needs the
packages lark, llguidance and xgrammar. Or: grammars.py --samples PROGRAM [TEXTS], where PROGRAM is the built
`verdigris-masks`: lark judges texts that are sampled from each grammar of fixtures/grammars.

For each random grammar, written in EBNF and in Lark, all texts of up to six letters are judged by this project and by
lark (Earley, dynamic_complete), llguidance and XGrammar. lark divides texts in any way, so it is compared with EBNF
here. Random grammars of terminals and ignored texts are compared with llguidance alone. Disagreements are counted by
kind, with an example of each.
"""

import itertools
import json
import os
import random
import re
import signal
import subprocess
import sys

LETTERS = "ab"


def part(source, rules, depth):
    """A random expression in EBNF, in Lark as llguidance has it, and in Lark as lark has it."""
    kind = source.choice(["text"] * 3 + ["rule"] * 2 + (["sequence"] * 3 + ["choice"] * 2 + ["repeat"] if depth else []))
    if kind == "text":
        text = source.choice(["a", "b", "ab", "ba"])
        return (f'"{text}"',) * 3
    if kind == "rule":
        return (source.choice(rules),) * 3
    if kind == "repeat":
        ebnf, wide, lark = part(source, rules, depth - 1)
        operator = source.choice(["*", "+", "?", "{1,2}", "{2,}"])
        of_lark = {"{1,2}": f"({lark})~1..2", "{2,}": f"({lark}) ({lark})+"}.get(operator, f"({lark}){operator}")
        return f"({ebnf}){operator}", f"({wide}){operator}", of_lark
    parts = [part(source, rules, depth - 1) for _ in range(source.randint(1, 3))]
    between = " " if kind == "sequence" else " | "
    return tuple("(" + between.join(texts) + ")" for texts in zip(*parts))


def grammar(seed):
    source = random.Random(seed)
    rules = ["r0", "r1", "r2"][: source.randint(1, 3)]
    bodies = [part(source, rules, 3) for _ in rules]
    ebnf = "\n".join(["root ::= r0"] + [f"{rule} ::= {body[0]}" for rule, body in zip(rules, bodies)])
    larks = ["\n".join(["start: r0"] + [f"{rule}: {body[at]}" for rule, body in zip(rules, bodies)]) for at in (1, 2)]
    return ebnf, *larks


def terminals(seed):
    """A random grammar of terminals in Lark, with ignored texts in some."""
    source = random.Random(seed)
    texts = ["a+", "[ab]+", "a?b", "ab*", "ba?", "(ab)+", "a|ab", "b+a", "a[ab]", "[ab]b"]
    names = ["A", "B", "C"]
    bodies = [f"/{source.choice(texts)}/" for _ in names]
    if source.random() < 0.3:
        bodies[2] = "A B" if source.random() < 0.5 else "A | B"
    literals = ['"a"', '"b"', '"ab"', '"ba"', '"aa"', *names, *names]

    def rule(depth):
        kind = source.choice(["terminal"] * 4 + (["rule"] * 2 + ["sequence"] * 4 + ["choice"] * 3 + ["many"] if depth else []))
        if kind == "terminal":
            return source.choice(literals)
        if kind == "rule":
            return source.choice(["r1", "r2"])
        if kind == "many":
            return f"({rule(depth - 1)})" + source.choice(["*", "+", "?", "{1,2}"])
        parts = [rule(depth - 1) for _ in range(source.randint(2, 3))]
        return "(" + (" " if kind == "sequence" else " | ").join(parts) + ")"

    lines = [f"start: {rule(2)}", f"r1: {rule(2)}", f"r2: {rule(2)}"]
    lines += [f"{name}: {body}" for name, body in zip(names, bodies)]
    return "\n".join(lines + (["%ignore /c+/"] if source.random() < 0.5 else []))


def texts_of_terminals():
    return ["".join(letters) for length in range(6) for letters in itertools.product("abc", repeat=length)]


def texts():
    return ["".join(letters) for length in range(7) for letters in itertools.product(LETTERS, repeat=length)]


def by_lark(text):
    import lark

    try:
        parser = lark.Lark(text, parser="earley", lexer="dynamic_complete")
    except lark.exceptions.LarkError:
        return None

    def accepts(word):
        try:
            parser.parse(word)
            return True
        except lark.exceptions.LarkError:
            return False

    return accepts


def by_llguidance(text):
    import llguidance

    vocabulary = [bytes([byte]) for byte in range(256)] + [b"<end>"]

    class Bytes:
        eos_token_id, bos_token_id, tokens, special_token_ids = 256, None, vocabulary, [256]

        def __call__(self, word):
            return list(word)

    tokenizer = by_llguidance.__dict__.setdefault(
        "tokenizer", llguidance.LLTokenizer(llguidance.TokenizerWrapper(Bytes()))
    )
    source = llguidance.LLMatcher.grammar_from_lark(text)
    if llguidance.LLMatcher(tokenizer, source, log_level=0).get_error():
        return None

    def accepts(word):
        matcher = llguidance.LLMatcher(tokenizer, source, log_level=0)
        return all(matcher.consume_token(byte) for byte in word.encode()) and matcher.is_accepting()

    return accepts


def by_xgrammar(text):
    import xgrammar

    try:
        parsed = xgrammar.Grammar.from_ebnf(text)
        vocabulary = [bytes([byte]) for byte in range(256)] + [b"</s>"]
        info = xgrammar.TokenizerInfo(vocabulary, vocab_size=257, stop_token_ids=[256])
        compiled = xgrammar.GrammarCompiler(info, max_threads=1).compile_grammar(parsed)
    except RuntimeError:
        return None

    def accepts(word):
        matcher = xgrammar.GrammarMatcher(compiled)
        return (not word or matcher.accept_string(word)) and matcher.accept_token(256)

    return accepts


def answers(judge, text, words):
    """The answers of another library: a list, None if it refuses the grammar, or "crash" if it ends the process."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        signal.alarm(20)
        accepts = judge(text)
        os.write(writing, json.dumps(accepts and [bool(accepts(word)) for word in words]).encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        answer = pipe.read()
    os.waitpid(child, 0)
    return json.loads(answer) if answer else "crash"


def for_lark(text):
    """A grammar as lark has it: its repetitions, no terminal without characters, and expressions that take the longest
    alternative first, since those of Python take the first that matches."""
    pattern = r"""("(?:[^"\\\n]|\\.)*"|/(?:[^/\\\n]|\\.)+/)|\{(\d+),(\d+)\}"""
    text = re.sub(pattern, lambda found: found[1] or f"~{found[2]}..{found[3]}", text)
    text = text.replace(r"/[ \t\n]{0,20}/", r"/[ \t\n]{1,20}/?").replace(r"/[+#]?[!?]{0,2}/", r"/[+#]/? /[!?]{1,2}/?")
    return re.sub(r"/(\[0-9\]\+.*)\|(0x.*)/\n", r"/\2|\1/\n", text)


def samples(program, count):
    """Judges sampled texts by lark's lexer `dynamic`, whose terminals take all they can. The other languages divide texts
    in any way, so a text of theirs is also judged by `dynamic_complete`, which is slow, if `dynamic` refuses it."""
    import lark

    def fault(text, parser):
        try:
            parser.parse(text)
        except lark.exceptions.LarkError as refusal:
            return str(refusal).splitlines()[0]

    command = [program, "--samples", str(count)]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    print("| grammar | texts | accepted |\n|---|--:|--:|")
    for case in map(json.loads, output.splitlines()):
        lexers = ["dynamic"] if case["language"] == "lark" else ["dynamic", "dynamic_complete"]
        parsers = [lark.Lark(for_lark(case["lark"]), parser="earley", lexer=lexer) for lexer in lexers]
        refused = [text for text in case["texts"] if all(fault(text, parser) for parser in parsers)]
        print(f"| {case['id']} | {len(case['texts'])} | {len(case['texts']) - len(refused)} |", flush=True)
        for text in refused[:5]:
            print(f"  refused: {text!r}: {fault(text, parsers[0])}", file=sys.stderr, flush=True)


def main():
    if sys.argv[1] == "--samples":
        return samples(sys.argv[2], int(sys.argv[3]) if len(sys.argv) > 3 else 200)
    import lark, llguidance, xgrammar  # noqa: F401, E401: imported before the processes fork

    program, count = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 500
    grammars = [grammar(seed) for seed in range(count)]
    ebnf, wide, plain = zip(*grammars)
    words = texts()
    ours = {"ebnf": judged(program, "ebnf", ebnf, words), "lark": judged(program, "lark", wide, words)}
    print(f"{count} grammars of texts, {len(words)} texts each")
    compare("XGrammar 0.2.8, EBNF", ebnf, words, ours["ebnf"], by_xgrammar)
    compare("llguidance 1.9.1, Lark", wide, words, ours["lark"], by_llguidance)
    compare("lark 1.3.1, dynamic_complete, here EBNF", plain, words, ours["ebnf"], by_lark)
    words, of_terminals = texts_of_terminals(), [terminals(seed) for seed in range(count)]
    print(f"{count} grammars of terminals, {len(words)} texts each")
    mine = judged(program, "lark", of_terminals, words)
    compare("llguidance 1.9.1, Lark", of_terminals, words, mine, by_llguidance)


def judged(program, language, grammars, words):
    """The answers of this project: for each grammar a list, or its fault."""
    cases = [json.dumps({"language": language, "grammar": text, "texts": words}) for text in grammars]
    output = subprocess.run([program], input="\n".join(cases), capture_output=True, text=True, check=True).stdout
    return [json.loads(line) for line in output.splitlines()]


def compare(name, grammars, words, ours, judge):
    counts = {"same": 0, "only here accepted": 0, "only there accepted": 0}
    counts["ignored text at the end, only here accepted"] = 0
    refused = {"refused by both": 0, "refused only here": 0, "refused only there": 0, "crashes there": 0}
    examples = {}
    for at, (text, mine) in enumerate(zip(grammars, ours)):
        theirs = answers(judge, text, words)
        is_refused = isinstance(mine, str)
        if not isinstance(theirs, list) or is_refused:
            # A grammar without a text is an error here, and accepts nothing elsewhere.
            has_none = theirs is None or isinstance(theirs, list) and not any(theirs)
            if theirs == "crash":
                kind = "crashes there"
            elif is_refused:
                kind = "refused by both" if has_none else "refused only here"
            else:
                kind = "refused only there"
            refused[kind] += 1
            examples.setdefault(kind, (at, mine if is_refused else ""))
            continue
        for word, is_mine, is_theirs in zip(words, mine, theirs):
            kind = "same" if is_mine == is_theirs else ("only here accepted" if is_mine else "only there accepted")
            # llguidance refuses it where nothing else could follow.
            if kind == "only here accepted" and "%ignore" in text and word.endswith("c"):
                kind = "ignored text at the end, only here accepted"
            counts[kind] += 1
            if kind != "same":
                examples.setdefault(kind, (at, word))
    print(f"{name}: {counts}, {refused}")
    for kind, (at, word) in examples.items():
        print(f"  {kind}: {word!r} with {grammars[at]!r}")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
