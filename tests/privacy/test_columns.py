"""Secrets below the head of a column: in tables with borders, with blanks, and in CSV."""

from __future__ import annotations

import pytest

from sessionpipe.privacy.secrets import redact
from tests.privacy.recipes import generated


def test_every_row_below_a_head_goes() -> None:
    text = "| user | password |\n|---|---|\n| ada | {} |\n| bob | {} |\n"
    one, two = generated(12), generated(14)
    assert redact(text.format(one, two)) == text.format("[redacted]", "[redacted]")


@pytest.mark.parametrize(
    "table",
    [
        "id,user,password\n1,ada,{}\n2,bob,{}\n",
        "id,password,role\r\n1,{},dev\r\n2,{},ops\r\n",
        "user;api token\nada;{}\nbob;{}\n",
        "user\tsecret\tnote\nada\t{}\t\nbob\t{}\tx y\n",
        '"email","api_key"\n"ada@example.org","{}"\n"bob, of all","{}"\n',
    ],
)
def test_every_cell_below_a_head_goes(table: str) -> None:
    one, two = generated(12), generated(14)
    assert redact(table.format(one, two)) == table.format("[redacted]", "[redacted]")


def test_both_columns_of_secrets_go_and_only_theirs() -> None:
    table = "id,token,file,password\n{id},{one},src/a1.py,{two}\n"
    some = {"id": generated(16), "one": generated(20), "two": generated(12)}
    assert redact(table.format(**some)) == table.format(**some | {"one": "[redacted]", "two": "[redacted]"})


def test_a_password_may_be_called_one() -> None:
    text = f"user,password\nada,SomePassword1\nbob,{generated(12)}\n"
    assert redact(text) == "user,password\nada,[redacted]\nbob,[redacted]\n"


def test_a_table_ends_with_the_line_that_has_no_cells() -> None:
    table = f"user,token\nada,{generated(20)}\n\nbuild,{generated(20)}\n"
    head, _, rest = table.partition("\n\n")
    assert redact(table) == f"{redact(head)}\n\n{rest}"


def test_a_word_of_a_lexer_stays() -> None:
    for table in ("token,kind\nidentifierName2,Identifier\n", "| token | kind |\n|---|---|\n| a | Name |\n"):
        assert redact(table) is table


def test_a_head_without_rows_and_one_at_the_text_s_end_are_nothing() -> None:
    for table in ("user,password\n", "user,password", "user,password\n\n", " user | password \n---+---\n"):
        assert redact(table) is table
