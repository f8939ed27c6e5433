// The official TypeScript SDK as a client: list the tools, call one, say what happened as one JSON line.
//
// usage: typescript_sdk.mjs MODULES http URL TOKEN MODE TOOL ARGUMENTS
//        typescript_sdk.mjs MODULES stdio MODE TOOL ARGUMENTS COMMAND [ARGS...]
//
// MODULES is the directory that holds node_modules; MODE is `auto` (newest era first) or `legacy`.
import { createRequire } from 'node:module';
import { join } from 'node:path';

const [modules, kind, ...rest] = process.argv.slice(2);
const require = createRequire(join(modules, 'index.js'));
const { Client, StreamableHTTPClientTransport } = require('@modelcontextprotocol/client');

function connection() {
    if (kind === 'http') {
        const [url, token, mode, tool, args] = rest;
        const requestInit = { headers: { Authorization: `Bearer ${token}` } };
        return { transport: new StreamableHTTPClientTransport(new URL(url), { requestInit }), mode, tool, args };
    }
    const { StdioClientTransport } = require('@modelcontextprotocol/client/stdio');
    const [mode, tool, args, command, ...commandArgs] = rest;
    return { transport: new StdioClientTransport({ command, args: commandArgs }), mode, tool, args };
}

const { transport, mode, tool, args } = connection();
const options = mode === 'auto' ? { versionNegotiation: { mode: 'auto' } } : {};
const client = new Client({ name: 'typescript-sdk', version: '1.0.0' }, options);
await client.connect(transport);
const { tools } = await client.listTools();
const result = await client.callTool({ name: tool, arguments: JSON.parse(args) });
const text = result.content.map((block) => block.text ?? '').join('');
const protocol = client.getNegotiatedProtocolVersion?.() ?? transport.protocolVersion ?? null;
console.log(JSON.stringify({ protocol, tools: tools.map((each) => each.name), error: Boolean(result.isError), text }));
await client.close();
