"""``sessionpipe-conformance receiver``: a receiver that keeps the rules passes, each broken rule is noticed."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from sessionpipe.conformance import main
from sessionpipe.conformance.receiver import Target
from sessionpipe.conformance.scenarios import load, misses
from sessionpipe.paths import data_dir
from tests.delivery.reference import Key, Reference

TOKEN = "tok" + "Zq7" * 8
SECRET = "whsec_" + "c2Vz" * 8
FOLDER = data_dir("conformance") / "delivery" / "receiver"
ALL = frozenset(path.stem for path in FOLDER.glob("*.json"))


def run(receiver: Reference, *arguments: str, token: str = TOKEN) -> Result:
    words = ["receiver", receiver.url, "--token", token, *arguments]
    return CliRunner().invoke(main, words, catch_exceptions=False)


def report(receiver: Reference, *arguments: str) -> dict[str, Any]:
    said: dict[str, Any] = json.loads(run(receiver, "--json", *arguments).stdout)
    return said


@pytest.fixture
def secret(tmp_path: Path) -> Iterator[str]:
    path = tmp_path / "secret"
    path.write_text(SECRET)
    yield str(path)


@pytest.fixture
def receiver() -> Iterator[Reference]:
    with Reference(TOKEN, secret=SECRET) as made:
        yield made


def test_a_receiver_that_keeps_the_rules_passes_all_of_them_again_and_again(
    receiver: Reference, secret: str
) -> None:
    for _ in range(2):
        result = run(receiver, "--secret-file", secret)
        assert result.exit_code == 0, result.output
        assert "FAIL" not in result.output and "not tried" not in result.output
        assert "what was written has been forgotten" in result.output
        assert receiver.events == {}


# --- every rule, broken ---------------------------------------------------------------------------


Break = Callable[[Reference], dict[str, Any]]


def stores_anything_at(status: int) -> Break:
    """It says no with this status, and takes all of it the same."""
    return lambda r: {"status": lambda: status}


def by_id(event: dict[str, Any]) -> Any:
    return event["harness"]["name"], event["session"]["id"], event["id"]


def without_harness(event: dict[str, Any]) -> Key:
    return "", event["session"]["id"], event["session"]["seq"]


def only_known_types(reference: Reference) -> Callable[[dict[str, Any]], str | None]:
    return lambda e: "unknown_type" if e["type"] == "x.y" else Reference.unfit(reference, e)


def only_known_harnesses(reference: Reference) -> Callable[[dict[str, Any]], str | None]:
    names = ("claude-code", "codex", "conformance")
    return lambda e: "harness" if e["harness"]["name"] not in names else Reference.unfit(reference, e)


def known_fields(event: dict[str, Any]) -> dict[str, Any]:
    return {
        **event,
        "data": {k: v for k, v in event["data"].items() if k in ("source", "turn_id", "kept", "text")},
    }


def ascii_only(event: dict[str, Any]) -> dict[str, Any]:
    return json.loads(json.dumps(event, ensure_ascii=False).encode("ascii", "ignore"))  # type: ignore[no-any-return]


def order_of_arrival(reference: Reference) -> Callable[[Any], int]:
    return lambda item: list(reference.events).index(item[0])


def forgets_only_what_it_knows(reference: Reference) -> Callable[[dict[str, Any]], str | None]:
    def unfit(event: dict[str, Any]) -> str | None:
        known = any(key[1] == event["session"]["id"] for key in reference.events)
        return "unknown" if event["type"] == "session.forgotten" and not known else None

    return unfit


def all_or_nothing(reference: Reference) -> Callable[[bytes], Any]:
    def parsed(body: bytes) -> Any:
        events = Reference.parsed(reference, body)
        bad = isinstance(events, list) and any(event["session"]["seq"] < 0 for event in events)
        return (400, {"reason": "seq"}) if bad else events

    return parsed


def takes_whatever_is_json(body: bytes) -> Any:
    try:
        return json.loads(body)["events"]
    except (KeyError, TypeError):
        return []
    except ValueError:
        return 500, {}


def breaks_off(reference: Reference) -> Callable[..., Any]:
    return lambda _headers, body: (500, {}) if len(body) > reference.max_bytes else None


#: What is done wrong, and the scenarios that notice it.
BROKEN: dict[str, tuple[Break, set[str]]] = {
    "it answers 500 and takes it": (
        stores_anything_at(500),
        set(ALL)
        - {
            "auth",
            "auth-missing",
            "oversize",
            "oversize-bytes",
            "protocol",
            "not-json",
            "empty",
            "tier",
            "well-known",
            "read-auth",  # What says no to all it is sent is not read back either.
        },
    ),
    "it says nothing of itself": (lambda r: {"well_known": {"protocol": [1]}}, {"well-known"}),
    "it doubles repeats": (lambda r: {"seen": Nothing()}, {"dedup", "dedup-overlap", "dedup-within"}),
    "it goes by the event's id": (
        lambda r: {"identity": by_id, "is_gone": lambda key: False, "place": lambda item: 0},
        {"dedup", "dedup-overlap", "dedup-within", "forget-late", "order"},
    ),
    "it mixes agents up": (lambda r: {"identity": without_harness}, {"same-id"}),
    "it gives back what came last, last": (lambda r: {"place": order_of_arrival(r)}, {"order"}),
    "it takes any number": (lambda r: {"too_many_events": lambda events: None}, {"oversize"}),
    "it takes any size": (lambda r: {"too_many_bytes": lambda headers, body: None}, {"oversize-bytes"}),
    "it chokes on a large body": (lambda r: {"too_many_bytes": breaks_off(r)}, {"oversize-bytes"}),
    "it takes any tier": (lambda r: {"too_high": lambda events: None}, {"tier"}),
    "it does not say which tier": (
        lambda r: {
            "too_high": lambda es: (403, {"reason": "no"}) if any(e["tier"] > 2 for e in es) else None
        },
        {"tier"},
    ),
    "it takes what was not filtered": (
        lambda r: {"unfit": lambda e: "seq" if e["session"]["seq"] < 0 else None},
        {"tier-type"},
    ),
    "it takes any protocol": (lambda r: {"other_protocol": lambda headers, body: None}, {"protocol"}),
    "it takes anybody's": (lambda r: {"no_token": lambda headers, body: None}, {"auth", "auth-missing"}),
    "it takes those without a token": (
        lambda r: {"no_token": lambda h, b: Reference.no_token(r, h, b) if "authorization" in h else None},
        {"auth-missing"},
    ),
    "it shows it to anybody": (lambda r: {"may_read": lambda headers: True}, {"read-auth"}),
    "it knows only its types": (lambda r: {"unfit": only_known_types(r)}, {"unknown-type", "characters"}),
    "it knows only its agents": (lambda r: {"unfit": only_known_harnesses(r)}, {"unknown-harness"}),
    "it keeps only fields it knows": (lambda r: {"kept": known_fields}, {"unknown-fields"}),
    "it keeps only ASCII": (lambda r: {"kept": ascii_only}, {"characters"}),
    "one bad event costs the batch": (lambda r: {"parsed": all_or_nothing(r)}, {"rejected"}),
    "it fails on what is no batch": (lambda r: {"parsed": takes_whatever_is_json}, {"not-json"}),
    "it fails on nothing": (
        lambda r: {"parsed": lambda b: (500, {}) if b == b'{"events": []}' else Reference.parsed(r, b)},
        {"empty"},
    ),
    "the last word wins": (lambda r: {"merged": lambda known, said: known | said}, {"coalesce"}),
    "any title wins": (
        lambda r: {
            "merged": lambda known, said: known | {k: v for k, v in said.items() if v not in (None, "")}
        },
        {"coalesce"},
    ),
    "it forgets nothing": (
        lambda r: {"forget": lambda key: None},
        {"forget", "forget-same-batch", "forget-late"},
    ),
    "it forgets only what it knows": (
        lambda r: {"unfit": forgets_only_what_it_knows(r)},
        {"forget-unknown", "rejected", "tier-type"},
    ),
    "what was forgotten comes back": (
        lambda r: {"is_gone": lambda key: False, "seen": Nothing()},
        {"forget-late", "dedup", "dedup-overlap", "dedup-within"},
    ),
    "it does not look at signatures": (lambda r: {"not_signed": lambda headers, body: None}, {"signature"}),
}


class Nothing(set[Key]):
    """A memory that keeps nothing."""

    def add(self, element: Key) -> None:
        return


@pytest.mark.parametrize("wrong", BROKEN)
def test_what_is_done_wrong_is_noticed_by_the_scenario_for_it_and_by_no_other(
    wrong: str, receiver: Reference, secret: str
) -> None:
    breaks, noticed = BROKEN[wrong]
    for name, method in breaks(receiver).items():
        setattr(receiver, name, method)
    said = report(receiver, "--secret-file", secret)
    assert {s["name"] for s in said["scenarios"] if s["outcome"] == "failed"} == noticed
    assert all(s["means"] for s in said["scenarios"] if s["outcome"] == "failed")


def test_there_is_a_wrong_for_every_scenario() -> None:
    assert set().union(*(noticed for _, noticed in BROKEN.values())) == ALL


# --- what it says ---------------------------------------------------------------------------------


def test_a_failure_says_what_came_what_was_expected_and_what_that_means(
    receiver: Reference, secret: str
) -> None:
    receiver.seen = Nothing()
    result = run(receiver, "--secret-file", secret)
    assert result.exit_code == 1
    assert "step 2: accepted is 2 where 0 was expected" in result.output
    assert "has every event of it twice" in " ".join(result.output.split())
    assert "20 of 23 rules that must hold do" in result.output


def test_only_what_must_hold_decides(receiver: Reference, secret: str) -> None:
    receiver.unfit = lambda e: "seq" if e["session"]["seq"] < 0 else None  # type: ignore[method-assign]
    result = run(receiver, "--secret-file", secret)
    assert (result.exit_code, "should tier-type" in " ".join(result.output.split())) == (0, True)


def test_one_that_cannot_be_read_is_tried_by_its_answers(receiver: Reference, secret: str) -> None:
    receiver.may_read = lambda headers: False  # type: ignore[method-assign]
    receiver.well_known["endpoints"] = {}
    said = report(receiver, "--secret-file", secret)
    assert said["readable"] is False
    assert [s["name"] for s in said["scenarios"] if s["outcome"] == "skipped"] == ["coalesce", "read-auth"]
    assert {s["name"] for s in said["scenarios"] if s["outcome"] == "failed"} == set()
    assert "could not be read back" in run(receiver, "--secret-file", secret).output


def test_one_with_bounds_and_a_tier_of_its_own_is_tried_by_those(secret: str) -> None:
    with Reference(TOKEN, max_tier=3, max_events=7, max_bytes=4000) as receiver:
        said = report(receiver)
    skipped = {s["name"]: s["why"] for s in said["scenarios"] if s["outcome"] == "skipped"}
    assert skipped == {
        "signature": "no --secret-file was given",
        "tier": "it takes every tier, so that nothing is above its max_tier",
    }
    assert said["score"]["must"]["passed"] == said["score"]["must"]["of"]


def test_what_a_refusal_says_besides_its_status_is_its_own_affair(receiver: Reference, secret: str) -> None:
    for name in ("no_token", "too_many_bytes"):
        rule = getattr(receiver, name)
        setattr(receiver, name, lambda h, b, rule=rule: (r[0], "in words") if (r := rule(h, b)) else None)
    assert run(receiver, "--secret-file", secret).exit_code == 0


def test_it_reads_where_it_is_told_to(receiver: Reference, secret: str) -> None:
    read = f"{receiver.url}/elsewhere?session={{session}}&harness={{harness}}"
    receiver.get = lambda path, headers: (  # type: ignore[method-assign]
        Reference.get(receiver, path.replace("&harness=conformance", "").removesuffix("&harness="), headers)
        if path.startswith(("/elsewhere", "/.well-known", "/sessions"))
        else (404, {})
    )
    assert report(receiver, "--secret-file", secret, "--read", read)["readable"] is True


def test_scenarios_of_ones_own_are_played(receiver: Reference, tmp_path: Path) -> None:
    sent = json.loads((FOLDER / "accept.json").read_text())["steps"][0]
    steps = [
        sent,
        {"read": {"session": "conformance-{run}-accept"}, "expect": {"status": 200, "body": {"events": "*"}}},
    ]
    (tmp_path / "mine.json").write_text(json.dumps({"name": "mine", "spec": "ours", "steps": steps}))
    receiver.secret = None
    said = report(receiver, "--scenarios", str(tmp_path))
    assert [(s["name"], s["level"], s["outcome"]) for s in said["scenarios"]] == [("mine", "must", "passed")]


def test_what_could_not_be_forgotten_is_named(receiver: Reference, secret: str) -> None:
    receiver.well_known["capabilities"] = ["events"]
    said = report(receiver, "--secret-file", secret, "--only", "accept")
    assert [name.rpartition("-")[2] for name in said["left"]] == ["probe", "accept"]


def test_everything_is_forgotten_also_when_it_is_interrupted(
    receiver: Reference, secret: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = Target.read

    def interrupted(self: Target, step: Any) -> Any:
        if "dedup" in step["session"]:
            raise KeyboardInterrupt
        return read(self, step)

    monkeypatch.setattr(Target, "read", interrupted)
    result = run(receiver, "--secret-file", secret)
    assert (result.exit_code, result.stderr.count("\n")) == (1, 1)
    assert "interrupted; what was written has been forgotten" in result.stderr
    assert receiver.events == {} and receiver.forgotten


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_everything_is_forgotten_also_when_it_is_ended(
    number: signal.Signals, receiver: Reference, secret: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ended(self: Target, step: Any) -> Any:
        assert signal.getsignal(number) is not signal.SIG_DFL, "this would end the tests"
        signal.raise_signal(number)

    before = signal.signal(number, signal.SIG_DFL)
    try:
        monkeypatch.setattr(Target, "read", ended)
        assert "interrupted" in run(receiver, "--secret-file", secret).stderr
        assert signal.getsignal(number) is signal.SIG_DFL
    finally:
        signal.signal(number, before)
    assert receiver.events == {} and receiver.forgotten


def test_a_token_it_does_not_know_is_said_in_one_line(receiver: Reference, secret: str) -> None:
    result = run(receiver, "--secret-file", secret, token="tok" + "Xy9" * 8)
    assert (result.exit_code, result.output.count("\n")) == (1, 1)
    assert "this token: HTTP 401" in result.output and "--secret-file" not in result.output
    unsigned = run(receiver)
    assert (unsigned.exit_code, "--secret-file" in unsigned.output) == (1, True)


def test_no_receiver_is_said_in_one_line() -> None:
    with Reference(TOKEN) as receiver:
        pass
    result = run(receiver)
    assert (result.exit_code, result.output.count("\n")) == (1, 1)
    assert "can't be reached" in result.output


def test_the_token_is_not_taken_to_another_host(receiver: Reference) -> None:
    receiver.well_known["endpoints"] = {"events": "http://localhost:9/events"}
    result = run(receiver)
    assert (result.exit_code, "another host" in result.output) == (1, True)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["http://board.example", "--token", "T"], "plain http"),
        (["http://localhost:9"], "give the receiver's token"),
        (["http://localhost:9", "--token", "T", "--token-file", "x"], "give the receiver's token"),
        (["http://localhost:9", "--token", "T T"], "no token"),
        (["http://localhost:9", "--token-file", "/nowhere"], "can't be read"),
        (["http://localhost:9", "--token", "T", "--only", "nothing"], "no scenario called nothing"),
        (["http://localhost:9", "--token", "T", "--secret-file", "/nowhere"], "can't be used"),
    ],
)
def test_what_cannot_be_meant_is_a_usage_error(words: list[str], says: str) -> None:
    result = CliRunner().invoke(main, ["receiver", *words])
    assert (result.exit_code, says in result.output) == (2, True), result.output


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[]", "no scenario"),
        ("{}", "no name"),
        ('{"name": "", "spec": "", "steps": [], "level": "may"}', "level"),
        ('{"name": "", "spec": "", "steps": [], "needs": "luck"}', "luck"),
        ('{"name": "", "spec": "", "steps": [{"send": {}}]}', "step 1"),
    ],
)
def test_a_scenario_that_is_none_is_refused(text: str, says: str, tmp_path: Path) -> None:
    path = tmp_path / "wrong.json"
    path.write_text(text)
    with pytest.raises(ValueError, match=says):
        load(path)


@pytest.mark.parametrize(
    ("found", "expected", "lack"),
    [
        ({"a": 1, "b": 2}, {"a": 1}, None),
        ({"a": None}, {"a": "*"}, "a is not there"),
        ({"a": 0}, {"a": "*"}, None),
        ({"a": [1, 2]}, {"a": [1]}, "a has 2 entries where 1 were expected"),
        ({"a": [{"b": 1}]}, {"a": [{"b": 2}]}, "a[0].b is 1 where 2 was expected"),
        ({"a": True}, {"a": 1}, "a is true where 1 was expected"),
        ({"a": 1.0}, {"a": 1}, None),
        ([], {}, "it is [], not an object"),
        ({}, {"a": []}, "a is absent, not a list"),
    ],
)
def test_what_an_answer_lacks(found: Any, expected: Any, lack: str | None) -> None:
    assert misses(found, expected) == lack
