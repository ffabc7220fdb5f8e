"""Where a small fault can be planted in a source file, and what it is.

C++ and CUDA files are read as tokens and statements. clang-format helps: a comparison has spaces around it and a template's
bracket has none. A fault changes one *region*, which can be written twice with a choice between the two: a condition, an
initialiser, a returned value, a statement.
"""
import bisect, re
from dataclasses import dataclass, field

TOKEN = re.compile(r'''
    (?P<comment>//[^\n]*|/\*.*?\*/)
  | (?P<space>\s+)
  | (?P<directive>^[ \t]*\#(?:[^\n\\]|\\.|\\\n)*)
  | (?P<string>R"(?P<raw>[^()\\ ]*)\(.*?\)(?P=raw)"|(?:u8|[uUL])?"(?:[^"\\\n]|\\.)*"|(?:u8|[uUL])?'(?:[^'\\\n]|\\.)+')
  | (?P<number>(?:\d|\.\d)(?:[eEpP][+-]|'(?=\w)|[\w.])*)
  | (?P<name>[A-Za-z_$]\w*)
  | (?P<template>`(?:[^`\\]|\\.)*`)
  | (?P<sign>===|!==|=>|<=>|<<=|>>=|->\*|\.\.\.|::|->|\+\+|--|&&|\|\||[=!<>+\-*/%&|^]=|<<|>>|.)
''', re.X | re.S | re.M)

# Where a value may begin, a slash begins a pattern in JavaScript.
PATTERN = re.compile(r"/(?:[^/\\\n\[]|\\.|\[(?:[^\]\\\n]|\\.)*\])+/[a-z]*")
CLOSING = {"(": ")", "[": "]", "{": "}"}
# What a statement says to people, or checks for our own sake, is left alone.
TALK = {"throw", "Error", "STRETTO_CHECK", "contract_broken", "spdlog", "static_assert", "stderr", "asm", "goto",
        "CUDA_CHECK_LAUNCH"}
SKIPPED_STARTS = {"using", "typedef", "struct", "class", "enum", "union", "template", "static_assert", "extern", "friend",
                  "namespace", "asm", "goto", "co_return"}
NEGATED = {"<": ">=", ">=": "<", ">": "<=", "<=": ">", "==": "!=", "!=": "==",
           "===": "!==", "!==": "==="}
MOVED = {"<": "<=", "<=": "<", ">": ">=", ">=": ">"}
LOGIC = {"&&": "||", "||": "&&"}
ARITHMETIC = {"+": "-", "-": "+", "*": "/", "/": "*", "%": "/"}
UPDATES = {"+=": "-=", "-=": "+=", "*=": "/=", "/=": "*=", "|=": "&=", "&=": "|="}
COUNTERPARTS = {"min": "max", "max": "min", "Min": "Max", "Max": "Min", "fminf": "fmaxf", "fmaxf": "fminf",
                "floor": "ceil", "ceil": "floor", "true": "false", "false": "true", "front": "back", "back": "front",
                "MinOfLanes": "MaxOfLanes", "MaxOfLanes": "MinOfLanes", "min_element": "max_element",
                "max_element": "min_element", "lower_bound": "upper_bound", "upper_bound": "lower_bound"}
# Calls that are the same the other way around, or whose arguments are words for people.
EITHER_WAY = {"min", "max", "Min", "Max", "fminf", "fmaxf", "Add", "Mul", "format", "print", "fail"}
UNARY_AFTER = {"(", "[", "{", ",", "=", "return", "?", ":", "&&", "||", "<", ">", "<=", ">=", "==", "!=", "+", "-", "*", "/",
               "+=", "-=", "*=", "/=", "<<", ";"}


@dataclass
class Token:
    kind: str
    text: str
    start: int
    end: int
    spaced: bool = False  # white space on both sides


@dataclass(eq=False)
class Region:
    shape: str  # condition, value, returned, statement, step
    start: int
    end: int
    line: int  # where the statement begins: compilers complain there
    last_line: int
    constant: tuple = ()  # `constexpr` here must become `const`: (start, end, text)


