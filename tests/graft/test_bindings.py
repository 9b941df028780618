"""Bindings put into a host's file: complete, beside its own, and again after an upgrade."""

from typing import Any

from cfrag.graft import bindings, jsonc

WANTED: dict[str, Any] = {
    "ai": {"binding": "AI", "remote": True},
    "vectorize": [{"binding": "VECTORIZE", "index_name": "docs-768-g1"}],
    "d1_databases": [{"binding": "DB", "database_name": "docs-db", "migrations_dir": "rag_migrations"}],
    "queues": {
        "producers": [{"binding": "RAG_INGEST_QUEUE", "queue": "docs-ingest"}],
        "consumers": [{"queue": "docs-ingest", "max_batch_size": 10}],
    },
    "vars": {"EMBED_DIMS": "768"},
    "secrets": {"required": ["INTERNAL_API_SECRET"]},
}
HOST = """\
{
  "main": "src/entry.py",
  "compatibility_date": "2026-10-01",
  "compatibility_flags": ["python_workers"]
}
"""


def merge(text: str, wanted: Any = WANTED, last: bindings.Merged | None = None) -> bindings.Merged:
    return bindings.merge(text, wanted, last.names if last else {}, last.written if last else {})


def plain(merged: bindings.Merged) -> Any:
    return jsonc.parse(merged.text).plain()


def with_name(value: Any, old: str, new: str) -> Any:
    """`WANTED` with one string for another."""
    if isinstance(value, dict):
        return {key: with_name(each, old, new) for key, each in value.items()}
    if isinstance(value, list):
        return [with_name(each, old, new) for each in value]
    return new if value == old else value


def test_a_host_without_bindings_gets_all_of_them() -> None:
    merged = merge(HOST)
    assert plain(merged) == jsonc.parse(HOST).plain() | WANTED
    assert merged.names == {}
    assert merged.remarks == []


def test_a_second_time_nothing_changes() -> None:
    once = merge(HOST)
    assert merge(once.text, last=once) == once


def test_what_the_host_calls_by_our_name_stays_and_ours_gets_another() -> None:
    host = HOST.replace("{\n", '{\n  "d1_databases": [{"binding": "DB", "database_name": "shop"}],\n', 1)
    merged = merge(host)
    assert [each["binding"] for each in plain(merged)["d1_databases"]] == ["DB", "RAG_DB"]
    assert plain(merged)["d1_databases"][0]["database_name"] == "shop"
    assert merged.names == {"DB": "RAG_DB"}
    assert merge(merged.text, last=merged) == merged


def test_a_variable_of_the_hosts_stays_and_ours_gets_another_name() -> None:
    merged = merge(HOST.replace("{\n", '{\n  "vars": {"EMBED_DIMS": "12"},\n', 1))
    assert plain(merged)["vars"] == {"EMBED_DIMS": "12", "RAG_EMBED_DIMS": "768"}
    assert merged.names == {"EMBED_DIMS": "RAG_EMBED_DIMS"}


def test_the_hosts_ai_binding_is_shared_as_a_worker_has_one() -> None:
    merged = merge(HOST.replace("{\n", '{\n  "ai": {"binding": "MODEL"},\n', 1))
    assert plain(merged)["ai"] == {"binding": "MODEL"}
    assert merged.names == {"AI": "MODEL"}


def test_an_id_that_the_host_has_filled_in_stays_through_an_upgrade() -> None:
    once = merge(HOST)
    with_id = once.text.replace('"docs-db"', '"docs-db", "database_id": "0b5c"')
    upgraded = merge(with_id, with_name(WANTED, "768", "1024"), once)
    assert plain(upgraded)["d1_databases"][0]["database_id"] == "0b5c"
    assert plain(upgraded)["vars"] == {"EMBED_DIMS": "1024"}


def test_our_own_bindings_follow_the_config() -> None:
    once = merge(HOST)
    upgraded = merge(once.text, with_name(WANTED, "docs-768-g1", "docs-1024-g2"), once)
    assert plain(upgraded)["vectorize"] == [{"binding": "VECTORIZE", "index_name": "docs-1024-g2"}]
    assert upgraded.names == {}


def test_settings_that_are_the_hosts_own_are_only_remarked_on() -> None:
    host = '{\n  "compatibility_date": "2025-01-01",\n  "env": {"prod": {}}\n}\n'
    merged = merge(host)
    assert plain(merged)["compatibility_date"] == "2025-01-01"
    remarks = "\n".join(merged.remarks)
    assert '"python_workers"' in remarks
    assert "2026-09-08 or later" in remarks
    assert "env.prod" in remarks
