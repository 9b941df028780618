"""`python -m examples.python_docs [FILE]` writes the corpus as JSON Lines, to standard output by default."""

import json
import sys
from pathlib import Path
from pydoc_data.topics import topics

from examples.python_docs.produce import documents


def main(arguments: list[str]) -> int:
    lines = [json.dumps(document, ensure_ascii=False) + "\n" for document in documents(topics)]
    if not arguments:
        sys.stdout.writelines(lines)
        return 0
    with Path(arguments[0]).open("w", encoding="utf-8") as output:
        output.writelines(lines)
    print(f"{len(lines)} documents in {arguments[0]}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
