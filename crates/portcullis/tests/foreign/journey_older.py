"""Clients that are built on the first Python SDK: list the tools, call some, say what each answered as one JSON line.

usage: journey_older.py CLIENT URL TOKEN STEPS

CLIENT is `sdk`, `langchain`, `openai-agents` or `pydantic-ai`; STEPS is a JSON array of pairs: a tool and its arguments.
"""

import asyncio
import json
import sys


def text_of(blocks):
    return "".join(getattr(block, "text", "") or "" for block in blocks)


async def sdk(url, token, steps):
    from mcp import ClientSession
    from mcp.client.streamable_http import streamablehttp_client

    async with streamablehttp_client(url, headers={"Authorization": f"Bearer {token}"}) as (read, write, _):
        async with ClientSession(read, write) as session:
            await session.initialize()
            tools = [tool.name for tool in (await session.list_tools()).tools]
            said = []
            for name, arguments in steps:
                result = await session.call_tool(name, arguments)
                said.append({"error": bool(result.isError), "text": text_of(result.content)})
            return tools, said


async def langchain(url, token, steps):
    from langchain_mcp_adapters.client import MultiServerMCPClient

    headers = {"Authorization": f"Bearer {token}"}
    client = MultiServerMCPClient({"gate": {"transport": "streamable_http", "url": url, "headers": headers}})
    tools = {tool.name: tool for tool in await client.get_tools()}
    said = []
    for name, arguments in steps:
        call = {"type": "tool_call", "id": "1", "name": name, "args": arguments}
        message = await tools[name].ainvoke(call)
        content = message.content
        text = content if isinstance(content, str) else "".join(part.get("text", "") for part in content)
        said.append({"error": message.status == "error", "text": text})
    return list(tools), said


async def openai_agents(url, token, steps):
    from agents.mcp import MCPServerStreamableHttp

    params = {"url": url, "headers": {"Authorization": f"Bearer {token}"}, "timeout": 30}
    async with MCPServerStreamableHttp(params=params, client_session_timeout_seconds=30) as server:
        tools = [tool.name for tool in await server.list_tools()]
        said = []
        for name, arguments in steps:
            result = await server.call_tool(name, arguments)
            said.append({"error": bool(result.isError), "text": text_of(result.content)})
        return tools, said


async def pydantic_ai(url, token, steps):
    """The model is a function: it calls each tool in turn, and what it is shown is what a model would read."""
    from pydantic_ai import Agent
    from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
    from pydantic_ai.models.function import FunctionModel

    from pydantic_ai.mcp import MCPToolset

    tools, said = [], []

    def model(messages, info):
        tools[:] = [tool.name for tool in info.function_tools]
        last = messages[-1].parts[-1]
        if len(messages) > 1:
            kind = last.part_kind
            outcome = getattr(last, "outcome", "success")
            said.append({"error": kind == "retry-prompt" or outcome != "success", "text": json.dumps(last.content, default=str)})
        if len(said) == len(steps):
            return ModelResponse(parts=[TextPart("done")])
        name, arguments = steps[len(said)]
        return ModelResponse(parts=[ToolCallPart(name, arguments)])

    toolset = MCPToolset(url, headers={"Authorization": f"Bearer {token}"})
    agent = Agent(FunctionModel(model), toolsets=[toolset], retries=5)
    async with agent:
        await agent.run("go")
    return tools, said


if len(sys.argv) != 5:
    sys.exit(__doc__)
client, url, token, steps = sys.argv[1:]
run = {"sdk": sdk, "langchain": langchain, "openai-agents": openai_agents, "pydantic-ai": pydantic_ai}[client]
tools, said = asyncio.run(run(url, token, json.loads(steps)))
print(json.dumps({"tools": tools, "said": said}))
