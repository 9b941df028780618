"""Names of a stack's resources on Cloudflare."""

import re
from dataclasses import dataclass

from infra.catalog import RESOURCE_NAME_CHARS, VECTORIZE_INDEX_NAME_BYTES
from infra.errors import ConfigError

LABEL = re.compile(r"[a-z0-9](?:[a-z0-9-]*[a-z0-9])?")


@dataclass(frozen=True)
class Names:
    """What one stack's resources are called; `prefix` is `<name>-<stack>`."""

    prefix: str

    @property
    def db(self) -> str:
        return f"{self.prefix}-db"

    @property
    def ingest(self) -> str:
        return f"{self.prefix}-ingest"

    @property
    def dlq(self) -> str:
        return f"{self.prefix}-ingest-dlq"

    @property
    def worker(self) -> str:
        return f"{self.prefix}-worker"

    def index(self, generation: int, dims: int) -> str:
        return f"{self.prefix}-{dims}-g{generation}"


def compose(name: str, stack: str, spaces: list[tuple[int, int]], key: str) -> Names:
    """The names of a stack whose vector spaces are `(generation, dims)` each.

    Raises ConfigError where the stack's name can't be part of a name, or one becomes too long.
    """
    if not LABEL.fullmatch(stack):
        raise ConfigError(
            [("stack", f"{stack!r} becomes part of resource names; use a-z, 0-9 and - between them only")]
        )
    names = Names(f"{name}-{stack}")
    indexes = [names.index(generation, dims) for generation, dims in spaces]
    faults = [
        limit.refusal(f'the name "{each}"', len(each))
        for each in (names.db, names.ingest, names.dlq, names.worker, *indexes)
        for limit in (RESOURCE_NAME_CHARS, VECTORIZE_INDEX_NAME_BYTES)[: 2 if each in indexes else 1]
        if len(each) > limit.value
    ]
    if faults:
        raise ConfigError(
            [(f"{key}.name", f"{message}; shorten it or the stack's name") for message in faults]
        )
    return names
