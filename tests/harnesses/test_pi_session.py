"""Pi's session files: read as Pi reads them, and never a nuisance whatever they hold."""

from __future__ import annotations

import json
import subprocess
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sessionpipe.harnesses import pi_session
from sessionpipe.harnesses.files import Files, Opened
from sessionpipe.harnesses.pi_session import Bytes, Model, Node, Session, Usage
from sessionpipe.paths import data_dir
from sessionpipe.protocol import rfc3339
from tests.e2e import agents

START = 1_795_975_000_000
RECORDED = sorted((data_dir("conformance") / "transcripts" / "pi").glob("*.jsonl"))

Entry = dict[str, Any]


def text_of(entries: list[Entry], *, version: object = 3, **header: Any) -> bytes:
    first = {
        "type": "session",
        "version": version,
        "id": "s",
        "timestamp": rfc3339(START),
        "cwd": "/src",
        **header,
    }
    if version is None:
        del first["version"]
    return b"".join(json.dumps(line).encode() + b"\n" for line in [first, *entries])


def read(data: bytes) -> Session:
    session = Session.read(Bytes(data))
    assert session
    return session


def session_of(entries: list[Entry], **header: Any) -> Session:
    return read(text_of(entries, **header))


def chain(*entries: Entry) -> list[Entry]:
    """Entries that go on from each other, a second apart, with their places for ids; what they say themselves wins."""
    return [
        {
            "id": f"e{n}",
            "parentId": f"e{n - 1}" if n else None,
            "timestamp": rfc3339(START + n * 1000),
            **entry,
        }
        for n, entry in enumerate(entries)
    ]


def message(role: str, content: object = "text", **more: Any) -> Entry:
    return {"type": "message", "message": {"role": role, "content": content, **more}}


def ids(entries: Any) -> list[str]:
    return [entry["id"] if isinstance(entry, dict) else entry.id for entry in entries]


ASK, ANSWER = message("user"), message("assistant", provider="p", model="m")


# --- against Pi itself ------------------------------------------------------------------------------


