CREATE TABLE api_keys (
    id TEXT NOT NULL,
    hash TEXT NOT NULL,
    name TEXT NOT NULL,
    scopes TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    expires_at INTEGER,
    revoked_at INTEGER,
    PRIMARY KEY (id)
);
CREATE UNIQUE INDEX api_keys_hash ON api_keys (hash);
CREATE TABLE documents (
    id TEXT NOT NULL,
    seq INTEGER NOT NULL,
    content_hash TEXT,
    pending_hash TEXT,
    pending_at INTEGER,
    indexed_at INTEGER,
    active INTEGER DEFAULT 1 NOT NULL,
    embed_model TEXT,
    schema_rev TEXT,
    next_hash TEXT,
    next_model TEXT,
    next_rev TEXT,
    deleted_at INTEGER,
    lease_at INTEGER,
    PRIMARY KEY (id)
)
 WITHOUT ROWID;
CREATE INDEX documents_deleted ON documents (deleted_at) WHERE deleted_at IS NOT NULL;
CREATE INDEX documents_indexed ON documents (indexed_at);
CREATE INDEX documents_model ON documents (embed_model);
CREATE INDEX documents_next ON documents (next_model);
CREATE INDEX documents_next_schema ON documents (next_rev);
CREATE INDEX documents_pending ON documents (pending_at) WHERE pending_at IS NOT NULL;
CREATE INDEX documents_schema ON documents (schema_rev);
CREATE TABLE meta (
    "key" TEXT NOT NULL,
    value TEXT NOT NULL,
    PRIMARY KEY ("key")
);
