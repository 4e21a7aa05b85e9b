"""``pii@1``: what names a person, reduced where a sink asks for it, at delivery (protocol §5).

The rules are data in ``rulesets/pii@1.toml``. Each of the three kinds is looked for where one of its
signs stands, a bounded way around it: an address at its ``@``, a phone number where digits stand in
groups, a home folder at the word its path has. Pure: the home directory is the caller's to say.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator, Sequence
from functools import cache, lru_cache
from typing import NamedTuple, Protocol

from sessionpipe.privacy.pii_gates import Kind, may_have
from sessionpipe.privacy.rules import load

RULESET = "pii@1"

_ROUNDS = 8
# Further away than this nothing depends on what stands at a place.
_REACH = 160

#: A span of a text and what it becomes.
_Span = tuple[int, int, str]


def reduce(text: str, home: str | None = None) -> str:
    """``text`` with e-mail addresses, phone numbers and home directories reduced.

    ``home`` is one more folder to write ``~``, for a home that lies where homes usually do not.
    The same object comes back when nothing changed; a second time changes nothing.
    """
    near: list[_Span] | None = None
    for _ in range(_ROUNDS):
        spans = _spans(text, home, near)
        if not spans:
            return text
        text, near = _replaced(text, spans)
    return text


def machine(name: str) -> str:
    """What stands for a machine's name: the first 8 hex digits of its SHA-256."""
    return hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:8]


def _spans(text: str, home: str | None, near: list[_Span] | None) -> list[_Span]:
    """What is to be reduced in ``text``; with ``near``, marks of the round before, what is so because of them."""
    if near is not None:
        # What stood against a number or a name may have kept it from being seen: then all is looked at again.
        around = _around(text, near)
        kinds = may_have("\n".join(around))
        if not any(_find(part, home, kinds) for part in around):
            return []
    return _find(text, home, may_have(text))


def _around(text: str, marks: list[_Span]) -> list[str]:
    """The parts of ``text`` that ``marks`` may matter to."""
    around: list[tuple[int, int]] = []
    for start, end, _ in marks:
        first = max(0, start - _REACH)
        if around and start - _REACH <= around[-1][1]:
            first = around.pop()[0]
        around.append((first, end + _REACH))
    return [text[start:end] for start, end in around]


def _find(text: str, home: str | None, kinds: Sequence[Kind]) -> list[_Span]:
    spans: list[_Span] = []
    for kind in kinds:
        spans += _RULES[kind]().find(text)
    if home and (own := _home(home)):
        for match in own.finditer(text):
            spans.append((*match.span(), _homes().replacement))
    return sorted(spans)


def _replaced(text: str, spans: list[_Span]) -> tuple[str, list[_Span]]:
    """``text`` with ``spans`` replaced, of two that touch the first, and where what replaced them stands."""
    parts: list[str] = []
    marks: list[_Span] = []
    upto = size = 0
    for start, end, becomes in spans:
        if start >= upto:
            parts += (text[upto:start], becomes)
            size += start - upto
            marks.append((size, size + len(becomes), becomes))
            size += len(becomes)
            upto = end
    parts.append(text[upto:])
    return "".join(parts), marks


@lru_cache(maxsize=8)
def _home(home: str) -> re.Pattern[str] | None:
    """``home`` wherever it stands as a whole folder, its backslashes escaped or not."""
    folder = home.rstrip("/\\")
    if len(folder) < 2:
        return None
    pattern = re.escape(folder).replace(r"\\", r"(?:\\|/){1,8}")
    return re.compile(rf"{pattern}(?![\w-]|\.\w)")


# What may stand directly before a name and looks like the beginning of it: the end of an escape, or of
# a terminal's colour.
_ESCAPE = re.compile(r"(?<=\\)[nrtbfv]|(?<=\\)u[0-9A-Fa-f]{4}|(?<=\\)x[0-9A-Fa-f]{2}|(?<=%)[0-9A-Fa-f]{2}")
_COLOUR = re.compile(r"(?:\x1b|\\u001[bB]|\\x1[bB]|\\033|\\e)\[[\d;]{0,16}m")
_BEHIND_COLOUR = re.compile(rf"(?:{_COLOUR.pattern})\Z")
_CODE = 32
_ESCAPED = re.compile(r"(?:\\(?:[nrt]|u[0-9A-Fa-f]{4}|x[0-9A-Fa-f]{2})|%[0-9A-Fa-f]{2})\Z")


