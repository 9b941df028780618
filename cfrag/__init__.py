"""The command line: `cfrag demo`, `render`, `local`, `ingest`, `search`, `stats`."""