class Oracle:
    """Pi's own reader, in a node that answers one question a line."""

    def __init__(self, package: Path) -> None:
        self._process = subprocess.Popen(
            [agents.node(22), Path(__file__).with_name("pi_sessions.mjs"), package],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def ask(self, text: bytes, **more: Any) -> dict[str, Any]:
        assert self._process.stdin and self._process.stdout
        question = json.dumps({"text": text.decode("utf-8", "surrogatepass"), **more})
        self._process.stdin.write(question + "\n")
        self._process.stdin.flush()
        answer: dict[str, Any] = json.loads(self._process.stdout.readline())
        return answer

    def close(self) -> None:
        self._process.communicate(timeout=30)


@pytest.fixture(scope="module")
def oracle() -> Iterator[Oracle]:
    program = Path(agents.program("SESSIONPIPE_TEST_PI", "pi")).resolve()
    package = next(
        (folder for folder in program.parents if (folder / "dist/core/session-manager.js").is_file()), None
    )
    if package is None:
        pytest.skip("Pi's package is not where its program is")
    oracle = Oracle(package)
    yield oracle
    oracle.close()


def shape(nodes: list[Node]) -> list[dict[str, Any]]:
    return [{"id": node.row.id, "children": shape(node.children)} for node in nodes]


def model_of(model: Model | None) -> dict[str, Any] | None:
    if model is None:
        return None
    return {name: value for name, value in (("provider", model.provider), ("modelId", model.id)) if value}


def told(session: Session, leaf: str | None) -> dict[str, Any]:
    """What a session says, as the oracle says it."""
    context = session.build_session_context(leaf)
    return {
        "header": session.header | {"version": max(session.version, 3)},
        "entries": list(session.entries()),
        "leaf": session.leaf,
        "branch": ids(session.path(leaf)),
        "children": {name: ids(session.children(name)) for name in session.rows},
        "tree": shape(session.tree()),
        "labels": {name: label for name, label in session.labels.items() if name in session.rows},
        "name": session.name,
        "contextEntries": session.build_context_entries(leaf),
        "context": {
            "messages": context.messages,
            "thinkingLevel": context.thinking_level,
            "model": model_of(context.model),
        },
    }


def renamed(told: dict[str, Any], version: int) -> dict[str, Any]:
    """With the ids that a migration made up replaced by their places."""
    if version > 1:
        return told
    text = json.dumps(told)
    for place, name in enumerate(ids(told["entries"])):
        text = text.replace(json.dumps(name), f'"#{place}"')
    answer: dict[str, Any] = json.loads(text)
    return answer


def compare(oracle: Oracle, data: bytes, version: int, leaf: str | None = None) -> None:
    theirs = oracle.ask(data, **({} if leaf is None else {"leaf": leaf}))
    del theirs["usage"]
    assert renamed(told(read(data), leaf), version) == renamed(theirs, version)


@pytest.mark.parametrize("recording", RECORDED, ids=lambda path: path.stem)
def test_a_recorded_session_is_what_pi_makes_of_it(oracle: Oracle, recording: Path) -> None:
    data = recording.read_bytes()
    compare(oracle, data, 3)
    for name in read(data).rows:
        compare(oracle, data, 3, name)


WORDS = st.sampled_from(["", "one", "two", "ü😀", "line\nline", "\u2028"])
CONTENT = st.one_of(
    st.none(), WORDS, st.lists(WORDS.map(lambda text: {"type": "text", "text": text}), max_size=2)
)
USAGE = st.fixed_dictionaries(
    dict.fromkeys(["input", "output", "cacheRead", "cacheWrite"], st.integers(0, 9000))
    | {"cost": st.fixed_dictionaries({"total": st.integers(0, 64).map(lambda n: n / 64)})}
)


def record(given: dict[str, Any], maybe: dict[str, Any] | None = None) -> st.SearchStrategy[Entry]:
    """A dictionary with these members, and some of those; what is no strategy stands for itself."""

    def each(members: dict[str, Any]) -> dict[str, st.SearchStrategy[Any]]:
        return {
            name: value if isinstance(value, st.SearchStrategy) else st.just(value)
            for name, value in members.items()
        }

    return st.fixed_dictionaries(each(given), optional=each(maybe or {}))


OTHERS = st.sampled_from(["user", "system", "bashExecution", "hookMessage", "custom"])
MODELS = {"provider": st.sampled_from(["p", "q"]), "model": st.sampled_from(["m", "n"])}
MESSAGES = st.one_of(
    record({"role": OTHERS}, {"content": CONTENT}),
    record({"role": "toolResult", "content": CONTENT}, {"usage": USAGE}),
    record({"role": "assistant", "content": CONTENT, "usage": USAGE}, MODELS),
)
REPLACEMENTS = st.none() | CONTENT.map(lambda content: {"content": content})


IDS = [f"{number:x}f" for number in range(14)]
SOME = st.sampled_from([*IDS, "nowhere"])


def entries_of(kept: dict[str, Any]) -> st.SearchStrategy[Entry]:
    """Every kind of entry; ``kept`` is what a compaction says of what it kept."""
    name = st.sampled_from(["m", "n"])
    compaction = {"type": "compaction", "summary": WORDS, "tokensBefore": st.integers(0, 9)}
    rules = {"role": "system", "content": "rules"}
    custom = {"type": "custom_message", "customType": "x", "content": CONTENT, "display": st.booleans()}
    return st.one_of(
        record({"type": "message", "message": MESSAGES}),
        record({"type": "message", "message": MESSAGES}),
        record({"type": "model_change", "provider": name, "modelId": name}),
        record({"type": "thinking_level_change", "thinkingLevel": st.sampled_from(["off", "low", "high"])}),
        record({"type": "custom", "customType": "x", "data": WORDS}),
        record(custom, {"details": WORDS}),
        record({"type": "session_info"}, {"name": WORDS}),
        record({"type": "label", "targetId": SOME}, {"label": WORDS}),
        record({"type": "branch_summary", "summary": WORDS, "fromId": SOME}, {"usage": USAGE}),
        record({"type": "usage", "kind": "cache_warm", "usage": USAGE}),
        record({"type": "context_edit", "targetId": SOME, "replacement": REPLACEMENTS}),
        record(compaction, {"usage": USAGE, "systemMessage": rules, **kept}),
        record({"type": "tomorrow's"}, {"name": WORDS}),
    )


ENTRIES = {
    1: entries_of({"firstKeptEntryIndex": st.integers(-1, len(IDS) + 1)}),
    2: entries_of({"firstKeptEntryId": SOME}),
}
# A chain is more likely than a fork, or nothing would be deep.
PARENTS = st.sampled_from(["last", "last", "last", "none", "nowhere"]) | st.integers(0, len(IDS))


@st.composite
def sessions(draw: st.DrawFn, version: int) -> tuple[bytes, list[str]]:
    """A session file of a version, and the ids in it: any tree, with every kind of entry."""
    entries = draw(st.lists(ENTRIES[min(version, 2)], max_size=len(IDS)))
    times = draw(st.lists(st.integers(0, 50), min_size=len(entries), max_size=len(entries)))
    for number, entry in enumerate(entries):
        entry["timestamp"] = rfc3339(START + times[number] * 1000)
        if version > 1:
            parent: Any = draw(PARENTS)
            last = IDS[number - 1] if number else None
            named = {"last": last, "none": None, "nowhere": "nowhere"}
            if isinstance(parent, int):
                parent = IDS[parent % number] if number else None
            entry |= {"id": IDS[number], "parentId": named.get(parent, parent)}
    return text_of(entries, version={1: None}.get(version, version)), IDS[
        : len(entries)
    ] if version > 1 else []


@pytest.mark.parametrize("version", [1, 2, 3])
@given(data=st.data())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
def test_any_session_is_what_pi_makes_of_it(oracle: Oracle, version: int, data: st.DataObject) -> None:
    text, known = data.draw(sessions(version))
    compare(oracle, text, version)
    if known:
        compare(oracle, text, version, data.draw(st.sampled_from(known)))


@given(data=st.data())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
def test_any_session_costs_what_pi_says(oracle: Oracle, data: st.DataObject) -> None:
    text, _ = data.draw(sessions(3))
    usage, theirs = read(text).usage(), oracle.ask(text)["usage"]
    # Amounts of money that binary fractions hold exactly, so that the order of adding does not matter.
    assert {"tokens": usage.tokens, "cost": usage.cost} == theirs


# --- migrations -------------------------------------------------------------------------------------


def test_version_1_is_a_chain_in_the_order_of_the_file() -> None:
    entries = [
        message("user"),
        message("assistant"),
        {"type": "compaction", "firstKeptEntryIndex": 2},
        message("user"),
    ]
    for version in (None, 1):
        session = session_of(entries, version=version)
        names = ids(session.branch())
        assert len(set(names)) == 4
        assert [entry["parentId"] for entry in session.entries()] == [None, *names[:-1]]
        compaction = session.entry(names[2])
        # The header has the place 0.
        assert compaction == {
            "type": "compaction",
            "id": names[2],
            "parentId": names[1],
            "firstKeptEntryId": names[1],
        }
        assert ids(session.build_context_entries()) == [names[2], names[1], names[3]]


@pytest.mark.parametrize("place", [-1, 0, 0.5, 3, 99, 1e300, True, "1", None])
def test_a_place_where_nothing_is_keeps_nothing(place: object) -> None:
    session = session_of([message("user"), {"type": "compaction", "firstKeptEntryIndex": place}], version=1)
    last = session.entry(session.leaf)
    assert last and "firstKeptEntryId" not in last
    assert len(session.build_context_entries()) == 1


def test_version_2_called_an_extension_s_message_differently() -> None:
    for version in (1, 2):
        (entry,) = session_of([{"id": "a", **message("hookMessage")}], version=version).entries()
        assert entry["message"]["role"] == "custom"
    (entry,) = session_of([{"id": "a", **message("hookMessage")}], version=3).entries()
    assert entry["message"]["role"] == "hookMessage"


@pytest.mark.parametrize(
    ("version", "is_read_as"), [(3, 3), (4, 4), (2.5, 2.5), ("3", 1), (None, 1), (True, 1)]
)
def test_the_version_is_what_the_header_says(version: object, is_read_as: float) -> None:
    assert session_of([], version=version).version == is_read_as


# --- the tree ---------------------------------------------------------------------------------------

FORKED = chain(ASK, ANSWER, ASK, ANSWER, {**ASK, "parentId": "e1"}, {**ANSWER, "parentId": "e4"})


def test_the_branch_is_the_one_the_last_entry_is_on() -> None:
    session = session_of(FORKED)
    assert session.leaf == "e5"
    assert ids(session.branch()) == ["e0", "e1", "e4", "e5"]
    assert ids(session.branch("e3")) == ["e0", "e1", "e2", "e3"]
    assert session.branch("nowhere") == []
    assert (session.entry("e0") or {})["message"]["role"] == "user"
    assert session.entry("nowhere") is None
    assert ids(session.children("e1")) == ["e2", "e4"]
    assert ids(session.children(None)) == ["e0"]


def test_an_empty_session_has_neither_leaf_nor_branch() -> None:
    session = session_of([])
    assert (session.leaf, session.branch(), session.tree(), session.usage()) == (None, [], [], Usage())
    assert session.build_session_context() == ([], "off", None)


def test_labels_are_set_and_taken_away() -> None:
    given = [("e0", "a"), ("e1", "b"), ("e0", "c"), ("e1", ""), ("e1", None)]
    marks = [{"type": "label", "targetId": target, "label": label} for target, label in given]
    session = session_of(chain(ASK, ANSWER, *marks))
    assert session.labels == {"e0": "c"}
    assert (session.label("e0"), session.label("e1")) == ("c", None)


@pytest.mark.parametrize(
    ("names", "name"),
    [([], None), (["one"], "one"), (["one", " two "], "two"), (["one", ""], None), (["one", 7], None)],
)
def test_the_name_is_the_last_one_given(names: list[object], name: str | None) -> None:
    assert session_of(chain(ASK, *({"type": "session_info", "name": name} for name in names))).name == name


def test_model_and_thinking_level_are_those_of_the_branch() -> None:
    changed = [
        {"type": "model_change", "provider": "p", "modelId": "n"},
        {"type": "thinking_level_change", "thinkingLevel": "high"},
    ]
    session = session_of([*chain(ASK, ANSWER, *changed), {**ASK, "id": "x", "parentId": "e1"}])
    assert (session.model("e3"), session.thinking_level("e3")) == (Model("p", "n"), "high")
    assert (session.model(), session.thinking_level()) == (Model("p", "m"), "off")
    assert (session.model("e0"), session.thinking_level("nowhere")) == (None, "off")


def test_a_tree_of_a_circle_a_self_and_an_orphan_has_every_entry_once() -> None:
    entries = [
        {"type": "custom", "id": name, "parentId": parent}
        for name, parent in [
            ("a", "c"),
            ("b", "a"),
            ("c", "b"),
            ("self", "self"),
            ("orphan", "gone"),
            ("d", "c"),
        ]
    ]
    session = session_of(entries)
    assert shape(session.tree()) == [
        {"id": "self", "children": []},
        {"id": "orphan", "children": []},
        {
            "id": "a",
            "children": [{"id": "b", "children": [{"id": "c", "children": [{"id": "d", "children": []}]}]}],
        },
    ]
    assert ids(session.branch("a")) == ["b", "c", "a"]
    assert len(session.build_session_context("d").messages) == 0


def test_of_two_entries_with_one_id_the_later_counts() -> None:
    session = session_of([*chain(ASK, ANSWER), {**message("user", "again"), "id": "e0", "parentId": None}])
    assert (ids(session.rows.values()), session.leaf) == (["e0", "e1"], "e0")
    assert [each["content"] for each in session.build_session_context().messages] == ["again"]


# --- what a model is given --------------------------------------------------------------------------


def said(session: Session, leaf: str | None = None) -> list[Any]:
    return [each.get("content", each.get("summary")) for each in session.build_session_context(leaf).messages]


def test_a_compaction_stands_for_what_was_before_what_it_kept() -> None:
    entries = chain(
        message("system", "rules"), message("user", "1"), message("assistant", "2"), message("user", "3"),
        {"type": "compaction", "summary": "so far", "firstKeptEntryId": "e3", "tokensBefore": 9,
         "systemMessage": {"role": "system", "content": "new rules"}},
        message("assistant", "4"),
    )  # fmt: skip
    session = session_of(entries)
    assert said(session) == ["new rules", "so far", "3", "4"]
    assert session.build_session_context().messages[1] == {
        "role": "compactionSummary", "summary": "so far", "tokensBefore": 9, "timestamp": START + 4000,
    }  # fmt: skip
    assert said(session, "e3") == ["rules", "1", "2", "3"]


def test_a_compaction_may_carry_what_it_kept() -> None:
    tail = [{"role": "user", "content": "kept"}, {"role": "assistant", "content": "too"}, "no message"]
    compaction = {"type": "compaction", "summary": "so far", "retainedTail": tail, "tokensBefore": 9}
    for more in ({}, {"firstKeptEntryId": "e0"}):
        session = session_of(
            chain(
                message("user", "1"), message("assistant", "2"), {**compaction, **more}, message("user", "3")
            )
        )
        assert said(session) == ["so far", "kept", "too", "3"]
        assert ids(session.build_context_entries()) == ["e2", "e3"]


def test_a_compaction_that_kept_nothing_or_names_nobody_keeps_nothing() -> None:
    for first in ("e1", "nowhere", None, 7):
        compaction = {"type": "compaction", "summary": "so far", "firstKeptEntryId": first, "tokensBefore": 9}
        assert said(session_of(chain(message("user", "1"), compaction, message("user", "2")))) == [
            "so far",
            "2",
        ]


def test_what_was_edited_out_is_not_given() -> None:
    entries = chain(
        message("user", "1"), message("assistant", "2"), message("user", "3"),
        {"type": "context_edit", "targetId": "e1", "replacement": {"content": "shorter"}},
        {"type": "context_edit", "targetId": "e0", "replacement": {"content": "once"}},
        {"type": "context_edit", "targetId": "e0", "replacement": None},
        {"type": "context_edit", "targetId": "e2"},
        {"type": "context_edit", "targetId": "e2", "replacement": "nonsense"},
    )  # fmt: skip
    session = session_of(entries)
    assert said(session) == [[{"type": "text", "text": "shorter"}], "3"]
    assert said(session, "e3") == ["1", [{"type": "text", "text": "shorter"}], "3"], "an edit is its branch's"
    assert (session.entry("e1") or {})["message"]["content"] == "2", "the entry stays as it was"


def test_of_the_rest_summaries_and_extensions_messages_are_given() -> None:
    entries = chain(
        {"type": "branch_summary", "summary": "tried", "fromId": "x"},
        {"type": "branch_summary", "summary": "", "fromId": "x"},
        {"type": "custom_message", "customType": "x", "content": "beside", "display": True},
        {"type": "custom", "customType": "x", "data": "state"},
        {"type": "label", "targetId": "e0", "label": "mark"},
        {"type": "usage", "usage": {}},
    )  # fmt: skip
    assert session_of(entries).build_session_context().messages == [
        {"role": "branchSummary", "summary": "tried", "fromId": "x", "timestamp": START},
        {
            "role": "custom",
            "customType": "x",
            "content": "beside",
            "display": True,
            "timestamp": START + 2000,
        },
    ]


# --- what it cost -----------------------------------------------------------------------------------


def used(tokens: int) -> Entry:
    return {
        "input": tokens,
        "output": 1,
        "cacheRead": 2,
        "cacheWrite": 3,
        "totalTokens": 0,
        "cost": {"total": 0.5},
    }


def test_everything_that_used_a_model_costs_on_every_branch() -> None:
    entries = chain(
        message("assistant", usage=used(10)),
        message("toolResult", usage=used(20)),
        {"type": "compaction", "usage": used(30)},
        {"type": "branch_summary", "usage": used(40), "parentId": "e0"},
        {"type": "usage", "usage": used(50)},
        message("user", usage=used(1000)),
        {"type": "custom", "usage": used(1000)},
        message("assistant"),
    )
    usage = session_of(entries).usage()
    assert usage == Usage(150, 5, 10, 15, 2.5)
    assert usage.tokens == 180


@pytest.mark.parametrize("odd", [None, "7", True, -5, 1e300, float("inf"), float("nan"), 10**400, [], {}])
def test_what_is_no_amount_counts_nothing(odd: object) -> None:
    for usage in (
        {**used(1), "input": odd},
        {**used(1), "cost": {"total": odd}},
        {**used(1), "cost": odd},
        odd,
    ):
        total = session_of(chain(message("assistant", usage=usage))).usage()
        assert 0 <= total.tokens <= 7 and 0 <= total.cost <= 0.5


# --- forks ------------------------------------------------------------------------------------------


def test_what_a_fork_copied_is_known_by_its_parent_s_ids_or_by_time() -> None:
    before = chain(message("assistant", usage=used(10)), message("assistant", usage=used(20)))
    own = {
        **message("assistant", usage=used(40)),
        "id": "own",
        "parentId": "e1",
        "timestamp": rfc3339(START + 60_000),
    }
    fork = session_of([*before, own], parentSession="/p.jsonl", timestamp=rfc3339(START + 30_000))
    assert fork.parent == "/p.jsonl"
    assert fork.copied() == fork.copied({"e0", "e1", "e9"}) == {"e0", "e1"}
    assert fork.usage(without=fork.copied()).input == 40
    assert fork.usage().input == 70
    # A clock that went back between the two does not matter where the parent is there.
    early = session_of([*before, own], parentSession="/p.jsonl", timestamp=rfc3339(START - 1))
    assert (early.copied(), early.copied({"e0", "e1"})) == (set(), {"e0", "e1"})


def test_a_session_without_a_parent_copied_nothing() -> None:
    entries = chain(message("assistant", usage=used(10)))
    for parent in (None, 7, ""):
        assert session_of(entries, timestamp=rfc3339(START + 60_000), parentSession=parent).copied() == set()
    assert session_of(entries, timestamp=rfc3339(START + 60_000)).copied({"e0"}) == set()


# --- the file ---------------------------------------------------------------------------------------

GOOD = text_of(chain(ASK, ANSWER))


@pytest.mark.parametrize(
    "data",
    [
        *(b"", b"\n\n", b"{}\n", b"[]\n", b'"x"\n', b"\0" * 50),
        *(GOOD.split(b"\n", 1)[1], b'{"type":"session"}\n', b'{"type":"session","id":7}\n'),
    ],
)
def test_what_does_not_begin_with_a_header_is_no_session(data: bytes) -> None:
    assert Session.read(Bytes(data)) is None


@pytest.mark.parametrize(
    "data",
    [
        b"\xef\xbb\xbf" + GOOD,
        GOOD.replace(b"\n", b"\r\n"),
        b"\n \n" + GOOD.replace(b"\n", b"\n\n\t\n"),
        GOOD[:-1],
        GOOD + b" \n ",
    ],
    ids=["BOM", "CRLF", "empty lines", "no last line end", "spaces behind it"],
)
def test_a_file_that_looks_a_little_different_is_read(data: bytes) -> None:
    session = read(data)
    assert (ids(session.branch()), session.skipped, session.torn) == (["e0", "e1"], 0, False)


def test_bad_lines_are_skipped_and_counted() -> None:
    lines = GOOD.split(b"\n")
    bad = [
        b"{broken",
        b"7",
        b"null",
        b'["x"]',
        b'{"type":"custom"}',
        b'{"type":"custom","id":7}',
        b"\xff\xfe",
        b"[" * 100_000,
    ]
    session = read(b"\n".join([b"not yet", lines[0], *bad[:4], lines[1], *bad[4:], *lines[2:]]))
    assert (ids(session.branch()), session.skipped, session.torn) == (["e0", "e1"], 9, False)


def test_a_line_being_written_is_not_there_yet() -> None:
    session = read(GOOD + b'{"type":"custom","id":"e2","par')
    assert (session.leaf, session.skipped, session.torn) == ("e1", 0, True)


def test_a_line_beyond_all_measure_is_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pi_session, "MAX_LINE", 1000)
    session = read(text_of(chain(ASK, message("user", "x" * 2000), ANSWER)) + b"y" * 2000)
    assert (ids(session.rows.values()), session.skipped) == (["e0", "e2"], 1)


