"""The official Python SDK with a person at it: call a tool, answer what is asked, say what happened as one JSON line.

usage: python_approver.py URL TOKEN MODE CHOICE TOOL ARGUMENTS

MODE is `auto` or `legacy`, as the SDK names them; CHOICE is `accept`, `decline` or `cancel`.
"""

import asyncio
import json
import sys

import httpx2
from mcp import Client
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


async def talk(url, token, mode, choice, tool, arguments):
    asked = []

    async def person(context, params):
        asked.append(params.message)
        if choice != "accept":
            return ElicitResult(action=choice)
        schema = getattr(params, "requested_schema", None) or getattr(params, "requestedSchema", None)
        return ElicitResult(action="accept", content=fill(schema))

    async with httpx2.AsyncClient(headers={"Authorization": f"Bearer {token}"}, timeout=30) as http:
        transport = streamable_http_client(url, http_client=http)
        async with Client(transport, mode=mode, read_timeout_seconds=30, elicitation_callback=person) as client:
            result = await client.call_tool(tool, arguments)
            texts = [block.text for block in result.content if getattr(block, "text", None) is not None]
            return {
                "protocol": client.protocol_version,
                "error": bool(result.is_error),
                "text": "".join(texts),
                "asked": asked,
            }


def main(argv):
    match argv:
        case [url, token, mode, choice, tool, arguments]:
            said = asyncio.run(talk(url, token, mode, choice, tool, json.loads(arguments)))
        case _:
            sys.exit(__doc__)
    print(json.dumps(said))


main(sys.argv[1:])
