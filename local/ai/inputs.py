"""What the embedding models accept: inputs parsed and refused as Workers AI does it."""

from typing import Any, NamedTuple

from infra.catalog import EmbeddingModel
from local.envelope import ApiError

_BGE = "@cf/baai/bge-"
_BGE_M3 = "@cf/baai/bge-m3"
_QWEN = "@cf/qwen/"


class AiError(ApiError):
    """An error of Workers AI: over REST its message carries the name, in a binding code and description."""

    def __init__(self, status: int, code: int, description: str, prefix: str = "AiError: ") -> None:
        super().__init__(status, code, f"{prefix}{description}")
        self.description = description


class Inputs(NamedTuple):
    """One request: the texts, how they are pooled, and which role they play."""

    texts: list[str]
    pooling: str | None
    truncate: bool
    instruction: str | None
    query: str | None = None
    result_key: str = "data"


def no_such_model(name: str) -> AiError:
    return AiError(400, 5007, f"No such model {name} or task", prefix="")


def bad_input(problem: str) -> AiError:
    return AiError(400, 5006, f"Error: {problem}", prefix="AiError: Bad input: ")


def context_exceeded(tokens: int, limit: int) -> AiError:
    problem = (
        f"The estimated number of input tokens ({tokens}) exceeded this model context window limit ({limit})."
    )
    return AiError(413, 5021, problem)


def parse(model: EmbeddingModel, raw: Any) -> Inputs:
    """Check the input of one request. Raises AiError 5006."""
    if not isinstance(raw, dict):
        raise bad_input("Type mismatch of '/', expected 'object'")
    if model.name == _BGE_M3:
        return _bge_m3(model, raw)
    if model.name.startswith(_QWEN):
        return _qwen(model, raw)
    pooling = None
    if model.name.startswith(_BGE):
        pooling = raw.get("pooling", "mean")
        if pooling not in ("mean", "cls"):
            raise bad_input("Value of '/pooling' not in 'mean,cls'")
    # These models cut a text at their own limit, without a word.
    return Inputs(_texts(model, raw, "text"), pooling, truncate=model.name.startswith(_BGE), instruction=None)


def _bge_m3(model: EmbeddingModel, raw: dict[str, Any]) -> Inputs:
    truncate = raw.get("truncate_inputs", False)
    if not isinstance(truncate, bool):
        raise bad_input("Type mismatch of '/truncate_inputs', expected 'boolean'")
    if "contexts" not in raw:
        return Inputs(_texts(model, raw, "text"), "cls", truncate, None)
    contexts = raw["contexts"]
    if not isinstance(contexts, list) or not all(isinstance(one, dict) for one in contexts):
        raise bad_input("Type mismatch of '/contexts', expected 'array' of 'object'")
    texts = _texts(model, {"contexts": [one.get("text") for one in contexts]}, "contexts")
    query = raw.get("query")
    if query is not None and (not isinstance(query, str) or not query):
        raise bad_input("Length of '/query' must be >= 1 not met")
    return Inputs(texts, "cls", truncate, None, query, "response")


def _qwen(model: EmbeddingModel, raw: dict[str, Any]) -> Inputs:
    given = [key for key in ("queries", "documents", "text") if raw.get(key) is not None]
    if len(given) != 1:
        raise bad_input("oneOf at '/' not met: exactly one of 'queries', 'documents', 'text' is required")
    instruction = None
    if given[0] == "queries":
        instruction = raw.get("instruction", model.query_instruction)
        if not isinstance(instruction, str):
            raise bad_input("Type mismatch of '/instruction', expected 'string'")
    return Inputs(_texts(model, raw, given[0]), None, truncate=False, instruction=instruction)


def _texts(model: EmbeddingModel, raw: dict[str, Any], key: str) -> list[str]:
    if key not in raw:
        raise bad_input(f"required properties at '/' are '{key}'")
    texts = [raw[key]] if isinstance(raw[key], str) else raw[key]
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise bad_input(f"Type mismatch of '/{key}', expected 'string' or 'array' of 'string'")
    if not texts or not all(texts):
        raise bad_input(f"Length of '/{key}' must be >= 1 not met")
    if len(texts) > model.max_batch:
        raise bad_input(f"Length of '/{key}' must be <= {model.max_batch} not met, got {len(texts)}")
    return texts
