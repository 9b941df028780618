"""Calls of services that fail now and then: tried again with growing delay, unless that is no use."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from rag.timing import Service, span

T = TypeVar("T")

# Seconds before the second, third … try of one request; the queue has longer ones.
DELAYS = (0.2, 0.8)


async def call(
    service: Service,
    attempt: Callable[[], Awaitable[T]],
    *,
    refusal: Callable[[Exception], Exception | None],
    failure: Callable[[Exception], Exception],
) -> T:
    """The result of `attempt`, which makes one call of the service per try.

    `refusal` tells errors that no other try would change, as what to raise for them; what fails to the last
    raises `failure` of the last error.
    """
    for delay in (*DELAYS, None):
        try:
            async with span(service):
                return await attempt()
        except Exception as error:
            if (refused := refusal(error)) is not None:
                raise refused from error
            if delay is None:
                raise failure(error) from error
            await asyncio.sleep(delay)
    raise AssertionError("the last try returns or raises")
