"""Compatibility flags that the Workers runtime SDK asks for, as of Python 3.14's compatibility date."""

python_workflows_implicit_dependencies = True
python_request_headers_preserve_commas = True


def __getattr__(name: str) -> bool:
    if name.startswith("__"):
        raise AttributeError(name)
    return False
