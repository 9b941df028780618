"""Stacks that are being replaced, made by hand: two indexes, and what a Worker writes into D1."""

import json
from typing import Any

from cfrag.pulumi_env import ROOT
from infra.provider.resources.d1_migrations import statements_of
from infra.provider.values import Values
from tests.provider.support import LocalCloudflare

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
    """Inputs of the stack's `EmbeddingSpace`; `replacing` is a strategy."""
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
    old, new = space(1, BASE, 768, OLD, "main"), space(2, LARGE, 1024, NEW, "next")
    serving, other = (new, old) if cut_over else (old, new)
    for key, value in (
        ("space", json.dumps(serving | {"other": other})),
        ("desired_generation", str(desired)),
    ):
        cloudflare.sql(database, f"INSERT INTO meta VALUES ('{key}', '{value}')")
    for number, (content, model, following, next_model, deleted) in enumerate(rows):
        values = [f"doc/{number:02}", 1, content, model, following, next_model, 1 if deleted else None]
        columns = "id, seq, content_hash, embed_model, next_hash, next_model, deleted_at"
        quoted = ", ".join("NULL" if each is None else f"'{each}'" for each in values)
        cloudflare.sql(database, f"INSERT INTO documents({columns}) VALUES ({quoted})")
    return database


def space(generation: int, model: str, dims: int, mark: str, side: str) -> dict[str, Any]:
    """A space as the Worker writes it into `meta`."""
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
