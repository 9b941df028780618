"""A chromium for the tests: the machine's own, or one from a locked npm package."""

import os
import shutil
from pathlib import Path

from playwright.sync_api import Browser, Playwright

from .installed import HERE, npm_packages, run

_NAMES = ("chromium", "chromium-browser", "google-chrome")


def launch(playwright: Playwright) -> Browser:
    """A running browser: `CFRAG_BROWSER`, else what is on the PATH, else a packaged one."""
    given = os.environ.get("CFRAG_BROWSER") or next(filter(None, map(shutil.which, _NAMES)), None)
    if given:
        return playwright.chromium.launch(executable_path=given, args=["--no-sandbox"])
    path = packaged()
    libraries = str(path.parent / "al2023" / "lib")
    arguments = ["--no-sandbox", "--headless=shell"]
    environment: dict[str, str | float | bool] = {**os.environ, "LD_LIBRARY_PATH": libraries}
    return playwright.chromium.launch(executable_path=path, args=arguments, env=environment)


def packaged() -> Path:
    """The packaged browser, unpacked once."""
    modules = npm_packages(HERE / "chromium")
    folder = modules.parent / "unpacked"
    if not (folder / "chromium").exists():
        folder.mkdir(exist_ok=True)
        script = shutil.copy(HERE / "chromium" / "unpack.mjs", modules.parent)
        # Without the name of an environment it leaves its libraries packed.
        variables = ["AWS_EXECUTION_ENV=AWS_Lambda_nodejs22.x", f"TMPDIR={folder}"]
        run("env", *variables, "node", script, cwd=modules.parent)
    return folder / "chromium"
