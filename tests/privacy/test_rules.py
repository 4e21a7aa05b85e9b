"""The rulesets as data: every example of every rule holds, and a changed rule has a new revision."""

from __future__ import annotations

import hashlib
import json
import re

import pytest

from sessionpipe.privacy import expressions, secrets, shapes, sought
from sessionpipe.privacy.rules import load
from sessionpipe.privacy.secrets import redact
from tests.privacy.recipes import expand, parts

SECRETS = load("secrets@1")
SHAPES = SECRETS["vendor"] + SECRETS["rule"]

# What the rules of each revision were. A stored event carries the revision that redacted it, and is
# redacted again when a later one is in force: rules that changed without a new one would reach nothing.
REVISIONS = {
    "secrets@1": {1: "34e2aba61b237ec2", 2: "04636c4859ef34de", 3: "cdb087918c6000f0"},
}


# Thousands of examples, each of which takes next to no time: one test tries them all, and names those that fail.


def test_every_rule_finds_its_secret() -> None:
    failed = []
    for rule in SHAPES:
        for example in rule["match"]:
            # A token is one secret: its beginning goes with it.
            whole = isinstance(example, str)
            text, becomes = (
                (f"a {expand(example)} b", "a [redacted] b") if whole else tuple(map(expand, example))
            )
            if (got := redact(text)) != becomes:
                failed.append((rule["id"], text, got))
    assert failed == []


def test_what_looks_alike_stays() -> None:
    kept = [(rule["id"], expand(example)) for rule in SHAPES for example in rule.get("keep", ())]
    assert len(kept) > 100
    assert [(rule, text, redact(text)) for rule, text in kept if redact(text) is not text] == []


AROUND = ("'{}'", '"{}"', "({}).", "x={}&y", "a\\n{}\\nb", "\x1b[32m{}\x1b[0m", "%20{}", "<{}>")


def test_a_token_is_found_between_any_signs() -> None:
    left = []
    for rule in SECRETS["vendor"]:
        example = rule["match"][0] if isinstance(rule["match"][0], str) else rule["match"][0][0]
        token, made = expand(example), max(parts(example), key=len)
        left += [(rule["id"], around) for around in AROUND if made in redact(around.format(token))]
    assert left == []


def test_every_rule_has_an_example() -> None:
    assert [rule["id"] for rule in SHAPES if not rule.get("match")] == []


def test_ids_are_unique() -> None:
    ids = [rule["id"] for rule in SHAPES]
    assert len(ids) == len(set(ids))


def test_keywords_are_in_lower_case() -> None:
    assert [word for rule in SHAPES for word in rule.get("keywords", ()) if word != word.lower()] == []


def test_what_a_sign_of_every_text_announces_stands_beside_a_long_run() -> None:
    # Where there is none, it is not looked for.
    for rule in SHAPES:
        signs = [word for word in rule.get("keywords", ()) if word in shapes.SIGNS]
        for example in rule["match"] if signs else ():
            text = expand(example if isinstance(example, str) else example[0])
            places = expressions.signs(shapes.RUNS)(text.encode())
            assert any(text[at] in signs for at in places), rule["id"]


def test_a_start_that_says_nothing_else_begins_characters_of_a_token() -> None:
    # Without hyperscan such starts are looked for in long runs of these characters alone.
    others = {"anywhere", "before"}
    for rule in SECRETS["vendor"]:
        if not others & rule.keys():
            for example in rule["match"]:
                text = expand(example if isinstance(example, str) else example[0])
                for start in filter(text.__contains__, rule["starts"]):
                    if re.fullmatch(f"[{sought.TOKEN}]+", start):
                        token = text[text.find(start) :]
                        assert re.match(f"[{sought.TOKEN}]{{{sought.SHORTEST}}}", token), rule["id"]


def test_no_rule_repeats_without_end_inside_a_repetition() -> None:
    # (a+)+ and its like take exponential time; a bounded or a possessive inner repeat does not.
    nested = re.compile(r"[^\\][+*](?![+?])[^()\[\]]{0,40}\)(?:[*+]|\{\d+,\})")
    patterns = [row.get(key, "") for row in SHAPES for key in ("body", "pattern", "before")]
    patterns += [form["pattern"] for form in load("pii@1")["phone"]["form"]]
    assert [pattern for pattern in patterns if nested.search(pattern)] == []


def test_the_library_knows_which_revision_it_runs() -> None:
    assert SECRETS["revision"] == secrets.RULESET_VERSION
    assert SECRETS["name"] == secrets.RULESET


def test_no_example_is_shaped_like_a_credential() -> None:
    for rule in SHAPES:
        for example in (*rule["match"], *rule.get("keep", ())):
            for text in [example] if isinstance(example, str) else example:
                assert re.search(r"(?=[A-Za-z]*[0-9])[A-Za-z0-9+/]{24,}", text) is None, text


def digest(name: str) -> str:
    """What a ruleset does, in 16 digits: its examples and its comments do nothing."""
    rules = {key: value for key, value in load(name).items() if key != "revision"}
    for table in ("vendor", "rule"):
        rules[table] = [
            {key: value for key, value in rule.items() if key not in ("match", "keep")}
            for rule in rules.get(table, ())
        ]
    return hashlib.sha256(json.dumps(rules, sort_keys=True).encode()).hexdigest()[:16]


@pytest.mark.parametrize("name", REVISIONS)
def test_a_changed_rule_has_a_new_revision(name: str) -> None:
    revision, is_now = load(name)["revision"], digest(name)
    hint = f"the rules changed: raise `revision` in {name}.toml (and RULESET_VERSION), and add {is_now} here"
    assert REVISIONS[name].get(revision) == is_now, hint
    assert revision == max(REVISIONS[name])
