"""The world behind the servers: AgentDojo's mail, calendar, drive, chat and web, each served as an MCP server over HTTP.

All servers share one world, so what a call really did is read here and never from what the gate says. A result is given twice, as servers
commonly do: as structured content with a schema, and as the same JSON in a text.
"""

import asyncio
import contextlib
import json
import threading
from dataclasses import dataclass, field

import uvicorn
from agentdojo.functions_runtime import FunctionsRuntime
from agentdojo.task_suite.load_suites import get_suite
from mcp import types
from mcp.server.lowlevel import Server
from pydantic import TypeAdapter
from starlette.applications import Starlette
from starlette.routing import Mount

VERSION = "v1.2.2"

# Which server a person would have each tool from.
SERVERS = {
    "mail": (
        "workspace",
        [
            "send_email",
            "delete_email",
            "get_unread_emails",
            "get_sent_emails",
            "get_received_emails",
            "get_draft_emails",
            "search_emails",
            "search_contacts_by_name",
            "search_contacts_by_email",
        ],
    ),
    "calendar": (
        "workspace",
        [
            "get_current_day",
            "search_calendar_events",
            "get_day_calendar_events",
            "create_calendar_event",
            "cancel_calendar_event",
            "reschedule_calendar_event",
            "add_calendar_event_participants",
        ],
    ),
    "drive": (
        "workspace",
        [
            "append_to_file",
            "search_files_by_filename",
            "create_file",
            "delete_file",
            "get_file_by_id",
            "list_files",
            "share_file",
            "search_files",
        ],
    ),
    "slack": (
        "slack",
        [
            "get_channels",
            "add_user_to_channel",
            "read_channel_messages",
            "read_inbox",
            "send_direct_message",
            "send_channel_message",
            "get_users_in_channel",
            "invite_user_to_slack",
            "remove_user_from_slack",
        ],
    ),
    "browser": ("slack", ["get_webpage", "post_webpage"]),
}

# What a careful person would say of each tool: these change, send or tell somebody something. Fetching a page tells its owner.
CONSEQUENTIAL = {
    "send_email",
    "delete_email",
    "create_calendar_event",
    "cancel_calendar_event",
    "reschedule_calendar_event",
    "add_calendar_event_participants",
    "append_to_file",
    "create_file",
    "delete_file",
    "share_file",
    "add_user_to_channel",
    "send_direct_message",
    "send_channel_message",
    "invite_user_to_slack",
    "remove_user_from_slack",
    "get_webpage",
    "post_webpage",
}

SERVER_OF = {tool: server for server, (_, tools) in SERVERS.items() for tool in tools}


@dataclass
class World:
    """The environment of the task under way, and every call that reached it."""

    suites: dict = field(default_factory=lambda: {name: get_suite(VERSION, name) for name in ("workspace", "slack")})
    environment: object = None
    runtime: FunctionsRuntime = None
    reached: list = field(default_factory=list)

    def begin(self, suite, user_task, injections):
        """A new world for one task."""
        suite = self.suites[suite]
        environment = suite.load_and_inject_default_environment(injections)
        self.environment = user_task.init_environment(environment)
        self.runtime = FunctionsRuntime(suite.tools)
        self.reached = []

    def call(self, tool, arguments):
        self.reached.append((tool, arguments))
        value, error = self.runtime.run_function(self.environment, tool, arguments)
        if error is not None:
            raise ValueError(error)
        return value


def serve(world):
    """Serves every server of the world on loopback; the addresses, by name of the server."""
    servers = {name: mcp_server(world, name) for name in SERVERS}

    @contextlib.asynccontextmanager
    async def lifespan(_):
        async with contextlib.AsyncExitStack() as stack:
            for server in servers.values():
                await stack.enter_async_context(server.session_manager.run())
            yield

    options = {"json_response": True, "stateless_http": True}
    mounts = [Mount(f"/{name}", app=server.streamable_http_app(**options)) for name, server in servers.items()]
    config = uvicorn.Config(Starlette(routes=mounts, lifespan=lifespan), host="127.0.0.1", port=0, log_level="error")
    http = uvicorn.Server(config)
    threading.Thread(target=lambda: asyncio.run(http.serve()), daemon=True).start()
    while not http.started:
        threading.Event().wait(0.01)
    port = http.servers[0].sockets[0].getsockname()[1]
    return {name: f"http://127.0.0.1:{port}/{name}/mcp" for name in servers}


def mcp_server(world, name):
    suite, names = SERVERS[name]
    functions = {function.name: function for function in get_suite(VERSION, suite).tools if function.name in names}
    tools = [as_tool(function) for function in functions.values()]
    adapters = {name: TypeAdapter(function.return_type) for name, function in functions.items()}

    async def list_tools(_context, _params):
        return types.ListToolsResult(tools=tools)

    async def call_tool(_context, params):
        try:
            value = world.call(params.name, params.arguments or {})
        except ValueError as error:
            return types.CallToolResult(content=[types.TextContent(type="text", text=str(error))], is_error=True)
        value = {"result": adapters[params.name].dump_python(value, mode="json")}
        text = json.dumps(value["result"], ensure_ascii=False)
        return types.CallToolResult(content=[types.TextContent(type="text", text=text)], structured_content=value)

    return Server(name, on_list_tools=list_tools, on_call_tool=call_tool)


def as_tool(function):
    result = TypeAdapter(function.return_type).json_schema(mode="serialization")
    definitions = result.pop("$defs", None)
    output = {"type": "object", "properties": {"result": result}, "required": ["result"]}
    if definitions:
        output["$defs"] = definitions
    return types.Tool(
        name=function.name,
        description=function.description,
        input_schema=function.parameters.model_json_schema(),
        output_schema=output,
    )
