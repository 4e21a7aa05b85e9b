"""People's own rules: what is to go besides ``secrets@1``, written by whoever it concerns. Pure.

A file is one ruleset (rulesets/README.md has the format). What can't be used of it is refused with its
reason and stops nothing else; what is left can only take more away. :class:`Own` runs the rules of
several rulesets over texts and values, the way :mod:`.secrets` does its own.
"""

from __future__ import annotations

import hashlib
import json
import re
import tomllib
from collections.abc import Sequence
from functools import cached_property
from typing import Any, NamedTuple

from sessionpipe.privacy import prefilter, walk
from sessionpipe.privacy.safe import Unsafe, check, literal
from sessionpipe.privacy.sought import Occurring, Word
from sessionpipe.privacy.values import MARK

#: Ids that are the protocol's own to give a meaning.
RESERVED = ("secrets", "pii")
#: How many rules a ruleset may have, and how long a word or an expression may be.
MOST_RULES, LONGEST = 500, 2_000

_ID = re.compile(r"[a-z0-9][a-z0-9._-]{0,47}@[1-9][0-9]{0,5}")
_RULE_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_KEYS = {"id", "pattern", "words", "keywords", "inside", "match", "keep"}
_ROUNDS = 4
# Fewer letters than this are in every text.
_SHORTEST_WORD, _SHORTEST_KEYWORD = 3, 2


class Problem(NamedTuple):
    """What was refused: the file's name, the rule (empty: the whole file), and why."""

    file: str
    rule: str
    reason: str

    def __str__(self) -> str:
        return f"{self.file}: {f'rule {self.rule}: ' if self.rule else ''}{self.reason}"


class Rule(NamedTuple):
    """One rule: ``pattern`` is looked for where one of ``keywords`` (lower case, ASCII) is in a text.

    Without keywords it is looked for in every text.
    """

    id: str
    pattern: re.Pattern[str]
    keywords: tuple[str, ...]


class Ruleset(NamedTuple):
    """The rules of one file that can be used."""

    id: str
    file: str
    rules: tuple[Rule, ...]


class Parsed(NamedTuple):
    """What a file came to: its ruleset, None when nothing of it can be used, and what was refused."""

    ruleset: Ruleset | None
    problems: tuple[Problem, ...]


class _Refused(Exception):
    pass


def parse(file: str, text: str) -> Parsed:
    """The ruleset in ``text``, which came from ``file``."""
    try:
        table = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        return Parsed(None, (Problem(file, "", f"it is no TOML: {error}"),))
    try:
        name, rows = _head(table)
    except _Refused as error:
        return Parsed(None, (Problem(file, "", str(error)),))
    rules: list[Rule] = []
    problems: list[Problem] = []
    for number, row in enumerate(rows, 1):
        label = row.get("id") if isinstance(row, dict) else None
        try:
            rule = _rule(row)
            if rule.id in {known.id for known in rules}:
                raise _Refused("its id is another rule's already")
            rules.append(rule)
        except _Refused as error:
            known = isinstance(label, str) and _RULE_ID.fullmatch(label)
            problems.append(Problem(file, str(label) if known else f"{number}", str(error)))
    return Parsed(Ruleset(name, file, tuple(rules)) if rules else None, tuple(problems))


def _head(table: dict[str, Any]) -> tuple[str, list[Any]]:
    name = table.get("id")
    if not isinstance(name, str) or not _ID.fullmatch(name):
        raise _Refused('it needs an id such as id = "acme@1"')
    if name.partition("@")[0] in RESERVED:
        raise _Refused(f"{name} is not yours to write: choose an id of your own")
    if odd := sorted(table.keys() - {"id", "rule"}):
        raise _Refused(f"nothing reads {odd[0]!r}; it has an id and [[rule]]")
    rows = table.get("rule")
    if not isinstance(rows, list) or not rows:
        raise _Refused("it has no [[rule]]")
    if len(rows) > MOST_RULES:
        raise _Refused(f"it has {len(rows)} rules; {MOST_RULES} is the most")
    return name, rows


def _rule(row: Any) -> Rule:
    if not isinstance(row, dict):
        raise _Refused("it is no table")
    name = row.get("id")
    if not isinstance(name, str) or not _RULE_ID.fullmatch(name):
        raise _Refused("it needs an id of letters, digits, dots and dashes")
    if odd := sorted(row.keys() - _KEYS):
        raise _Refused(f"nothing reads {odd[0]!r}; a rule has {', '.join(sorted(_KEYS))}")
    if ("pattern" in row) == ("words" in row):
        raise _Refused("it needs either a pattern or words")
    rule = _of_pattern(name, row) if "pattern" in row else _of_words(name, row)
    _try_out(rule, _texts(row, "match", pairs=True), _texts(row, "keep"))
    return rule


