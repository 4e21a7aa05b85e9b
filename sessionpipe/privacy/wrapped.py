"""Text as a terminal wrapped it: what goes on in the next row, behind an indentation or a box's border. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from sessionpipe.privacy import values
from sessionpipe.privacy.terminal import View

Span = tuple[int, int]

_TOKEN = "A-Za-z0-9_+/=.%~:@!$#&*?-"  # noqa: S105 (the characters of a token)
_BORDER = "│┃║"
# The end of a row and the beginning of the next, between which a token may go on: a run that has a
# digit, or is all there is in its row.
_GOES_ON = (
    rf"(?:[A-Za-z0-9_+/=.%~-]{{1,512}}+(?=[ \t]*[{_BORDER}]?[ \t]*(?:\n|\Z))"
    rf"|(?=[A-Za-z_+/=%~-]{{0,48}}[0-9])[{_TOKEN}]{{4}})"
)
_PLAIN = re.compile(rf"\n(?<=[^\n]{{36}}\n)[ \t]{{0,12}}{_GOES_ON}")
# What a row that goes on ends with.
_ENDS = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_+/=.~-")
#: Where a text may go on in the next row without a box, as all regular expressions read it; ``?`` stands for
#: what is not ASCII.
GOES_ON = (
    r"[^\n]{35}[A-Za-z0-9_+/=.~-]\n[ \t]{0,12}"
    r"(?:[A-Za-z_+/=%~-]*[0-9]|[A-Za-z0-9_+/=.%~-]+[ \t?]*(?:\n|$))"
)
_BOXED = re.compile(rf"\n[ \t]{{0,12}}[{_BORDER}][ \t]{{0,4}}{_GOES_ON}")
_BOX = re.compile(rf"[{_BORDER}](?<=[^\n]{{36}})[ \t]{{0,4}}\Z")
# No terminal that shows sessions is narrower than the expressions above say; a wider row was not wrapped.
_WIDEST = 400
_ROWS, _MOST = 3, 64


class Rows(View):
    """Rows of a text put together again, and where they were."""

    def __init__(self, pieces: list[str], starts: list[int]) -> None:
        super().__init__(pieces, lambda: starts, "")

    def parts(self, span: Span) -> list[Span]:
        """Where in the text the parts of ``span`` are, one a row; none when it lies in one."""
        parts: list[Span] = []
        for begin, after, at in zip(
            self.begins, [*self.begins[1:], len(self.text)], self.starts, strict=True
        ):
            start, end = max(span[0], begin), min(span[1], after)
            if start < end:
                parts.append((at + start - begin, at + end - begin))
        return parts if len(parts) > 1 else []


def views(text: str, hits: Sequence[int]) -> Iterator[Rows]:
    """The parts of ``text`` whose rows may have been one line, and begin one with one of ``hits``, in order."""
    done = -1
    for joint in _joints(text, hits):
        if joint < done:
            continue
        start = text.rfind("\n", max(0, joint - _WIDEST), joint) + 1
        if (start or joint <= _WIDEST) and (rows := _rows(text, start, joint)):
            done = rows[-1][1]
            yield Rows([text[begin:end] for begin, end in rows], [begin for begin, _ in rows])


def has_boxes(text: str) -> bool:
    """Whether ``text`` has the borders of boxes."""
    return not text.isascii() and any(sign in text for sign in _BORDER)


def _joints(text: str, hits: Sequence[int]) -> Iterator[int]:
    """Before or behind which line ends a row has one of ``hits``, where it may go on."""
    boxed = has_boxes(text)
    end = last = -1
    for hit in hits:
        if hit < end:
            continue
        start = text.rfind("\n", max(0, hit - _WIDEST), hit)
        end = text.find("\n", hit, hit + _WIDEST)
        for joint in (start, end):
            if joint > last and (
                (text[joint - 1] in _ENDS and _PLAIN.match(text, joint)) or (boxed and _is_boxed(text, joint))
            ):
                yield joint
        last = max(last, start, end)
        if end < 0:
            end = hit + _WIDEST


def _is_boxed(text: str, joint: int) -> bool:
    return (
        _BOXED.match(text, joint) is not None
        and _BOX.search(text[max(0, joint - _WIDEST) : joint]) is not None
    )


_MARGIN = re.compile(rf"[ \t]*(?:[{_BORDER}][ \t]{{0,4}})?")


def _rows(text: str, start: int, joint: int) -> list[Span]:
    """The contents of the rows from the one with ``joint`` at its end, as long as they are full and one more."""
    end = text.find("\n", joint)
    if end - start > _WIDEST or not _is_widest(text, start, end, end - start):
        return []
    rows = [_content(text, start, end)]
    full = rows[0][1] - start
    while end >= 0:
        start = end + 1
        end = text.find("\n", start, start + _WIDEST)
        stop = end if end >= 0 else min(len(text), start + _WIDEST)
        rows.append(_content(text, start, stop))
        if rows[-1][1] - start < full or len(rows) > _MOST:
            break
    return rows


def _content(text: str, start: int, end: int) -> Span:
    """A row without its margins."""
    margin = _MARGIN.match(text, start, end)
    stop = start + len(text[start:end].rstrip(f" \t{_BORDER}\r"))
    return (max(start, min(margin.end() if margin else start, stop)), stop)


def _is_widest(text: str, start: int, end: int, width: int) -> bool:
    """Whether no row near the one from ``start`` to ``end`` is wider: where lines are wrapped, all are."""
    at = start
    for _ in range(_ROWS):
        if at == 0:
            break
        before = text.rfind("\n", max(0, at - 1 - width - 1), at - 1)
        if before < 0 and at - 1 > width:
            return False
        if at - 1 - (before + 1) > width:
            return False
        at = before + 1
    at = end
    for _ in range(_ROWS):
        behind = text.find("\n", at + 1, at + 1 + width + 1)
        if behind < 0:
            return len(text) - (at + 1) <= width
        at = behind
    return True


# What goes on a secret: letters and digits, and a sign of its alphabet. Not `PORT=8080`, not a time.
_REST = re.compile(r"[A-Za-z0-9+/_~%-]++={0,2}|[A-Za-z0-9+/_~%.-]{24,}+={0,2}")


_WORD = re.compile(r"(?:[a-z]+|[A-Z]+|[A-Z][a-z]+)[0-9]{1,4}")


def goes_on(text: str, parts: list[Span], spans: list[Span]) -> bool:
    """Whether a secret with ``parts`` in several rows goes on in the second.

    Where what ends the first row is one of the secrets ``spans`` by itself, the second row may begin with
    something else.
    """
    start, end = parts[1]
    rest = text[start:end]
    if not _REST.fullmatch(rest) or text[end : end + 1] in ("=", ":", "(", "[", "/"):
        return False
    if not any(span[1] >= parts[0][1] > span[0] for span in spans):
        return True
    if len(rest) <= 5:
        alone = text[end : end + _WIDEST].lstrip(f" \t{_BORDER}")[:1] in ("", "\n", '"', "'", ",")
        return alone and (not rest.isalpha() or rest not in (rest.lower(), rest.upper(), rest.capitalize()))
    return values.is_generated(rest) and _WORD.fullmatch(rest) is None