@dataclass(eq=False)
class Fault:
    path: str
    kind: str
    line: int
    edits: list  # (start, end, text), within the region
    region: Region = None
    before: str = ""
    after: str = ""
    number: int = 0
    extra: dict = field(default_factory=dict)


def tokens_of(text, script=False):
    """Tokens without white space and comments."""
    found, at = [], 0
    while at < len(text):
        match = TOKEN.match(text, at)
        pattern = script and match.group() == "/" and found[-1].text in UNARY_AFTER and PATTERN.match(text, at)
        kind = "string" if pattern or match.lastgroup in ("raw", "template") else match.lastgroup
        match = pattern or match
        at = match.end()
        if kind in ("space", "comment"):
            continue
        start, end = match.span()
        before = start == 0 or text[start - 1].isspace()
        after = end == len(text) or text[end].isspace()
        found.append(Token(kind, match.group(), start, end, before and after))
    return found


def applied(text, start, end, edits):
    """text[start:end] with the edits made, on one line and without comments."""
    parts, at = [], start
    for first, last, words in sorted(edits):
        parts += [text[at:first], words]
        at = last
    parts.append(text[at:end])
    return "".join(re.sub(r"\s+", " ", match.group()) if match.lastgroup == "space" else
                   " " if match.lastgroup == "comment" else match.group()
                   for match in TOKEN.finditer("".join(parts)))


