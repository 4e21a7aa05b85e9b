"""The page in a real browser, with recorded sessions sent by a real worker."""

from __future__ import annotations

import itertools
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from sessionpipe.cli import playback
from sessionpipe.paths import data_dir
from tests.e2e.machine import HOOK, Machine, wait_for
from tests.receivers.browser import Browser, Page, browsing
from tests.receivers.served import NOON, Served, event, serving

RECORDED = data_dir("conformance") / "harness" / "claude-code" / "tui-permission"
#: How many of its hooks were fired when it asked for permission, was answered, and ended.
ASKED, ANSWERED = 4, 6
#: And by the end of each of its turns.
TURNS = (8, 12, None)

#: The lowest contrast of a text against what it stands on (WCAG 2.2, 1.4.3), of everything that is shown.
CONTRAST = """(() => {
  const numbers = (colour) => colour.match(/[\\d.]+/g).map(Number);
  const light = ([r, g, b]) => [r, g, b].map((v) => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const ground = (node) => {
    for (; node; node = node.parentElement) {
      const colour = numbers(getComputedStyle(node).backgroundColor);
      if (colour.length === 3 || colour[3] > 0) return colour;
    }
    return [255, 255, 255];
  };
  let worst = [99, ""];
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) {
    const node = walk.currentNode.parentElement;
    if (!walk.currentNode.data.trim() || !node.checkVisibility()) continue;
    const [a, b] = [light(numbers(getComputedStyle(node).color)), light(ground(node))];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < worst[0]) worst = [ratio, node.outerHTML.slice(0, 200)];
  }
  return worst;
})()"""


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with browsing(tmp_path_factory.mktemp("browser")) as made:
        yield made


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    (tmp_path / "there").mkdir()
    with serving(tmp_path / "there") as made:
        yield made


Look = Callable[..., Page]


@pytest.fixture
def look(browser: Browser, served: Served) -> Iterator[Look]:
    """Opens the board, entered by the link, once it is live."""
    pages: list[Page] = []

    def opened(**how: Any) -> Page:
        page = browser.page(served.link, **how)
        pages.append(page)
        page.until("location.pathname === '/' && document.readyState === 'complete'")
        if how.get("script", True):
            page.until("document.querySelector('#link').className === 'link on'")
        return page

    yield opened
    for page in pages:
        page.close()


def shown(page: Page, group: str, text: str) -> None:
    page.until(f"document.querySelector('#group-{group}')?.innerText.includes({text!r})")


class Player:
    """A recorded session on a machine whose worker sends to the receiver."""

    def __init__(self, machine: Machine, served: Served) -> None:
        machine.sessionpipe(
            "sinks",
            "add",
            served.url,
            "--tier",
            "2",
            "--token-file",
            str(served.token_file),
            "--name",
            "page",
        )
        (machine.home / "src").mkdir()
        self._machine = machine
        self._recording = playback.load(RECORDED, machine.home, {})
        self._written = [0] * len(self._recording.transcripts)
        self._fired = 0

    def play(self, until: int | None = None) -> None:
        for hook in self._recording.hooks[self._fired : until]:
            playback.grow(self._recording.transcripts, self._written, hook.at_ms)
            command = [sys.executable, "-I", "-S", str(HOOK), "claude-code", *hook.arguments]
            environment = {**hook.environment, **self._machine.environment()}
            subprocess.run(command, input=hook.payload, env=environment, cwd=self._machine.home, check=True)
        self._fired = until or len(self._recording.hooks)
        if until is None:
            playback.grow(self._recording.transcripts, self._written, sys.maxsize)


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    made = Machine(tmp_path)
    yield made
    made.stop()


def test_a_session_goes_from_needing_somebody_to_work_to_its_end_without_a_reload(
    look: Look, served: Served, machine: Machine
) -> None:
    page = look()
    assert "Nothing has arrived yet" in page.text("main")
    page.get("window.same = true")
    player = Player(machine, served)
    player.play(ASKED)
    shown(page, "needs", "Permission: Write")
    assert page.get("document.title") == "(1) sessionpipe"
    assert "Try write needs you: Permission: Write" in page.text("#news")
    for said in ("Try write", "Claude Code", "~/src"):
        assert said in page.text("#group-needs")
    player.play(ANSWERED)
    shown(page, "working", "Thinking")
    player.play()
    shown(page, "recent", "Ended")
    page.until("document.querySelector('#group-recent .turns li .said')?.textContent.includes('Try')")
    assert page.get("window.same") is True
    assert page.complaints == []


def exchanges(served: Served) -> int:
    """How many exchanges the receiver has of all its sessions."""
    events = [e for session in served.sessions() for e in served.read(session["id"])["events"]]
    return sum(e["type"] == "turn.transcript" for e in events)


def test_a_session_has_a_page_with_its_turns_and_is_forgotten_by_a_button(
    look: Look, served: Served, machine: Machine
) -> None:
    player = Player(machine, served)
    for until in TURNS:
        player.play(until)
        # A worker that is behind reads of turns to come in the file, and says what was said in them first.
        machine.sessionpipe("flush")
    # What comes after it was forgotten would bring it back.
    wait_for(lambda: exchanges(served) == 3, "all that was said", seconds=60)
    machine.sessionpipe("flush")
    assert [s["says"] for s in served.sessions()] == ["Ended"]
    page = look()
    page.get("document.querySelector('.card a').click()")
    page.until("document.querySelector('.part .prompt')?.innerText === 'Try write'")
    text = page.text(".timeline")
    for said in ("needs you: permission Write", "answered", "Written.", "done in", "session ended"):
        assert said in text
    page.get("document.querySelector('.forget summary').click()")
    page.get("document.querySelector('.forget button').click()")
    page.until("location.pathname === '/' && document.querySelector('.empty') !== null")
    assert served.sessions() == []
    assert page.complaints == []


