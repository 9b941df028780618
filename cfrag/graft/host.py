"""A Python Worker that exists already, as its folder shows it."""

from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from cfrag.graft import jsonc
from infra.errors import CfragError

_SETTINGS = ("wrangler.jsonc", "wrangler.json", "wrangler.toml")


@dataclass(frozen=True)
class Host:
    """A Worker's folder: its settings file and its main module, by their paths in it."""

    folder: Path
    settings: str
    main: str

    @property
    def source(self) -> str:
        """The folder of the main module: the root of imports."""
        parent = PurePosixPath(self.main).parent.as_posix()
        return "" if parent == "." else f"{parent}/"

    def read(self, path: str) -> str | None:
        file = self.folder / path
        return file.read_text() if file.is_file() else None


def find(folder: Path) -> Host:
    """The Worker in a folder. Raises CfragError where there is none, or none in Python."""
    found = [name for name in _SETTINGS if (folder / name).is_file()]
    if not found:
        raise CfragError(
            f"{folder} holds no Worker: there is no {', '.join(_SETTINGS[:-1])} or {_SETTINGS[-1]}"
        )
    settings = found[0]
    main = _main(folder / settings)
    if main is None or not main.endswith(".py"):
        raise CfragError(
            f'{folder / settings} has "main" = {main!r}; the service can only be added to a Worker in Python'
        )
    if not (folder / main).is_file():
        raise CfragError(f"{folder / settings} names {main}, which is not there")
    return Host(folder, settings, PurePosixPath(main).as_posix())


def _main(settings: Path) -> str | None:
    if settings.suffix == ".toml":
        import tomllib

        main = tomllib.loads(settings.read_text()).get("main")
    else:
        try:
            node = jsonc.parse(settings.read_text()).at("main")
        except CfragError as error:
            raise CfragError(f"{settings}: {error}") from None
        main = node.scalar if node else None
    return main if isinstance(main, str) else None
