"""The end of a replacement: finished or aborted only where no document is missing after it."""

import json
from typing import Any

import pytest

from cfrag.pulumi_env import ROOT
from infra.errors import CfragError
from infra.provider.resources.d1_migrations import statements_of
from infra.provider.values import Values
from tests.provider.support import Direct, LocalCloudflare

SPACE, INDEX = "EmbeddingSpace", "VectorizeIndex"
BASE, LARGE = "@cf/baai/bge-base-en-v1.5", "@cf/baai/bge-large-en-v1.5"
OLD, NEW = f"{BASE}#000000000001", f"{LARGE}#000000000002@g2.5"

# content_hash, embed_model, next_hash, next_model, and whether it is a tombstone.
Row = tuple[str | None, str | None, str | None, str | None, bool]
IN_BOTH: Row = ("h", OLD, "h", NEW, False)
IN_OLD: Row = ("h", OLD, None, None, False)
FAILED: Row = ("h", OLD, None, f"!{NEW}", False)
IN_NEW: Row = (None, None, "h", NEW, False)
DELETED: Row = (None, None, None, None, True)


def wanted(stack: str, *, generation: int = 2, replacing: str | None = None) -> Values:
    dims, model = (1024, LARGE) if generation == 2 else (768, BASE)
    old = {"generation": 1, "model": BASE, "dims": 768, "metric": "cosine", "index": f"{stack}-768-g1"}
    return {
        "owner": f"cfrag:shop/{stack}",
        "database": f"{stack}-db",
        "index": f"{stack}-{dims}-g{generation}",
        "model": model,
        "dims": dims,
        "metric": "cosine",
        "generation": generation,
        **({"replacing": old | {"strategy": replacing}} if replacing else {}),
    }


def under_way(
    cloudflare: LocalCloudflare, stack: str, rows: list[Row], *, cut_over: bool = False, desired: int = 2
) -> str:
    """A stack that is being replaced, with two vectors in each index; the database's id."""
    for dims, generation in ((768, 1), (1024, 2)):
        name, description = f"{stack}-{dims}-g{generation}", f"cfrag:shop/{stack}/g{generation}"
        cloudflare.index(name, dims, description=description, vectors=2)
    database = cloudflare.database(
        f"{stack}-db", *statements_of((ROOT / "migrations/0001_init.sql").read_text())
    )
    old, new = _space(1, BASE, 768, OLD, "main"), _space(2, LARGE, 1024, NEW, "next")
    serving, other = (new, old) if cut_over else (old, new)
    for key, value in (("space", json.dumps(serving | {"other": other})), ("desired_generation", str(desired))):
        cloudflare.sql(database, f"INSERT INTO meta VALUES ('{key}', '{value}')")
    for number, (content, model, following, next_model, deleted) in enumerate(rows):
        values = [f"doc/{number:02}", 1, content, model, following, next_model, 1 if deleted else None]
        columns = "id, seq, content_hash, embed_model, next_hash, next_model, deleted_at"
        quoted = ", ".join("NULL" if each is None else f"'{each}'" for each in values)
        cloudflare.sql(database, f"INSERT INTO documents({columns}) VALUES ({quoted})")
    return database


def _space(generation: int, model: str, dims: int, mark: str, side: str) -> dict[str, Any]:
    fingerprint = mark.split("@g")[0]
    return {
        "generation": generation,
        "model": model,
        "dims": dims,
        "metric": "cosine",
        "fingerprint": fingerprint,
        "mark": mark,
        "side": side,
        "reindexing": False,
        "since": 0,
        "began": 5,
    }


async def finish(direct: Direct, stack: str, strategy: str = "reindex") -> dict[str, str]:
    return await direct.check(SPACE, wanted(stack), wanted(stack, replacing=strategy))


async def abort(direct: Direct, stack: str, strategy: str = "reindex") -> dict[str, str]:
    return await direct.check(SPACE, wanted(stack, generation=1), wanted(stack, replacing=strategy))


async def test_a_finish_is_refused_with_the_count_of_what_is_missing(
    direct: Direct, cloudflare: LocalCloudflare
) -> None:
    under_way(cloudflare, "early", [IN_BOTH, IN_OLD, IN_OLD, DELETED])
    reason = (await finish(direct, "early"))["replacing"]
    assert "2 of 3 documents are missing in generation 2" in reason
    assert "2 vectors live in early-768-g1" in reason
    assert f'put cf-rag:rag.replacing: {{generation: 1, model: "{BASE}", strategy: reindex}} back' in reason
    assert f'abort with cf-rag:rag.embedding: {{model: "{BASE}", generation: 1}}' in reason


async def test_a_finish_lists_what_the_new_model_never_takes_and_how_to_let_it_go(
    direct: Direct, cloudflare: LocalCloudflare
) -> None:
    under_way(cloudflare, "never", [IN_BOTH, *[FAILED] * 12])
    reason = (await finish(direct, "never"))["replacing"]
    assert f"12 documents can't be embedded by {LARGE}: doc/01, doc/02" in reason
    assert "doc/10 and 2 more" in reason
    assert "cfrag dims finish --drop-failed" in reason


async def test_a_finish_waits_until_the_new_space_answers(direct: Direct, cloudflare: LocalCloudflare) -> None:
    under_way(cloudflare, "waits", [IN_BOTH])
    assert "still answered from generation 1" in (await finish(direct, "waits"))["replacing"]