class Reader:
    """Finds the regions of a C++ file and the tokens that belong to each."""

    def __init__(self, text, script=False):
        self.text = text
        self.tokens = tokens_of(text, script)
        self.line_starts = [0] + [m.end() for m in re.finditer("\n", text)]
        self.partner = {}
        opened = []
        for i, token in enumerate(self.tokens):
            if token.text in CLOSING and token.kind == "sign":
                opened.append(i)
            elif token.text in (")", "]", "}") and token.kind == "sign" and opened:
                self.partner[opened[-1]] = i
                self.partner[i] = opened.pop()
        self.regions = []  # (Region, own token indices)
        if not opened and not script:
            self.outside(0, len(self.tokens), "namespace")

    def line(self, at):
        return bisect.bisect_right(self.line_starts, at)

    def is_text(self, i, *texts):
        return 0 <= i < len(self.tokens) and self.tokens[i].kind != "string" and self.tokens[i].text in texts

    def skip(self, i):
        """The index after token i, or after the bracket that begins there."""
        return self.partner.get(i, i) + 1 if self.tokens[i].text in CLOSING else i + 1

    def find(self, i, end, *texts):
        """The first of texts in [i, end) outside of brackets, or end."""
        while i < end:
            if self.is_text(i, *texts):
                return i
            i = self.skip(i)
        return end

    def statements_inside(self, brace):
        """Whether a brace holds statements (a lambda's body) and not values."""
        return self.find(brace + 1, self.partner[brace], ";") < self.partner[brace]

    # Outside of functions.

    def outside(self, i, end, scope):
        while i < end:
            head = i
            if self.tokens[i].kind == "directive" or self.is_text(i, ";", "}"):
                i += 1
                continue
            if self.is_text(i, "public", "private", "protected") and self.is_text(i + 1, ":"):
                i += 2
                continue
            initialisers = False
            while i < end and not self.is_text(i, ";"):
                if self.is_text(i, ":") and self.is_text(i - 1, ")", "noexcept"):
                    initialisers = True
                if self.is_text(i, "="):  # up to its end this is a value
                    i = self.find(i, end, ";")
                    break
                if self.is_text(i, "{") and not (initialisers and not self.is_text(i - 1, ")", "}")):
                    break
                i = self.skip(i)
            if i >= end:
                return
            if self.is_text(i, ";"):
                self.constant(head, i, scope)
                i += 1
                continue
            close = self.partner[i]
            words = {t.text for t in self.tokens[head:i] if t.kind == "name"}
            first = self.after_template(head)
            if self.is_text(first, "namespace", "extern"):
                self.outside(i + 1, close, "namespace")
            elif self.is_text(first, "struct", "class", "union") or (
                    words & {"struct", "class", "union"} and not self.is_text(i - 1, ")") and first == head
                    and not any(self.is_text(k, ")") for k in range(head, i))):
                self.outside(i + 1, close, "class")
            elif self.is_text(first, "enum"):
                pass
            elif any(self.is_text(k, ")") for k in range(head, i)):
                if not words & {"constexpr", "consteval"}:
                    if initialisers:
                        self.members(head, i)
                    self.block(i + 1, close)
            i = close + 1

    def after_template(self, i):
        if not self.is_text(i, "template"):
            return i
        depth, i = 0, i + 1
        while i < len(self.tokens):
            text = self.tokens[i].text
            depth += {"<": 1, ">": -1, ">>": -2}.get(text, 0)
            i = self.skip(i) if text in CLOSING else i + 1
            if depth <= 0:
                return self.after_template(i)
        return i

    def constant(self, head, end, scope):
        """`type name = value;` outside of functions."""
        equals = self.find(head, end, "=")
        if equals == end or self.is_text(head, *SKIPPED_STARTS) or self.is_text(end - 1, "default", "delete"):
            return
        if any(self.is_text(k, "operator", "extern") for k in range(head, equals)) or self.tokens[equals + 1].text == "0" and self.is_text(equals - 1, ")", "const", "override", "noexcept"):
            return
        self.value(head, equals + 1, self.find(equals, end, ","), self.no_constexpr(head, equals, scope))

    def no_constexpr(self, head, end, scope):
        for k in range(head, end):
            if self.is_text(k, "constexpr"):
                words = "inline const" if scope == "class" else "const"
                return (self.tokens[k].start, self.tokens[k].end, words)
        return ()

    def members(self, head, body):
        """`name_(value)` of a constructor's list."""
        for i in range(head, body):
            if (self.is_text(i, "(") and self.tokens[i - 1].kind == "name" and self.is_text(i - 2, ":", ",") and
                    self.partner[i] > i + 1 and self.find(i + 1, self.partner[i], ",") == self.partner[i]):
                self.value(i - 1, i + 1, self.partner[i])

    # Inside of functions.

    def block(self, i, end):
        while i < end:
            i = self.statement(i, end)

    def statement(self, i, end):
        """Reads one statement, and returns where the next begins."""
        token = self.tokens[i]
        text = token.text
        if token.kind == "directive" or text == ";":
            return i + 1
        if text == "{":
            self.block(i + 1, self.partner[i])
            return self.partner[i] + 1
        if text == "[" and self.is_text(i + 1, "["):  # an attribute
            return self.partner[i] + 1
        if text in ("else", "do", "try"):
            return self.statement(i + 1, end)
        if text in ("if", "while", "switch", "for", "catch"):
            return self.controlled(i, end)
        if text in ("case", "default") or (token.kind == "name" and self.is_text(i + 1, ":") and text != "public"):
            return self.find(i, end, ":") + 1
        stop = self.find(i, end, ";")
        if text in SKIPPED_STARTS:
            brace = self.find(i, stop, "{")
            if brace < stop and text in ("struct", "class"):
                self.outside(brace + 1, self.partner[brace], "class")
            return stop + 1
        self.lambdas(i, stop)
        if text == "return":
            if stop > i + 1:
                self.region("returned", i, i + 1, stop)
            else:
                self.region("statement", i, i, stop)
        elif text in ("break", "continue"):
            self.region("statement", i, i, stop)
        else:
            self.plain(i, stop)
        return stop + 1

    def controlled(self, i, end):
        word = self.tokens[i].text
        fixed = self.is_text(i + 1, "constexpr")
        opening = i + 2 if fixed else i + 1
        if not self.is_text(opening, "("):
            return i + 1
        closing = self.partner[opening]
        self.lambdas(opening + 1, closing)
        first = self.find(opening + 1, closing, ";")
        if word == "for":
            if first < closing:
                second = self.find(first + 1, closing, ";")
                equals = self.find(opening + 1, first, "=")
                if equals < first:
                    self.value(i, equals + 1, self.find(equals, first, ","))
                if second > first + 1:
                    self.region("condition", i, first + 1, second)
                if self.find(second, closing, ",") == closing and closing > second + 1:
                    self.region("step", i, second + 1, closing)
        elif word in ("if", "while") and not fixed:
            start = first + 1 if first < closing else opening + 1
            if self.find(start, closing, "=") == closing:
                self.region("condition", i, start, closing)
        if self.is_text(closing + 1, ";"):
            return closing + 2
        return self.statement(closing + 1, end) if closing + 1 < end else end

    def plain(self, i, stop):
        """A declaration, an assignment or a call."""
        operator = self.find(i, stop, "=", *UPDATES, "%=", "<<=", ">>=", "^=")
        declares = self.declares(i, operator)
        if operator < stop and declares:
            if self.is_text(operator, "="):
                self.value(i, operator + 1, self.find(operator, stop, ","), self.no_constexpr(i, operator, "function"))
        elif not declares and (operator < stop or self.is_text(stop - 1, ")", "++", "--") or self.is_text(i, "++", "--")):
            self.region("statement", i, i, stop)

    def declares(self, i, end):
        if self.is_text(i, "auto", "const", "static", "constexpr", "unsigned", "__shared__", "thread_local", "alignas"):
            return True
        while i < end:
            token, after = self.tokens[i], i + 1
            if token.kind == "name" and token.text not in ("return", "delete", "new", "throw"):
                if after < end and self.tokens[after].kind == "name":
                    return True
                if self.is_text(after, "&", "*", "&&") and after + 1 < end and not self.tokens[after].spaced:
                    return True
                if self.is_text(after, "<") and not self.tokens[after].spaced:
                    while after < end and not self.is_text(after, ">", ">>"):
                        after = self.skip(after)
                    if after + 1 < end and (self.tokens[after + 1].kind == "name" or self.is_text(after + 1, "&", "*")):
                        return True
                    if after + 1 < end and self.is_text(after + 1, ">"):
                        return True
            i = self.skip(i)
        return False

    def lambdas(self, i, end):
        """Blocks of statements inside an expression."""
        while i < end:
            if self.is_text(i, "{") and self.statements_inside(i):
                self.block(i + 1, self.partner[i])
                i = self.partner[i]
            i += 1

    def value(self, head, i, end, constant=()):
        if i < end and not self.is_text(i, "{"):
            self.region("value", head, i, end, constant)

    def region(self, shape, head, i, end, constant=()):
        own, k = [], i
        while k < end:
            if self.is_text(k, "{") and self.statements_inside(k):
                k = self.partner[k] + 1
                continue
            own.append(k)
            k += 1
        span = self.tokens[i:end]
        if not own or any(t.kind == "directive" or "\n" in t.text for t in span):
            return
        if {self.tokens[k].text for k in own} & TALK:
            return
        first, last = self.tokens[i].start, self.tokens[end - 1].end
        if shape in ("statement", "returned"):  # with its semicolon
            first, last = self.tokens[head].start, self.tokens[end].end
        self.regions.append((Region(shape, first, last, self.line(self.tokens[head].start), self.line(last), constant), own))