def test_a_first_look_takes_no_script(look: Look, served: Served) -> None:
    served.take(
        event(session="a", block={"title": "Works"}),
        event("attention.needed", session="b", attention_id="a", kind="question", block={"title": "Asks"}),
    )
    page = look(script=False)
    text = page.text("body")
    assert "Needs you" in text and "Asks" in text and "Working" in text and "Works" in text
    assert page.text("#link") == ""


def many(served: Served) -> None:
    """Sessions of every kind, with texts as long as they come."""
    long = "an-unbroken-" * 40
    served.take(
        event(
            "attention.needed", session="asks", attention_id="a", kind="permission", message=long, tool="Bash"
        ),
        event("turn.started", session="works", block={"title": long, "cwd": f"~/{long}", "branch": long}),
        event("turn.started", session="failed", turn_id="t"),
        event("turn.ended", 1, session="failed", turn_id="t", reason="error", error="rate_limit"),
        event("turn.started", 0, session="done", turn_id="t"),
        event("turn.ended", 1, session="done", turn_id="t", reason="stop", ms=4200),
        event("turn.started", session="silent", at=NOON - 10_000_000_000),
        event("session.ended", session="ended", reason="exit"),
    )
    served.take(
        event("turn.started", 0, session="talks", turn_id="t", tier=2),
        event("tool.ended", 1, session="talks", tool="Bash", ok=False, error=long, tier=2),
        event("turn.ended", 2, session="talks", turn_id="t", reason="interrupt", tier=2),
        event("turn.transcript", 3, session="talks", tier=2, turn=1, user=long, assistant=long),
    )


def test_it_fits_and_can_be_read_on_a_phone_and_on_a_desk_by_day_and_by_night(
    look: Look, served: Served
) -> None:
    many(served)
    page = look()
    for path in ("/", "/session?id=claude-code%3Atalks"):
        page.go(served.url + path)
        page.until("document.querySelector('.link.on') !== null")
        page.get("document.querySelectorAll('details').forEach((node) => { node.open = true; })")
        for width, dark in itertools.product((320, 390, 1000), (False, True)):
            page.prepare(width=width, dark=dark)
            page.until(f"document.documentElement.clientWidth <= {width}")
            assert page.get("document.documentElement.scrollWidth") <= width, (path, width)
            ratio, where = page.get(CONTRAST)
            assert ratio >= 4.5, (path, dark, where)
    assert page.complaints == []


def test_what_is_hostile_stays_text(look: Look, served: Served) -> None:
    hostile = "</title></script><script>window.caught=1</script><img src=x onerror='window.caught=1'>"
    block = {name: hostile for name in ("title", "machine", "cwd", "branch", "model")} | {
        "url": "javascript:alert(1)"
    }
    page = look()
    served.take(event(session="a", block=block), event("files.changed", 1, session="a", paths=[hostile]))
    shown(page, "working", "<script>window.caught=1</script>")
    page.go(served.url + "/session?id=claude-code%3Aa")
    page.until("document.querySelector('.timeline') !== null")
    assert page.get(
        "window.caught === undefined && document.querySelectorAll('main script, main img').length === 0"
    )
    assert page.complaints == []


def test_what_is_unfolded_and_where_one_is_stays_when_something_changes(look: Look, served: Served) -> None:
    served.take(event(session="a", turn_id="t", block={"title": "First"}))
    page = look()
    page.get("document.querySelector('.turns').open = true")
    page.get("document.querySelector('.card a').focus()")
    served.take(
        event(session="b", block={"title": "Second"}), event("tool.started", 1, session="a", tool="Bash")
    )
    shown(page, "working", "Second")
    shown(page, "working", "Bash")
    assert page.get("document.activeElement.textContent") == "First"
    assert page.get("document.activeElement.closest('.card').querySelector('.turns').open")


def test_the_keyboard_leads_to_the_sessions_and_into_one(look: Look, served: Served) -> None:
    served.take(event(session="a", block={"title": "First"}))
    page = look()
    page.press("Tab")
    assert page.get("document.activeElement.className") == "skip"
    page.until("document.activeElement.getBoundingClientRect().left >= 0")
    for _ in range(3):
        page.press("Tab")
    assert page.get("document.activeElement.textContent") == "First"
    page.press("Enter")
    page.until("location.pathname === '/session' && document.readyState === 'complete'")
    landmarks = "[...document.querySelectorAll('header, main, [role=search], [role=status]')].length"
    assert page.get(landmarks) == 4 and page.get("document.querySelectorAll('h1').length") == 1


def test_however_many_pages_are_open_each_is_answered_and_the_one_that_is_seen_follows(
    look: Look, served: Served
) -> None:
    board = look()
    served.take(*(event(session=f"s{n}", block={"title": f"Session {n}"}) for n in range(8)))
    for n in range(8):
        page = board.another(f"{served.url}/session?id=claude-code%3As{n}")
        page.until("document.querySelector('#link').textContent === 'live'")
    served.take(event(session="late", block={"title": "Meanwhile"}))
    board.front()
    shown(board, "working", "Meanwhile")
    board.until("stream?.readyState === EventSource.OPEN")


def test_a_receiver_that_goes_away_is_said_and_taken_up_again(look: Look, served: Served) -> None:
    page = look()
    served.end()
    page.until("document.querySelector('#link').textContent.startsWith('not connected')")
    served.start(served.port)
    served.take(event(session="a", block={"title": "Meanwhile"}))
    page.until("document.querySelector('#link').textContent === 'live'")
    shown(page, "working", "Meanwhile")
