"""The bindings of an uploaded version: checked against what exists, `inherit` replaced by values."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from infra.catalog import WORKER_ENV_VAR_BYTES, WORKER_ENV_VARS
from local.api.modules import invalid
from local.envelope import ApiError, JsonObject
from local.state import State

SERVICE_MISSING, QUEUE_MISSING, D1_MISSING, VECTORIZE_MISSING = 10143, 11000, 10181, 10159
INHERIT_MISSING = 10057
# What a binding of each type must say, besides `type` and `name`.
FIELDS: dict[str, dict[str, type | tuple[type, ...]]] = {
    "ai": {},
    "version_metadata": {},
    "plain_text": {"text": str},
    "secret_text": {"text": str},
    "json": {"json": object},
    "d1": {"id": str},
    "vectorize": {"index_name": str},
    "queue": {"queue_name": str},
    "service": {"service": str},
    "ratelimit": {"namespace_id": str, "simple": dict},
}
VARIABLES = ("plain_text", "secret_text", "json")


@dataclass(frozen=True)
class Existing:
    """What a binding can refer to outside the control state."""

    index: Callable[[str], bool]
    queue: Callable[[str], bool]


class BindingChecker:
    def __init__(self, state: State, existing: Existing) -> None:
        self._state = state
        self._existing = existing

    def resolve(
        self, bindings: list[Any], previous: list[JsonObject], worker: str, *, drop_unknown: bool = False
    ) -> list[JsonObject]:
        """The bindings with their values. `previous` are those of the version before.

        An `inherit` that `previous` can't satisfy is refused, or left out with `drop_unknown`,
        as the multipart endpoint does unless it is asked to be strict.
        """
        known = {binding["name"]: binding for binding in previous}
        resolved: dict[str, JsonObject] = {}
        for binding in bindings:
            name = _name(binding)
            if name in resolved:
                raise invalid(f"There are two bindings named {name}.")
            if binding["type"] == "inherit":
                found = known.get(binding.get("old_name") or name)
                if found is None and drop_unknown:
                    continue
                if found is None:
                    raise ApiError(
                        400, INHERIT_MISSING, f"The binding {name} can't be inherited: no version has it."
                    )
                resolved[name] = {**found, "name": name}
            else:
                resolved[name] = self._checked(binding, worker)
        _check_variables(list(resolved.values()))
        return list(resolved.values())

    def _checked(self, binding: JsonObject, worker: str) -> JsonObject:
        kind, name = binding["type"], binding["name"]
        if kind not in FIELDS:
            raise invalid(f"The binding {name} has the type {kind}, which this Cloudflare does not have.")
        if kind == "d1":
            # Older and newer clients name the database differently.
            binding = {**binding, "id": binding.get("id") or binding.get("database_id")}
            binding.pop("database_id", None)
        for key, wanted in FIELDS[kind].items():
            value = binding.get(key)
            # Only a variable's text may be empty: every other string names something.
            if not isinstance(value, wanted) or (value == "" and key != "text"):
                raise invalid(f"The {kind} binding {name} needs a valid `{key}`.")
        self._check_target(binding, worker)
        return binding

    def _check_target(self, binding: JsonObject, worker: str) -> None:
        name = binding["name"]
        match binding["type"]:
            case "d1" if self._state.database(binding["id"]) is None:
                raise ApiError(
                    400,
                    D1_MISSING,
                    f"D1 binding '{name}' references database '{binding['id']}' which was not found.",
                )
            case "vectorize" if not self._existing.index(binding["index_name"]):
                raise ApiError(
                    400,
                    VECTORIZE_MISSING,
                    f"Vectorize binding '{name}' references index '{binding['index_name']}'"
                    " which was not found.",
                )
            case "queue" if not self._existing.queue(binding["queue_name"]):
                raise ApiError(
                    400,
                    QUEUE_MISSING,
                    f"Queue binding '{name}' references queue '{binding['queue_name']}' which was not found.",
                )
            case "service" if binding["service"] != worker and not self._state.worker(binding["service"]):
                raise ApiError(
                    400,
                    SERVICE_MISSING,
                    f"Service binding '{name}' references Worker '{binding['service']}' which was not found.",
                )


def _name(binding: Any) -> str:
    if not isinstance(binding, dict) or not isinstance(binding.get("type"), str):
        raise invalid("A binding must be an object with a `type`.")
    name = binding.get("name")
    if not isinstance(name, str) or not name:
        raise invalid(f"A binding of type {binding['type']} has no name.")
    return name


def _check_variables(bindings: list[JsonObject]) -> None:
    variables = [binding for binding in bindings if binding["type"] in VARIABLES]
    if len(variables) > WORKER_ENV_VARS.value:
        raise invalid(WORKER_ENV_VARS.refusal("The environment", len(variables)))
    for binding in variables:
        size = len(_text(binding).encode())
        if size > WORKER_ENV_VAR_BYTES.value:
            raise invalid(WORKER_ENV_VAR_BYTES.refusal(f"The variable {binding['name']}", size))


def _text(binding: JsonObject) -> str:
    return str(binding["text"]) if "text" in binding else json.dumps(binding["json"])


def shown(binding: JsonObject) -> JsonObject:
    """A binding as the API answers it: never the text of a secret."""
    if binding["type"] == "secret_text":
        return {"type": "secret_text", "name": binding["name"]}
    if binding["type"] == "d1":
        return {**binding, "database_id": binding["id"]}
    return binding
