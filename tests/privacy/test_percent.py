"""Tokens whose signs a URL encodes are found, and nothing else of the URL goes with them."""

from __future__ import annotations

from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessionpipe.privacy import percent
from sessionpipe.privacy.secrets import redact, redact_value
from tests.privacy.recipes import expand

TOKENS = ["1//0<60>", "AAAA<7>:APA91b<134>", "v^1.1#i^1#<60>", "whsec_<42>="]


@pytest.mark.parametrize("token", TOKENS)
@pytest.mark.parametrize("encode", [quote, lambda text, safe: quote(quote(text, safe=safe), safe=safe)])
def test_a_token_goes_with_the_whole_of_its_encoded_signs(token: str, encode: object) -> None:
    assert callable(encode)
    text = f"https://example.com/a?x={encode(expand(token), safe='')}&y=1"
    assert redact(text) == "https://example.com/a?x=[redacted]&y=1"
    assert redact_value({"url": text}) == {"url": "https://example.com/a?x=[redacted]&y=1"}


def test_what_else_is_encoded_ends_the_token() -> None:
    text = f"q=a%20{quote(expand('1//0<60>'), safe='')}%26next%3Dpage"
    assert redact(text) == "q=a%20[redacted]%26next%3Dpage"


@pytest.mark.parametrize(
    "text",
    [
        "https://example.com/cb?u=https%3A%2F%2Fexample.com%2Fa%2Fb%3Fpage%3D2%26sort%3Dname",
        "100%% of %s at %3d, %2f each, and %3A%2F%2F alone",
        "%E4%BD%A0%E5%A5%BD%2F%E4%B8%96%E7%95%8C%2Fand%20more%20words%2Fof%20a%20path",
    ],
)
def test_what_holds_no_token_stays(text: str) -> None:
    assert redact(text) is text


@given(
    st.lists(st.sampled_from(["%3A", "%252F", "%20", "%", "%3", "ab12", "x" * 30, " ", "/", "%25"])).map(
        "".join
    )
)
def test_every_place_of_a_view_is_one_of_the_text(text: str) -> None:
    view = percent.View(text)
    for start in range(len(view.text)):
        begin, end = view.place((start, start + 1)) if start + 1 < len(view.text) else (0, 0)
        assert 0 <= begin <= end <= len(text)