def number_beside(word, forth):
    """Another number in the place of one, or None."""
    match = re.fullmatch(r"([\d'.]+(?:[eE][+-]?\d+)?)([fFuUlLzZ]*)", word)
    if not match:
        return None
    digits, suffix = match.group(1).replace("'", ""), match.group(2)
    if re.search(r"[.eE]", digits):
        value = float(digits)
        other = 1.0 if value == 0 else value * (2 if forth else 0.5)
        return repr(other) + suffix
    if digits != "0" and digits.startswith("0"):
        return None
    value = int(digits)
    return str(value + 1 if forth or value == 0 else value - 1) + suffix


def edits_of(reader, own):
    """(kind, edits) for every small fault in the tokens of a region."""
    tokens, found = reader.tokens, []

    def change(kind, i, text):
        found.append((kind, [(tokens[i].start, tokens[i].end, text)]))

    for i in own:
        token = tokens[i]
        text, spaced = token.text, token.spaced
        if token.kind == "number":
            for forth in (True, False):
                other = number_beside(text, forth)
                if other is not None:
                    change("constant", i, other)
        elif token.kind == "name" and text in COUNTERPARTS:
            change("constant" if text in ("true", "false") else "min/max", i, COUNTERPARTS[text])
        elif token.kind != "sign":
            continue
        elif spaced and text in NEGATED:
            change("comparison", i, NEGATED[text])
            if text in MOVED:
                change("boundary", i, MOVED[text])
        elif spaced and text in LOGIC:
            change("logic", i, LOGIC[text])
        elif spaced and text in ARITHMETIC:
            if not any(tokens[k].kind == "string" for k in (i - 1, i + 1) if 0 <= k < len(tokens)):
                change("sign" if text in "+-" else "factor", i, ARITHMETIC[text])
        elif spaced and text in UPDATES:
            change("sign", i, UPDATES[text])
            if text in ("+=", "-=", "|="):
                change("reset", i, "=")
        elif text == "-" and not spaced and i > 0 and tokens[i - 1].text in UNARY_AFTER:
            change("sign", i, "")
        elif text == "!" and i > 0:
            change("negated", i, "")
        elif text == "(" and tokens[i - 1].kind == "name" and tokens[i - 1].text not in EITHER_WAY:
            found += swapped(reader, i)
    return found


