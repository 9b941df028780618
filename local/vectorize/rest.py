"""Vectorize's REST API, version 2, below `/accounts/{account_id}`."""

import json
import re
from collections.abc import Callable
from typing import Any, cast

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import UploadFile
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from infra import catalog
from local import limits
from local.envelope import ok
from local.faults import Faults
from local.vectorize.matrix import Metric
from local.vectorize.service import VectorizeService
from local.vectorize.vectors import WriteOp, parse_ndjson

_METRICS = ("cosine", "euclidean", "dot-product")
_PRESETS = {
    "@cf/baai/bge-small-en-v1.5": 384,
    "@cf/baai/bge-base-en-v1.5": 768,
    "@cf/baai/bge-large-en-v1.5": 1024,
    "openai/text-embedding-ada-002": 1536,
    "cohere/embed-multilingual-v2.0": 768,
}
_DEFAULT_LIST_COUNT = 100


def routes(service: VectorizeService, faults: Faults) -> list[Route]:
    """Routes to mount below `/client/v4/accounts/{account_id}`; the server adds authentication."""
    api = _Api(service, faults)
    base = "/vectorize/v2/indexes"
    one = base + "/{name}"
    return [
        Route(base, api.create, methods=["POST"]),
        Route(base, api.list_indexes, methods=["GET"]),
        Route(one, api.get, methods=["GET"]),
        Route(one, api.delete, methods=["DELETE"]),
        Route(one + "/info", api.info, methods=["GET"]),
        Route(one + "/insert", api.insert, methods=["POST"]),
        Route(one + "/upsert", api.upsert, methods=["POST"]),
        Route(one + "/query", api.query, methods=["POST"]),
        Route(one + "/get_by_ids", api.get_by_ids, methods=["POST"]),
        Route(one + "/delete_by_ids", api.delete_by_ids, methods=["POST"]),
        Route(one + "/list", api.list_vectors, methods=["GET"]),
        Route(one + "/metadata_index/create", api.create_metadata_index, methods=["POST"]),
        Route(one + "/metadata_index/delete", api.delete_metadata_index, methods=["POST"]),
        Route(one + "/metadata_index/list", api.metadata_indexes, methods=["GET"]),
    ]


class _Api:
    def __init__(self, service: VectorizeService, faults: Faults) -> None:
        self._service = service
        self._faults = faults

    async def create(self, request: Request) -> JSONResponse:
        body = await _json(request)
        name, config = body.get("name"), body.get("config")
        if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]*", name):
            raise limits.INDEX_CONFIG(problem=f"invalid index name {name!r}")
        if len(name.encode()) > catalog.VECTORIZE_INDEX_NAME_BYTES.value:
            raise limits.INDEX_NAME(actual=len(name.encode()))
        dimensions, metric = _config(config)
        description = body.get("description")
        if description is not None and not isinstance(description, str):
            raise limits.INDEX_CONFIG(problem="description must be a string")
        return await self._answer(self._service.create, name, description, dimensions, metric, status=201)

    async def list_indexes(self, _: Request) -> JSONResponse:
        found = await run_in_threadpool(self._service.list_indexes)
        count = len(found)
        return ok(
            found, result_info={"count": count, "page": 1, "per_page": max(count, 1), "total_count": count}
        )

    async def get(self, request: Request) -> JSONResponse:
        return await self._answer(self._service.describe_index, request.path_params["name"])

    async def delete(self, request: Request) -> JSONResponse:
        return await self._answer(self._service.delete, request.path_params["name"])

    async def info(self, request: Request) -> JSONResponse:
        return await self._call("describe", self._service.info, request)

    async def insert(self, request: Request) -> JSONResponse:
        return await self._write(request, "insert")

    async def upsert(self, request: Request) -> JSONResponse:
        return await self._write(request, "upsert")

    async def query(self, request: Request) -> JSONResponse:
        body = await _json(request)
        if body.get("vectorId") is not None:
            return await self._call("query", self._service.query_by_id, request, body["vectorId"], body)
        return await self._call("query", self._service.query, request, body.get("vector"), body)

    async def get_by_ids(self, request: Request) -> JSONResponse:
        body = await _json(request)
        return await self._call("getByIds", self._service.get_by_ids, request, body.get("ids"))

    async def delete_by_ids(self, request: Request) -> JSONResponse:
        body = await _json(request)
        return await self._call("deleteByIds", self._service.delete_by_ids, request, body.get("ids"))

    async def list_vectors(self, request: Request) -> JSONResponse:
        raw = request.query_params.get("count", str(_DEFAULT_LIST_COUNT))
        if not raw.isdigit():
            raise limits.LIST_COUNT(actual=raw)
        cursor = request.query_params.get("cursor")
        return await self._call("list", self._service.list_vectors, request, int(raw), cursor)

    async def create_metadata_index(self, request: Request) -> JSONResponse:
        body = await _json(request)
        prop, kind = _property(body), body.get("indexType")
        kind = kind.lower() if isinstance(kind, str) else kind
        if kind not in ("string", "number", "boolean"):
            raise limits.JSON_UNPARSABLE(problem="indexType: expected string, number or boolean")
        return await self._call(
            "createMetadataIndex", self._service.create_metadata_index, request, prop, kind
        )

    async def delete_metadata_index(self, request: Request) -> JSONResponse:
        prop = _property(await _json(request))
        return await self._call("deleteMetadataIndex", self._service.delete_metadata_index, request, prop)

    async def metadata_indexes(self, request: Request) -> JSONResponse:
        found = await run_in_threadpool(self._service.metadata_indexes, request.path_params["name"])
        return ok({"metadataIndexes": found})

    async def _write(self, request: Request, op: WriteOp) -> JSONResponse:
        discard = request.query_params.get("unparsable-behavior") == "discard"
        payload = await _upload(request, op)
        vectors = await run_in_threadpool(parse_ndjson, payload, op, discard)
        if len(vectors) > catalog.VECTORIZE_UPSERT_REST.value:
            raise limits.UPSERT_REST(actual=len(vectors))
        return await self._call(op, self._service.write, request, vectors, op)

    async def _call(self, op: str, work: Callable[..., Any], request: Request, *args: Any) -> JSONResponse:
        async with self._faults.call("vectorize", op):
            return await self._answer(work, request.path_params["name"], *args)

    async def _answer(self, work: Callable[..., Any], *args: Any, status: int = 200) -> JSONResponse:
        return ok(await run_in_threadpool(work, *args), status)


