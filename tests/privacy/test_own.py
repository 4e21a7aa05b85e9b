"""People's own rules: what may be written, what is refused and why, and what the accepted ones do."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessionpipe.privacy.own import Own, expand, parse
from tests.privacy.recipes import generated

ACME = """
id = "acme@1"

[[rule]]
id = "staff-token"
pattern = 'acme_[A-Za-z0-9]{24,}'
match = ["use acme_<32> now"]
keep = ["acme_short"]

[[rule]]
id = "customers"
words = ["Globex", "Initech GmbH", "Müller", "日本"]

[[rule]]
id = "account"
pattern = '(?i)account no\\.? (?P<number>\\d{6,12})'
"""


def rules(text: str = ACME) -> Own:
    parsed = parse("acme.toml", text)
    assert parsed.problems == ()
    assert parsed.ruleset is not None
    return Own([parsed.ruleset])


def refusal(*lines: str, head: str = 'id = "acme@1"') -> str:
    """Why the one rule of a file is refused."""
    parsed = parse("acme.toml", "\n".join((head, "[[rule]]", 'id = "r"', *lines)))
    assert parsed.ruleset is None
    (problem,) = parsed.problems
    return str(problem)


TOKEN = "acme_" + generated(32)


@pytest.mark.parametrize(
    ("text", "becomes"),
    [
        (f"export T={TOKEN};", "export T=[redacted];"),
        ("for Globex.", "for [redacted]."),
        ("GLOBEX_PROD and globex-db", "[redacted]_PROD and [redacted]-db"),
        ("initech\n  gmbh", "[redacted]"),
        ("x\\nGlobex", "x\\n[redacted]"),
        ("herr MÜLLER kommt", "herr [redacted] kommt"),
        ("会社 日本 です", "会社 [redacted] です"),
        ("Account no 123456789, ok", "Account no [redacted], ok"),
    ],
)
def test_what_a_rule_finds_goes(text: str, becomes: str) -> None:
    assert rules().redact(text) == becomes


@pytest.mark.parametrize("text", ["acme_short", "globexian", "Initech", "Müllerin", "account number", ""])
def test_what_it_does_not_find_stays(text: str) -> None:
    assert rules().redact(text) is text


def test_a_word_may_be_looked_for_inside_others() -> None:
    own = rules('id = "acme@1"\n[[rule]]\nid = "r"\nwords = ["globex"]\ninside = true')
    assert own.redact("GlobexClient(myglobex)") == "[redacted]Client(my[redacted])"


def test_values_are_looked_at_with_their_keys_and_a_clean_one_is_the_same_object() -> None:
    own = rules()
    assert own.redact_value({"Globex": ["a globex b", 1]}) == {"[redacted]": ["a [redacted] b", 1]}
    clean = {"a": ["b", {"c": None}]}
    assert own.redact_value(clean) is clean


def test_a_mark_is_never_cut() -> None:
    own = rules('id = "acme@1"\n[[rule]]\nid = "r"\npattern = \'name: (?P<v>.{1,4})\'')
    assert own.redact("name: [redacted] x") == "name: [redacted] x"
    assert own.redact("name: a [redacted]") == "name: [redacted]"


PIECES = [
    TOKEN,
    "Globex",
    "initech gmbh",
    "Müller",
    "account no 1234567",
    "[redacted]",
    "[",
    " ",
    "\n",
    "_",
    "é",
]


@given(st.lists(st.sampled_from(PIECES) | st.text(max_size=4), max_size=6).map("".join))
def test_a_second_time_changes_nothing_and_nothing_grows_but_by_marks(text: str) -> None:
    own = rules()
    once = own.redact(text)
    assert own.redact(once) == once
    assert len(once) <= len(text) + len("[redacted]") * once.count("[redacted]")


def test_other_rules_have_another_digest() -> None:
    other = ACME.replace("{24,}", "{25,}")
    assert rules().digest == rules().digest != rules(other).digest
    assert 0 < rules().digest < 1 << 40


# --- what is refused -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("id = ", "it is no TOML"),
        ("[[rule]]\nid = 'r'\nwords = ['globex']", "it needs an id"),
        ("id = 'acme'\n[[rule]]\nid = 'r'\nwords = ['globex']", "it needs an id"),
        ("id = 'secrets@1'\n[[rule]]\nid = 'r'\nwords = ['globex']", "not yours to write"),
        ("id = 'secrets@2'\n[[rule]]\nid = 'r'\nwords = ['globex']", "not yours to write"),
        ("id = 'pii@1'\n[[rule]]\nid = 'r'\nwords = ['globex']", "not yours to write"),
        ("id = 'acme@1'", "it has no [[rule]]"),
        (
            "id = 'acme@1'\ndisable = ['github']\n[[rule]]\nid = 'r'\nwords = ['globex']",
            "nothing reads 'disable'",
        ),
    ],
)
def test_a_file_that_is_no_ruleset_is_refused_whole(text: str, reason: str) -> None:
    parsed = parse("acme.toml", text)
    assert parsed.ruleset is None
    (problem,) = parsed.problems
    assert (problem.file, problem.rule) == ("acme.toml", "")
    assert reason in problem.reason


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        (["pattern = '['"], "is no regular expression"),
        (["pattern = '(a+)+b'"], "without end"),
        (["pattern = '(?:ab|a)*c'"], "without end"),
        (["pattern = 'acme.{0,100}b.{0,100}c'"], "may take too long"),
        (["pattern = 'acme.*?z'"], "without end"),
        ([r"pattern = '(acme\d)\1'"], "refers back to a group"),
        (["pattern = '(?:ab)++'"], "possessive repeat on a group"),
        (["pattern = '.*'"], "matches where there is nothing"),
        (["pattern = '(?=acme)'"], "matches where there is nothing"),
        (["pattern = '.+'"], "it takes"),
        ([r"pattern = '[a-z ]{3,}'"], "it takes"),
        ([r"pattern = '\S{4}'"], "it takes"),
        (["words = ['redacted']"], "stands for something that was taken already"),
        (["words = ['e']"], "too short"),
        (["words = []"], "it has no words"),
        (["words = 'globex'"], "is a list"),
        (["words = ['globex']", "pattern = 'acme'"], "either a pattern or words"),
        ([], "either a pattern or words"),
        (["words = ['globex']", "colour = 'red'"], "nothing reads 'colour'"),
        (["words = ['globex']", "match = ['other']"], "example 1 is not found"),
        (["words = ['globex']", "match = [['a globex', 'b']]"], "example 1 becomes"),
        (["words = ['globex']", "keep = ['Globex']"], "example 1 is changed"),
        (["pattern = 'acme_[a-z]{4}'", "keywords = ['a']"], "two characters of ASCII"),
    ],
)
def test_a_rule_that_cannot_be_used_is_refused_with_its_reason(lines: list[str], reason: str) -> None:
    assert refusal(*lines).startswith("acme.toml: rule r: ")
    assert reason in refusal(*lines)


def test_a_bad_rule_stops_no_other() -> None:
    parsed = parse("acme.toml", ACME + "\n[[rule]]\nid = 'bad'\npattern = '['\n")
    assert parsed.ruleset is not None
    assert [rule.id for rule in parsed.ruleset.rules] == ["staff-token", "customers", "account"]
    assert [problem.rule for problem in parsed.problems] == ["bad"]


def test_an_id_is_of_one_rule() -> None:
    parsed = parse("acme.toml", ACME + "\n[[rule]]\nid = 'account'\nwords = ['globex']\n")
    assert [problem.reason for problem in parsed.problems] == ["its id is another rule's already"]


@given(st.dictionaries(st.sampled_from(["id", "rule"]), st.integers() | st.text(max_size=5), max_size=2))
def test_no_file_makes_reading_it_fail(table: dict[str, Any]) -> None:
    text = "\n".join(f"{key} = {value!r}" for key, value in table.items())
    assert parse("x.toml", text).ruleset is None


def test_examples_are_made_as_in_our_own_rulesets() -> None:
    assert expand("acme_<32>") == TOKEN
    assert expand("<4:num> <no>") == generated(4, "0123456789") + " <no>"
