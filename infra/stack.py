"""RagStack: every resource of a deployment, from top to bottom."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pulumi
from pulumi import Output, Resource, ResourceOptions

from infra import bundle, cloudflare, wiring
from infra.adopt import Existing
from infra.bundle import store
from infra.bundle.tables import schema_revision
from infra.leftovers import Leftovers
from infra.resources import (
    CfragProvider,
    D1Migrations,
    EmbeddingSpace,
    SpaceActivation,
    VectorizeIndex,
    VectorizeMetadataIndex,
    WorkerVersion,
)
from infra.settings import RagStackArgs

MIGRATIONS = Path(__file__).resolve().parents[1] / "migrations"
# The name of the one stack of a program, whose parts are then called by their plain names.
ONLY = "rag"
# A message that was pulled from the dead-letter queue is away for this long.
_PULL_VISIBILITY_MS = 30_000
_DAY_SECONDS = 86_400


class RagStack(pulumi.ComponentResource):
    """A retrieval service: a vector index and a database, queues, and the Worker in front of them.

    Raises BundleError or ConfigError before anything is registered.
    """

    def __init__(self, name: str, args: RagStackArgs, opts: ResourceOptions | None = None) -> None:
        self.args, self.config = args, args.config
        # A second stack in the same program needs names of its own for what is in it.
        self.prefix = "" if name == ONLY else f"{name}-"
        self.names = args.config.names(args.stack)
        self.bundle = bundle.render(args.config)
        store.save(self.bundle, store.home())

        super().__init__("cfrag:index:RagStack", name, None, opts)
        self.providers = self._connect()
        self.leftovers = Leftovers(args.account_id, args.api_token, self.prefix)
        self.existing = self._adopted() if args.config.adopt else {}

        # First of all: refuses a change of dims, metric or generation that wasn't asked for.
        self.space = self._embedding_space()
        self.indexes = [self._index(space) for space in wiring.spaces(self.config, self.names)]
        self.metadata_indexes = self._metadata_indexes()

        self.database = self._database()
        self.migrations = self._migrations()

        self.dlq = self._queue("ingest-dlq", self.names.dlq, days=self.config.queue.dead_letter_days)
        self.queue = self._queue("ingest", self.names.ingest)

        self.worker = self._worker()
        self.version = self._uploaded()
        self.deployment = self._deployment()
        self.domain = self._domain()

        self.consumer = self._consumer()
        self.dlq_consumer = self._dlq_consumer()
        # Last: from here on the data moves to what the config wants.
        self.activation = self._activation()
        self.register_outputs(self.outputs)

    @property
    def outputs(self) -> dict[str, pulumi.Input[Any]]:
        """What other programs need to know of this stack; nothing in it is secret."""
        return {
            "url": self._url(),
            "workerName": self.names.worker,
            "versionId": self.version.version_id,
            "indexName": self.indexes[0].name,
            "databaseId": self.database.id,
            "databaseName": self.names.db,
            "queueId": self.queue.id,
            "queueName": self.names.ingest,
            "dlqId": self.dlq.id,
            "dlqName": self.names.dlq,
            "bundleSize": bundle.shown_size(self.bundle),
        }

    def _connect(self) -> list[pulumi.ProviderResource]:
        child, args = ResourceOptions(parent=self), self.args
        return [
            cloudflare.Provider(f"{self.prefix}cloudflare", api_token=args.api_token, opts=child),
            CfragProvider(
                f"{self.prefix}cfrag", api_token=args.api_token, account_id=args.account_id, opts=child
            ),
        ]

    def _adopted(self) -> Mapping[str, str]:
        """The ids to import, by the names that resources have in this class."""
        files = sorted(path.name for path in MIGRATIONS.glob("*.sql"))
        return Existing(self.config, self.names, self.prefix, files, self.providers[-1]).ids

    def _child(self, *after: Resource, **options: Any) -> ResourceOptions:
        """Options of a child that is made after others, and removed before them."""
        own = ResourceOptions(parent=self, providers=self.providers, depends_on=list(after))
        return ResourceOptions.merge(own, ResourceOptions(**options))

    @property
    def _keeps_data(self) -> bool:
        """For what holds data: `pulumi destroy` is refused before anything is touched."""
        return not self.config.allow_data_loss

    def _embedding_space(self) -> EmbeddingSpace:
        wanted, *old = wiring.spaces(self.config, self.names)
        return EmbeddingSpace(
            f"{self.prefix}space",
            owner=self.args.owner,
            database=self.names.db,
            index=wanted.name,
            model=wanted.model.name,
            pooling=wanted.model.pooling,
            dims=wanted.model.dims,
            metric=wanted.metric,
            generation=wanted.generation,
            replacing=self._replaced(old[0]) if old else None,
            opts=self._child(),
        )

    def _replaced(self, old: wiring.Space) -> dict[str, Any]:
        return {
            "generation": old.generation,
            "model": old.model.name,
            "dims": old.model.dims,
            "metric": old.metric,
            "index": old.name,
            "strategy": self.config.replacing and self.config.replacing.strategy,
        }

    def _index(self, space: wiring.Space) -> VectorizeIndex:
        """One index per generation: it never changes in place, so no change can ever replace it.

        While two exist, one of them will go, and D1 says which: the old one by a finish, the new one by an
        abort. Pulumi's own protection would refuse both.
        """
        leaving = self.config.replacing is not None
        deletion = "allowed" if self.config.allow_data_loss else "when-replaced" if leaving else "protected"
        return VectorizeIndex(
            f"{self.prefix}index-g{space.generation}",
            name=space.name,
            dims=space.model.dims,
            metric=space.metric,
            generation=space.generation,
            owner=self.args.owner,
            database=self.names.db,
            deletion=deletion,
            adopt=self.config.adopt,
            spaces=self.space.spaces,
            opts=self._child(self.space, protect=self._keeps_data and not leaving),
        )

    def _metadata_indexes(self) -> dict[str, VectorizeMetadataIndex]:
        return {
            f"{space_name}-{each.property_name}": VectorizeMetadataIndex(
                f"{self.prefix}{space_name}-{each.property_name}",
                index=index.name,
                property_name=each.property_name,
                index_type=each.type,
                database=self.names.db,
                opts=self._child(index, deleted_with=index),
            )
            for index, space_name in zip(self.indexes, self._generations(), strict=True)
            for each in self.config.metadata_indexes()
        }

    def _generations(self) -> list[str]:
        return [f"g{space.generation}" for space in wiring.spaces(self.config, self.names)]

    def _database(self) -> cloudflare.D1Database:
        return cloudflare.D1Database(
            f"{self.prefix}db",
            account_id=self.args.account_id,
            name=self.names.db,
            # Left out, it is an update after every refresh.
            read_replication={"mode": self.config.read_replication},
            opts=self._child(
                self.space,
                protect=self._keeps_data,
                hooks=self.leftovers.database,
                import_=self.existing.get("db"),
            ),
        )

    def _migrations(self) -> D1Migrations:
        files = {path.name: path.read_text() for path in sorted(MIGRATIONS.glob("*.sql"))}
        return D1Migrations(
            f"{self.prefix}migrations",
            database_id=self.database.id,
            migrations=files,
            opts=self._child(self.database),
        )

    def _queue(self, name: str, queue_name: str, days: int | None = None) -> cloudflare.Queue:
        """A queue that keeps its messages for so many days; without a number, for Cloudflare's default."""
        return cloudflare.Queue(
            f"{self.prefix}{name}",
            account_id=self.args.account_id,
            queue_name=queue_name,
            settings={"message_retention_period": days * _DAY_SECONDS} if days else None,
            opts=self._child(self.space, hooks=self.leftovers.queue, import_=self.existing.get(name)),
        )

    def _worker(self) -> cloudflare.Worker:
        observed, data = self.config.observability, (self.migrations, *self.metadata_indexes.values())
        return cloudflare.Worker(
            f"{self.prefix}worker",
            account_id=self.args.account_id,
            name=self.names.worker,
            subdomain={"enabled": self.config.serves_http, "previews_enabled": False},
            observability={"enabled": observed.enabled, "head_sampling_rate": observed.head_sampling_rate},
            opts=self._child(
                *data,
                self.queue,
                self.dlq,
                hooks=self.leftovers.worker,
                import_=self.existing.get("worker"),
            ),
        )

    def _uploaded(self) -> WorkerVersion:
        return WorkerVersion(
            f"{self.prefix}version",
            worker_id=self.worker.id,
            worker=self.worker.name,
            bundle=self.bundle.digest,
            bindings=self._bindings(),
            cpu_ms=self.config.cpu_ms,
            space=wiring.spaces(self.config, self.names)[0].key,
            spaces=self.space.spaces,
            bound=[self.queue.id, self.dlq.id],
            opts=self._child(self.worker),
        )

    def _bindings(self) -> dict[str, dict[str, Any]]:
        """The Worker's bindings by name, sorted: their order is no reason for a new version."""
        spaces = zip(wiring.spaces(self.config, self.names), self.indexes, strict=True)
        bindings: dict[str, dict[str, Any]] = {
            "AI": {"type": "ai"},
            "DB": {"type": "d1", "id": self.database.id},
            "RAG_INGEST_QUEUE": {"type": "queue", "queue_name": self.queue.queue_name},
            "RAG_DLQ": {"type": "queue", "queue_name": self.dlq.queue_name},
        }
        for space, index in spaces:
            if space.binding:
                bindings[space.binding] = {"type": "vectorize", "index_name": index.name}
        for name, value in wiring.variables(self.config).items():
            bindings[name] = {"type": "plain_text", "text": value}
        for name, secret in self.args.secrets.items():
            bindings[name] = {"type": "secret_text", "text": Output.secret(secret)}
        for name in self.config.inherit_secrets:
            bindings[name] = {"type": "inherit"}
        if rate := self.config.rate_limit:
            simple = {"limit": rate.limit, "period": rate.period}
            namespace = wiring.rate_namespace(self.names)
            bindings["RATE_LIMIT"] = {"type": "ratelimit", "namespace_id": namespace, "simple": simple}
        return dict(sorted(bindings.items()))

    def _deployment(self) -> cloudflare.WorkersDeployment:
        return cloudflare.WorkersDeployment(
            f"{self.prefix}deployment",
            account_id=self.args.account_id,
            script_name=self.worker.name,
            strategy="percentage",
            versions=[{"percentage": 100, "version_id": self.version.version_id}],
            opts=self._child(self.version),
        )

    def _domain(self) -> Sequence[Resource]:
        if not (domain := self.config.domain):
            return ()
        return (
            cloudflare.WorkersCustomDomain(
                f"{self.prefix}domain",
                account_id=self.args.account_id,
                hostname=domain.hostname,
                service=self.worker.name,
                zone_id=domain.zone_id,
                opts=self._child(self.deployment),
            ),
        )

    def _consumer(self) -> cloudflare.QueueConsumer:
        queue = self.config.queue
        settings: cloudflare.ConsumerSettings = {
            "batch_size": queue.batch_size,
            "max_retries": queue.max_retries,
            "max_wait_time_ms": queue.max_wait_seconds * 1000,
        }
        if queue.max_concurrency:
            settings["max_concurrency"] = queue.max_concurrency
        return cloudflare.QueueConsumer(
            f"{self.prefix}consumer",
            account_id=self.args.account_id,
            queue_id=self.queue.id,
            type="worker",
            script_name=self.worker.name,
            dead_letter_queue=self.dlq.queue_name,
            settings=settings,
            opts=self._child(self.deployment, hooks=self.leftovers.consumer),
        )

    def _dlq_consumer(self) -> cloudflare.QueueConsumer:
        """Lets tools pull from the dead-letter queue; without a consumer its messages just expire."""
        return cloudflare.QueueConsumer(
            f"{self.prefix}ingest-dlq-consumer",
            account_id=self.args.account_id,
            queue_id=self.dlq.id,
            type="http_pull",
            settings={"visibility_timeout_ms": _PULL_VISIBILITY_MS},
            opts=self._child(self.dlq, hooks=self.leftovers.consumer),
        )

    def _activation(self) -> SpaceActivation:
        return SpaceActivation(
            f"{self.prefix}activation",
            database_id=self.database.id,
            queue_id=self.queue.id,
            fingerprint=self.config.fingerprint(),
            generation=self.config.embedding.generation,
            schema_revision=schema_revision(self.config.metadata_indexes()),
            version_id=self.version.version_id,
            index=self.indexes[0].name,
            indexed={
                name: index.mutation_id.apply(lambda made: made or "")
                for name, index in self.metadata_indexes.items()
            },
            deletion="allowed" if self.config.allow_data_loss else "protected",
            # After everything, so that a destroy meets its refusal before anything else is gone.
            opts=self._child(self.consumer, self.dlq_consumer, *self.domain),
        )

    def _url(self) -> pulumi.Input[str | None]:
        if self.args.url:
            return self.args.url
        if self.config.domain:
            return f"https://{self.config.domain.hostname}"
        if not self.config.serves_http:
            return None
        return self.worker.subdomain.apply(lambda subdomain: subdomain.get("url"))
