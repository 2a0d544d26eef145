"""Certificates: what holds for every provider that names the one of its signature itself."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.core.signature import Unchecked, Valid
from gateway.providers import schemes
from tests.providers.certified import (
    EXPIRED,
    NOTIFICATION,
    ROUTE,
    WRONG,
    check,
    paypal,
    posted,
    sns,
    web,
)
from tests.providers.publishers import NOW, Web, certificate, pem, rsa_key, signature_of

SENT = {"aws-sns": posted(sns(NOTIFICATION)), "paypal": paypal()}
OTHER = {"aws-sns": posted(sns(NOTIFICATION, name="two")), "paypal": paypal(name="two")}
each = pytest.mark.parametrize("scheme", SENT)


@each
async def test_a_certificate_in_a_file_makes_fetching_needless(scheme: str, tmp_path: Path) -> None:
    file = tmp_path / "provider.pem"
    file.write_bytes(certificate(rsa_key("two"), since=0, until=1) + pem(rsa_key("one")))
    source = Web()
    signature = replace(ROUTE[scheme], keys=(str(file),))
    assert await check(signature, SENT[scheme], source=source) == Valid(0)
    # A file is the operator's word; only what is fetched has to be current.
    assert await check(signature, OTHER[scheme], source=source) == Valid(0)
    assert source.fetched == []


@each
async def test_another_key_than_the_certificates_is_refused(scheme: str) -> None:
    assert await check(ROUTE[scheme], OTHER[scheme]) == WRONG


@each
async def test_without_the_certificate_nobody_knows(scheme: str) -> None:
    source = web()
    source.is_away = True
    assert isinstance(await check(ROUTE[scheme], SENT[scheme], source=source), Unchecked)


@each
@pytest.mark.parametrize("off", [-2e6, 2e6])
async def test_a_certificate_out_of_its_dates_tells_nothing(scheme: str, off: float) -> None:
    assert isinstance(await check(ROUTE[scheme], SENT[scheme], NOW + off), Unchecked)


@each
@pytest.mark.parametrize(
    ("off", "is_late"), [(-301, True), (-299, False), (299, False), (301, True)]
)
async def test_a_tolerance_is_heeded_where_one_is_set(scheme: str, off: int, is_late: bool) -> None:
    signature = replace(ROUTE[scheme], tolerance=300)
    answer = EXPIRED if is_late else Valid(0)
    assert await check(signature, SENT[scheme], NOW + off) == answer
    assert await check(signature, OTHER[scheme], NOW + off) == WRONG


@each
def test_what_says_whom_it_is_for_has_to_be_set(scheme: str) -> None:
    with pytest.raises(ValueError, match="not checked without"):
        schemes.verifier(signature_of(scheme), web().store())
    assert set(dict(ROUTE[scheme].expected)) == set(schemes.scheme(scheme).needs)


@each
@given(noise=st.binary(max_size=60), body=st.binary(max_size=60))
async def test_whatever_is_sent_a_check_never_raises(
    scheme: str, noise: bytes, body: bytes
) -> None:
    lines = tuple((name, noise) for name, _ in SENT[scheme].headers)
    for one in (SENT[scheme]._replace(headers=lines), SENT[scheme]._replace(body=body)):
        assert not isinstance(await check(ROUTE[scheme], one), Valid)