def _behind_code(before: str) -> bool:
    """Whether ``before`` ends with an escape or a terminal's colour, which belong to no word."""
    return bool(
        _ESCAPED.search(before[-6:]) or (before[-1:] == "m" and _BEHIND_COLOUR.search(before[-_CODE:]))
    )


def _word_begins(before: str) -> bool:
    return not before[-1:].isalnum() or _behind_code(before)


# --- e-mail addresses ----------------------------------------------------------------------------


class _Emails(NamedTuple):
    replacement: str
    #: The sign with the domain behind it, for each way to write the sign.
    signs: tuple[tuple[str, re.Pattern[str]], ...]
    name: re.Pattern[str]
    files: re.Pattern[str]
    login: re.Pattern[str]
    commands: tuple[str, ...]
    users: frozenset[str]
    path: re.Pattern[str]

    def find(self, text: str) -> Iterator[_Span]:
        for sign, domain in self.signs:
            if sign not in text:
                continue
            upto = 0
            for found in domain.finditer(text):
                at, end = found.span()
                name = self.name.match(text[max(upto, at - _NAME) : at][::-1])
                if name is None or self.files.search(found[0]):
                    continue
                start = _begins(text, at - name.end(), at)
                if start < at and (sign != "@" or not self._logs_in(text, start, at, end)):
                    upto = end
                    yield start, end, self.replacement

    def _logs_in(self, text: str, start: int, at: int, end: int) -> bool:
        """Whether it is a user at a host: in a URL, a remote, or behind a command that connects."""
        if text[start:at] in self.users or (text[end : end + 1] == ":" and self.path.match(text, end)):
            return True
        before = text[max(0, start - _LOGIN) : start]
        return any(word in before for word in self.commands) and self.login.search(before) is not None


_NAME, _LOGIN = 72, 160


def _begins(text: str, start: int, end: int) -> int:
    """Where a name that was read backwards to ``start`` begins: behind an escape or a colour, at a letter."""
    if escape := _ESCAPE.match(text, start, end):
        start = escape.end()
    elif start and text[start - 1] == "[":
        before = max(0, start - _CODE)
        for colour in _COLOUR.finditer(text, before, end):
            if colour.end() > start:
                start = colour.end()
                break
    while start < end and text[start] in ".-'":
        start += 1
    return start


@cache
def _emails() -> _Emails:
    rows = load(RULESET)["email"]
    return _Emails(
        replacement=rows["replacement"],
        signs=tuple((sign, re.compile(re.escape(sign) + rows["domain"])) for sign in rows["signs"]),
        name=re.compile(rows["name"]),
        files=re.compile(rows["files"]),
        login=re.compile(rows["login"]),
        commands=("//", *rows["commands"]),
        users=frozenset(rows["users"]),
        path=re.compile(rows["path"]),
    )


# --- phone numbers -------------------------------------------------------------------------------


class _Form(NamedTuple):
    pattern: re.Pattern[str]
    #: How few and how many digits a number has, where the pattern alone does not say.
    digits: tuple[int, int]
    cued: bool


class _Phones(NamedTuple):
    replacement: str
    groups: re.Pattern[str]
    start: re.Pattern[str]
    #: Where a group is that may begin a number: what stands before it is a start, or may be a code's end.
    next: re.Pattern[str]
    cues: re.Pattern[str]
    #: The forms by what they may begin with.
    forms: dict[str, tuple[_Form, ...]]

    def find(self, text: str) -> Iterator[_Span]:
        taken = 0
        for run in self.groups.finditer(text):
            start, end = run.span()
            if start < taken:
                continue  # One that began in the run before took of this.
            if start > taken and text[start - 1] in _SIGN_ENDS:
                sign = _SIGN.search(text, max(taken, start - _SIGNS), start + 1)
                start = sign.start() if sign else start
            if text[start:end].isdigit():
                continue  # A bare run of digits is no phone number.
            while start < end:
                found = self._at(text, start, taken)
                if found:
                    yield start, found, self.replacement
                    taken = found
                group = _GROUP.search(text, found, end) if found else self.next.search(text, start + 1, end)
                start = group.start() if group else end

    def _at(self, text: str, start: int, taken: int) -> int:
        """The end of the number that begins at ``start``; 0 when none does. The last one ends at ``taken``."""
        forms = self.forms.get(text[start], ())
        if not forms:
            return 0
        # Behind a number and a blank another may begin, where behind other digits none does.
        next_to = taken and text[taken:start] in _APART
        if not next_to and self.start.match(text, start) is None:
            # Behind a letter or a digit it may still begin, where these end a code and no word.
            before = text[max(0, start - _CODE) : start]
            if not (before[-1:].isalnum() and _behind_code(before)):
                return 0
        for form in forms:
            match = form.pattern.match(text, start)
            if match is None:
                continue
            low, high = form.digits
            digits = sum(map(str.isdigit, match["number"]))
            if low <= digits <= high and (not form.cued or self._cued(text, start)):
                return match.end()
        return 0

    def _cued(self, text: str, start: int) -> bool:
        return self.cues.search(text[max(0, start - _CUE) : start]) is not None


