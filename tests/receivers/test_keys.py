"""The token and what is made of it."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from sessionpipe.receiver.keys import Keys, token_in

TOKEN = "tok" + "Zq7" * 8


def test_a_token_is_made_once_and_for_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "token"
    token, made = token_in(path)
    assert made and len(token) >= 40
    assert token_in(path) == (token, False)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600 and stat.S_IMODE(path.parent.stat().st_mode) == 0o700


@pytest.mark.parametrize("text", ["", "short", "with a space in it, long", "q" * 20 + '"'])
def test_what_is_no_token_is_not_taken_for_one(text: str, tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text(text)
    path.chmod(0o600)
    with pytest.raises(ValueError, match="no token"):
        token_in(path)


def test_one_that_others_can_read_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text(TOKEN)
    path.chmod(0o640)
    with pytest.raises(ValueError, match="chmod 600"):
        token_in(path)


def test_a_link_in_its_place_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_text(TOKEN)
    (tmp_path / "token").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError):
        token_in(tmp_path / "token")


def test_each_key_opens_one_thing() -> None:
    keys = Keys(TOKEN)
    made = {TOKEN, keys.link, keys.cookie, keys.form("forget a"), keys.form("forget b")}
    assert len(made) == 5
    assert [said for said in made if keys.is_token(said)] == [TOKEN]
    assert [said for said in made if keys.is_link(said)] == [keys.link]
    assert [said for said in made if keys.is_cookie(said)] == [keys.cookie]
    assert [said for said in made if keys.is_form(said, "forget a")] == [keys.form("forget a")]
    assert not keys.is_token("") and not keys.is_token("\ud800") and not keys.is_cookie("é")


def test_another_token_opens_nothing_of_the_old() -> None:
    old, new = Keys(TOKEN), Keys(TOKEN + "x")
    assert not new.is_link(old.link) and not new.is_cookie(old.cookie)
