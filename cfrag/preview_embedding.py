"""What a change means for the stored documents: embedded or written again, or left alone; and the cost."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cfrag.dims import plan as planning
from cfrag.dims.plan import Plan
from cfrag.stack_account import StackAccount
from infra.bundle.project import stack_config
from infra.bundle.tables import schema_revision
from infra.config import RagConfig
from infra.errors import CfragError


@dataclass(frozen=True)
class Embedding:
    """`again`: every document is embedded; `rewritten`: stored vectors reach new metadata indexes.

    `plan` counts and prices it; where it can't, `unknown` says why.
    """

    again: bool
    rewritten: bool
    model: str
    plan: Plan | None = None
    unknown: str = ""

    def to_json(self) -> dict[str, Any]:
        plan = self.plan
        return {
            "embeddedAgain": self.again,
            "writtenAgain": self.rewritten,
            "model": self.model,
            "documents": plan.documents if plan else None,
            "tokens": plan.tokens if plan else None,
            "aiCalls": plan.calls if plan else None,
            "costUsd": plan.cost if plan else None,
            "unknown": self.unknown or None,
        }


def examine(stack: str, folder: Path, base: Path | None, *, ask_account: bool) -> Embedding | None:
    """What follows from the config of `folder` after that of `base`; None where there is none to compare."""
    if base is None or not (base / f"Pulumi.{stack}.yaml").exists():
        return None
    try:
        old = RagConfig.from_pulumi(stack_config(stack, base))
        new = RagConfig.from_pulumi(stack_config(stack, folder))
    except CfragError:
        return None  # the preview itself says what is wrong with the config
    # Another generation embeds everything, also with the same model.
    in_place = old.fingerprint() != new.fingerprint() and new.embedding.auto_reindex
    again = _space(old) != _space(new) or in_place
    rewritten = schema_revision(old.metadata_indexes()) != schema_revision(new.metadata_indexes())
    found = Embedding(again, rewritten, new.model.name)
    return _priced(found, stack, old, new) if ask_account and again else found


def _space(config: RagConfig) -> tuple[int, str]:
    return config.embedding.generation, config.embedding.metric


def _priced(found: Embedding, stack: str, old: RagConfig, new: RagConfig) -> Embedding:
    try:
        with StackAccount(stack) as account:
            plan = planning.make(account, old, new.model, new.embedding.metric)
    except CfragError as error:
        return Embedding(found.again, found.rewritten, found.model, unknown=str(error))
    return Embedding(found.again, found.rewritten, found.model, plan)
