"""D1 over REST: databases, and SQL that the process owning the database runs."""

import sqlite3
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from infra.catalog import D1_SQL_BYTES
from local import d1_files
from local.api.requests import json_object, page
from local.api.sql import statements
from local.cells import Cells
from local.envelope import ApiError, JsonObject, ok
from local.state import Database, State, new_uuid, now

MALFORMED, NAME_TAKEN, SQL_FAILED, NOT_FOUND = 7400, 7502, 7500, 7404
DEFAULT_REPLICATION = {"mode": "disabled"}


class D1Api:
    """Routes below `/accounts/{account_id}/d1`."""

    def __init__(self, state: State, cells: Cells) -> None:
        self._state = state
        self._cells = cells

    def routes(self) -> list[Route]:
        one = "/d1/database/{database_id}"
        return [
            Route("/d1/database", self.create, methods=["POST"]),
            Route("/d1/database", self.list_all, methods=["GET"]),
            Route(one, self.get, methods=["GET"]),
            Route(one, self.update, methods=["PUT", "PATCH"]),
            Route(one, self.delete, methods=["DELETE"]),
            Route(one + "/query", self.query, methods=["POST"]),
            Route(one + "/raw", self.raw, methods=["POST"]),
        ]

    async def create(self, request: Request) -> JSONResponse:
        body = await json_object(request)
        name = body.get("name")
        if not isinstance(name, str) or not name or len(name) > 64:
            raise _malformed("name must be a string of 1 to 64 characters")
        replication = _replication(body) or DEFAULT_REPLICATION
        database = Database(new_uuid(), name, now(), replication, body.get("jurisdiction"))
        try:
            self._state.save_database(database)
        except sqlite3.IntegrityError as error:
            raise ApiError(400, NAME_TAKEN, f"A database with that name already exists: '{name}'") from error
        return ok(self._shown(database))

    async def list_all(self, request: Request) -> JSONResponse:
        name = request.query_params.get("name")
        found = [self._shown(item) for item in self._state.databases() if name in (None, "", item.name)]
        return page(request, found)

    async def get(self, request: Request) -> JSONResponse:
        return ok(self._shown(self._database(request)))

    async def update(self, request: Request) -> JSONResponse:
        """PUT wants `read_replication`, PATCH may leave it out; nothing else of a database changes."""
        database = self._database(request)
        replication = _replication(await json_object(request))
        if replication is None and request.method == "PUT":
            raise _malformed("read_replication is required")
        database.read_replication = replication or database.read_replication
        self._state.save_database(database)
        return ok(self._shown(database))

    async def delete(self, request: Request) -> JSONResponse:
        database = self._database(request)
        self._state.delete_database(database.uuid)
        await self._cells.reconcile()
        d1_files.remove(self._cells.d1_folder, database.uuid)
        return ok(None)

    async def query(self, request: Request) -> JSONResponse:
        return ok(await self._run(request))

    async def raw(self, request: Request) -> JSONResponse:
        """As `query`, with rows as arrays next to their column names."""
        return ok([{**result, "results": _columns_and_rows(result)} for result in await self._run(request)])

    async def _run(self, request: Request) -> list[JsonObject]:
        database = self._database(request)
        batch = _batch(await json_object(request))
        answer = await self._cells.query(database.uuid, batch)
        if error := answer.get("error"):
            message = str(error["message"]).removeprefix("D1_ERROR: ")
            raise ApiError(400, SQL_FAILED, message)
        return [_with_origin(result) for result in answer["results"]]

    def _shown(self, database: Database) -> JsonObject:
        return shown(database, d1_files.size(self._cells.d1_folder, database.uuid))

    def _database(self, request: Request) -> Database:
        ident = request.path_params["database_id"]
        if database := self._state.database(ident):
            return database
        raise ApiError(404, NOT_FOUND, f"The database {ident} could not be found")


def shown(database: Database, file_size: int) -> JsonObject:
    """A database as the API answers it. `num_tables` is inaccurate there too, by its documentation."""
    return {
        "uuid": database.uuid,
        "name": database.name,
        "version": "production",
        "created_at": database.created_at,
        "file_size": file_size,
        "num_tables": 0,
        "running_in_region": "WEUR",
        "read_replication": database.read_replication,
        "jurisdiction": database.jurisdiction,
    }


def _malformed(why: str) -> ApiError:
    return ApiError(400, MALFORMED, f"The request is malformed: {why}")


def _replication(body: JsonObject) -> JsonObject | None:
    if "read_replication" not in body:
        return None
    value = body["read_replication"]
    if not isinstance(value, dict) or value.get("mode") not in ("auto", "disabled"):
        raise _malformed("read_replication must be an object with mode 'auto' or 'disabled'")
    return {"mode": value["mode"]}


def _batch(body: JsonObject) -> list[JsonObject]:
    """The statements of `{sql, params}` or `{batch: [{sql, params}]}`, run as one transaction."""
    queries = body.get("batch", [body])
    if not isinstance(queries, list) or not all(isinstance(query, dict) for query in queries):
        raise _malformed("batch must be a list of {sql, params}")
    batch = [statement for query in queries for statement in _statements(query)]
    if not batch:
        raise _malformed("there is no SQL statement in it")
    return batch


def _statements(query: JsonObject) -> list[JsonObject]:
    sql, params = query.get("sql"), query.get("params") or []
    if not isinstance(sql, str):
        raise _malformed("sql must be a string")
    if not isinstance(params, list):
        raise _malformed("params must be a list")
    found = statements(sql)
    for statement in found:
        if (size := len(statement.encode())) > D1_SQL_BYTES.value:
            raise ApiError(400, SQL_FAILED, f"statement too long: {size} bytes: SQLITE_TOOBIG")
    # As in SQLite's exec of the runtime: parameters belong to the last statement of a text.
    return [
        {"sql": statement, "params": params if number == len(found) else []}
        for number, statement in enumerate(found, 1)
    ]


def _with_origin(result: JsonObject) -> JsonObject:
    meta: dict[str, Any] = {
        "served_by_region": "WEUR",
        "served_by_primary": True,
        **(result.get("meta") or {}),
    }
    return {"results": result.get("results") or [], "success": True, "meta": meta}


def _columns_and_rows(result: JsonObject) -> JsonObject:
    rows = result["results"]
    columns = list(rows[0]) if rows else []
    return {"columns": columns, "rows": [list(row.values()) for row in rows]}
