"""The gateway's schemes and the providers' own libraries agree, both ways."""

from __future__ import annotations

import time
from importlib.metadata import version

import pytest

from gateway.core.signature import Flaw, Invalid, Valid
from gateway.providers import schemes
from tests.providers.libraries_dated import DATED
from tests.providers.libraries_undated import UNDATED
from tests.providers.library import Library
from tests.providers.signed import check, sign, signature_of, with_one_byte_changed

LIBRARIES = (*DATED, *UNDATED)
every_library = pytest.mark.parametrize("library", LIBRARIES, ids=lambda one: one.name)
every_dated = pytest.mark.parametrize("library", DATED, ids=lambda one: one.name)
every_signing = pytest.mark.parametrize(
    "library",
    [one for one in LIBRARIES if schemes.scheme(one.scheme).signs],
    ids=lambda one: one.name,
)
# The libraries read the clock of this machine.
NOW = int(time.time())


@every_library
async def test_what_the_library_signs_is_accepted(library: Library) -> None:
    secret, _ = library.secrets
    signed = library.signs(secret, NOW)
    assert library.accepts(secret, signed)
    assert await check(signature_of(library.scheme, secret), signed, NOW) == Valid(0)


@every_signing
async def test_the_library_accepts_what_is_signed_anew(library: Library) -> None:
    current, former = library.secrets
    came = library.signs(former, NOW - 86_400)
    signature = signature_of(library.scheme, current, former)
    sent = sign(signature, came, NOW)
    assert library.accepts(current, sent)
    assert await check(signature, sent, NOW) == Valid(0)
    assert [name for name, _ in sent.headers] == [name for name, _ in came.headers]


@every_library
async def test_the_secret_that_signed_is_named_wherever_it_stands(library: Library) -> None:
    current, former = library.secrets
    signed = library.signs(former, NOW)
    in_order = signature_of(library.scheme, current, former)
    assert await check(in_order, signed, NOW) == Valid(1)
    turned = signature_of(library.scheme, former, current)
    assert await check(turned, signed, NOW) == Valid(0)


@every_library
async def test_another_secret_is_wrong(library: Library) -> None:
    current, former = library.secrets
    signed = library.signs(former, NOW)
    found = await check(signature_of(library.scheme, current), signed, NOW)
    assert found == Invalid(Flaw.WRONG)
    assert not library.accepts(current, signed)


@every_library
async def test_one_changed_byte_is_refused(library: Library) -> None:
    secret, _ = library.secrets
    signature = signature_of(library.scheme, secret)
    signed = library.signs(secret, NOW)
    changed = list(with_one_byte_changed(signed, library.headers, body=library.covers_body))
    assert changed or not library.covers_body
    for where, one in changed:
        found = await check(signature, one, NOW)
        assert found in (Invalid(Flaw.WRONG), Invalid(Flaw.MISSING)), where


@every_dated
async def test_what_is_right_and_too_old_or_too_new_is_expired(library: Library) -> None:
    secret, _ = library.secrets
    signature = signature_of(library.scheme, secret, tolerance=60)
    signed = library.signs(secret, NOW)
    for now in (NOW - 60, NOW, NOW + 60):
        assert await check(signature, signed, now) == Valid(0)
    for now in (NOW - 61, NOW + 61, NOW + 10**6):
        assert await check(signature, signed, now) == Invalid(Flaw.EXPIRED)


@every_dated
async def test_what_is_wrong_is_wrong_however_old(library: Library) -> None:
    current, former = library.secrets
    signed = library.signs(former, NOW)
    found = await check(signature_of(library.scheme, current), signed, NOW + 10**6)
    assert found == Invalid(Flaw.WRONG)


@every_dated
async def test_without_a_tolerance_any_time_will_do(library: Library) -> None:
    secret, _ = library.secrets
    signature = signature_of(library.scheme, secret, tolerance=None)
    assert await check(signature, library.signs(secret, NOW), NOW + 10**8) == Valid(0)


@every_library
def test_the_proof_names_the_version_that_is_installed(library: Library) -> None:
    proof = schemes.scheme(library.scheme).proof
    assert proof is not None
    assert f"{library.package} {'.'.join(version(library.package).split('.')[:2])}" in proof
