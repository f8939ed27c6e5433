"""FastMCP as a client: list the tools, call one, say what happened as one JSON line.

usage: fastmcp_client.py URL TOKEN MODE TOOL ARGUMENTS
"""

import asyncio
import json
import sys

from fastmcp import Client


async def talk(url, token, mode, tool, arguments):
    async with Client(url, auth=token, mode=mode, timeout=30) as client:
        tools = await client.list_tools()
        result = await client.call_tool(tool, arguments, raise_on_error=False)
        texts = [block.text for block in result.content if getattr(block, "text", None) is not None]
        return {
            "tools": [tool.name for tool in tools],
            "error": bool(result.is_error),
            "text": "".join(texts),
        }


if len(sys.argv) != 6:
    sys.exit(__doc__)
url, token, mode, tool, arguments = sys.argv[1:]
print(json.dumps(asyncio.run(talk(url, token, mode, tool, json.loads(arguments)))))