def test_another_header_in_the_middle_is_no_entry() -> None:
    session = read(GOOD + GOOD.split(b"\n", 1)[0] + b"\n")
    assert (len(session.rows), session.leaf, session.skipped) == (2, "e1", 0)


def test_text_may_hold_anything_a_string_can(tmp_path: Path) -> None:
    odd = b'"\\ud83d \xff \\u0000 \xe2\x80\xa8"'
    line = json.dumps({**message("user", "@"), "id": "e2", "parentId": "e1"}).encode().replace(b'"@"', odd)
    assert said(read(GOOD + line))[-1] == "? \ufffd \0 \u2028"


def test_a_very_long_chain_is_no_matter() -> None:
    lines = (b'{"type":"custom","id":"%x","parentId":"%x"}\n' % (n, n - 1) for n in range(1, 20_001))
    session = read(text_of([]) + b"".join(lines))
    assert len(session.path()) == 20_000
    (root,) = session.tree()
    depth, node = 1, root
    while node.children:
        (node,), depth = node.children, depth + 1
    assert depth == 20_000
    assert len(session.build_context_entries()) == 20_000


def test_a_very_broad_tree_is_no_matter() -> None:
    entries = chain(ASK, *({**ASK, "parentId": "e0"} for _ in range(20_000)))
    (root,) = session_of(entries).tree()
    assert len(root.children) == 20_000


