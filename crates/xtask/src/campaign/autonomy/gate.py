"""The gate in the middle: a fresh home, the servers added as a person adds them, the official client in front, and a person who answers.

The person's answers go over the operator interface, with a credential the agent does not have.
"""

import contextlib
import json
import re
import socket
import subprocess
import tempfile
import time
from pathlib import Path

import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from world import CONSEQUENTIAL, SERVER_OF, SERVERS

# The level of every server. One for all, so that nothing is stopped because of how secret it is.
LEVEL = "INTERNAL"
CALLER = "agent"
# What the gate's usual bundle says, and what a careful person adds to it.
RULES = Path(__file__).parents[4] / "policy" / "bundles" / "balanced.cedar"
OWN = Path(__file__).with_name("own.cedar")
WAITS = re.compile(r"approvals show (\w+)")


class Gate:
    """A running gate. Use it as a context manager; it leaves no process behind."""

    def __init__(self, program, has_own_rules=False):
        self.program, self.has_own_rules = program, has_own_rules

    def __enter__(self):
        self.folder = tempfile.TemporaryDirectory(prefix="autonomy-")
        self.home = Path(self.folder.name)
        if self.has_own_rules:
            (self.home / "own.cedar").write_text(RULES.read_text() + OWN.read_text())
            (self.home / "portcullis.yaml").write_text("policy: { bundle: own.cedar }\n")
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.address = f"http://127.0.0.1:{self.port}"
        self.log = (self.home / "gate.log").open("wb")
        self.process = subprocess.Popen(
            [*self.command(), "up", "--no-snippets", "--listen", f"127.0.0.1:{self.port}"],
            stdin=subprocess.DEVNULL,
            stdout=self.log,
            stderr=self.log,
        )
        self.wait_until_ready()
        return self

    def __exit__(self, *_):
        self.process.terminate()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
        self.log.close()
        self.folder.cleanup()

    def command(self):
        return [self.program, "--home", str(self.home)]

    def run(self, *arguments, text=None):
        """Runs a verb of the command line, as a script does: nobody is there to be asked."""
        said = subprocess.run([*self.command(), *arguments], input=text or "", capture_output=True, text=True)
        if said.returncode != 0:
            raise RuntimeError(f"portcullis {' '.join(arguments)}: {said.stderr}{said.stdout}")
        return said.stdout

    def wait_until_ready(self):
        for _ in range(600):
            with contextlib.suppress(httpx2.HTTPError):
                if httpx2.get(f"{self.address}/readyz").status_code == 200:
                    return
            if self.process.poll() is not None:
                break
            time.sleep(0.05)
        raise RuntimeError("the gate did not start:\n" + (self.home / "gate.log").read_text())

    def token(self, name, *options):
        return json.loads(self.run("--json", "token", "new", name, *options))["token"]

    def add_servers(self, addresses):
        """README's way: an address and a classification, and nothing else said."""
        for name, address in addresses.items():
            self.run("servers", "add", name, "--url", address, "--classification", LEVEL, "--yes")

    def declare_everything(self):
        """What a careful person would say: strangers write into all of these, and what each tool does."""
        for name, (_, tools) in SERVERS.items():
            self.run("servers", "set", name, "open-world", "true")
            effects = [f"{tool}={'consequential' if tool in CONSEQUENTIAL else 'read'}" for tool in tools]
            self.run("servers", "set", name, "effect", *effects)


class Person:
    """Who answers calls that wait, and begins conversations: with a reset, or with the words of the task."""

    def __init__(self, gate, token, gives_words):
        self.gives_words = gives_words
        self.http = httpx2.AsyncClient(
            base_url=f"{gate.address}/v1/admin/", headers={"Authorization": f"Bearer {token}"}, timeout=30
        )

    async def ask(self, path, body):
        said = await self.http.post(path, json=body)
        if said.status_code >= 300:
            raise RuntimeError(f"{path}: {said.status_code} {said.text}")
        return said.json()

    async def begin(self, words):
        if self.gives_words:
            await self.ask("tasks", {"caller": CALLER, "text": words})
        else:
            await self.ask(f"sessions/{CALLER}/reset", {"reason": "a new task"})

    async def answer(self, approval, is_yes):
        verb = "approve" if is_yes else "deny"
        await self.ask(f"approvals/{approval}/{verb}", {"reason": "the evaluation"})


class ThroughGate:
    """The official client, connected to the gate."""

    def __init__(self, client, person, plans):
        self.client, self.person, self.plans = client, person, plans

    async def begin(self, words, steps):
        await self.person.begin(words)
        if self.plans and steps:
            declared = await self.client.call_tool("portcullis__plan", {"steps": steps})
            if declared.is_error:
                raise RuntimeError(f"the plan was refused: {said_in(declared)}\n{steps}")

    async def call(self, tool, arguments, is_yes):
        """Makes a call; whether a person had to answer, and what was said."""
        asked = set()

        async def progress(_progress, _total, message):
            found = WAITS.search(message or "")
            if found and found[1] not in asked:
                asked.add(found[1])
                await self.person.answer(found[1], is_yes)

        name = f"{SERVER_OF[tool]}__{tool}"
        result = await self.client.call_tool(name, arguments, progress_callback=progress)
        return bool(asked), said_in(result)


class Straight:
    """The official client, connected to the servers themselves: the control."""

    def __init__(self, clients):
        self.clients = clients

    async def begin(self, _words, _steps):
        pass

    async def call(self, tool, arguments, _is_yes):
        result = await self.clients[SERVER_OF[tool]].call_tool(tool, arguments)
        return False, said_in(result)


def said_in(result):
    return "".join(getattr(block, "text", None) or "" for block in result.content)


@contextlib.asynccontextmanager
async def through(gate, gives_words, plans):
    agent, person = gate.token(CALLER), gate.token("person", "--role", "operator")
    async with httpx2.AsyncClient(headers={"Authorization": f"Bearer {agent}"}, timeout=60) as http:
        door = streamable_http_client(f"{gate.address}/mcp", http_client=http)
        async with Client(door, read_timeout_seconds=60) as client:
            yield ThroughGate(client, Person(gate, person, gives_words), plans)


@contextlib.asynccontextmanager
async def straight(addresses):
    async with contextlib.AsyncExitStack() as stack:
        clients = {}
        for name, address in addresses.items():
            http = await stack.enter_async_context(httpx2.AsyncClient(timeout=60))
            door = streamable_http_client(address, http_client=http)
            clients[name] = await stack.enter_async_context(Client(door, read_timeout_seconds=60))
        yield Straight(clients)
