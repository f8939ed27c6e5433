"""The second Python SDK and FastMCP on it: list the tools, call some, say what each answered as one JSON line.

usage: journey_newer.py CLIENT URL TOKEN STEPS

CLIENT is `auto` or `legacy`, as the SDK names its modes, or `fastmcp`; STEPS is a JSON array of pairs: a tool and its arguments.
"""

import asyncio
import json
import sys


def text_of(blocks):
    return "".join(getattr(block, "text", "") or "" for block in blocks)


async def sdk(mode, url, token, steps):
    import httpx2
    from mcp import Client
    from mcp.client.streamable_http import streamable_http_client

    async with httpx2.AsyncClient(headers={"Authorization": f"Bearer {token}"}, timeout=30) as http:
        async with Client(streamable_http_client(url, http_client=http), mode=mode, read_timeout_seconds=30) as client:
            tools = [tool.name for tool in (await client.list_tools()).tools]
            said = []
            for name, arguments in steps:
                result = await client.call_tool(name, arguments)
                said.append({"error": bool(result.is_error), "text": text_of(result.content)})
            return tools, said


async def fastmcp(url, token, steps):
    from fastmcp import Client
    from fastmcp.exceptions import ToolError

    async with Client(url, auth=token, timeout=30) as client:
        tools = [tool.name for tool in await client.list_tools()]
        said = []
        for name, arguments in steps:
            try:
                result = await client.call_tool(name, arguments)
                said.append({"error": False, "text": text_of(result.content)})
            except ToolError as error:
                said.append({"error": True, "text": str(error)})
        return tools, said


if len(sys.argv) != 5:
    sys.exit(__doc__)
client, url, token, steps = sys.argv[1:]
steps = json.loads(steps)
talk = fastmcp(url, token, steps) if client == "fastmcp" else sdk(client, url, token, steps)
tools, said = asyncio.run(talk)
print(json.dumps({"tools": tools, "said": said}))