def _of_pattern(name: str, row: dict[str, Any]) -> Rule:
    pattern = row["pattern"]
    if not isinstance(pattern, str) or len(pattern) > LONGEST:
        raise _Refused(f"its pattern is no text of at most {LONGEST} characters")
    if "inside" in row:
        raise _Refused("`inside` is for words: a pattern says itself where it may stand")
    try:
        compiled = check(pattern)
    except Unsafe as error:
        raise _Refused(f"its pattern {error}") from error
    keywords = []
    for keyword in _texts(row, "keywords"):
        if len(keyword) < _SHORTEST_KEYWORD or not keyword.isascii():
            raise _Refused(f"keyword {keyword!r}: two characters of ASCII or more")
        keywords.append(keyword.lower())
    if not keywords and (found := literal(pattern)):
        keywords.append(found)
    return Rule(name, compiled, tuple(keywords))


def _of_words(name: str, row: dict[str, Any]) -> Rule:
    words = _texts(row, "words")
    inside = row.get("inside", False)
    if not isinstance(inside, bool):
        raise _Refused("`inside` is true or false")
    if not words:
        raise _Refused("it has no words")
    if "keywords" in row:
        raise _Refused("words are their own keywords")
    parts: list[str] = []
    keywords: list[str] = []
    everywhere = False
    for word in words:
        if len(word) > LONGEST or len(word.strip()) < (_SHORTEST_WORD if word.isascii() else 2):
            raise _Refused(f"word {word!r} is too short: it would be found in every text")
        # Words of a name stand on two lines as well as on one.
        parts.append(r"\s{1,8}".join(map(re.escape, word.split())))
        runs = re.findall(r"[!-~]{2,}", word)
        if runs:
            keywords.append(max(runs, key=len).lower())
        else:
            everywhere = True
    either = "|".join(sorted(parts, key=len, reverse=True))
    # A letter next to it makes it another word; `_` does not, nor does the end of an escape (`\n`).
    start, end = ("", "") if inside else (r"(?:(?<![^\W_])|(?<=\\[nrtbfv]))", r"(?![^\W_])")
    return Rule(
        name,
        re.compile(f"(?i){start}(?:{either}){end}"),
        () if everywhere else tuple(dict.fromkeys(keywords)),
    )


def _texts(row: dict[str, Any], key: str, *, pairs: bool = False) -> list[Any]:
    value = row.get(key, [])
    if not isinstance(value, list):
        raise _Refused(f"{key} is a list")
    for one in value:
        pair = pairs and isinstance(one, list) and len(one) == 2 and all(isinstance(x, str) for x in one)
        if not isinstance(one, str) and not pair:
            raise _Refused(f"{key} is a list of texts{', or of pairs of a text and what it becomes' * pairs}")
    return value


#: What people and programs write all day, of which no rule may take much.
ORDINARY = (
    "The tests pass now; I changed the loop in main.py so that it stops at the first error.",
    "def total(items: list[int]) -> int:\n    return sum(items)  # 3 of 12, see line 40\n",
    '{"name": "Bash", "input": {"command": "git status --short", "timeout": 1000}, "ok": true}',
    "2026-01-12 10:11:12 INFO server listening on http://127.0.0.1:8080 (pid 4242)\n",
    "src/app/index.ts  tests/test_main.py  README.md  package.json",
)
_MARKS = (MARK, "[email]", "[phone]")


def _try_out(rule: Rule, match: list[Any], keep: list[str]) -> None:
    """Hold a rule to its examples, and to leaving the world as it is."""
    own = Own((Ruleset("try@1", "", (rule,)),))
    if any(rule.pattern.search(mark) for mark in _MARKS):
        raise _Refused("it takes what stands for something that was taken already, such as [redacted]")
    for text in ORDINARY:
        taken = sum(len(found[0]) for found in rule.pattern.finditer(text))
        if taken > len(text) // 4:
            raise _Refused(f"it takes ordinary text away, such as {text[:40]!r}")
    for number, example in enumerate(match, 1):
        if isinstance(example, str):
            text = expand(example)
            if own.redact(text) is text:
                raise _Refused(f"`match` example {number} is not found by it")
        elif (became := own.redact(expand(example[0]))) != expand(example[1]):
            raise _Refused(f"`match` example {number} becomes {became!r}")
    for number, example in enumerate(keep, 1):
        text = expand(example)
        if own.redact(text) is not text:
            raise _Refused(f"`keep` example {number} is changed by it")


