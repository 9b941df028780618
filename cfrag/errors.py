"""Exit codes, and the errors that lead to them."""

from enum import IntEnum

from infra.errors import CfragError


class Exit(IntEnum):
    """What a script can tell from the exit code."""

    OK = 0
    SOME_FAILED = 1
    BAD_INPUT = 2
    UNREACHABLE = 3
    REFUSED = 4


class InputError(CfragError):
    """The command line, a file or the environment can't be used as it is."""


class Unreachable(CfragError):
    """The service, or a program that a command needs, doesn't answer or can't be run."""


class Refused(CfragError):
    """The service answered, and said no. `status` is the HTTP status."""

    def __init__(self, message: str, status: int) -> None:
        self.status = status
        super().__init__(message)


class DemoFailed(CfragError):
    """A step of the demo came out other than it must."""


def exit_code(error: CfragError) -> Exit:
    if isinstance(error, DemoFailed):
        return Exit.SOME_FAILED
    if isinstance(error, Unreachable):
        return Exit.UNREACHABLE
    if isinstance(error, Refused):
        return Exit.UNREACHABLE if error.status >= 500 else Exit.REFUSED
    return Exit.BAD_INPUT
