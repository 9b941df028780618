"""Who gets in, and what the others are told."""

import httpx
import pytest
from cloudflare import AuthenticationError, Cloudflare, PermissionDeniedError

from local.api.guard import Budget
from local.envelope import ApiError
from tests.local_api.server import LocalServer


def error(answer: httpx.Response) -> tuple[int, int]:
    body = answer.json()
    assert body["success"] is False
    assert body["result"] is None
    return answer.status_code, body["errors"][0]["code"]


def test_a_good_token_is_verified_by_the_official_client(server: LocalServer) -> None:
    verified = server.client().user.tokens.verify()
    assert verified is not None
    assert verified.status == "active"


def test_a_wrong_token_is_refused_as_cloudflare_does(server: LocalServer) -> None:
    base_url = f"{server.url}/client/v4"
    with (
        Cloudflare(api_token="wrong", base_url=base_url, max_retries=0) as client,
        pytest.raises(AuthenticationError, match="10000"),
    ):
        client.d1.database.list(account_id=server.account)


@pytest.mark.parametrize("header", ["", "Bearer", "Bearer\tx", "Basic x", "Bearer ümläut"])
def test_a_malformed_authorization_is_a_401(server: LocalServer, header: str) -> None:
    answer = server.raw("GET", "/client/v4/accounts", headers={"Authorization": header.encode()})
    assert error(answer) == (401, 10000)


def test_another_account_is_forbidden(server: LocalServer) -> None:
    with pytest.raises(PermissionDeniedError, match="10000"):
        server.client().d1.database.list(account_id="0" * 32)


def test_a_malformed_account_id_is_no_route(server: LocalServer) -> None:
    assert error(server.raw("GET", "/client/v4/accounts/mine/d1/database")) == (404, 7003)


def test_an_unknown_route_is_an_envelope_with_the_path(server: LocalServer) -> None:
    answer = server.api("GET", "/kv/namespaces")
    assert error(answer) == (404, 7003)
    assert "/kv/namespaces" in answer.json()["errors"][0]["message"]


def test_a_wrong_method_is_an_envelope(server: LocalServer) -> None:
    assert error(server.api("DELETE", "/d1/database")) == (405, 10405)


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example", ""])
def test_a_foreign_host_name_is_refused_even_with_the_token(server: LocalServer, host: str) -> None:
    assert error(server.raw("GET", "/client/v4/accounts", headers={"Host": host})) == (403, 10000)


@pytest.mark.parametrize("path", ["/__local/status", "/__local/faults"])
def test_controls_want_the_token(server: LocalServer, path: str) -> None:
    assert error(httpx.get(server.url + path)) == (401, 10000)


def test_bindings_want_their_own_token(server: LocalServer) -> None:
    # The API's token is not enough: a Worker's binding is not an API call.
    assert error(server.raw("POST", "/__bindings/vectorize/x/query", json=[])) == (403, 10000)


def test_accounts_lists_the_one_account(server: LocalServer) -> None:
    assert [account.id for account in server.client().accounts.list()] == [server.account]


def test_a_body_that_is_not_json_is_a_400(server: LocalServer) -> None:
    headers = {"Content-Type": "application/json"}
    assert error(server.api("POST", "/d1/database", content=b"{", headers=headers)) == (400, 6007)
    assert error(server.api("POST", "/d1/database", json=["list"])) == (400, 6007)


def test_the_call_budget_is_1200_in_five_minutes() -> None:
    time = 0.0
    budget = Budget(lambda: time)
    budget.enabled = True
    for _ in range(1200):
        budget.spend()
    time = 100.0
    with pytest.raises(ApiError) as refused:
        budget.spend()
    assert (refused.value.status, refused.value.headers["Retry-After"]) == (429, "201")
    time = 301.0
    budget.spend()


def test_the_budget_counts_only_the_rest_api(own_server: LocalServer) -> None:
    own_server.control("PUT", "/settings", {"apiBudget": True})
    with httpx.Client(headers={"Authorization": f"Bearer {own_server.info['token']}"}) as client:
        answers = [client.get(f"{own_server.url}/client/v4/accounts").status_code for _ in range(1201)]
    assert answers == [200] * 1200 + [429]
    assert own_server.control("GET", "/status")["settings"]["apiBudget"] is True
