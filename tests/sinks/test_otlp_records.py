"""Events as log records: what OpenTelemetry's own parser reads of them."""

from __future__ import annotations

import importlib
import json
import pkgutil
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.common.v1.common_pb2 import AnyValue

from sessionpipe import __version__
from sessionpipe.privacy.filter import filter_event
from sessionpipe.protocol.vocabulary import SESSION_FIELDS, VOCABULARY
from sessionpipe.sinks import otlp_records
from tests.collector import Record, plain, records

NOW_NS = 1_800_000_000_123_456_789
SESSION = {
    "id": "8c132906",
    "seq": 412,
    "machine": "studio",
    "cwd": "~/src",
    "repo": "github.com/someone/src",
    "branch": "main",
    "model": "model-5",
    "title": "Try write",
}


def event(type_: str = "tool.ended", data: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    return {
        "protocol": 1,
        "id": "01K6ABCXYZ0123456789ABCDEF",
        "type": type_,
        "time": "2026-09-28T01:03:11.204Z",
        "tier": 3,
        "harness": {"name": "claude-code", "version": "2.1.332", "event": "PostToolUse"},
        "session": SESSION,
        "privacy": {"rulesets": ["secrets@1"], "pii": False},
        "data": {"tool": "Bash", "call_id": "toolu_01", "ms": 1830, "ok": True} if data is None else data,
    } | more


def sent(*events: dict[str, Any]) -> list[Record]:
    made = otlp_records.request([msgspec.json.encode(one) for one in events], NOW_NS)
    return records(made.SerializeToString())


def one(*args: Any, **more: Any) -> Record:
    (record,) = sent(event(*args, **more))
    return record


def test_the_body_is_the_whole_event_and_the_name_its_type() -> None:
    record = one()
    assert record.body == event()
    assert record.raw.event_name == "tool.ended"
    assert record.scope == ("sessionpipe", __version__)


def test_the_time_is_the_events_and_the_time_it_was_seen_at_is_now() -> None:
    raw = one().raw
    assert raw.time_unix_nano == 1_790_557_391_204_000_000
    assert raw.observed_time_unix_nano == NOW_NS


@pytest.mark.parametrize(
    "time",
    [
        *(None, "", "yesterday", 7, "1969-01-01T00:00:00.000Z", "9999-12-31T23:59:59.999Z"),
        *("0001-01-01T00:00:00+23:59", "2026-01-01T00:00:00"),
    ],
)
def test_a_time_that_can_not_be_told_is_unknown(time: Any) -> None:
    assert one(time=time).raw.time_unix_nano == 0


def test_attributes_are_named_as_the_semantic_conventions_name_them() -> None:
    found = one().attributes
    assert {name: value for name, value in found.items() if not name.startswith("sessionpipe.")} == {
        "log.record.uid": "01K6ABCXYZ0123456789ABCDEF",
        "session.id": "8c132906",
        "gen_ai.conversation.id": "8c132906",
        "gen_ai.agent.name": "claude-code",
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.request.model": "model-5",
        "gen_ai.tool.name": "Bash",
        "gen_ai.tool.call.id": "toolu_01",
        "vcs.repository.url.full": "https://github.com/someone/src",
        "vcs.repository.name": "src",
        "vcs.ref.head.name": "main",
        "vcs.ref.head.type": "branch",
        "process.working_directory": "~/src",
    }
    assert found["sessionpipe.ok"] is True and found["sessionpipe.duration_ms"] == 1830


def test_the_resource_is_the_machine_and_the_agent() -> None:
    assert one().resource == {
        "service.name": "claude-code",
        "service.version": "2.1.332",
        "host.name": "studio",
    }


def test_events_of_one_agent_share_a_resource_and_keep_their_order() -> None:
    other = {"name": "codex"}
    found = sent(
        *(
            event(session={**SESSION, "seq": seq}, **({"harness": other} if seq % 2 else {}))
            for seq in range(6)
        )
    )
    assert [record.body["session"]["seq"] for record in found] == [0, 2, 4, 1, 3, 5]
    assert [record.resource["service.name"] for record in found] == ["claude-code"] * 3 + ["codex"] * 3


def test_a_subagent_is_the_agent_of_its_event() -> None:
    found = one("subagent.started", {"agent_id": "a7", "agent_type": "Explore"}).attributes
    assert (found["gen_ai.agent.id"], found["gen_ai.agent.name"]) == ("a7", "Explore")


@pytest.mark.parametrize(
    ("repo", "url", "name"),
    [
        ("github.com/o/r", "https://github.com/o/r", "r"),
        ("git.example.org:2222/o/r", None, "r"),
        ("/srv/git/r", None, "r"),
        ("~/src/r", None, "r"),
        ("host/o/r", None, "r"),
    ],
)
def test_a_repository_is_a_url_only_where_it_can_be_looked_at(repo: str, url: str | None, name: str) -> None:
    found = one(session={**SESSION, "repo": repo}).attributes
    assert (found.get("vcs.repository.url.full"), found["vcs.repository.name"]) == (url, name)


@pytest.mark.parametrize(
    ("type_", "data", "severity", "failed"),
    [
        ("session.started", {"source": "startup"}, "INFO", False),
        ("session.heartbeat", {}, "DEBUG", False),
        ("tool.started", {"tool": "Bash"}, "DEBUG", False),
        ("tool.ended", {"tool": "Bash", "ok": True}, "INFO", False),
        ("tool.ended", {"tool": "Bash", "ok": False}, "WARN", True),
        ("tool.ended", {"tool": "Bash"}, "INFO", False),
        ("turn.ended", {"reason": "stop"}, "INFO", False),
        ("turn.ended", {"reason": "error"}, "ERROR", True),
        ("attention.needed", {"kind": "permission"}, "WARN", False),
        ("attention.needed", {"kind": "idle"}, "INFO", False),
        ("attention.needed", {"kind": "error"}, "ERROR", True),
        ("something.new", {}, "INFO", False),
    ],
)
def test_each_kind_is_as_grave_as_it_is(
    type_: str, data: dict[str, Any], severity: str, failed: bool
) -> None:
    record = one(type_, data)
    assert (record.raw.severity_text, record.attributes.get("error.type")) == (
        severity,
        "_OTHER" if failed else None,
    )
    assert record.raw.severity_number == {"DEBUG": 5, "INFO": 9, "WARN": 13, "ERROR": 17}[severity]


# --- the tables -------------------------------------------------------------------------------------


def _conventions() -> set[str]:
    """Every attribute that OpenTelemetry's own package of them names."""
    import opentelemetry.semconv._incubating.attributes as incubating
    import opentelemetry.semconv.attributes as stable

    found: set[str] = set()
    for package in (incubating, stable):
        for module in pkgutil.iter_modules(package.__path__):
            loaded = importlib.import_module(f"{package.__name__}.{module.name}")
            found |= {
                value for name, value in vars(loaded).items() if name.isupper() and isinstance(value, str)
            }
    return found


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_what_is_not_ours_is_a_convention() -> None:
    rows = [*otlp_records.RESOURCE, *otlp_records.RECORD]
    names = {row.name for row in rows} | {"gen_ai.operation.name", "error.type"}
    assert {name for name in names if not name.startswith("sessionpipe.")} - _conventions() == set()


def test_the_schema_is_one_that_the_conventions_have() -> None:
    from opentelemetry.semconv.schemas import Schemas

    assert otlp_records.SCHEMA_URL in [schema.value for schema in Schemas]
    assert one().schema_url == otlp_records.SCHEMA_URL


def test_every_field_and_type_that_the_tables_name_is_in_the_vocabulary() -> None:
    fields = {field for kind in VOCABULARY.values() for field in kind.fields}
    for row in (*otlp_records.RESOURCE, *otlp_records.RECORD):
        for path in row.fields:
            known = {"session": SESSION_FIELDS, "data": fields, "harness": {"name", "version", "event"}}
            assert path[-1] in (known[path[0]] if len(path) == 2 else {"id", "tier"}), row
    types = {*otlp_records.OPERATIONS, *otlp_records.SEVERITY, *(row[0] for row in otlp_records.GRAVE)}
    assert types <= set(VOCABULARY)


@pytest.mark.parametrize("tier", range(4))
def test_attributes_tell_nothing_that_the_filtered_event_does_not(tier: int) -> None:
    full = event(
        data={"tool": "Bash", "call_id": "c", "turn_id": "t", "agent_id": "a", "ok": False, "input": "x"}
    )
    filtered = filter_event(full, tier, pii=True)
    for kept in filter(None, (filtered, filter_event(event("session.started", {"source": "x"}), tier, True))):
        (record,) = sent(kept)
        told = json.dumps(record.body)
        ours = {"error.type", "gen_ai.operation.name", "vcs.ref.head.type"}
        for name, value in {**record.resource, **record.attributes}.items():
            assert name in ours or str(value).removeprefix("https://") in told or value in (True, False)


# --- what JSON can hold -----------------------------------------------------------------------------

#: Whole numbers of every length that JSON's reader takes, small ones more often.
NUMBERS = st.integers(-(2**63), 2**63 - 1) | st.integers() | st.integers(-(10**4000), 10**4000)
JSON = st.recursive(
    st.none() | st.booleans() | NUMBERS | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(JSON)
def test_any_json_comes_out_as_it_went_in(value: Any) -> None:
    text = msgspec.json.encode({"data": {"input": value}})
    (record,) = records(otlp_records.request([text], 1).SerializeToString())
    assert record.body == {"data": {"input": fitting(msgspec.json.decode(text)["data"]["input"])}}


def fitting(value: Any) -> Any:
    """``value`` with its whole numbers as they fit: an integer, else the nearest double, else the digits."""
    if isinstance(value, dict):
        return {key: fitting(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [fitting(inner) for inner in value]
    if type(value) is not int or -(2**63) <= value < 2**63:
        return value
    try:
        return float(value)
    except OverflowError:
        return msgspec.json.encode(value).decode()


@pytest.mark.parametrize("number", [2**63, -(2**63) - 1, 10**30, 10**308])
def test_a_number_that_no_integer_holds_is_a_double(number: int) -> None:
    found = one(data={"input": number, "ms": number})
    assert found.body["data"]["input"] == float(number) == found.attributes["sessionpipe.duration_ms"]


@pytest.mark.parametrize("number", [10**309, -(10**400)])
def test_a_number_that_no_double_holds_is_its_digits(number: int) -> None:
    """It came from a tool's input, and must not keep everything behind it from going."""
    found = one(data={"input": number, "ms": number})
    assert found.body["data"]["input"] == str(number) == found.attributes["sessionpipe.duration_ms"]


def test_half_a_surrogate_pair_is_replaced() -> None:
    value = AnyValue()
    otlp_records._fill(value, {"\ud800": "b\udfff"}, 0)
    assert plain(AnyValue.FromString(value.SerializeToString())) == {"?": "b?"}


@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ('{"a":', "}")])
def test_what_is_nested_too_deep_for_a_parser_is_in_it_as_text(opening: str, closing: str) -> None:
    deep = json.loads(opening * 400 + "1" + closing * 400)
    body = one(data={"input": deep}).body
    found, depth = body["data"]["input"], 0
    while not isinstance(found, str):
        found, depth = found[0] if opening == "[" else found["a"], depth + 1
    assert 10 < depth < 30 and found == opening * (400 - depth) + "1" + closing * (400 - depth)


@pytest.mark.parametrize("text", [b"{}", b'{"session": 7, "harness": [], "data": null, "type": "x"}'])
def test_an_event_that_lacks_what_every_event_has_is_a_record_all_the_same(text: bytes) -> None:
    (record,) = records(otlp_records.request([text], 1).SerializeToString())
    assert record.body == json.loads(text)
