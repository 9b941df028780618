"""Queues on this machine: a durable broker that calls the Workers consuming from it."""

from local.queues.dispatcher import Deliver, Dispatcher, Undeliverable
from local.queues.rest import routes
from local.queues.service import QueueService

__all__ = ["Deliver", "Dispatcher", "QueueService", "Undeliverable", "routes"]
