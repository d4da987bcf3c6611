"""Everything that the embedded default runs, started and stopped together: Prefect server, worker, the demo's Hub.

`python -m deployments.stack up|down|clean`.
"""

import contextlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from blocks.clusters.errors import InUseError, SlipwayError
from blocks.clusters.local.files import remove_tree
from blocks.hub_access import HubAccess
from blocks.settings import Settings, load_settings
from deployments import server
from deployments.demo.assets import write_dataset, write_model
from deployments.processes import log_of, noted, start_noted, stop_noted
from deployments.server import Server

PROJECT = Path(__file__).resolve().parent.parent
DEMO = PROJECT / ".slipway" / "demo"
POOL = "local"
AT_ONCE = 16  # flow runs; the cluster has limits of its own for jobs
_PROFILE = PROJECT / "prefect.toml"
_MARK = "# written by `make up`, removed by `make down`\n"
_HUB_PORT = 4280
_LOOK_SECONDS = 0.1

Say = Callable[[str], None]


@dataclass(frozen=True)
class Stack:
    """The processes of one state folder.

    Args:
        state: where notes, logs, the server's home and the local cluster are.
        usual_ports: usual ports where they are free; False for any free ones.
    """

    state: Path = PROJECT / ".slipway"
    usual_ports: bool = True

    @property
    def home(self) -> Path:
        return self.state / "prefect"

    @property
    def running(self) -> bool:
        """Whether all of it runs."""
        parts = [server.running(self.home), noted(self.state, "hub"), noted(self.state, "worker")]
        return all(part is not None for part in parts)

    def settings(self) -> Settings:
        """The project's settings, with the local cluster in the state folder."""
        settings = load_settings(PROJECT / "slipway.toml")
        local = settings.clusters["local"].model_copy(update={"root": str(self.state / "local")})
        return settings.model_copy(update={"clusters": {**settings.clusters, "local": local}})

    def up(self, say: Say) -> Server:
        """Start what is not running: server, Hub, blocks, worker, deployments.

        Args:
            say: told what is being waited for.

        Raises:
            SlipwayError: a part did not start; names its log.
        """
        make_assets()
        endpoint = self._hub(say)
        running = server.running(self.home)
        if running:
            say(f"the Prefect server is running: {running.ui}")
        else:
            say("starting a Prefect server (SQLite, loopback)")
            port = None if self.usual_ports else server.free_port(0)
            running = server.start(self.home, port=port, waiting=_patience(say))
            if self.usual_ports and str(server.USUAL_PORT) not in running.ui:
                say(f"port {server.USUAL_PORT} is taken by something else: the server is at {running.ui}")
        os.environ.update(running.environment())  # before anything here imports prefect
        say("registering blocks")
        with _talking_to(running):
            _register(self.settings(), endpoint)
        say("deploying prefect.yaml and starting a worker")
        self._worker(running)
        self._deploy(running, _patience(say))
        return running

    def down(self, say: Say) -> None:
        """Stop what `up` started; jobs that run go on."""
        parts = ((self.state, "worker", "worker"), (self.home, "server", "Prefect server"), (self.state, "hub", "Hub"))
        for folder, name, what in parts:
            if stop_noted(folder, name):
                say(f"stopped the {what}")
        for job in self.live_jobs():
            say(f"job {job} goes on by itself: `slipway runs list` shows its run, `slipway runs stop` ends it")

    def live_jobs(self) -> list[str]:
        """Names of the jobs of the local cluster that are live."""
        return [job.name for job in self.settings().cluster().jobs.find({}) if job.live]

    def clean(self) -> None:
        """Remove the state folder: volumes, runs, server, reports.

        Raises:
            InUseError: a job is live, and would go on in removed files.
        """
        if live := self.live_jobs():
            raise InUseError(f"Jobs are live: {', '.join(live)}.", "End their runs first: `slipway runs stop RUN`.")
        remove_tree(self.state)  # beside supervisors of jobs that have ended, which still take their scratch away

    def _hub(self, say: Say) -> str:
        note = noted(self.state, "hub")
        if note:
            return str(note["url"])
        say("starting the demo's Hub")
        port = server.free_port(_HUB_PORT if self.usual_ports else 0)
        url = f"http://127.0.0.1:{port}"
        argv = [sys.executable, "-m", "deployments.hub.server", "--root", str(DEMO / "repos"), "--port", str(port)]
        start_noted(self.state, "hub", argv, {"PYTHONPATH": str(PROJECT)}, url=url)
        return url

    def _worker(self, running: Server) -> None:
        note = noted(self.state, "worker")
        if note and note.get("url") == running.url:
            return
        stop_noted(self.state, "worker")  # it asks a server that is there no more
        command = [sys.executable, "-m", "prefect", "worker", "start"]
        env = {**running.environment(), "PREFECT_WORKER_QUERY_SECONDS": "1"}
        start_noted(
            self.state, "worker", [*command, "--pool", POOL, "--type", "process", "--name", POOL], env, url=running.url
        )

    def _deploy(self, running: Server, waiting: Callable[[float], None]) -> None:
        argv = [sys.executable, "-m", "prefect", "--no-prompt", "deploy", "--all"]
        env = {**os.environ, **running.environment(), "PYTHONPATH": str(PROJECT)}
        log, begun = log_of(self.state, "deploy"), time.monotonic()
        with log.open("w") as out:
            process = subprocess.Popen(argv, cwd=PROJECT, env=env, stdout=out, stderr=out)
            while process.poll() is None:
                time.sleep(_LOOK_SECONDS)
                waiting(time.monotonic() - begun)
        if process.returncode:
            raise SlipwayError("Deploying prefect.yaml failed.", f"Its log says why: {log}.")
        from deployments.register import finish_forms

        with _talking_to(running):
            finish_forms(self.settings())


