"""What is staged joins the choices of the Run forms on a real server, and leaves them once it is gone."""

from prefect.settings import PREFECT_API_URL, temporary_settings

from blocks.settings import KubernetesSection
from deployments.register import finish_forms
from deployments.stack import DEMO
from tests.conftest import Running


def offered(running: Running, deployment: str) -> list[str]:
    found = running.api("GET", f"/deployments/name/{deployment}")
    assert isinstance(found, dict)
    tabs = found["parameter_openapi_schema"]["properties"]["model"].get("anyOf")
    choices: list[str] = tabs[0]["enum"] if tabs else []
    return choices


def test_what_is_staged_is_a_choice_until_it_is_gone_and_anything_else_is_taken(running: Running) -> None:
    model = "/volume/models/only-here"
    weights = {"name": "only-here", "source": str(DEMO / "repos" / "models" / "slipway" / "tiny-lm")}
    asked = running.run("stage/local", volume="choices", model=None, dataset=None, weights=weights)

    running.completed(asked)
    for deployment in ("finetune/local", "pipeline/local", "sweep/local"):
        assert model in offered(running, deployment)

    later = running.run("finetune/local", name="later", volume="choices", model="/volume/models/later")
    running.wait(later, "FAILED")
    assert running.logged(later, "/volume/models/later")

    running.cluster.volumes.delete("choices")
    settings, notes = running.stack.settings(), list[str]()
    away = KubernetesSection(kind="kubernetes", owner="me", image="i", kubeconfig="/nowhere")
    with temporary_settings({PREFECT_API_URL: running.url}):
        finish_forms(settings.model_copy(update={"clusters": {"away": away, **settings.clusters}}), notes.append)
        assert model in offered(running, "finetune/local"), "what can not be looked at keeps its choices"
        assert "Cluster away is not looked at" in notes[0] and "/nowhere" in notes[0]
        finish_forms(settings)
    assert all(model not in offered(running, name) for name in ("finetune/local", "pipeline/local", "sweep/local"))
