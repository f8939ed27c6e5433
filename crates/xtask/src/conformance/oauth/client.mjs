// The official client against a gate behind the provider. It is given the gate's address and a client's credentials, and finds out
// everything else as any client would. Prints one line per scenario: `ok NAME` or `failed NAME: WHY`.
import crypto from 'node:crypto';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { ClientCredentialsProvider } from '@modelcontextprotocol/sdk/client/auth-extensions.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { discoverAuthorizationServerMetadata, discoverOAuthProtectedResourceMetadata } from '@modelcontextprotocol/sdk/client/auth.js';

const [gate, issuer] = process.argv.slice(2);
const secret = (id) => `${id}-secret-of-the-test`;
const credentials = () =>
  new ClientCredentialsProvider({ clientId: 'agent', clientSecret: secret('agent'), scope: 'mcp:use', expectedIssuer: issuer });

// Somebody with a browser, as far as the client can tell: it is sent to the provider, and comes back with a code.
class Person {
  redirectUrl = 'http://127.0.0.1/callback';
  clientMetadata = { client_name: 'person', redirect_uris: [this.redirectUrl], grant_types: ['authorization_code'] };
  clientInformation = () => ({ client_id: 'person', client_secret: secret('person'), issuer });
  tokens = () => this.saved;
  saveTokens = (tokens) => void (this.saved = tokens);
  codeVerifier = () => this.verifier;
  saveCodeVerifier = (verifier) => void (this.verifier = verifier);
  state = () => 'state-of-the-test';

  async redirectToAuthorization(url) {
    this.asked = url.searchParams;
    const cookies = new Map();
    for (let hops = 0; hops < 12; hops += 1) {
      const cookie = [...cookies].map(([name, value]) => `${name}=${value}`).join('; ');
      const answer = await fetch(url, { redirect: 'manual', headers: { cookie } });
      for (const line of answer.headers.getSetCookie()) {
        const [pair] = line.split(';');
        cookies.set(pair.slice(0, pair.indexOf('=')), pair.slice(pair.indexOf('=') + 1));
      }
      const next = answer.headers.get('location');
      if (!next) throw new Error(`${url}: ${answer.status} ${await answer.text()}`);
      url = new URL(next, url);
      if (url.href.startsWith(this.redirectUrl)) {
        this.returned = url.searchParams;
        return;
      }
    }
    throw new Error('sent around in circles');
  }
}

async function connect(authProvider) {
  const client = new Client({ name: 'official', version: '1' });
  await client.connect(new StreamableHTTPClientTransport(new URL(gate), { authProvider }));
  const { tools } = await client.listTools();
  if (tools.length === 0) throw new Error('no tools');
  const called = await client.callTool({ name: tools.find((tool) => tool.name === 'test_simple_text').name, arguments: {} });
  await client.close();
  if (called.isError) throw new Error(JSON.stringify(called));
}

async function metadata() {
  const resource = await discoverOAuthProtectedResourceMetadata(gate);
  return { resource, server: await discoverAuthorizationServerMetadata(resource.authorization_servers[0]) };
}

async function token(id, scope, headers = {}) {
  const { resource, server } = await metadata();
  const answer = await fetch(server.token_endpoint, {
    method: 'POST',
    headers: { authorization: `Basic ${Buffer.from(`${id}:${secret(id)}`).toString('base64')}`, ...headers },
    body: new URLSearchParams({ grant_type: 'client_credentials', scope, resource: resource.resource }),
  });
  const body = await answer.json();
  if (!answer.ok) throw new Error(JSON.stringify(body));
  return body.access_token;
}

// Proofs are few lines; the client library makes none yet.
const pair = crypto.generateKeyPairSync('ec', { namedCurve: 'P-256' });
function proof(method, url, more = {}) {
  const { kty, crv, x, y } = pair.publicKey.export({ format: 'jwk' });
  const encode = (value) => Buffer.from(JSON.stringify(value)).toString('base64url');
  const claims = { jti: crypto.randomUUID(), htm: method, htu: url, iat: Math.floor(Date.now() / 1000), ...more };
  const input = `${encode({ typ: 'dpop+jwt', alg: 'ES256', jwk: { kty, crv, x, y } })}.${encode(claims)}`;
  return `${input}.${crypto.sign('sha256', Buffer.from(input), { key: pair.privateKey, dsaEncoding: 'ieee-p1363' }).toString('base64url')}`;
}

async function post(authorization, more = {}) {
  const params = { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'plain', version: '1' } };
  return fetch(gate, {
    method: 'POST',
    headers: { 'content-type': 'application/json', accept: 'application/json, text/event-stream', authorization, ...more },
    body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'initialize', params }),
  });
}

function expect(answer, status, error) {
  const challenge = answer.headers.get('www-authenticate') ?? '';
  if (answer.status !== status || (error && !challenge.includes(`error="${error}"`))) {
    throw new Error(`${answer.status} ${challenge}`);
  }
}

const scenarios = {
  'discovery-and-call': () => connect(credentials()),
  'authorization-code': async () => {
    const person = new Person();
    const transport = new StreamableHTTPClientTransport(new URL(gate), { authProvider: person });
    await new Client({ name: 'official', version: '1' }).connect(transport).then(
      () => Promise.reject(new Error('nobody was asked')),
      () => undefined,
    );
    // What the client asked for is what the gate's challenge said, and nothing it was told otherwise.
    if (person.asked?.get('scope') !== 'mcp:use') throw new Error(`asked for ${person.asked}`);
    await transport.finishAuth(person.returned.get('code'));
    await connect(person);
  },
  'scope-step-up': async () => {
    const provider = credentials();
    provider.saveTokens({ access_token: await token('agent', 'mcp:operate'), token_type: 'Bearer' });
    await connect(provider);
  },
  'stale-token-is-renewed': async () => {
    const provider = credentials();
    const [header, payload] = (await token('agent', 'mcp:use')).split('.');
    provider.saveTokens({ access_token: `${header}.${payload}.AAAA`, token_type: 'Bearer' });
    await connect(provider);
  },
  'token-for-another-resource': async () => {
    const { server } = await metadata();
    const answer = await fetch(server.token_endpoint, {
      method: 'POST',
      headers: { authorization: `Basic ${Buffer.from(`agent:${secret('agent')}`).toString('base64')}` },
      body: new URLSearchParams({ grant_type: 'client_credentials', scope: 'mcp:use', resource: 'https://other.example/mcp' }),
    });
    expect(await post(`Bearer ${(await answer.json()).access_token}`), 401, 'invalid_token');
  },
  'bound-token': async () => {
    const { server } = await metadata();
    const bound = await token('holder', 'mcp:use', { dpop: proof('POST', server.token_endpoint) });
    const ath = crypto.createHash('sha256').update(bound).digest('base64url');
    const once = proof('POST', gate, { ath });
    expect(await post(`DPoP ${bound}`, { dpop: once }), 200);
    expect(await post(`DPoP ${bound}`, { dpop: once }), 401, 'invalid_dpop_proof');
    expect(await post(`DPoP ${bound}`, { dpop: proof('GET', gate, { ath }) }), 401, 'invalid_dpop_proof');
    expect(await post(`Bearer ${bound}`), 401, 'invalid_token');
  },
};

for (const [name, scenario] of Object.entries(scenarios)) {
  try {
    await scenario();
    console.log(`ok ${name}`);
  } catch (error) {
    console.log(`failed ${name}: ${String(error?.stack ?? error).replaceAll('\n', ' ')}`);
  }
}
console.log(`token ${await token('agent', 'mcp:use')}`);
