"""Sealing: what a draft becomes, redacted before it is cut."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessionpipe.protocol.vocabulary import BLOB
from sessionpipe.seal import bound_blob, cut_blob, relative, seal, session_block, shorten
from tests.schema import assert_valid

SESSION = "3f0c2f2e-6a51-4d7b-9a55-0d3c5f1f5a10"


def draft(kind: str, data: dict[str, Any], **memo: Any) -> dict[str, Any]:
    return {
        "type": kind,
        "at_ms": 1_795_976_081_342,
        "harness": {"name": "claude-code", "event": "PostToolUse"},
        "session": {"id": SESSION, "cwd": "/home/dev/src"},
        "data": data,
        "memo": memo,
    }


def sealed(kind: str, data: dict[str, Any], *, root: str | None = None, **memo: Any) -> dict[str, Any]:
    event = seal(draft(kind, data, **memo), {"machine": "m"}, 4, root=root, home="/home/dev")
    assert_valid(event)
    return event


def secret() -> str:
    return "ghp_" + "".join("abcdefghijABCDEFGHIJ0123456789"[(i * 7 + 3) % 30] for i in range(36))


class TestSealing:
    def test_the_envelope_is_the_protocols(self) -> None:
        event = sealed("tool.ended", {"tool": "Bash", "ok": True, "ms": 3})
        assert (event["protocol"], event["tier"], event["time"]) == (1, 3, "2026-11-29T18:14:41.342Z")
        assert event["session"] == {"id": SESSION, "seq": 4, "machine": "m"}
        assert event["privacy"] == {"rulesets": ["secrets@1"], "pii": False}
        assert event["data"] == {"tool": "Bash", "ok": True, "ms": 3}

    def test_what_the_vocabulary_does_not_name_stays_out(self) -> None:
        assert sealed("turn.started", {"prompt_chars": 3, "prompt": "say"})["data"] == {"prompt_chars": 3}

    def test_it_redacts_before_it_cuts(self) -> None:
        # The cut falls inside the token: cut first, and half of it would be left.
        message = "Bash " + "x " * 55 + secret()
        event = sealed(
            "attention.needed",
            {"attention_id": "a", "kind": "permission", "message": message},
            caps={"message": 125},
        )
        assert len(event["data"]["message"]) <= 125
        assert secret()[:10] not in json.dumps(event)

    def test_the_key_of_a_tools_input_is_context(self) -> None:
        event = sealed("tool.started", {"tool": "Bash", "input": {"password": "hunter2hunter2"}})
        assert "hunter2hunter2" not in json.dumps(event)

    def test_errors_are_cut_to_two_thousand_characters(self) -> None:
        assert (
            len(sealed("tool.ended", {"tool": "B", "ok": False, "error": "e" * 9_000})["data"]["error"])
            == 2_000
        )

    def test_paths_are_relative_to_the_repository_then_to_home(self) -> None:
        paths = ["/home/dev/src/lib/a.py", "/home/dev/notes.md", "/etc/hosts", "/home/dev/src-other/b.py"]
        event = sealed("files.changed", {"paths": paths}, root="/home/dev/src")
        assert event["data"]["paths"] == ["lib/a.py", "~/notes.md", "/etc/hosts", "~/src-other/b.py"]

    def test_without_a_repository_paths_are_relative_to_the_folder(self) -> None:
        assert sealed("files.changed", {"paths": ["/home/dev/src/a"]})["data"]["paths"] == ["a"]


class TestBlobs:
    @given(
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.text(max_size=300),
            lambda inner: (
                st.lists(inner, max_size=30) | st.dictionaries(st.text(max_size=9), inner, max_size=30)
            ),
            max_leaves=60,
        ),
        st.integers(min_value=512, max_value=4096),
    )
    def test_what_is_kept_fits_and_what_fits_is_kept(self, value: Any, limit: int) -> None:
        kept = cut_blob(value, limit)
        assert len(msgspec.json.encode(kept)) <= limit
        if len(msgspec.json.encode(value)) <= limit:
            assert kept == value

    def test_a_long_string_keeps_its_beginning_and_the_rest_of_the_object(self) -> None:
        kept = cut_blob({"command": "ls", "out": "y" * 200_000}, 65_536)
        assert kept["command"] == "ls"
        assert kept["out"].startswith("yyy")

    def test_a_value_nested_beyond_reason_is_survived(self) -> None:
        deep: Any = "x"
        for _ in range(20_000):
            deep = [deep]
        assert isinstance(cut_blob(deep, 65_536), str)


class TestPaths:
    @pytest.mark.parametrize(
        ("path", "short"),
        [
            ("/home/dev", "~"),
            ("/home/dev/x", "~/x"),
            ("/home/developer", "/home/developer"),
            ("/srv", "/srv"),
            ("", ""),
        ],
    )
    def test_home_is_written_as_a_tilde(self, path: str, short: str) -> None:
        assert shorten(path, "/home/dev") == short

    @pytest.mark.parametrize(
        ("path", "told"),
        [
            ("C:\\work\\repo\\src\\f.py", "src/f.py"),
            ("c:/work/Repo/src/f.py", "src/f.py"),
            ("C:\\work\\repository\\f.py", "C:\\work\\repository\\f.py"),
            ("C:\\Users\\dev\\notes\\n.md", "~/notes/n.md"),
            ("D:\\work\\repo\\f.py", "D:\\work\\repo\\f.py"),
        ],
    )
    def test_windows_spells_one_folder_in_several_ways(self, path: str, told: str) -> None:
        assert relative(path, "C:\\work\\repo", "C:\\Users\\dev") == told

    def test_a_share_is_a_folder_of_windows_too(self) -> None:
        assert relative("\\\\host\\share\\a\\b", "//host/share", None) == "a/b"

    def test_elsewhere_a_folder_has_one_spelling(self) -> None:
        assert relative("/Work/f", "/work", None) == "/Work/f"
        assert relative("/work/a\\b", "/work", None) == "a\\b"

    def test_a_home_that_is_not_known_shortens_nothing(self) -> None:
        assert shorten("/home/dev/x", None) == "/home/dev/x"
        assert relative("/home/dev/x", None, "") == "/home/dev/x"


class TestBlocks:
    def test_only_facts_of_the_protocol_and_no_empty_ones(self) -> None:
        facts = {
            "id": "x",
            "seq": 3,
            "model": "",
            "branch": None,
            "cwd": "/home/dev/w",
            "email": "e",
            "attended": False,
        }
        assert session_block(facts, "/home/dev") == {"cwd": "~/w", "attended": False}

    def test_a_title_is_redacted_then_cut(self) -> None:
        block = session_block({"title": f"use {secret()} " + "word " * 40, "title_source": "first-ask"}, None)
        assert secret()[:10] not in block["title"]
        assert len(block["title"]) <= 80

    def test_a_source_without_a_title_says_nothing(self) -> None:
        assert session_block({"title_source": "custom"}, None) == {}


class TestManySmallThings:
    """What a blob could not keep anyway is not worth a minute of the redactor's time."""

    def test_what_fits_is_not_touched(self) -> None:
        value = {"a": [1, None, {"b": "c"}], "d": {}}
        assert bound_blob(value, 1000) == value

    @given(
        st.recursive(
            st.none() | st.integers(0, 9) | st.text(max_size=3),
            lambda inner: (
                st.lists(inner, max_size=20) | st.dictionaries(st.text(max_size=3), inner, max_size=20)
            ),
            max_leaves=200,
        )
    )
    def test_what_is_cut_afterwards_is_the_same(self, value: Any) -> None:
        limit = 100
        assert cut_blob(bound_blob(value, limit), limit) == cut_blob(value, limit)

    def test_the_redactor_sees_no_more_leaves_than_can_be_kept(self, monkeypatch: pytest.MonkeyPatch) -> None:
        seen: list[Any] = []

        def redact_value(value: Any) -> Any:
            seen.extend(value["output"])
            return value

        monkeypatch.setattr("sessionpipe.privacy.secrets.redact_value", redact_value)
        sealed("tool.ended", {"tool": "x", "ok": True, "output": [0] * 1_000_000})
        assert len(seen) <= BLOB