_CUE = 40
# A group begins at its bracket, and a country's number at its sign.
_GROUP = re.compile(r"(?:\(?\+|\(|(?<![\d.-]))\d")
_SIGN = re.compile(r"(?:\(?(?:\+|%2[Bb])|\()?\d\Z")
_APART = frozenset(("", " ", ",", ", "))
_SIGNS, _SIGN_ENDS = 4, frozenset("(+Bb")


@cache
def _phones() -> _Phones:
    rows = load(RULESET)["phone"]
    between = rows["between"]

    def form(pattern: str) -> re.Pattern[str]:
        body = pattern.replace("CODE", rows["codes"]).replace("S", rows["sign"])
        return re.compile(f"(?P<number>{body}){rows['extension']}{rows['end']}")

    forms: dict[str, list[_Form]] = {}
    for row in rows["form"]:
        one = _Form(form(row["pattern"]), tuple(row.get("digits", (0, 99))), row.get("cued", False))
        for sign in row.get("begins", "0123456789("):
            forms.setdefault(sign, []).append(one)
    # Written out, for `re` takes twice as long for the rounds of a group.
    groups = f"[0-9]{f'{between}[0-9]' * 6}(?:{between}[0-9]){{0,40}}"
    return _Phones(
        replacement=rows["replacement"],
        groups=re.compile(groups),
        start=re.compile(rows["start"]),
        next=re.compile(rf"(?={_GROUP.pattern})(?:{rows['start']}|(?<=[^\W_]))"),
        cues=re.compile(rows["cues"]),
        forms={sign: tuple(some) for sign, some in forms.items()},
    )


# --- home folders --------------------------------------------------------------------------------


