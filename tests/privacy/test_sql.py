"""Secrets in what SQL inserts: by the name of their column, in every row."""

from __future__ import annotations

import pytest

from sessionpipe.privacy.secrets import redact
from tests.privacy.recipes import generated

ONE, TWO = generated(12), generated(14)


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO users (id, password) VALUES (1, '{}'), (2, '{}');",
        "insert into `users` (`password`, `n`)\n  values ('{}', 1),\n         ('{}', NULL)",
        "REPLACE INTO app.users (n, api_token) VALUES (now(), N'{}'), (concat('a', 'b'), E'{}')",
        "INSERT INTO users (name, password) VALUES ('it''s (one), two', '{}'), ('a\\'b', '{}');",
        "INSERT INTO users (password, old_password) VALUES ('{}', '{}')",
    ],
)
def test_every_row_is_read(statement: str) -> None:
    assert redact(statement.format(ONE, TWO)) == statement.format("[redacted]", "[redacted]")


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO users (id, note) VALUES (1, 'release-2026-11')",
        "INSERT INTO users (name, password) VALUES ($1, $2)",
        "INSERT INTO users (name, password) VALUES ('ada', '$2b$12$" + "a1" * 20 + "')",
        "INSERT INTO users (name, password) VALUES ('ada', ?), ('bob', :password), ('eve', '%s')",
        "INSERT INTO users (name, password) SELECT name, 'a-1' FROM old",
        "INSERT INTO users (name, password) VALUES ('ada', 'x",
    ],
)
def test_what_no_value_is_stays(statement: str) -> None:
    assert redact(statement) is statement


def test_a_row_that_has_more_values_than_columns_is_the_last() -> None:
    statement = f"INSERT INTO users (password) VALUES ('{ONE}', 'x-1'), ('y-2')"
    assert redact(statement) == "INSERT INTO users (password) VALUES ('[redacted]', 'x-1'), ('y-2')"
