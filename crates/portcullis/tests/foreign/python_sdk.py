"""The official Python SDK as a client: list the tools, call one, say what happened as one JSON line.

usage: python_sdk.py http URL TOKEN MODE TOOL ARGUMENTS
       python_sdk.py stdio MODE TOOL ARGUMENTS COMMAND [ARGS...]

MODE is `auto` or `legacy`, as the SDK names them.
"""

import asyncio
import json
import sys
from contextlib import asynccontextmanager

import httpx2
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client


@asynccontextmanager
async def over_http(url, token, mode):
    async with httpx2.AsyncClient(headers={"Authorization": f"Bearer {token}"}, timeout=30) as http:
        async with Client(streamable_http_client(url, http_client=http), mode=mode, read_timeout_seconds=30) as client:
            yield client


@asynccontextmanager
async def over_stdio(command, args, mode):
    server = StdioServerParameters(command=command, args=args)
    async with Client(server, mode=mode, read_timeout_seconds=30) as client:
        yield client


async def talk(connection, tool, arguments):
    async with connection as client:
        listed = await client.list_tools()
        result = await client.call_tool(tool, arguments)
        texts = [block.text for block in result.content if getattr(block, "text", None) is not None]
        return {
            "protocol": client.protocol_version,
            "tools": [tool.name for tool in listed.tools],
            "error": bool(result.is_error),
            "text": "".join(texts),
        }


def main(argv):
    match argv:
        case ["http", url, token, mode, tool, arguments]:
            connection = over_http(url, token, mode)
        case ["stdio", mode, tool, arguments, command, *args]:
            connection = over_stdio(command, args, mode)
        case _:
            sys.exit(__doc__)
    print(json.dumps(asyncio.run(talk(connection, tool, json.loads(arguments)))))


main(sys.argv[1:])
