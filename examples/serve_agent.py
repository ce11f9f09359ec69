"""Serve a private bandit over HTTP: `uvicorn serve_agent:app --workers 1`.

One process owns the agent, and the server's threads share it. `python serve_agent.py` measures the
service. Requires `pip install 'dpcalib[serve]'`.
"""

import json
import os
import sys
import tempfile
import threading
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Annotated

import numpy as np

import bandits

try:
    import uvicorn
    from fastapi import Body, FastAPI, HTTPException
except ImportError:
    print("Skipped, because FastAPI is missing: pip install 'dpcalib[serve]'.")
    sys.exit()

Values = tuple[int, int, str, float | None]
"""The values of a ticket."""
algorithm = bandits.PrivateUCB(
    dimension=8, rounds=1_000_000, epsilon=1.0, delta=1e-8, late="next", grace=100
)


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    """Continue the agent of the folder, or start one. The journal makes a final save unneeded."""
    folder = Path(os.environ["AGENT_FOLDER"])
    exists = (folder / "agent.json").exists()
    app.state.agent = algorithm.restore(folder) if exists else algorithm.start(folder=folder)
    yield


app = FastAPI(lifespan=lifespan)


@app.post("/select")
def select(candidates: list[list[float]]) -> Values:
    """Recommend a candidate. Store the ticket with the recommendation."""
    try:
        return app.state.agent.select(candidates)
    except ValueError as error:
        raise HTTPException(422, str(error)) from error


@app.post("/reward")
def reward(ticket: Annotated[Values, Body()], reward: Annotated[float | None, Body()]) -> None:
    """Record the reward of a recommendation."""
    try:
        app.state.agent.update(bandits.Ticket(*ticket), reward)
    except ValueError as error:  # a second reward, or another agent's ticket
        raise HTTPException(409, str(error)) from error


def _client(port: int, rounds: int, seed: int) -> None:
    connection = HTTPConnection("127.0.0.1", port)
    rng = np.random.default_rng(seed)

    def post(path: str, form: object) -> object:
        connection.request("POST", path, json.dumps(form), {"Content-Type": "application/json"})
        answer = connection.getresponse()
        content = json.loads(answer.read())
        assert answer.status == 200, content
        return content

    for _ in range(rounds):
        ticket = post("/select", rng.standard_normal((20, 8)).round(3).tolist())
        post("/reward", {"ticket": ticket, "reward": 1.0})
    connection.close()


def measure(clients: int = 4, rounds: int = 100) -> tuple[float, float]:
    """Return rounds per second, and CPU seconds per round, of clients in this process."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ["AGENT_FOLDER"] = folder
        server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="warning"))
        service = threading.Thread(target=server.run)
        service.start()
        while not server.started:
            time.sleep(0.01)
        port = server.servers[0].sockets[0].getsockname()[1]
        workers = [threading.Thread(target=_client, args=(port, rounds, i)) for i in range(clients)]
        start, used = time.perf_counter(), time.process_time()
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        seconds, used = time.perf_counter() - start, time.process_time() - used
        server.should_exit = True
        service.join()
        assert algorithm.restore(folder).rounds == clients * rounds
    return clients * rounds / seconds, used / (clients * rounds)


if __name__ == "__main__":
    rate, cost = measure()
    print(f"{rate:.0f} rounds/s, {1000 * cost:.1f} ms of CPU per round of client and server")
