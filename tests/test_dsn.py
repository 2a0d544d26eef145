"""A store's address that the gateway could not read is a mistake, and its password stays secret."""

from __future__ import annotations

import re

import pytest

from gateway.dsn import require_readable

MISPLACED = "has @ # / ? or a bracket where none can be; percent-encode them in the password"
UNREADABLE = [
    ("", "is not a Postgres URL"),
    ("mysql://u:hunter2@h/d", "is not a Postgres URL"),
    ("postgresql:/u:hunter2@h/d", "is not a Postgres URL"),
    ("postgresql://u:hunter2@h:abc/d", "port 'abc' is not a number; write one, as in host:5432"),
    ("postgresql://u:hunter2@a:1,b:x/d", "port 'x' is not a number"),
    ("postgresql://u:hunter2@h:70000/d", "port '70000' does not exist"),
    ("postgresql://u:hunter2@h:0/d", "port '0' does not exist"),
    ("postgresql://u:hunter2@::1/d", "port ':1' is not a number"),
    ("postgresql://u:hunter2@[::1]:x/d", "port 'x' is not a number"),
    ("postgresql://u:hunter2@[::1/d", "has a host that cannot be read; write a name, or [::1]"),
    ("postgresql://u:hunter2?user=2@h/d", "the port is not a number"),
    ("postgresql://u:hunter2@h/d#2", MISPLACED),
    ("postgresql://u:hunter2@a,,b/d", "has a host without a name; write host1,host2"),
    ("postgresql:///d?host=a,b&port=1,x", "port 'x' is not a number"),
    ("postgresql://u:hunter2@h/d?statement_cache_size=many", "statement_cache_size is not a"),
    ("postgresql://u:hunter2@h/d?sslmode=on", "sslmode is none that there is; write one of dis"),
    *(
        (f"postgresql://u:{password}@h:5432/d", MISPLACED)
        for password in (
            "hunter@2#w/hunter2",
            "hunter@2",
            "hunter#2",
            "hunter/2",
            "hunter/2?a",
            "hunter?2",
            "hunter?2=a",
            "hunter@2?a=2",
            "hunter[2",
            "hunter]2",
            "hunter℀2",
        )
    ),
]  # fmt: skip


@pytest.mark.parametrize(("dsn", "message"), UNREADABLE)
def test_a_dsn_that_cannot_be_read_is_refused_without_its_password(dsn: str, message: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(message)}") as refused:
        require_readable(dsn)
    assert "hunter" not in str(refused.value)


@pytest.mark.parametrize(
    "dsn",
    [
        "postgresql://h/d",
        "postgres://u:p%40ss%23w%2Frd@h:5432/d",
        "postgresql://u:p$${X}:y@h/d",
        "postgresql://u@a,b:2,[::1]:3,[::2]/d?sslmode=verify-full&statement_cache_size=0",
        "postgresql:///d",
        "postgresql://postgres@/postgres?host=%2Frun%2Fa%40b",
        "postgresql:///d?host=/run/a,/run/b&port=1,2",
        "postgresql://h/d?user=me@tenant&password=p@ss",
        "postgresql://h",
    ],
)
def test_a_dsn_that_means_something_is_taken(dsn: str) -> None:
    require_readable(dsn)