def test_only_an_index_of_a_large_file_is_kept(tmp_path: Path) -> None:
    file = tmp_path / "large.jsonl"
    file.write_bytes(text_of(chain(ASK, *[message("toolResult", "x" * 1_000_000)] * 30, ANSWER)))
    opened = Files().open(file)
    assert opened
    with opened:
        tracemalloc.start()
        try:
            session = Session.read(opened)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert session and len(session.rows) == 32
        assert peak < file.stat().st_size / 4
        assert ids(session.branch("e1")) == ["e0", "e1"]


def test_a_file_that_was_written_over_meanwhile_raises_nothing(tmp_path: Path) -> None:
    file = tmp_path / "s.jsonl"
    file.write_bytes(GOOD)
    opened = Files().open(file)
    assert isinstance(opened, Opened)
    with opened:
        session = Session.read(opened)
        assert session
        file.write_bytes(b"x")
        assert ids(session.branch()) == ["e0", "e1"]
        assert session.build_session_context().messages == []


MEMBERS = st.sampled_from(["role", "content", "type", "text", "total"])
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 9) | st.floats() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(MEMBERS, inner, max_size=3),
    max_leaves=6,
)
NAMES = """type id parentId timestamp message usage targetId replacement label name provider modelId version
thinkingLevel firstKeptEntryId firstKeptEntryIndex retainedTail systemMessage summary content""".split()  # noqa: SIM905
KINDS = ["message", "compaction", "context_edit", "custom_message", "branch_summary", "label", "session"]
ODD = st.builds(
    lambda own, more: {**own, **more},
    record(
        {
            "type": st.sampled_from(KINDS),
            "id": st.sampled_from("abcdef"),
            "parentId": st.sampled_from("abcdef") | st.none(),
        }
    ),
    st.dictionaries(st.sampled_from(NAMES), JSON, max_size=6),
)
PIECES = st.sampled_from(
    [GOOD, b'{"type":"session","id":"s"}', b'{"type":"message","id":"a","message":', b"}", b"null"]
)


@given(st.lists(ODD, max_size=10), st.sampled_from([None, 1, 2, 3]))
def test_no_entry_is_too_strange(entries: list[Entry], version: int | None) -> None:
    session = session_of(entries, version=version)
    for leaf in (None, *session.rows):
        session.branch(leaf)
        assert json.dumps(session.build_session_context(leaf).messages) is not None
    assert len(session.tree()) <= len(session.rows)
    assert session.usage().tokens >= 0


@given(
    st.lists(
        st.binary(max_size=30)
        | st.sampled_from([GOOD, b'{"type":"session","id":"s"}', b'{"type":"message","id":"a","message":'])
    )
)
def test_no_bytes_raise(pieces: list[bytes]) -> None:
    session = Session.read(Bytes(b"\n".join(pieces)))
    if session:
        session.build_session_context()
        session.tree()
