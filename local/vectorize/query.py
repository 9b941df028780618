"""A query's options: parsed and held against the limits of topK."""

from typing import Any, Literal, NamedTuple

from infra import catalog
from local import limits
from local.vectorize import filters
from local.vectorize.filters import Condition
from local.vectorize.vectors import FloatArray, check_namespace, numbers

DEFAULT_TOP_K = 5
ReturnMetadata = Literal["none", "indexed", "all"]


class Options(NamedTuple):
    """What a query returns and from which vectors."""

    top_k: int
    namespace: str | None
    conditions: list[Condition]
    return_values: bool
    return_metadata: ReturnMetadata


def options(raw: Any) -> Options:
    """Parse the options of a query. Raises ApiError 40025 over the limit of topK, 40026 where malformed."""
    if not isinstance(raw, dict):
        raise limits.JSON_UNPARSABLE(problem="expected an object")
    wanted = raw.get("returnMetadata", "none")
    # A boolean was right in the first version of the API and is refused by this one.
    if wanted not in ("none", "indexed", "all"):
        raise limits.JSON_UNPARSABLE(problem="returnMetadata: expected value")
    values = raw.get("returnValues", False)
    if not isinstance(values, bool):
        raise limits.JSON_UNPARSABLE(problem="returnValues: expected a boolean")
    conditions = filters.parse(raw["filter"]) if raw.get("filter") is not None else []
    return Options(
        _top_k(raw.get("topK", DEFAULT_TOP_K), values or wanted == "all"),
        check_namespace(raw.get("namespace"), "query"),
        conditions,
        values,
        wanted,
    )


def _top_k(raw: Any, with_content: bool) -> int:
    # Clients in languages without integers send 5.0.
    if isinstance(raw, bool) or not isinstance(raw, int | float) or raw != int(raw) or raw < 1:
        raise limits.JSON_UNPARSABLE(problem=f"topK: expected a positive integer, got {raw!r}")
    top_k = int(raw)
    if top_k > catalog.VECTORIZE_TOP_K.value:
        raise limits.TOP_K(actual=top_k)
    if with_content and top_k > catalog.VECTORIZE_TOP_K_WITH_CONTENT.value:
        raise limits.TOP_K_WITH_CONTENT(actual=top_k)
    return top_k


def query_vector(raw: Any, dimensions: int) -> FloatArray:
    """The vector to search with. Raises ApiError 40006 where its length isn't the index's."""
    vector = numbers(raw)
    if vector is None:
        raise limits.JSON_UNPARSABLE(problem="vector: expected an array of finite numbers")
    if len(vector) != dimensions:
        raise limits.QUERY_DIMENSIONS(expected=dimensions, actual=len(vector))
    return vector
