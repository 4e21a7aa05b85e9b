"""The sender's scenarios that hold for any medium, played with an OTLP sink; and what OTLP has of its own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sessionpipe.paths import data_dir
from tests.delivery.otlp import OtlpPlayer
from tests.delivery.test_sender_scenarios import _no_worker as _no_worker
from tests.delivery.test_sender_scenarios import load

FOLDER = data_dir("conformance") / "delivery" / "sender"

#: What is of the well-known file and the path it names, of tiers that a receiver asks for, of the ids of
#: messages, of what its JSON says; and a 400 to the first body, which may be one about gzip.
OF_HTTP_ALONE = {
    "202-lower-tier",
    "202-rejected",
    "400",
    "400-protocol",
    "403-other",
    "403-tier",
    "accept",
    "any-2xx",
    "counts",
    "heartbeats",
    "replay",
    "tools-asked",
    *(file.stem for file in FOLDER.glob("bounds-*.json")),
    *(file.stem for file in FOLDER.glob("file-*.json")),
}
SHARED = sorted(file for file in FOLDER.glob("*.json") if file.stem not in OF_HTTP_ALONE)

TURNS = {"session": "a", "type": "turn.started"}

OWN: dict[str, dict[str, Any]] = {
    "what a collector rejects is given up, counted, and not sent again": {
        "record": [{**TURNS, "times": 5}],
        "steps": [
            {
                "request": {"events": ["a:0..4"]},
                "answer": {"status": 200, "body": {"refused": 2, "reason": "too old"}},
            },
            {"state": {"behind": 0, "sent": 3, "dropped": 2, "paused": False, "reason": None}},
            {"state": {"log": ["it will not store 2 of 5 events: too old"]}},
            {"quiet": 86_400},
        ],
    },
    "a wait that is asked for with a 503 is kept, and then the ladder begins anew": {
        "record": [TURNS],
        "steps": [
            {
                "request": {"message": "m", "events": ["a:0"]},
                "answer": {"status": 503, "headers": {"retry-after": "90"}},
            },
            {"request": {"message": "m", "events": ["a:0"], "wait": 90}, "answer": {"status": 502}},
            {
                "request": {"message": "m", "events": ["a:0"], "wait": 2},
                "answer": {"status": 504, "headers": {"retry-after": "{now+30}"}},
            },
            {"request": {"message": "m", "events": ["a:0"], "wait": 30}, "answer": {"status": 200}},
            {"state": {"sent": 1, "dropped": 0}},
        ],
    },
    "a 400 gives the batch up: of a collector that unpacks, else for the body as it is": {
        "record": [{**TURNS, "times": 2}],
        "steps": [
            {"request": {"events": ["a:0..1"]}, "answer": {"status": 400, "body": {"reason": "bad"}}},
            {"request": {"events": ["a:0..1"]}, "answer": {"status": 400, "body": {"reason": "bad"}}},
            {"state": {"behind": 0, "sent": 0, "dropped": 2, "log": ["HTTP 400 (bad)"]}},
            {"record": [TURNS]},
            {"request": {"events": ["a:2"]}, "answer": {"status": 200}},
            {"record": [TURNS]},
            {"request": {"events": ["a:3"]}, "answer": {"status": 400, "body": {"reason": "bad"}}},
            {"state": {"behind": 0, "sent": 1, "dropped": 3}},
        ],
    },
    "a 400 about the size is taken for a 413": {
        "record": [{**TURNS, "times": 4}],
        "steps": [
            {
                "request": {"events": ["a:0..3"]},
                "answer": {"status": 400, "body": {"reason": "http: request body too large"}},
            },
            {"request": {"events": ["a:0..1"]}, "answer": {"status": 200}},
            {"request": {"events": ["a:2..3"]}, "answer": {"status": 200}},
            {"state": {"sent": 4, "dropped": 0}},
        ],
    },
    "a session that is forgotten is said so, and nothing of it that waited goes": {
        "record": [TURNS, {"session": "b", "type": "turn.started"}],
        "steps": [
            {"request": {"events": ["a:0", "b:0"]}, "answer": {"status": 503}},
            {"forget": "a"},
            {"request": {"events": ["b:0"], "wait": 2}, "answer": {"status": 200}},
            {"request": {"events": ["a:1"]}, "answer": {"status": 200}},
            {"state": {"behind": 0}},
        ],
    },
    "a lower tier that the person sets holds for what waits": {
        "sink": {"tier": 2},
        "record": [{"session": "a", "type": "tool.ended", "data": {"tool": "Bash", "ok": True}}, TURNS],
        "steps": [
            {"request": {"tier": 2, "events": ["a:0..1"]}, "answer": {"status": 500}},
            {"do": ["sinks", "set", "board", "--tier", "0"]},
            {"request": {"tier": 0, "events": ["a:1"], "wait": [0, 2]}, "answer": {"status": 200}},
        ],
    },
}


@pytest.mark.parametrize("file", SHARED, ids=lambda file: file.stem)
def test_the_rules_are_those_of_http(file: Path) -> None:
    OtlpPlayer(load(file)).play()


@pytest.mark.parametrize("name", OWN)
def test_what_is_of_otlp_alone(name: str) -> None:
    OtlpPlayer(OWN[name]).play()


def test_what_is_left_out_is_there_to_leave_out() -> None:
    assert {file.stem for file in FOLDER.glob("*.json")} >= OF_HTTP_ALONE
    assert len(SHARED) > 25 and json.dumps(OWN)
