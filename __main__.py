"""A stack of cfrag, as the Pulumi CLI runs it."""

import signal
import threading

import pulumi

from infra.errors import CfragError
from infra.settings import RagStackArgs
from infra.stack import RagStack

# The engine interrupts the program when it refuses a resource: no reason for a traceback. The Automation API
# (`cfrag tenants`) runs it in a thread, which no signal reaches.
if threading.current_thread() is threading.main_thread():
    signal.signal(signal.SIGINT, signal.SIG_DFL)

try:
    stack = RagStack("rag", RagStackArgs.from_pulumi())
except CfragError as error:
    raise pulumi.RunError(str(error)) from None

for name, value in stack.outputs.items():
    pulumi.export(name, value)
