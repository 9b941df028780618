"""The few lines that a host's main module needs, put in where the place is plain."""

import ast
from dataclasses import dataclass

GLUE = "rag_service"
IMPORT = f"from {GLUE} import service as rag"


@dataclass(frozen=True)
class Insertion:
    """Lines to put behind a line of a module (0: at its beginning)."""

    after: int
    lines: list[str]


def mount(source: str, path: str) -> str | None:
    """The module with the service's routes and queue in it; None where only a person can tell how.

    One that imports the service already is returned as it is.
    """
    try:
        tree = ast.parse(source)
    except SyntaxError:
        return None
    if _imports_service(tree):
        return source
    worker = _worker(tree)
    routes = _mount_on_fastapi(tree, path) or (worker and _serve_in_fetch(worker))
    queue = worker and _handle_queue(worker)
    if not routes or not queue:
        return None
    edited = _applied(source, [_import(tree), routes, queue])
    try:
        ast.parse(edited)
    except SyntaxError:
        return None
    return edited


def by_hand(path: str) -> str:
    """The same lines, to paste."""
    return "\n".join(
        [
            IMPORT,
            "",
            "# with FastAPI, behind `app = FastAPI(...)`:",
            f'app.mount("{path}", rag)',
            "# without, at the beginning of `fetch`:",
            *_indented(_FETCH.format(request="request")),
            "# in the same class:",
            *_indented(_QUEUE_METHOD),
        ]
    )


_FETCH = "if rag.serves({request}):\n    return await rag.fetch({request}, self.env, self.ctx)"
_QUEUE = "if rag.handles({batch}):\n    return await rag.queue({batch}, self.env)"
_QUEUE_METHOD = "async def queue(self, batch):\n    await rag.queue(batch, self.env)"


def _indented(text: str, by: str = "    ") -> list[str]:
    return [by + line for line in text.splitlines()]


def _imports_service(tree: ast.Module) -> bool:
    return any(isinstance(node, ast.ImportFrom) and node.module == GLUE for node in ast.walk(tree))


def _import(tree: ast.Module) -> Insertion:
    imports = [node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
    return Insertion(max((node.end_lineno or 0 for node in imports), default=0), ["", IMPORT])


def _worker(tree: ast.Module) -> ast.ClassDef | None:
    """The class that Cloudflare calls."""
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and node.name == "Default":
            return node
    return None


def _mount_on_fastapi(tree: ast.Module, path: str) -> Insertion | None:
    for node in tree.body:
        if (
            isinstance(node, ast.Assign)
            and isinstance(node.value, ast.Call)
            and ast.unparse(node.value.func).split(".")[-1] == "FastAPI"
            and isinstance(node.targets[0], ast.Name)
        ):
            return Insertion(node.end_lineno or 0, [f'{node.targets[0].id}.mount("{path}", rag)'])
    return None


def _method(worker: ast.ClassDef, name: str, least: int) -> ast.AsyncFunctionDef | None:
    for node in worker.body:
        if isinstance(node, ast.AsyncFunctionDef) and node.name == name and len(node.args.args) >= least:
            return node
    return None


def _at_beginning(method: ast.AsyncFunctionDef, text: str) -> Insertion:
    first = method.body[0]
    is_docstring = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
    after = (first.end_lineno or 0) if is_docstring else first.lineno - 1
    return Insertion(after, _indented(text, " " * first.col_offset))


def _serve_in_fetch(worker: ast.ClassDef) -> Insertion | None:
    fetch = _method(worker, "fetch", 2)
    return _at_beginning(fetch, _FETCH.format(request=fetch.args.args[1].arg)) if fetch else None


def _handle_queue(worker: ast.ClassDef) -> Insertion | None:
    if queue := _method(worker, "queue", 2):
        return _at_beginning(queue, _QUEUE.format(batch=queue.args.args[1].arg))
    if any(isinstance(node, ast.FunctionDef) and node.name == "queue" for node in worker.body):
        return None
    indent = " " * worker.body[0].col_offset
    return Insertion(worker.end_lineno or 0, ["", *_indented(_QUEUE_METHOD, indent)])


def _applied(source: str, insertions: list[Insertion]) -> str:
    lines = source.splitlines()
    for each in sorted(insertions, key=lambda one: -one.after):
        lines[each.after : each.after] = each.lines
    return "\n".join(lines) + "\n"
