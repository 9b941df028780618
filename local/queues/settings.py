"""Settings of queues and consumers: defaults and ranges as the platform has them."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from infra import catalog
from local import limits
from local.limits import Refusal

_DAY = 86_400


class Setting(NamedTuple):
    """A number between `low` and `high` (None: not bounded here); `nullable` ones may be null."""

    default: int | None
    low: int
    high: int | None
    nullable: bool = False


_COMMON = {
    "batch_size": Setting(10, 1, catalog.QUEUE_CONSUMER_BATCH.value),
    "max_retries": Setting(3, 0, catalog.QUEUE_RETRIES.value),
    # Published copies of the longest delay disagree, so none is enforced.
    "retry_delay": Setting(0, 0, None),
}
WORKER_CONSUMER = {
    **_COMMON,
    "max_concurrency": Setting(None, 1, catalog.QUEUE_CONCURRENCY.value, nullable=True),
    "max_wait_time_ms": Setting(5_000, 0, catalog.QUEUE_WAIT_SECONDS.value * 1000),
}
PULL_CONSUMER = {
    **_COMMON,
    "visibility_timeout_ms": Setting(30_000, 1, 12 * 3_600_000),
}
QUEUE = {
    "delivery_delay": Setting(0, 0, None),
    "message_retention_period": Setting(4 * _DAY, 60, 14 * _DAY),
}
PULL_BATCH = Setting(5, 1, catalog.QUEUE_CONSUMER_BATCH.value)


def settings(
    table: Mapping[str, Setting], raw: Any, refusal: Refusal, base: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """`raw` completed from `base` or the defaults. Raises `refusal` for a value out of range.

    Keys that the table doesn't know are left out, as the platform does.
    """
    if raw is not None and not isinstance(raw, Mapping):
        raise refusal(problem="settings must be an object")
    given = raw or {}
    known = base or {}
    return {
        name: number(name, given[name], setting, refusal)
        if name in given
        else known.get(name, setting.default)
        for name, setting in table.items()
    }


def number(name: str, value: Any, setting: Setting, refusal: Refusal) -> int | None:
    if value is None:
        if setting.nullable:
            return None
        return setting.default
    if isinstance(value, bool) or not isinstance(value, int | float) or value != int(value):
        raise refusal(problem=f"{name} must be a whole number, got {value!r}")
    if value < setting.low or (setting.high is not None and value > setting.high):
        highest = "" if setting.high is None else f" and at most {setting.high}"
        raise refusal(problem=f"{name} must be at least {setting.low}{highest}, got {value}")
    return int(value)


def delay(value: Any) -> int | None:
    """`delaySeconds` of a message: null when absent."""
    setting = Setting(None, 0, None, nullable=True)
    return number("delay_seconds", value, setting, limits.MESSAGE_INVALID)
