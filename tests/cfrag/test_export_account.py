"""Exports that read D1 and Vectorize themselves: the same file, and the right space, without a Worker."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cfrag.backup.account import AccountSource
from cfrag.stack_account import StackAccount
from infra.config import RagConfig
from tests.deployed import Deployed
from tests.local_api.server import ROOT, LocalServer

RAG = {"name": "docs", "metadata": {"words": {"type": "number"}}}
MARK = "@cf/baai/bge-base-en-v1.5#1@g2.5"
SPACE: dict[str, Any] = {
    "generation": 2,
    "model": "@cf/baai/bge-base-en-v1.5",
    "dims": 768,
    "metric": "cosine",
    "fingerprint": "@cf/baai/bge-base-en-v1.5#1",
    "mark": MARK,
    "side": "next",
    "since": 0,
    "reindexing": False,
    "profile": ["@cf/baai/bge-base-en-v1.5", 768, "cls", 512, 100, None, "text", "text", None],
}
INSERT = """INSERT INTO documents
(id, seq, active, content_hash, embed_model, next_hash, next_model, deleted_at)
VALUES (?1, 1, 1, ?2, 'older', NULLIF(?3, ''), ?4, NULLIF(?5, ''))"""


def test_it_is_byte_for_byte_what_the_service_gives(deployed: Deployed, tmp_path: Path) -> None:
    service, account = tmp_path / "service.jsonl", tmp_path / "account.jsonl"
    done = deployed.cfrag("export", str(service), "--vectors")
    assert done.returncode == 0, done.stderr
    alone = {"CFRAG_URL": "", "CFRAG_KEY": "", "CFRAG_SECRET": ""}
    done = deployed.cfrag("export", str(account), "--vectors", "--stack", "local", **alone)
    assert done.returncode == 0, done.stderr
    first, second = service.read_bytes().splitlines(), account.read_bytes().splitlines()
    assert len(first) > 400
    assert first[1:-1] == second[1:-1]
    headers = [json.loads(lines[0]) for lines in (first, second)]
    assert headers[1]["service"].startswith("cloudflare:")
    apart = ("service", "exportedAt")
    assert [{key: each[key] for key in each if key not in apart} for each in headers[:1]] == [
        {key: each[key] for key in each if key not in apart} for each in headers[1:]
    ]


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalServer]:
    """An account of its own, with the environment of somebody who works on it."""
    running = LocalServer(tmp_path / "home").start()
    running.control("PUT", "/settings", {"vectorizeDelaySeconds": 0})
    (running.home / "Pulumi.local.yaml").write_text(json.dumps({"config": {"cf-rag:rag": RAG}}))
    monkeypatch.setenv("CFRAG_HOME", str(running.home))
    monkeypatch.setenv("CLOUDFLARE_BASE_URL", f"{running.url}/client/v4")
    monkeypatch.setenv("CLOUDFLARE_API_TOKEN", running.info["token"])
    monkeypatch.setenv("CLOUDFLARE_ACCOUNT_ID", running.account)
    yield running
    running.stop()


def fill(server: LocalServer) -> None:
    """A replacement that has cut over: generation 2 answers, and its state is in the other columns."""
    client, account, names = server.client(), server.account, RagConfig.from_pulumi(RAG).names("local")
    database = client.d1.database.create(account_id=account, name=names.db)
    assert database.uuid

    def run(sql: str, *params: str) -> None:
        client.d1.database.query(str(database.uuid), account_id=account, sql=sql, params=list(params))

    for migration in sorted((ROOT / "migrations").glob("*.sql")):
        run(migration.read_text())
    run("INSERT INTO meta (key, value) VALUES ('space', ?1)", json.dumps(SPACE))
    run(INSERT, "a", "v1:older", "v1:a", MARK, "")
    run(INSERT, "b", "v1:b", "v1:b", "another model", "")
    run(INSERT, "c", "v1:c", "", "", "")
    run(INSERT, "d", "v1:d", "v1:d", MARK, "1")
    index = names.index(2, 768)
    client.vectorize.indexes.create(
        account_id=account, name=index, config={"dimensions": 768, "metric": "cosine"}
    )
    vectors = [
        {"id": name, "values": [at + 0.5] + [0.0] * 767, "metadata": metadata}
        for at, (name, metadata) in enumerate(
            {
                "a": {"rawBody": "A", "tags": "x", "tags_1": "y", "words": 2.0, "contentHash": "v1:a"},
                "b": {"rawBody": "B", "title": "T", "contentHash": "v1:b"},
                "c": {"rawBody": "C", "contentHash": "v1:c"},
            }.items()
        )
    ]
    lines = "".join(json.dumps(each) + "\n" for each in vectors)
    answer = server.api(
        "POST",
        f"/vectorize/v2/indexes/{index}/upsert",
        content=lines.encode(),
        headers={"Content-Type": "application/x-ndjson"},
    )
    assert answer.is_success, answer.text


def test_during_a_replacement_it_reads_the_space_that_answers(server: LocalServer) -> None:
    fill(server)
    with StackAccount("local") as account:
        source = AccountSource(account)
        space, documents = source.space(), source.documents(None, content=True)
        assert (space["generation"], space["pooling"], space["settled"]) == (2, "cls", True)
        assert documents == [
            {
                "id": "a",
                "active": True,
                "contentHash": "v1:a",
                "title": None,
                "body": "A",
                "tags": ["x", "y"],
                "metadata": {"words": 2},
                "state": "indexed",
            },
            {
                "id": "b",
                "active": True,
                "contentHash": "v1:b",
                "title": "T",
                "body": "B",
                "tags": [],
                "metadata": {},
                "state": "indexed",
            },
            {"id": "c", "active": True, "contentHash": None, "state": "indexing"},
        ]
        assert type(documents[0]["metadata"]["words"]) is int
        assert source.document("b") == documents[1]
        assert source.document("d") is None
        assert [each["id"] for each in source.documents("a", content=False)] == ["b", "c"]
        assert source.stats() == {"documents": {"total": 3}}
        source.documents(None, content=True)
        (vector,) = source.vectors(["a", "b", "c"])["vectors"]
        assert (vector["id"], vector["contentHash"], vector["values"][0]) == ("a", "v1:a", 0.5)
