"""The dashboard's page as it is served: to whom, and what it may load."""

import re
from types import SimpleNamespace

from .conftest import Client, connect
from .loading import rendered


async def test_the_page_needs_no_key_and_may_load_nothing(stranger: Client) -> None:
    answer = await stranger.get("/")
    policy = answer.headers["content-security-policy"]
    assert answer.status_code == 200
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert not re.search(r"""(src|href)=["'](?!data:,|#)""", answer.text)


async def test_without_the_dashboard_there_is_no_page(env: SimpleNamespace) -> None:
    async with connect(rendered(dashboard=False), env) as client:
        assert (await client.get("/")).status_code == 404