class _Homes(NamedTuple):
    replacement: str
    words: tuple[str, ...]
    #: What Windows takes for the same.
    alike: tuple[str, ...]
    #: What follows the word, and the name after it.
    separator: re.Pattern[str]
    #: The separator right before the word, searched in what stands there.
    before: re.Pattern[str]
    unix: re.Pattern[str]
    drive: re.Pattern[str]
    server: re.Pattern[str]
    documents: re.Pattern[str]
    name: re.Pattern[str]
    spaced: re.Pattern[str]
    nobody: re.Pattern[str]
    pages: re.Pattern[str]
    dashed: re.Pattern[str]
    dashes: str
    #: A folder as it mostly stands, from the separator before the word, with its name.
    plain: re.Pattern[str]

    def find(self, text: str) -> Iterator[_Span]:
        for word in (*self.words, *self.alike):
            at = text.find(word)
            while at >= 0:
                if span := self._at(text, word, at):
                    yield (*span, self.replacement)
                at = text.find(word, at + len(word))
        for word in _DASHED:
            at = text.find(word)
            while at >= 0:
                # Before the word there may be a drive, or one dash more.
                for start in range(max(0, at - 2), at + 1):
                    if match := self.dashed.match(text, start):
                        yield (*match.span(), self.dashes)
                at = text.find(word, at + len(word))

    def _at(self, text: str, word: str, at: int) -> tuple[int, int] | None:
        if at and (plain := self.plain.match(text, at - 1)) and "." not in plain[1]:
            return plain.span()
        after = self.separator.match(text, at + len(word))
        if after is None:
            return None
        if text[at - 1 : at] not in _SEPARATORS and word != "Settings":
            return None
        window = max(0, at - _PATH)
        head = text[window:at]
        if word == "Settings":
            documents = self.documents.search(head)
            if documents is None:
                return None
            head = head[: documents.start()]
        before = self.before.search(head, max(0, len(head) - _SEPARATOR))
        if before is None:
            return None
        parent, separator = head[: before.start()], before[0]
        # Most words have nothing of the kind before them.
        root = None
        if parent[-1:] == ":" or parent[-3:-1] == "%3":
            root = self.drive.search(parent, max(0, len(parent) - _DRIVE))
        elif ("\\\\" if separator[0] == "\\" else "//wsl") in parent:
            root = self.server.search(parent)
        if root is not None and not _word_begins(parent[: root.start()]):
            root = None
        if root is not None:
            start = window + root.start()
        elif word == "Settings" or word in self.alike or (start := self._unix(parent, separator, window)) < 0:
            return None
        end = self._named(text, after.end(), spaced=root is not None)
        return (start, end) if end else None

    def _unix(self, parent: str, separator: str, window: int) -> int:
        """Where a path begins whose folder of homes has this parent; -1 when it begins elsewhere."""
        if separator[0] == "\\" and "/" not in separator:
            return -1
        if _path_begins(parent):
            return window + len(parent)
        mount = self.unix.search(parent, max(0, len(parent) - _MOUNT)) if "/" in parent else None
        return window + mount.start() if mount and _path_begins(parent[: mount.start()]) else -1

    def _named(self, text: str, at: int, *, spaced: bool) -> int:
        """Where the folder that names somebody ends; 0 when it names nobody."""
        if self.nobody.match(text, at):
            return 0
        name = (self.spaced.match(text, at) if spaced else None) or self.name.match(text, at)
        if name is None:
            return 0
        return 0 if self.pages.search(name[0]) and text[name.end() : name.end() + 1] != "/" else name.end()


_PATH, _SEPARATOR, _DRIVE, _MOUNT = 96, 10, 24, 56
_DASHED = ("-home-", "-Users-")
# How a separator ends: one of its own, or one written %2F, %5C.
_SEPARATORS = frozenset("/\\FfCc")
_AUTHORITY = re.compile(r"([A-Za-z][A-Za-z0-9.-]{0,31})(?:\+[A-Za-z]{1,16})?://[^\s/\"'<>]{0,64}\Z")
_WEB = frozenset(("http", "https", "ws", "wss"))


def _path_begins(before: str) -> bool:
    """Whether a path may begin behind ``before``: not within another, nor as a page of the web."""
    last = before[-1:]
    if not last.isalnum() and last not in ("_", ".", "~", "%", "@", "-"):
        return True
    if before[-2:-1] == "-" and not (before[-3:-2].isalnum() or before[-3:-2] in ("_", "-")):
        return last.isalpha()  # A flag: -I/home/…
    if _behind_code(before):
        return True
    authority = _AUTHORITY.search(before) if "://" in before else None
    return authority is not None and authority[1].lower() not in _WEB


@cache
def _homes() -> _Homes:
    rows = load(RULESET)["home"]
    nobody = "|".join(map(re.escape, rows["nobody"]))
    return _Homes(
        replacement=rows["replacement"],
        words=tuple(rows["words"]),
        alike=tuple(rows["alike"]),
        separator=re.compile(rows["separator"]),
        before=re.compile(rf"{rows['separator']}\Z"),
        unix=re.compile(rows["unix"]),
        drive=re.compile(rows["drive"]),
        server=re.compile(rows["server"]),
        documents=re.compile(rows["documents"]),
        name=re.compile(rows["name"]),
        spaced=re.compile(rows["spaced"]),
        nobody=re.compile(rf"(?:{nobody})(?![\w.-])"),
        pages=re.compile(rows["pages"]),
        dashed=re.compile(rows["dashed"]["pattern"]),
        dashes=rows["dashed"]["replacement"],
        plain=re.compile(rf"(?<![\w.~%@\\:-])/(?:home|Users)/(?!(?:{nobody})(?![\w.-]))({rows['name']})"),
    )


class _Rules(Protocol):
    def find(self, text: str) -> Iterator[_Span]: ...


_RULES: dict[Kind, Callable[[], _Rules]] = {"home": _homes, "email": _emails, "phone": _phones}
