"""The end of a replacement: finished or aborted only where no document is missing after it."""

import json
import re

import pytest

from infra.errors import CfragError
from infra.provider.values import Values
from tests.provider.replacing import (
    BASE,
    DELETED,
    FAILED,
    IN_BOTH,
    IN_NEW,
    IN_OLD,
    LARGE,
    NEW,
    OLD,
    Row,
    space,
    under_way,
    wanted,
)
from tests.provider.support import Direct, LocalCloudflare

SPACE, INDEX = "EmbeddingSpace", "VectorizeIndex"


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
    assert f"12 of 13 documents are missing in generation 2; {LARGE} can't embed doc/01, doc/02" in reason
    assert "doc/10 and 2 more" in reason
    assert "cfrag dims finish --drop-failed" in reason


async def test_a_finish_waits_until_the_new_space_answers(
    direct: Direct, cloudflare: LocalCloudflare
) -> None:
    under_way(cloudflare, "waits", [IN_BOTH])
    assert "still answered from generation 1" in (await finish(direct, "waits"))["replacing"]


async def test_a_finish_waits_until_no_isolate_searches_the_old_space(
    direct: Direct, cloudflare: LocalCloudflare
) -> None:
    database = under_way(cloudflare, "fresh", [IN_BOTH, IN_NEW], cut_over=True)
    set_clock(cloudflare, database, "$.other.began", seconds_ago=20)
    reason = (await finish(direct, "fresh"))["replacing"]
    assert "an isolate of the Worker may still search generation 1" in reason
    found = re.search(r"finish in (\d+) s", reason)
    assert found
    assert 20 < int(found[1]) <= 40
    set_clock(cloudflare, database, "$.other.began", seconds_ago=61)
    assert await finish(direct, "fresh") == {}


def set_clock(cloudflare: LocalCloudflare, database: str, path: str, *, seconds_ago: int) -> None:
    now = f"CAST(unixepoch('subsec') * 1000 AS INTEGER) - {seconds_ago * 1000}"
    sql = f"UPDATE meta SET value = json_set(value, '{path}', {now}) WHERE key = 'space'"
    cloudflare.sql(database, sql)


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
    database = under_way(cloudflare, "tossed", [])
    assert await abort(direct, "tossed", "discard") == {}
    only = json.dumps(space(2, LARGE, 1024, NEW, "next"))
    cloudflare.sql(database, f"UPDATE meta SET value = '{only}' WHERE key = 'space'")
    assert "generation 1 has no documents any more" in (await abort(direct, "tossed", "discard"))["replacing"]
    assert await finish(direct, "tossed", "discard") == {}


async def test_a_start_in_an_index_that_an_abort_has_left_is_refused(
    direct: Direct, cloudflare: LocalCloudflare
) -> None:
    under_way(cloudflare, "again", [IN_BOTH], desired=1)
    refused = await direct.check(SPACE, wanted("again", replacing="reindex"), wanted("again", generation=1))
    assert "index again-1024-g2 is left of a replacement that was aborted" in refused["generation"]
    assert (
        f'`pulumi up` with cf-rag:rag.embedding: {{model: "{BASE}", generation: 1}}' in refused["generation"]
    )


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


async def test_the_new_index_goes_when_the_data_has_gone_back_and_every_isolate_knows(
    direct: Direct, cloudflare: LocalCloudflare, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = under_way(cloudflare, "aborted", [IN_BOTH, IN_OLD], desired=1)
    new = index("aborted", 1024, 2)
    set_clock(cloudflare, database, "$.ended", seconds_ago=5)
    monkeypatch.setattr("infra.provider.resources.vectorize_index.TAKE_OVER_SECONDS", 0.1)
    with pytest.raises(CfragError, match="an isolate of the Worker may still search generation 2"):
        await direct.delete(INDEX, new["name"], new)
    set_clock(cloudflare, database, "$.ended", seconds_ago=61)
    await direct.delete(INDEX, new["name"], new)
    assert await direct.read(INDEX, new["name"]) is None
