"""What a terminal sees of Prefect's own threads."""

import logging

import pytest

from flows.cli.narration import without_tracebacks_of_services


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
    for _ in range(3):
        try:
            raise ConnectionRefusedError("refused")
        except ConnectionRefusedError:
            services.error("Service %r failed to process item %r", "EventsWorker", 1, exc_info=True)
    services.removeHandler(lines)
    said = capsys.readouterr().err
    assert said.count("The Prefect server does not answer") == 1
    assert "Traceback" not in said and "EventsWorker" not in said
    assert not logging.raiseExceptions
