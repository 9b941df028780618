"""A shop's own Pulumi program: its orders, and the service that its manuals are searched with."""

import pulumi

from infra import cloudflare
from infra.config import RagConfig
from infra.sections import Cors, Embedding, MetadataField
from infra.settings import RagStackArgs
from infra.stack import RagStack

settings = pulumi.Config()
account, token = settings.require("accountId"), pulumi.Config("cloudflare").require_secret("apiToken")

orders = cloudflare.Queue("orders", account_id=account, queue_name=f"shop-{pulumi.get_stack()}-orders")

manuals = RagStack(
    "manuals",
    RagStackArgs(
        project=pulumi.get_project(),
        stack=pulumi.get_stack(),
        config=RagConfig(
            name="manuals",
            embedding=Embedding(model="@cf/baai/bge-small-en-v1.5"),
            metadata={"product": MetadataField(type="string", description="Article number")},
            cors=Cors(origins=("https://shop.example.com",)),
            allow_data_loss=settings.get_bool("allowDataLoss") or False,
        ),
        account_id=account,
        api_token=token,
        secrets={"INTERNAL_API_SECRET": settings.require_secret("internalApiSecret")},
    ),
)

pulumi.export("ordersQueue", orders.queue_name)
pulumi.export("manualsUrl", manuals.outputs["url"])