def write_profile(running: Server) -> None:
    """Let plain `prefect` commands in this folder find the server, unless the folder has its own prefect.toml."""
    if not _PROFILE.exists() or _PROFILE.read_text().startswith(_MARK):
        _PROFILE.write_text(f'{_MARK}[api]\nurl = "{running.url}"\n')


def remove_profile() -> None:
    if _PROFILE.is_file() and _PROFILE.read_text().startswith(_MARK):
        _PROFILE.unlink()


def make_assets() -> None:
    """Make the demo's model and dataset unless they are there; two processes that do it at once do no harm."""
    for folder, write in (
        (DEMO / "repos" / "models" / "slipway" / "tiny-lm", write_model),
        (DEMO / "harbour", write_dataset),
    ):
        if folder.exists():
            continue
        folder.parent.mkdir(parents=True, exist_ok=True)
        private = folder.with_name(f".{folder.name}.{os.getpid()}")
        write(private)
        try:
            private.rename(folder)
        except OSError:  # the other one was quicker
            shutil.rmtree(private)


@contextlib.contextmanager
def _talking_to(running: Server) -> Iterator[None]:
    """Let this process's Prefect talk to the server, also where it was imported with other settings before."""
    from prefect.settings import PREFECT_API_URL, temporary_settings

    with temporary_settings({PREFECT_API_URL: running.url}):
        yield


def _patience(say: Say, every_seconds: float = 15) -> Callable[[float], None]:
    """Say now and then that something is still waited for."""
    said = [every_seconds]

    def waiting(seconds: float) -> None:
        if seconds > said[0]:
            said[0] += every_seconds
            say("still at it; a busy machine takes a minute")

    return waiting


def _register(settings: Settings, endpoint: str) -> None:
    from prefect.client.orchestration import get_client
    from prefect.client.schemas.actions import WorkPoolCreate
    from prefect.exceptions import ObjectAlreadyExists

    from deployments.register import register

    register(settings, {"demo": HubAccess(endpoint=endpoint)})
    with get_client(sync_client=True) as client, contextlib.suppress(ObjectAlreadyExists):
        client.create_work_pool(WorkPoolCreate(name=POOL, type="process", concurrency_limit=AT_ONCE))


def main(verb: str) -> None:
    begun = time.monotonic()

    def say(text: str) -> None:
        print(f"[{time.monotonic() - begun:5.1f} s] {text}", flush=True)

    if verb in ("down", "clean"):
        Stack().down(say)
        remove_profile()
        if verb == "clean" and Stack().state.exists():
            Stack().clean()
            say("removed .slipway: the local cluster's volumes and runs, the server, the demo's reports")
        return
    running = Stack().up(say)
    write_profile(running)
    print(f"\nThe Prefect UI is at {running.ui}/v2/dashboard; in this folder `prefect deployment run 'finetune/local'`")
    print(f"works as it is, elsewhere after  export PREFECT_API_URL={running.url}")
    print(
        "The demo's Hub is the hub `demo` of slipway.toml: slipway stage model slipway/tiny-lm --hub demo --volume NAME"
    )
    print("`make down` ends all of this; training jobs go on.")


if __name__ == "__main__":
    try:
        main(sys.argv[1])
    except SlipwayError as error:
        sys.exit(f"error: {error}")
