"""The official Python SDK with a person at it: call a tool, answer what is asked, say what happened as one JSON line.

usage: python_approver.py MODE CHOICE TOOL ARGUMENTS http URL TOKEN
       python_approver.py MODE CHOICE TOOL ARGUMENTS stdio COMMAND [ARGS...]

MODE is `auto` or `legacy`, as the SDK names them; CHOICE is `accept`, `decline` or `cancel`.
"""

import asyncio
import json
import sys
from contextlib import asynccontextmanager

import httpx2
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp.types import ElicitResult


def fill(schema):
    """What a person who agrees enters: yes to every question, the first of every choice."""
    filled = {}
    for name, field in (schema or {}).get("properties", {}).items():
        if field.get("type") == "boolean":
            filled[name] = True
        elif field.get("enum"):
            filled[name] = field["enum"][0]
        elif name in (schema or {}).get("required", []):
            filled[name] = "yes"
    return filled


async def talk(door, mode, choice, tool, arguments):
    asked = []

    async def person(context, params):
        asked.append(params.message)
        if choice != "accept":
            return ElicitResult(action=choice)
        return ElicitResult(action="accept", content=fill(params.requested_schema))

    async with door as transport:
        async with Client(transport, mode=mode, read_timeout_seconds=30, elicitation_callback=person) as client:
            result = await client.call_tool(tool, arguments)
            texts = [block.text for block in result.content if getattr(block, "text", None) is not None]
            return {
                "protocol": client.protocol_version,
                "error": bool(result.is_error),
                "text": "".join(texts),
                "asked": asked,
            }


@asynccontextmanager
async def over_http(url, token):
    async with httpx2.AsyncClient(headers={"Authorization": f"Bearer {token}"}, timeout=30) as http:
        yield streamable_http_client(url, http_client=http)


@asynccontextmanager
async def over_stdio(command, args):
    yield StdioServerParameters(command=command, args=args)


def main(argv):
    match argv:
        case [mode, choice, tool, arguments, "http", url, token]:
            door = over_http(url, token)
        case [mode, choice, tool, arguments, "stdio", command, *args]:
            door = over_stdio(command, args)
        case _:
            sys.exit(__doc__)
    print(json.dumps(asyncio.run(talk(door, mode, choice, tool, json.loads(arguments)))))


main(sys.argv[1:])
