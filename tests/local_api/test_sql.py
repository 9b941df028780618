"""Where one SQL statement ends."""

import pytest

from local.api.sql import statements


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("", 0),
        (";;  ;", 0),
        ("-- only a comment", 0),
        ("/* only; a comment */", 0),
        ("select 1", 1),
        ("select 1;", 1),
        ("select ';' ; select \";\"; select [;]", 3),
        ("select 1 -- ; no end\n; select 2", 2),
        ("select 'it''s; fine'; select 2", 2),
        ("create trigger x after insert on t begin select 1; select 2; end; select 3", 2),
        ("select 'never closed; select 2", 1),
    ],
)
def test_a_text_is_cut_where_sqlite_ends_a_statement(text: str, count: int) -> None:
    assert len(statements(text)) == count


def test_nothing_of_a_statement_is_lost() -> None:
    text = "insert into t values ('a;b'); create trigger x after insert on t begin select 1; end;"
    assert " ".join(statements(text)) == text
