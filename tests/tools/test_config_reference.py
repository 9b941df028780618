"""The configuration's reference: as the config is, and complete."""

from collections.abc import Iterator
from typing import Any, get_args

from pydantic import BaseModel

from infra.catalog import EMBEDDING_MODELS
from infra.config import RagConfig
from tools import config_reference


def test_the_committed_page_is_what_the_config_gives() -> None:
    assert config_reference.PATH.read_text() == config_reference.text(), f"run: {config_reference.COMMAND}"


def test_every_key_is_on_the_page_in_the_section_of_its_part() -> None:
    page = config_reference.text()
    keys = list(_keys(RagConfig, ""))
    assert len(keys) > 40
    for path, key in keys:
        heading = f"## `{path}`\n" if path else "## The object under"
        section = page.partition(heading)[2].partition("\n## ")[0]
        assert f"| `{key}` |" in section, f"{path}.{key}"


def test_every_key_is_described_by_words_of_its_own() -> None:
    rows = [line for line in config_reference.text().splitlines() if line.startswith("| `")]
    keys = [row for row in rows if row.count(" | ") == 3]
    described = [row.split(" | ")[3] for row in keys]
    assert all(len(text) > len("Seconds. |") - 1 for text in described)
    assert "camelCase outside" not in " ".join(described)


def test_a_default_and_the_values_allowed_are_shown() -> None:
    page = config_reference.text()
    assert "| `mode` | `keys`, `secret`, `service` | `keys` |" in page
    assert "| `maxRetries` | whole number | `5` |" in page
    assert "| `name` | string | required |" in page


def test_only_models_that_can_be_chosen_are_listed() -> None:
    page = config_reference.text()
    assert all((f"| `{each.name}` |" in page) is (each.dims <= 1536) for each in EMBEDDING_MODELS.values())


def _keys(model: type[BaseModel], path: str) -> Iterator[tuple[str, str]]:
    for name, field in model.model_fields.items():
        key = field.alias or name
        yield path, key
        mapping = ".<field>" if str(field.annotation).startswith("dict") else ""
        for part in _models(field.annotation):
            yield from _keys(part, f"{path}.{key}{mapping}".lstrip("."))


def _models(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for each in get_args(annotation):
        yield from _models(each)