def swapped(reader, opening):
    """Neighbours in a list of arguments, the other way around."""
    text, tokens = reader.text, reader.tokens
    closing, commas = reader.partner[opening], []
    k = opening + 1
    while k < closing:
        if reader.is_text(k, ","):
            commas.append(k)
        k = reader.skip(k)
    bounds = [opening, *commas, closing]
    spans = [(tokens[a + 1].start, tokens[b - 1].end) for a, b in zip(bounds, bounds[1:]) if b > a + 1]
    if len(spans) != len(bounds) - 1:
        return []
    found = []
    for (a, b), (c, d) in zip(spans, spans[1:]):
        first, second = text[a:b], text[c:d]
        if first != second and not set(first + second) & set('{";'):
            found.append(("swapped", [(a, b, second), (c, d, first)]))
    return found


def faults_of(path, text):
    """Every fault that could be planted in a C++ or CUDA file."""
    reader, found = Reader(text), []
    for region, own in reader.regions:
        tokens, start, end = reader.tokens, region.start, region.end
        choices = edits_of(reader, own)
        if region.shape == "condition":
            choices.append(("negated", [(start, end, "!(" + text[start:end] + ")")]))
        if region.shape == "statement":
            word = text[start:end - 1]
            if word in ("break", "continue", "return"):
                kind = "early return" if word == "return" else "dropped"
            else:
                assigns = any(reader.is_text(k, "=") for k in own)
                kind = "reset" if assigns else "dropped"
            choices.append((kind, [(start, end, ";")]))
        if region.shape == "returned" and reader.is_text(own[0] - 2, ")"):
            choices.append(("early return", [(start, end, ";")]))
        if region.shape == "step":
            choices = [(kind, edits) for kind, edits in choices if kind in ("constant", "sign")]
        for kind, edits in choices:
            fault = Fault(path, kind, reader.line(edits[0][0]), edits, region)
            fault.before, fault.after = shown(text, reader, fault)
            found.append(fault)
    return found


def faults_of_script(path, text):
    """The same for JavaScript, where each is planted alone: no choice between two versions is needed."""
    reader, found = Reader(text, True), []
    choices = edits_of(reader, range(len(reader.tokens)))
    for match in re.finditer(r"^[ ]*(?!const|let|return|if|for|while|function|throw|case|class)([\w$.]+[^\n]*;)$", text, re.M):
        line = match.group(1)
        if all(line.count(a) == line.count(b) for a, b in CLOSING.items()):
            kind = "reset" if re.match(r"[\w$.\[\]]+ = ", line) else "dropped"
            choices.append((kind, [(match.start(1), match.end(1), "")]))
    for kind, edits in choices:
        fault = Fault(path, kind, reader.line(edits[0][0]), edits)
        fault.before, fault.after = shown(text, reader, fault)
        found.append(fault)
    return found


def shown(text, reader, fault):
    """The line or lines of the fault, before and after."""
    first, last = fault.edits[0][0], fault.edits[-1][1]
    start = reader.line_starts[fault.line - 1]
    end = text.find("\n", last)
    end = len(text) if end < 0 else end
    before = " ".join(applied(text, start, end, []).split())
    after = " ".join(applied(text, start, end, fault.edits).split())
    return (before, after) if len(before) <= 400 else (before[:400] + " ...", after[:400] + " ...")
