"""The gates of ``pii@1``: none is shut to what its rules find, and texts without anything are not looked at."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sessionpipe.privacy import pii
from sessionpipe.privacy.pii_gates import Kind, may_have
from tests.laws import MANY
from tests.privacy.test_pii import MATCHES, PIECES, RULES

# Numbers of each form with as little as it may have, or as much between its digits.
LEAST = [
    "+49420927678",
    "%2B42092767",
    "(+49)()30123456",
    "001 30 1234567",
    "0012 3 4 5 6 78",
    "(0049)30 1234567",
    "+49 (0)301234567",
    "(234)234-5678",
    "234-234-5678",
    "234.234.5678",
    "8912)345\u00a067 89",
    "8 912 345 67-89",
    "139 1234 5678",
    "(01) 12345-12345",
    "(012345)123-456",
    "(11)12345 1234",
    "01.23.45.67.89",
    "016226/519",
    "01-12345678",
    "01 / 12 34 56 78",
    "0171-1234567",
    "0 (532) 123 4567",
    "0812-3456-789",
]
CUES = [
    *(
        "tel",
        "teléfono",
        "TÉLÉPHONE",
        "telefoon",
        "phone",
        "phone-number",
        "phone no",
        "phone-no",
        "phone_number",
        "mobıle",
        "mob",
    ),
    *(
        "móvil",
        "cell",
        "cellphone",
        "celular",
        "Handy",
        "fax",
        "gſm",
        "tlf",
        "puh",
        "natel",
        "WhatsApp",
        "sİgnal",
    ),
    *("ſms", "call us", "rıng", "dial", "appelez le", "llama al", "chiama", "bel", "ligue", "Rufnummer"),
    *("contact", "number is", "telefonnummer", "тел", "电话", "電話番号", "휴대폰", "फ़ोन", "هاتف", "טלפון"),
]
SIGNS = [
    *"+(08-./ ",
    "%2B",
    "1 ",
    "23",
    "456",
    "7890",
    "٣",
    "\u2011",
    " / ",
    "\\u0038",
    "\x1b[1m",
    "＠",
    "%2540",
]
# Behind a text it makes it one that is long enough to be asked about.
REST = "\n" * 200
numbers = st.lists(st.sampled_from([*SIGNS, *LEAST, "tel ", "тел: "]), max_size=9).map("".join)
texts = numbers | st.lists(st.sampled_from([*PIECES, *CUES]), max_size=5).map("".join)


def found(text: str) -> set[Kind]:
    """The kinds whose rules find something."""
    return {kind for kind, rules in pii._RULES.items() if any(rules().find(text))}


@given(texts, st.sampled_from(["", REST]))
@settings(max_examples=MANY)
def test_what_the_rules_find_has_an_open_gate(text: str, rest: str) -> None:
    assert found(text + rest) <= set(may_have(text + rest))


@given(texts, texts, st.integers(0, 20))
@settings(max_examples=MANY)
def test_what_is_found_in_a_part_has_one_among_all_parts(text: str, other: str, cut: int) -> None:
    assert found(text[cut:]) <= set(may_have("\n".join((other, text[cut:], REST))))


def test_every_rule_has_an_open_gate() -> None:
    shut = [(rule, text) for rule, text, _ in MATCHES if rule.split("-")[0] not in may_have(text + REST)]
    assert shut == []


def test_an_address_is_found_at_each_sign_and_a_home_at_each_word() -> None:
    addresses = [
        f"jane{sign}example.{end}" for sign in RULES["email"]["signs"] for end in ("org", "xn--p1ai")
    ]
    words = ["home", "Users", *RULES["home"]["alike"], "Documents and Settings"]
    folders = [f"C:{sign}{word}{sign}jane" for word in words for sign in ("\\", "/", "%2F", "%255c")]
    reduced = [pii.reduce(text + REST) for text in (*addresses, *folders)]
    assert reduced == ["[email]" + REST] * len(addresses) + ["~" + REST] * len(folders)


def test_a_number_with_the_least_of_its_form_is_found() -> None:
    fronts = ("", "a\\n", "\\u000a", "%0A", "\x1b[32m", "é ")
    texts = [front + text for text in LEAST for front in fronts]
    assert [text for text in texts if "[phone]" not in pii.reduce(text + REST)] == []


def test_a_number_is_found_behind_each_word_that_announces_one() -> None:
    tails = (" 91 123 45 67", ': "912.34567"', "\t(12) 23456", " it is 912345-67")
    texts = [cue + tail for cue in CUES for tail in tails]
    assert [text for text in texts if "[phone]" not in pii.reduce(text + REST)] == []


def test_a_text_without_anything_is_not_looked_at() -> None:
    pytest.importorskip("hyperscan")
    text = (
        "2026-09-28 01:03:11,123 GET /home.html 200 1234 10.0.0.1:8080 took 0.123456 s\n"
        "@app.route('/users') @scope/pkg@18.2.0 5f3c1234-5678-9012-3456-789012345678\n"
        "drwxr-xr-x 2 root root 4096 Sep 09 12:33 node_modules"
    )
    assert may_have(text) == []
