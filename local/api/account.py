"""The account itself: token, subdomain, and custom domains and routes, which are only remembered here."""

from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from local.api.guard import Credentials
from local.api.requests import json_object, page, text
from local.api.workers import find
from local.envelope import ApiError, JsonObject, ok
from local.state import State, new_id, now

DOMAIN_NOT_FOUND, ROUTE_NOT_FOUND, ROUTE_TAKEN = 100114, 10021, 10020


class AccountApi:
    def __init__(self, state: State, credentials: Credentials) -> None:
        self._state = state
        self._credentials = credentials

    def top_routes(self) -> list[Route]:
        """Routes outside of the account."""
        zone = "/zones/{zone_id}/workers/routes"
        return [
            Route("/user", self.user, methods=["GET"]),
            Route("/user/tokens/verify", self.verify, methods=["GET"]),
            Route("/accounts", self.accounts, methods=["GET"]),
            Route("/memberships", self.memberships, methods=["GET"]),
            Route("/accounts/{account_id}", self.account, methods=["GET"]),
            Route(zone, self.list_routes, methods=["GET"]),
            Route(zone, self.create_route, methods=["POST"]),
            Route(zone + "/{route_id}", self.get_route, methods=["GET"]),
            Route(zone + "/{route_id}", self.update_route, methods=["PUT"]),
            Route(zone + "/{route_id}", self.delete_route, methods=["DELETE"]),
        ]

    def routes(self) -> list[Route]:
        """Routes below `/accounts/{account_id}`."""
        return [
            Route("/tokens/verify", self.verify, methods=["GET"]),
            Route("/storage/kv/namespaces", self.no_kv, methods=["GET"]),
            Route("/workers/subdomain", self.subdomain, methods=["GET"]),
            Route("/workers/domains", self.list_domains, methods=["GET"]),
            Route("/workers/domains", self.put_domain, methods=["PUT"]),
            Route("/workers/domains/{domain_id}", self.get_domain, methods=["GET"]),
            Route("/workers/domains/{domain_id}", self.delete_domain, methods=["DELETE"]),
        ]

    async def user(self, _: Request) -> JSONResponse:
        return ok({"id": self._credentials.account_id, "email": "local@localhost"})

    async def verify(self, _: Request) -> JSONResponse:
        return ok({"id": self._credentials.account_id, "status": "active"})

    def _account(self) -> JsonObject:
        return {"id": self._credentials.account_id, "name": "local", "type": "standard", "settings": {}}

    async def account(self, _: Request) -> JSONResponse:
        return ok(self._account())

    async def accounts(self, request: Request) -> JSONResponse:
        return page(request, [self._account()])

    async def memberships(self, request: Request) -> JSONResponse:
        return page(request, [{"id": new_id(), "status": "accepted", "account": self._account()}])

    async def subdomain(self, _: Request) -> JSONResponse:
        return ok({"subdomain": "local"})

    async def no_kv(self, request: Request) -> JSONResponse:
        """wrangler looks here for the site of a Worker before it deletes one."""
        return page(request, [])

    # custom domains

    async def list_domains(self, request: Request) -> JSONResponse:
        hostname = request.query_params.get("hostname")
        return ok([d for d in self._state.objects("domain") if hostname in (None, d["hostname"])])

    async def put_domain(self, request: Request) -> JSONResponse:
        """Attach a host name to a Worker, or move it there."""
        body = await json_object(request)
        hostname, service = text(body, "hostname", 100117), text(body, "service", 100117)
        find(self._state, service)
        before = next((d for d in self._state.objects("domain") if d["hostname"] == hostname), None)
        domain = {
            "id": before["id"] if before else new_id(),
            "hostname": hostname,
            "service": service,
            "environment": body.get("environment", "production"),
            "zone_id": body.get("zone_id") or new_id(),
            "zone_name": body.get("zone_name") or hostname.partition(".")[2],
            "cert_id": before["cert_id"] if before else new_id(),
        }
        self._state.put_object("domain", domain["id"], domain)
        return ok(domain)

    async def get_domain(self, request: Request) -> JSONResponse:
        ident = request.path_params["domain_id"]
        return ok(self._object("domain", ident, DOMAIN_NOT_FOUND))

    async def delete_domain(self, request: Request) -> JSONResponse:
        ident = request.path_params["domain_id"]
        self._object("domain", ident, DOMAIN_NOT_FOUND)
        self._state.delete_object("domain", ident)
        return ok(None)

    # routes of a zone

    async def list_routes(self, request: Request) -> JSONResponse:
        zone = request.path_params["zone_id"]
        return ok([_shown(route) for route in self._state.objects("route") if route["zone_id"] == zone])

    async def create_route(self, request: Request) -> JSONResponse:
        return await self._put_route(request, new_id())

    async def update_route(self, request: Request) -> JSONResponse:
        ident = request.path_params["route_id"]
        self._object("route", ident, ROUTE_NOT_FOUND)
        return await self._put_route(request, ident)

    async def _put_route(self, request: Request, ident: str) -> JSONResponse:
        body = await json_object(request)
        pattern = text(body, "pattern", ROUTE_NOT_FOUND)
        others = (route for route in self._state.objects("route") if route["id"] != ident)
        if any(route["pattern"] == pattern for route in others):
            raise ApiError(409, ROUTE_TAKEN, f"A route with the pattern {pattern} already exists.")
        if script := body.get("script"):
            find(self._state, str(script))
        route = {"id": ident, "pattern": pattern, "script": script, "zone_id": request.path_params["zone_id"]}
        self._state.put_object("route", ident, {**route, "created_on": now()})
        return ok(_shown(route))

    async def get_route(self, request: Request) -> JSONResponse:
        return ok(_shown(self._object("route", request.path_params["route_id"], ROUTE_NOT_FOUND)))

    async def delete_route(self, request: Request) -> JSONResponse:
        ident = request.path_params["route_id"]
        self._object("route", ident, ROUTE_NOT_FOUND)
        self._state.delete_object("route", ident)
        return ok({"id": ident})

    def _object(self, kind: str, ident: str, code: int) -> JsonObject:
        for item in self._state.objects(kind):
            if item["id"] == ident:
                return item
        raise ApiError(404, code, f"The {kind} {ident} does not exist.")


def _shown(route: JsonObject) -> JsonObject:
    return {key: route[key] for key in ("id", "pattern", "script")}
