"""Errors whose message is meant for the person at the terminal."""


class CfragError(Exception):
    """Base of every error that is shown as one message, without a traceback.

    The message names the thing, its value, the limit it broke and the way out.
    """


class ConfigError(CfragError):
    """The configuration of a stack can't be used.

    `problems` holds one `(key, message)` per fault, the key as Pulumi spells it,
    for example `cf-rag:rag.metadata.author.type`.
    """

    def __init__(self, problems: list[tuple[str, str]]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(f"{key}: {message}" for key, message in problems))


class BundleError(CfragError):
    """A Worker bundle can't be rendered, stored or read back."""
