"""Migrations and the tables that they come from."""

import shutil
from pathlib import Path

import pytest
from sqlalchemy import Column, Integer, MetaData, Table, Text, text

from infra.bundle import migrations
from infra.errors import CfragError


def test_the_migrations_make_the_declared_tables() -> None:
    have, want = migrations.applied(migrations.files()), migrations.wanted()
    assert migrations.shape(have) == migrations.shape(want)
    assert migrations.missing(migrations.files()) == []


def test_migrations_are_numbered_without_gaps_and_only_add() -> None:
    paths = migrations.files()
    assert [int(path.name[:4]) for path in paths] == list(range(1, len(paths) + 1))
    for path in paths:
        for statement in path.read_text(encoding="utf-8").split(";\n"):
            first = " ".join(statement.split()[:2])
            assert first in ("", "CREATE TABLE", "CREATE INDEX", "CREATE UNIQUE", "ALTER TABLE")


def _tables(monkeypatch: pytest.MonkeyPatch, *columns: Column[object]) -> None:
    changed = MetaData()
    Table("notes", changed, Column("id", Text, primary_key=True, nullable=False), *columns)
    monkeypatch.setattr(migrations, "METADATA", changed)


def test_a_new_column_becomes_the_next_migration(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    _tables(monkeypatch)
    first = migrations.write_next("init", tmp_path)
    _tables(
        monkeypatch, Column("rank", Integer), Column("kind", Text, nullable=False, server_default=text("'a'"))
    )
    second = migrations.write_next("ranks", tmp_path)
    assert first is not None
    assert second is not None
    assert second.name == "0002_ranks.sql"
    assert second.read_text() == (
        "ALTER TABLE notes ADD COLUMN rank INTEGER;\n"
        "ALTER TABLE notes ADD COLUMN kind TEXT DEFAULT 'a' NOT NULL;\n"
    )
    assert migrations.write_next("nothing", tmp_path) is None


@pytest.mark.parametrize(
    ("columns", "says"),
    [
        ([Column("rank", Text)], "would have to change"),
        ([Column("rank", Integer), Column("must", Text, nullable=False)], "has no default"),
    ],
)
def test_what_old_rows_can_not_follow_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, columns: list[Column[object]], says: str
) -> None:
    _tables(monkeypatch, Column("rank", Integer))
    migrations.write_next("init", tmp_path)
    _tables(monkeypatch, *columns)
    with pytest.raises(CfragError, match=says):
        migrations.write_next("change", tmp_path)


def test_a_table_that_is_gone_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    shutil.copytree(migrations.FOLDER, tmp_path, dirs_exist_ok=True)
    _tables(monkeypatch)
    with pytest.raises(CfragError, match="only add"):
        migrations.write_next("change", tmp_path)
