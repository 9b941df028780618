from datetime import UTC, datetime, timedelta

import pytest

from cfrag.api_keys import NAME_CHARS, key_request, parse_expiry
from cfrag.errors import InputError

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("30m", NOW + timedelta(minutes=30)),
        ("12h", NOW + timedelta(hours=12)),
        ("90d", NOW + timedelta(days=90)),
        ("2w", NOW + timedelta(weeks=2)),
        ("2027-01-31", datetime(2027, 1, 31, tzinfo=UTC)),
        ("2027-01-31T12:00:00Z", datetime(2027, 1, 31, 12, tzinfo=UTC)),
        ("2027-01-31T12:00+01:00", datetime(2027, 1, 31, 11, tzinfo=UTC)),
    ],
)
def test_an_expiry_is_a_period_a_day_or_a_moment(text: str, expected: datetime) -> None:
    assert parse_expiry(text, NOW) == expected


def test_without_an_expiry_a_key_is_valid_until_it_is_revoked() -> None:
    assert parse_expiry(None, NOW) is None


@pytest.mark.parametrize(
    "text", ["", "soon", "90", "90 d", "0d", "-1d", "2027-02-30", "2027-01-31T12:00:00", "999999w"]
)
def test_what_is_no_expiry_is_refused_with_what_would_be(text: str) -> None:
    with pytest.raises(InputError, match="is no expiry; write 90d"):
        parse_expiry(text, NOW)


@pytest.mark.parametrize("text", ["2026-11-30", "2026-11-30T12:00:00Z", "2026-11-30T12:59:00+01:00"])
def test_an_expiry_that_is_over_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="in the past"):
        parse_expiry(text, NOW)


@pytest.mark.parametrize("name", ["", "   ", "x" * (NAME_CHARS + 1), "a\nb", "a\x1b[31m"])
def test_a_name_that_no_list_could_show_is_refused(name: str) -> None:
    with pytest.raises(InputError, match="--name"):
        key_request(name, ["read"], None)


def test_scopes_are_sorted_named_once_and_known() -> None:
    assert key_request("x", ["write", "read", "write"], None).scopes == ("read", "write")
    with pytest.raises(InputError, match='"admin" is no scope; there are: read, write'):
        key_request("x", ["read", "admin"], None)
