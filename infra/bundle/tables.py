"""The tables of a stack's D1 database: what statements and migrations are made from."""

import hashlib
from collections.abc import Iterable
from typing import Protocol

from sqlalchemy import Column, Index, Integer, MetaData, Table, Text, text


class _MetadataIndex(Protocol):
    @property
    def property_name(self) -> str: ...

    @property
    def type(self) -> str: ...


def schema_revision(indexes: Iterable[_MetadataIndex]) -> str:
    """Short name of a set of metadata indexes: rows that carry another one are in fewer indexes."""
    names = sorted(f"{index.property_name}:{index.type}" for index in indexes)
    return hashlib.sha256(",".join(names).encode()).hexdigest()[:12]


METADATA = MetaData()

# The state of each document; title and body live in Vectorize only. Times are ms since the epoch.
DOCUMENTS = Table(
    "documents",
    METADATA,
    Column("id", Text, primary_key=True, nullable=False),
    # Grows with every claim. Starts at the time of the insert: a new row is never taken for the old one.
    Column("seq", Integer, nullable=False),
    # What the stored vector is known to hold; null while it is not known.
    Column("content_hash", Text),
    # The claim of a write that is under way; a leading "+" says that more than one was.
    Column("pending_hash", Text),
    Column("pending_at", Integer),
    Column("indexed_at", Integer),
    Column("active", Integer, nullable=False, server_default=text("1")),
    # Fingerprint of any vector that the id can have; null while not known, "!" first where embedding failed.
    Column("embed_model", Text),
    Column("schema_rev", Text),
    # The same three for the other space of a replacement. They are never moved: after it, these are the
    # ones of the only space, and the next replacement uses the first three. `space` in `meta` says which.
    Column("next_hash", Text),
    Column("next_model", Text),
    Column("next_rev", Text),
    # Tombstone: kept until every bound space has forgotten the id.
    Column("deleted_at", Integer),
    # A sweep is writing the stored content again; a writer waits for its end.
    Column("lease_at", Integer),
    sqlite_with_rowid=False,
)

API_KEYS = Table(
    "api_keys",
    METADATA,
    Column("id", Text, primary_key=True, nullable=False),
    # SHA-256 of the key in hex; the key itself is shown once and kept nowhere.
    Column("hash", Text, nullable=False),
    Column("name", Text, nullable=False),
    # Separated by spaces.
    Column("scopes", Text, nullable=False),
    Column("created_at", Integer, nullable=False),
    Column("expires_at", Integer),
    Column("revoked_at", Integer),
)

META = Table(
    "meta",
    METADATA,
    Column("key", Text, primary_key=True, nullable=False),
    Column("value", Text, nullable=False),
)

# What the sweep and the drift machine ask without reading the whole table.
_D = DOCUMENTS.c
Index("documents_pending", _D.pending_at, sqlite_where=_D.pending_at.is_not(None))
Index("documents_deleted", _D.deleted_at, sqlite_where=_D.deleted_at.is_not(None))
Index("documents_model", _D.embed_model)
Index("documents_schema", _D.schema_rev)
Index("documents_indexed", _D.indexed_at)
Index("documents_next", _D.next_model)
Index("documents_next_schema", _D.next_rev)
Index("api_keys_hash", API_KEYS.c.hash, unique=True)
