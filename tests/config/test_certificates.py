"""Certificates that cannot work are found before anything listens."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.config import ServerTls, fingerprint
from tests.config.conftest import Mistakes, Read, whole, write_pair

LISTEN = "listen: {address: 127.0.0.1:8443, tls: {cert: a.pem, key: %s}}"


@pytest.fixture(autouse=True)
def pairs(tmp_path: Path) -> None:
    write_pair(tmp_path, "a")
    write_pair(tmp_path, "b")


def test_a_certificate_and_its_key_are_accepted_and_watched(read: Read, tmp_path: Path) -> None:
    loaded = read(whole(top=LISTEN % "a.key"))
    assert loaded.listen[0].tls == ServerTls(str(tmp_path / "a.pem"), str(tmp_path / "a.key"))
    (tmp_path / "a.pem").write_text("renewed")
    assert fingerprint(loaded.files) != loaded.digest


def test_a_key_of_another_certificate_is_refused(mistakes: Mistakes) -> None:
    assert mistakes(whole(top=LISTEN % "b.key")) == [
        "gateway.yaml:2: listen.tls: certificate and key do not belong together, or are not PEM "
        "without passphrase; write the files that were issued together"
    ]


def test_a_key_that_is_not_there_is_refused(mistakes: Mistakes, tmp_path: Path) -> None:
    assert mistakes(whole(top=LISTEN % "c.key")) == [
        f"gateway.yaml:2: listen.tls.key: cannot read {tmp_path / 'c.key'}: "
        "No such file or directory; write a file that exists"
    ]


def test_a_consumer_may_want_a_certificate_of_ours(read: Read, tmp_path: Path) -> None:
    text = whole().replace(
        '{url: "http://127.0.0.1:3000"}',
        '{url: "https://consumer", tls: {ca: b.pem, cert: a.pem, key: a.key}}',
    )
    tls = read(text).routes[0].upstream.tls
    assert (tls.ca, tls.cert, tls.key) == (
        str(tmp_path / "b.pem"),
        str(tmp_path / "a.pem"),
        str(tmp_path / "a.key"),
    )


def test_a_check_without_the_environment_does_not_look_for_its_files(read: Read) -> None:
    text = whole(top=LISTEN % '"${KEY_FILE}"')
    assert read(text, variables_required=False).listen[0].tls is not None
