"""How far a replacement is, from the stack's config, its database and its indexes."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from cfrag.dims.stack import project
from cfrag.output import plural
from cfrag.stack_account import StackAccount
from infra.config import RagConfig

if TYPE_CHECKING:
    from infra.provider.base import Call

Phase = Literal[
    "none",
    "not deployed",
    "re-embedding",
    "blocked",
    "settling",
    "behind",
    "taking over",
    "complete",
    "ending",
]


@dataclass(frozen=True)
class Status:
    """One look. `generation` is the config's; `total`, `missing` and `failed` are documents of that space.

    `wait` is the seconds until every isolate of the Worker knows that it answers.
    """

    phase: Phase
    generation: int
    model: str
    replaces: int | None
    serving: int | None
    total: int
    missing: int
    failed: tuple[str, ...]
    indexes: tuple[str, ...]
    wait: int = 0

    @property
    def done(self) -> int:
        return self.total - self.missing

    def to_json(self) -> dict[str, Any]:
        return {
            "phase": self.phase,
            "generation": self.generation,
            "model": self.model,
            "replaces": self.replaces,
            "serving": self.serving,
            "documents": {"total": self.total, "done": self.done, "missing": self.missing},
            "neverEmbeddable": list(self.failed),
            "indexes": list(self.indexes),
        }

    def sentence(self) -> str:
        """What it means, and what comes next."""
        new, old = f"generation {self.generation}", f"generation {self.replaces}"
        return {
            "none": f"nothing is being replaced; the stack is in {new} ({self.model})",
            "not deployed": f"the config asks for {new}, but it has not been deployed: cfrag dims start",
            "re-embedding": f"documents are embedded again for {new}; {old} answers searches",
            "behind": f"{new} answers searches; {plural(self.missing, 'write')} will reach it in a moment",
            "blocked": f"{plural(len(self.failed), 'document')} can't be embedded by {self.model}: change or "
            "delete them, or: cfrag dims finish --drop-failed",
            "taking over": f"{new} answers searches, which every isolate knows in {self.wait} s: "
            "cfrag dims finish then, or abort",
            "settling": f"{new} is complete and takes over within minutes; {old} answers searches",
            "complete": f"{new} answers searches and nothing is missing: cfrag dims finish, or abort",
            "ending": f"a finish or abort was cut short: run `pulumi up`, or the command again "
            f"(indexes: {', '.join(self.indexes)})",
        }[self.phase]


def read(account: StackAccount, config: RagConfig) -> Status:
    """One look at D1 and Vectorize. Raises Refused or Unreachable."""

    async def look(call: "Call") -> Status:
        from infra.provider import vectorize
        from infra.provider.ending import Data, Progress

        owner = f"cfrag:{project()}/{account.stack}"
        owned = await vectorize.owned_indexes(call, owner)
        data = await Data.read(call, config.names(account.stack).db)
        generation = config.embedding.generation
        progress = (await data.progress(call, generation) if data else None) or Progress(0, 0)
        known = bool(data and data.spaces and data.spaces.find(generation))
        serving = data.serving if data else None
        taken_over = bool(data and config.replacing and serving == generation)
        wait = await data.seconds_until_known(call, data.taken_over) if data and taken_over else 0
        phase = phase_of(config, known, serving, progress.missing, progress.failed, len(owned), wait)
        return Status(
            phase,
            generation,
            config.embedding.model,
            config.replacing.generation if config.replacing else None,
            serving,
            progress.total,
            progress.missing,
            progress.failed,
            tuple(index.name for index in owned),
            wait,
        )

    return account.ask(look)


def phase_of(
    config: RagConfig,
    known: bool,
    serving: int | None,
    missing: int,
    failed: tuple[str, ...],
    indexes: int,
    wait: int = 0,
) -> Phase:
    """The step that a stack is at; `known` says that the Worker has begun with the config's space."""
    if config.replacing is None:
        return "ending" if indexes > 1 else "none"
    if not known:
        return "not deployed"
    if serving == config.embedding.generation:
        return "behind" if missing else "taking over" if wait else "complete"
    if missing == 0:
        return "settling"
    return "blocked" if missing == len(failed) else "re-embedding"