_ALPHABETS = {
    None: "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789",
    "hex": "0123456789abcdef",
    "uphex": "0123456789ABCDEF",
    "up": "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789",
    "low": "abcdefghijklmnopqrstuvwxyz0123456789",
    "num": "0123456789",
}
_MADE = re.compile(r"<(\d{1,3})(?::(hex|uphex|up|low|num))?>")


def expand(example: str) -> str:
    """An example with its ``<36:hex>`` parts made, so that no file holds what looks like a credential."""

    def made(part: re.Match[str]) -> str:
        alphabet = _ALPHABETS[part[2]]
        return "".join(alphabet[(index * 7 + 3) % len(alphabet)] for index in range(int(part[1])))

    return _MADE.sub(made, example)


# --- running them --------------------------------------------------------------------------------


class Own:
    """The rules of some rulesets. Immutable, and for any number of threads."""

    def __init__(self, rulesets: Sequence[Ruleset]) -> None:
        self.rulesets = tuple(rulesets)
        self._rules = [rule for ruleset in rulesets for rule in ruleset.rules]

    @cached_property
    def digest(self) -> int:
        """40 bits that tell these rules from others; never 0."""
        rows = [
            [ruleset.id, *([rule.pattern.pattern, rule.keywords] for rule in ruleset.rules)]
            for ruleset in self.rulesets
        ]
        return int.from_bytes(hashlib.sha256(json.dumps(rows).encode()).digest()[:5], "big") or 1

    @cached_property
    def _words(self) -> tuple[list[str], list[list[Rule]], list[Rule], Occurring | None]:
        by_word: dict[str, list[Rule]] = {}
        for rule in self._rules:
            for keyword in rule.keywords:
                by_word.setdefault(keyword, []).append(rule)
        always = [rule for rule in self._rules if not rule.keywords]
        words = list(by_word)
        return (
            words,
            list(by_word.values()),
            always,
            prefilter.occurring([Word(w) for w in words]) if words else None,
        )

    def _calling(self, text: str) -> list[Rule]:
        """The rules that may find something in ``text``."""
        words, rules, always, occurring = self._words
        found = list(always)
        if occurring is not None:
            raw = text.encode("ascii", "replace").lower()
            for index in occurring(raw):
                if words[index].encode() in raw:
                    found += [rule for rule in rules[index] if rule not in found]
        return found

    def redact(self, text: str) -> str:
        """``text`` without what the rules find; the same object when they find nothing."""
        for _ in range(_ROUNDS):
            spans = [span for rule in self._calling(text) for span in _spans(rule, text)]
            if not spans or (new := _replaced(text, spans)) == text:
                return text
            text = new
        return text

    def redact_value(self, value: Any) -> Any:
        """``value`` with all its strings redacted, keys included; the same object when nothing changed."""
        if isinstance(value, str):
            return self.redact(value)
        if not isinstance(value, (dict, list, tuple)) or not self._calling("\n".join(walk.strings(value))):
            return value
        return walk.rewrite(value, lambda text, *_: self.redact(text), self.redact)


def _spans(rule: Rule, text: str) -> list[tuple[int, int]]:
    groups = rule.pattern.groupindex
    spans: list[tuple[int, int]] = []
    for match in rule.pattern.finditer(text):
        spans += [match.span(name) for name in groups] if groups else [match.span()]
    return [(start, end) for start, end in spans if end > start >= 0]


def _replaced(text: str, spans: list[tuple[int, int]]) -> str:
    """``text`` with a mark for each span. A mark it holds already is never cut: a span takes all of it or none."""
    marks = [match.span() for match in re.finditer(re.escape(MARK), text)]
    grown = (
        [
            (
                min([start, *(a for a, b in marks if a < start < b)]),
                max([end, *(b for a, b in marks if a < end < b)]),
            )
            for start, end in spans
        ]
        if marks
        else spans
    )
    parts: list[str] = []
    upto = 0
    for start, end in sorted(grown):
        if start >= upto:
            parts += (text[upto:start], MARK)
        elif end <= upto:
            continue
        upto = end
    parts.append(text[upto:])
    return "".join(parts)
