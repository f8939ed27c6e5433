// The official TypeScript SDKs as clients: list the tools, call some, say what each answered as one JSON line.
//
// usage: journey.mjs MODULES CLIENT URL TOKEN STEPS [MCP_REMOTE]
//
// MODULES is the directory that holds node_modules; CLIENT is `first` (the SDK's first version), `auto` or `legacy` (its second, newest era
// first or not), or `remote` (the first version behind mcp-remote, whose script is MCP_REMOTE). STEPS is a JSON array of pairs: a tool
// and its arguments.
import { createRequire } from 'node:module';
import { join } from 'node:path';

const [modules, kind, url, token, steps, remote] = process.argv.slice(2);
const require = createRequire(join(modules, 'index.js'));
const authorization = `Bearer ${token}`;
const requestInit = { headers: { Authorization: authorization } };

function second() {
    const { Client, StreamableHTTPClientTransport } = require('@modelcontextprotocol/client');
    const options = kind === 'auto' ? { versionNegotiation: { mode: 'auto' } } : {};
    const client = new Client({ name: 'journey', version: '1.0.0' }, options);
    return { client, transport: new StreamableHTTPClientTransport(new URL(url), { requestInit }) };
}

function first() {
    const { Client } = require('@modelcontextprotocol/sdk/client/index.js');
    const client = new Client({ name: 'journey', version: '1.0.0' });
    if (kind === 'remote') {
        const { StdioClientTransport } = require('@modelcontextprotocol/sdk/client/stdio.js');
        const args = [remote, url, '--allow-http', '--transport', 'http-only', '--header', `Authorization: ${authorization}`];
        return { client, transport: new StdioClientTransport({ command: process.execPath, args, stderr: 'ignore' }) };
    }
    const { StreamableHTTPClientTransport } = require('@modelcontextprotocol/sdk/client/streamableHttp.js');
    return { client, transport: new StreamableHTTPClientTransport(new URL(url), { requestInit }) };
}

const { client, transport } = ['first', 'remote'].includes(kind) ? first() : second();
await client.connect(transport);
const { tools } = await client.listTools();
const said = [];
for (const [name, args] of JSON.parse(steps)) {
    try {
        const result = await client.callTool({ name, arguments: args });
        said.push({ error: Boolean(result.isError), text: result.content.map((block) => block.text ?? '').join('') });
    } catch (error) {
        said.push({ error: true, text: `thrown: ${error.message}` });
    }
}
console.log(JSON.stringify({ tools: tools.map((tool) => tool.name), said }));
await client.close();
process.exit(0);