def _config(raw: Any) -> tuple[int, Metric]:
    if not isinstance(raw, dict):
        raise limits.INDEX_CONFIG(problem="config must be an object")
    if "preset" in raw:
        if raw["preset"] not in _PRESETS:
            raise limits.INDEX_CONFIG(problem=f"unknown preset {raw['preset']!r}")
        return _PRESETS[raw["preset"]], "cosine"
    dimensions, metric = raw.get("dimensions"), raw.get("metric")
    if isinstance(dimensions, float) and dimensions.is_integer():
        dimensions = int(dimensions)
    if isinstance(dimensions, bool) or not isinstance(dimensions, int):
        raise limits.INDEX_CONFIG(problem=f"dimensions must be a number, got {dimensions!r}")
    if not 1 <= dimensions <= catalog.VECTORIZE_DIMENSIONS.value:
        raise limits.INDEX_DIMENSIONS(actual=dimensions)
    if metric not in _METRICS:
        raise limits.INDEX_CONFIG(problem=f"metric must be one of {', '.join(_METRICS)}, got {metric!r}")
    return dimensions, cast(Metric, metric)


def _property(body: dict[str, Any]) -> str:
    prop = body.get("propertyName")
    if not isinstance(prop, str) or not all(prop.split(".")) or prop.startswith("$") or '"' in prop:
        raise limits.JSON_UNPARSABLE(problem=f"propertyName: invalid property {prop!r}")
    return prop


async def _json(request: Request) -> dict[str, Any]:
    if request.headers.get("content-type", "").split(";")[0].strip().lower() != "application/json":
        raise limits.JSON_EXPECTED()
    try:
        body = json.loads(await request.body())
    except ValueError as error:
        raise limits.JSON_UNPARSABLE(problem=str(error)) from error
    if not isinstance(body, dict):
        raise limits.JSON_UNPARSABLE(problem="expected an object")
    return body


async def _upload(request: Request, op: WriteOp) -> bytes:
    """The ndjson of a write: wrangler sends it as the file `vectors` of a form, others as the body."""
    if not request.headers.get("content-type", "").startswith("multipart/form-data"):
        return await request.body()
    async with request.form() as form:
        field = form.get("vectors")
        if isinstance(field, UploadFile):
            return await field.read()
        if isinstance(field, str):
            return field.encode()
    raise limits.VECTORS_UNPARSABLE(op=op, problem="the form has no field `vectors`")
