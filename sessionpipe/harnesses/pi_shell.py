"""Shell commands that do nothing but read, write, search or list files.

A model often uses a shell for what it has a tool for. Such a command is recognised only where no reader
of it could doubt what it does: one simple command, of the programs below, with one file where one is
meant. Whatever else is in it (another pipe, a second command, a variable, a pattern for the shell, a
substitution, an option not known here) leaves it the command it is. Pure; nothing is run, and no file
is looked at.

===========================================  ======  ==================================================
command                                      is      of
===========================================  ======  ==================================================
``cat FILE``, ``nl FILE``                    read    the file; with options that only number lines
``head FILE``, ``tail FILE``                 read    the file; ``-n N``, ``-c N``, ``-N``; no following
``sed -n 'A,Bp' FILE``                       read    the file; line numbers alone
``ls [DIR]``                                 list    the folder, else the current one
``grep``, ``egrep``, ``fgrep``, ``rg``       search  pattern, and the path where there is one
``find [DIR] [-name PATTERN]``               search  the name's pattern, or ``list`` without one
``echo``, ``printf``, ``cat <<`` with ``>``  write   the file; also ``>>`` and ``| tee [-a] FILE``
===========================================  ======  ==================================================

Sending standard error to ``/dev/null`` or to standard output changes nothing of it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

#: A longer command is a program of its own. A here-document's text does not count.
_LONGEST = 4096


class FileOperation(NamedTuple):
    """What a command does to files: one ``path`` or none, and what is searched for."""

    kind: Literal["read", "write", "search", "list"]
    path: str | None = None
    pattern: str | None = None


def recognize(command: str) -> FileOperation | None:
    """What ``command`` does to files, when it does nothing else; None for a command like any other."""
    line, _, document = command.strip().partition("\n")
    if len(line) > _LONGEST or not (words := _words(line)):
        return None
    parts = _parts(words)
    if parts is None or not _has_its_document(parts[0].here, document):
        return None
    first, *others = parts
    if others:
        return _teed(first, others[0]) if len(others) == 1 else None
    if first.target is not None:
        return FileOperation("write", first.target) if _says_only(first) else None
    reader = _READERS.get(first.words[0])
    return reader(first.words[1:]) if reader and first.here is None else None


# --- words ----------------------------------------------------------------------------------------


class _Word(NamedTuple):
    text: str
    is_operator: bool = False
    is_quoted: bool = False


# A quoted part, a plain one (with nothing a shell would act on), an operator, or space.
_TOKEN = re.compile(
    r"""'(?P<single>[^']*)'
      | "(?P<double>(?:[^"$`\\!]|\\[^"$`\\])*)"
      | (?P<plain>[^\s'"$`\\!*?\[\]{}()<>|&;\#~]+ | (?<!\s)[\#~] | ~(?=/))
      | (?P<operator><< | >> | > | \|)
      | (?P<space>[ \t]+)""",
    re.VERBOSE,
)
# Standard error says nothing about files. Only where a word could begin: "a2>&1" is another thing.
_STDERR = re.compile(r"2>(?:&1|[ ]?/dev/null)(?=[ \t]|$)")


def _words(line: str) -> list[_Word] | None:
    """The words and the operators of a line; None when there is more to it."""
    words: list[_Word] = []
    at, inside = 0, False  # inside: the next part goes on with the word before it
    while at < len(line):
        if not inside and (found := _STDERR.match(line, at)):
            at = found.end()
            continue
        if (found := _TOKEN.match(line, at)) is None:
            return None
        kind, at = found.lastgroup or "", found.end()
        if kind == "space":
            inside = False
        elif kind == "operator":
            if inside and found[0] in (">", ">>", "<<") and words[-1].text.isdigit():
                return None  # Of another descriptor.
            words.append(_Word(found[0], is_operator=True))
            inside = False
        else:
            before = words.pop() if inside else _Word("")
            quoted = before.is_quoted or kind != "plain"
            words.append(_Word(before.text + found[kind], is_quoted=quoted))
            inside = True
    return words


class _Simple(NamedTuple):
    """A simple command: its words, the file its output goes to, the end of its here-document."""

    words: list[str]
    target: str | None
    here: _Word | None


def _parts(tokens: Sequence[_Word]) -> list[_Simple] | None:
    """The simple commands of a pipeline."""
    parts: list[_Simple] = []
    part: list[_Word] = []
    for token in (*tokens, _PIPE):
        if token != _PIPE:
            part.append(token)
        elif (simple := _simple(part)) is None:
            return None
        else:
            parts.append(simple)
            part = []
    return parts


_PIPE = _Word("|", is_operator=True)


def _simple(tokens: Sequence[_Word]) -> _Simple | None:
    words: list[str] = []
    target: str | None = None
    here: _Word | None = None
    rest = iter(tokens)
    for token in rest:
        if not token.is_operator:
            words.append(token.text)
            continue
        operand = next(rest, None)
        if operand is None or operand.is_operator:
            return None
        if token.text == "<<":
            if here is not None:
                return None
            here = operand
        elif target is not None or not _is_file(operand.text):
            return None
        else:
            target = operand.text
    # "NAME=value command" is run with a variable.
    return _Simple(words, target, here) if words and "=" not in words[0] else None


def _has_its_document(here: _Word | None, document: str) -> bool:
    """Whether what follows the line is the here-document that it announces, and nothing else."""
    if here is None:
        return not document
    lines = document.split("\n")
    # Behind an unquoted end, the shell looks for variables and commands in the text.
    plain = here.is_quoted or not any(sign in document for sign in "$`\\")
    return plain and here.text in lines and lines.index(here.text) == len(lines) - 1


def _is_file(path: str) -> bool:
    return path not in ("", "-") and not path.startswith("/dev/")


# --- programs -------------------------------------------------------------------------------------


def _says_only(simple: _Simple) -> bool:
    """Whether all a command does is to say what is written in it."""
    program, *rest = simple.words
    if program == "cat":
        return not rest and simple.here is not None
    return program in ("echo", "printf") and simple.here is None


def _teed(first: _Simple, tee: _Simple) -> FileOperation | None:
    if first.target is not None or not _says_only(first):
        return None
    if tee.words[0] != "tee" or tee.here is not None or tee.target is not None:
        return None
    return _one_file("write", _split(tee.words[1:], flags="a"))


def _split(
    words: Sequence[str], flags: str = "", valued: str = "", long: frozenset[str] = frozenset()
) -> tuple[list[str], list[str]] | None:
    """Options and operands: single letters without a value, with one, and whole words; else None."""
    options: list[str] = []
    operands: list[str] = []
    rest = iter(words)
    for word in rest:
        if word == "--":
            operands += rest
        elif not word.startswith("-") or word == "-":
            operands.append(word)
        elif word.startswith("--"):
            if word.partition("=")[0] not in long:
                return None
            options.append(word)
        else:
            for place, letter in enumerate(word[1:], 1):
                if letter in valued:
                    # Its value is the rest of the word, or the next one.
                    value = word[place + 1 :] or next(rest, None)
                    if value is None:
                        return None
                    options.append(f"-{letter}{value}")
                    break
                if letter not in flags:
                    return None
                options.append(f"-{letter}")
    return options, operands


def _one_file(
    kind: Literal["read", "write"], found: tuple[list[str], list[str]] | None
) -> FileOperation | None:
    if found is None or len(found[1]) != 1 or not _is_file(found[1][0]):
        return None
    return FileOperation(kind, found[1][0])


def _cat(words: Sequence[str]) -> FileOperation | None:
    return _one_file("read", _split(words, flags="nbsAeEtTuv"))


def _nl(words: Sequence[str]) -> FileOperation | None:
    return _one_file("read", _split(words, flags="p", valued="bdfhilnsvw"))


def _head(words: Sequence[str]) -> FileOperation | None:
    plain = [word for word in words if not re.fullmatch(r"-[0-9]+", word)]
    found = _split(plain, flags="q", valued="nc")
    if found and not all(re.fullmatch(r"-q|-[nc][+-]?[0-9]+[kKmM]?", option) for option in found[0]):
        return None
    return _one_file("read", found)


def _sed(words: Sequence[str]) -> FileOperation | None:
    found = _split(words, flags="n")
    if found is None or "-n" not in found[0] or len(found[1]) != 2:
        return None
    script, file = found[1]
    if not re.fullmatch(r"(?:[0-9]+(?:,(?:[0-9]+|\$))?p;?)+", script.replace(" ", "")):
        return None
    return _one_file("read", ([], [file]))


def _ls(words: Sequence[str]) -> FileOperation | None:
    found = _split(
        words, flags="1aAlhFRtrSdpnogGistLkcu", long=frozenset({"--color", "--all", "--almost-all"})
    )
    if found is None or len(found[1]) > 1:
        return None
    return FileOperation("list", found[1][0] if found[1] else ".")


_GREP_LONG = frozenset(
    {"--color", "--include", "--exclude", "--exclude-dir", "--line-number", "--ignore-case", "--recursive"}
    | {"--count", "--files-with-matches", "--word-regexp", "--fixed-strings", "--extended-regexp"}
    | {"--no-filename", "--with-filename", "--only-matching", "--invert-match", "--no-messages"}
    | {"--max-count", "--context", "--after-context", "--before-context"}
)
_RG_LONG = _GREP_LONG | {
    "--glob",
    "--type",
    "--hidden",
    "--no-ignore",
    "--files",
    "--no-heading",
    "--vimgrep",
}


def _grep(words: Sequence[str]) -> FileOperation | None:
    return _searched(_split(words, flags="EFGPivwxcLlnHhorRsIqzabTU", valued="ABCmed", long=_GREP_LONG))


def _rg(words: Sequence[str]) -> FileOperation | None:
    found = _split(words, flags="FPivwxclnHNIosSuUz.", valued="ABCmegtTM", long=_RG_LONG)
    if found and "--files" in found[0]:
        return FileOperation("list", found[1][0] if found[1] else ".") if len(found[1]) <= 1 else None
    return _searched(found)


def _searched(found: tuple[list[str], list[str]] | None) -> FileOperation | None:
    if found is None:
        return None
    options, operands = found
    patterns = [option[2:] for option in options if option.startswith("-e")]
    if not patterns:
        patterns, operands = operands[:1], operands[1:]
    # A value in a word of its own behind a long option would be taken for the pattern.
    if len(patterns) != 1 or any(option in _SPLIT_VALUE for option in options):
        return None
    return FileOperation("search", operands[0] if len(operands) == 1 else None, patterns[0])


_SPLIT_VALUE = frozenset(
    {"--include", "--exclude", "--exclude-dir", "--glob", "--type", "--max-count"}
    | {"--context", "--after-context", "--before-context"}
)


def _find(words: Sequence[str]) -> FileOperation | None:
    places: list[str] = []
    rest = iter(words)
    pattern: str | None = None
    for word in rest:
        if not word.startswith("-"):
            places.append(word)
        elif word in ("-name", "-iname", "-path", "-ipath"):
            value = next(rest, None)
            if pattern is not None or value is None:
                return None
            pattern = value
        elif word in ("-type", "-maxdepth", "-mindepth", "-size", "-mtime", "-mmin", "-newer"):
            if next(rest, None) is None:
                return None
        elif word not in ("-print", "-empty", "-L", "-H", "-P"):
            return None
    if len(places) > 1:
        return None
    place = places[0] if places else "."
    return FileOperation("list", place) if pattern is None else FileOperation("search", place, pattern)


_READERS: dict[str, Callable[[Sequence[str]], FileOperation | None]] = {
    "cat": _cat,
    "nl": _nl,
    "head": _head,
    "tail": _head,
    "sed": _sed,
    "ls": _ls,
    "grep": _grep,
    "egrep": _grep,
    "fgrep": _grep,
    "rg": _rg,
    "find": _find,
}
