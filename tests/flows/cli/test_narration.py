"""What a terminal sees of Prefect's own threads."""

import logging

import httpx
import pytest
from prefect.exceptions import ObjectNotFound

from flows.cli.launch import server_may_go_away
from flows.cli.narration import without_tracebacks_of_services
from flows.cli.prefect_server import ServerGoneError


def test_a_server_that_goes_away_is_one_line_however_often_it_is_missed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    services = logging.getLogger("prefect._internal.concurrency")
    monkeypatch.setattr(logging, "raiseExceptions", True)
    monkeypatch.setattr(services, "filters", [])
    lines = logging.StreamHandler()
    services.addHandler(lines)
    without_tracebacks_of_services()
    without_tracebacks_of_services()
    for traceback in (False, False, True):  # which is there where Prefect debugs
        try:
            raise ConnectionRefusedError("refused")
        except ConnectionRefusedError:
            services.error("Service %r failed to process item %r", "EventsWorker", 1, exc_info=traceback)
    services.removeHandler(lines)
    said = capsys.readouterr().err
    assert said.count("The Prefect server does not answer") == 1
    assert "Traceback" not in said and "EventsWorker" not in said
    assert not logging.raiseExceptions


def test_a_flow_that_ends_for_want_of_its_server_is_one_error() -> None:
    with pytest.raises(ServerGoneError, match=r"does not answer any more.*ask again"), server_may_go_away():
        httpx.get("http://127.0.0.1:9/api/health")


def test_a_server_that_was_replaced_by_another_one_is_one_error() -> None:
    gone = ObjectNotFound(http_exc=Exception("404"))
    with pytest.raises(ServerGoneError, match=r"does not know this flow run any more.*ask again"), server_may_go_away():
        raise gone