async def test_a_complete_replacement_is_finished_with_a_word(
    direct: Direct, cloudflare: LocalCloudflare
) -> None:
    under_way(cloudflare, "done", [IN_BOTH, IN_NEW, DELETED], cut_over=True)
    assert await finish(direct, "done") == {}
    assert "index done-768-g1 of generation 1 will be deleted" in direct.messages.lines[-1]


async def test_an_abort_before_the_cut_over_is_granted(direct: Direct, cloudflare: LocalCloudflare) -> None:
    under_way(cloudflare, "back", [IN_BOTH, IN_OLD, FAILED])
    assert await abort(direct, "back") == {}
    assert "index back-1024-g2 of generation 2 will be deleted" in direct.messages.lines[-1]


async def test_an_abort_after_the_cut_over_wants_every_document_in_the_old_space(
    direct: Direct, cloudflare: LocalCloudflare
) -> None:
    database = under_way(cloudflare, "late", [IN_BOTH, IN_NEW], cut_over=True)
    reason = (await abort(direct, "late"))["replacing"]
    assert "1 of 2 documents is missing in generation 1" in reason
    assert f'finish with cf-rag:rag.embedding: {{model: "{LARGE}", generation: 2}}' in reason
    cloudflare.sql(database, f"UPDATE documents SET content_hash = 'h', embed_model = '{OLD}'")
    assert await abort(direct, "late") == {}


async def test_what_was_discarded_does_not_come_back(direct: Direct, cloudflare: LocalCloudflare) -> None:
    database = under_way(cloudflare, "gone", [])
    assert await abort(direct, "gone", "discard") == {}
    only = json.dumps(_space(2, LARGE, 1024, NEW, "next"))
    cloudflare.sql(database, f"UPDATE meta SET value = '{only}' WHERE key = 'space'")
    assert "generation 1 has no documents any more" in (await abort(direct, "gone", "discard"))["replacing"]
    assert await finish(direct, "gone", "discard") == {}


async def test_a_start_in_an_index_that_an_abort_has_left_is_refused(
    direct: Direct, cloudflare: LocalCloudflare
) -> None:
    under_way(cloudflare, "again", [IN_BOTH], desired=1)
    refused = await direct.check(SPACE, wanted("again", replacing="reindex"), wanted("again", generation=1))
    assert "index again-1024-g2 is left of a replacement that was aborted" in refused["generation"]
    assert f'`pulumi up` with cf-rag:rag.embedding: {{model: "{BASE}", generation: 1}}' in refused["generation"]


async def test_a_model_of_equal_dims_is_granted_with_the_count_of_documents(
    direct: Direct, cloudflare: LocalCloudflare
) -> None:
    under_way(cloudflare, "drift", [IN_OLD, IN_OLD, DELETED])
    old = wanted("drift", generation=1)
    assert await direct.check(SPACE, old | {"model": "@cf/google/embeddinggemma-300m"}, old) == {}
    assert "2 documents will be embedded again, in place" in direct.messages.lines[-1]


def index(stack: str, dims: int, generation: int) -> Values:
    return {
        "name": f"{stack}-{dims}-g{generation}",
        "dims": dims,
        "metric": "cosine",
        "generation": generation,
        "owner": f"cfrag:shop/{stack}",
        "database": f"{stack}-db",
        "deletion": "when-replaced",
    }


@pytest.mark.parametrize(
    ("stack", "rows", "cut_over", "desired", "reason"),
    [
        ("held", [IN_BOTH], False, 2, "the stack's documents live in generation 1"),
        ("writing", [IN_BOTH, IN_OLD], True, 2, "1 of 2 documents is missing in generation 2"),
    ],
    ids=["before the cut-over", "a late write"],
)
async def test_an_old_index_that_is_needed_stays_and_says_why(
    direct: Direct,
    cloudflare: LocalCloudflare,
    monkeypatch: pytest.MonkeyPatch,
    stack: str,
    rows: list[Row],
    cut_over: bool,
    desired: int,
    reason: str,
) -> None:
    monkeypatch.setattr("infra.provider.resources.vectorize_index.TAKE_OVER_SECONDS", 0.1)
    under_way(cloudflare, stack, rows, cut_over=cut_over, desired=desired)
    old = index(stack, 768, 1)
    with pytest.raises(CfragError, match=reason) as refused:
        await direct.delete(INDEX, old["name"], old)
    assert f"CFRAG_DELETE_INDEX={stack}-768-g1" in str(refused.value)
    monkeypatch.setenv("CFRAG_DELETE_INDEX", old["name"])
    await direct.delete(INDEX, old["name"], old)
    assert await direct.read(INDEX, old["name"]) is None


async def test_the_old_index_goes_after_the_cut_over(direct: Direct, cloudflare: LocalCloudflare) -> None:
    under_way(cloudflare, "over", [IN_BOTH, IN_NEW], cut_over=True)
    old = index("over", 768, 1)
    await direct.delete(INDEX, old["name"], old)
    assert await direct.read(INDEX, old["name"]) is None


async def test_the_new_index_goes_when_the_data_has_gone_back(
    direct: Direct, cloudflare: LocalCloudflare
) -> None:
    under_way(cloudflare, "aborted", [IN_BOTH, IN_OLD], desired=1)
    new = index("aborted", 1024, 2)
    await direct.delete(INDEX, new["name"], new)
    assert await direct.read(INDEX, new["name"]) is None
