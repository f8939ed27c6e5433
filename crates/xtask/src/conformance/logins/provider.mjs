// A certified authorization server that rotates refresh tokens and revokes a login when one is used twice, and a server that takes
// its tokens, which live for as many seconds as the argument says. Prints `listening on URL`; `/counts` says what was asked of them.
import http from 'node:http';
import { Provider } from 'oidc-provider';

const life = Number(process.argv[2]);
const counts = { granted: 0, refused: [], revoked: 0, calls: 0 };
const authorization = http.createServer();
const server = http.createServer();

const origin = (listener) => `http://127.0.0.1:${listener.address().port}`;
const listening = (listener) => new Promise((done) => listener.listen(0, '127.0.0.1', done));
await Promise.all([listening(authorization), listening(server)]);

const resource = `${origin(server)}/mcp`;
const provider = new Provider(origin(authorization), {
  rotateRefreshToken: true,
  issueRefreshToken: async () => true,
  interactions: { url: (_context, interaction) => `/interaction/${interaction.uid}` },
  findAccount: (_context, id) => ({ accountId: id, claims: () => ({ sub: id }) }),
  scopes: ['openid', 'offline_access', 'use'],
  pkce: { required: () => true },
  ttl: { AccessToken: life, RefreshToken: 3600, Grant: 3600, Session: 3600, Interaction: 600 },
  features: {
    registration: { enabled: true },
    revocation: { enabled: true },
    devInteractions: { enabled: false },
    resourceIndicators: {
      enabled: true,
      defaultResource: () => undefined,
      useGrantedResource: () => true,
      getResourceServerInfo: (_context, audience) => ({ scope: 'use', audience, accessTokenTTL: life, accessTokenFormat: 'opaque' }),
    },
  },
});
provider.on('server_error', (_context, error) => console.error(error));
provider.on('grant.success', () => { counts.granted += 1; });
provider.on('grant.error', (_context, error) => { counts.refused.push(`${error.error}: ${error.error_detail ?? ''}`); });
provider.on('grant.revoked', () => { counts.revoked += 1; });

// Whoever comes is alice, and agrees to what the client asks for.
async function interact(request, response) {
  const { prompt, params, session, grantId } = await provider.interactionDetails(request, response);
  let result = { login: { accountId: 'alice' } };
  if (prompt.name !== 'login') {
    const known = grantId && (await provider.Grant.find(grantId));
    const grant = known || new provider.Grant({ accountId: session.accountId, clientId: params.client_id });
    grant.addOIDCScope(params.scope);
    grant.addResourceScope(params.resource, params.scope);
    result = { consent: { grantId: await grant.save() } };
  }
  await provider.interactionFinished(request, response, result, { mergeWithLastSubmission: true });
}

const answer = provider.callback();
authorization.on('request', (request, response) => {
  if (!request.url.startsWith('/interaction/')) return answer(request, response);
  return interact(request, response).catch((error) => {
    console.error(error);
    response.writeHead(500).end(String(error));
  });
});

const results = {
  initialize: () => ({ protocolVersion: '2025-06-18', capabilities: { tools: {} }, serverInfo: { name: 'behind-a-provider', version: '1' } }),
  ping: () => ({}),
  'tools/list': () => ({ tools: [{ name: 'test-tool', inputSchema: { type: 'object' }, annotations: { readOnlyHint: true } }] }),
  'tools/call': () => {
    counts.calls += 1;
    return { content: [{ type: 'text', text: 'done' }] };
  },
};

server.on('request', async (request, response) => {
  const say = (status, document, headers = {}) =>
    response.writeHead(status, { 'content-type': 'application/json', ...headers }).end(JSON.stringify(document));
  const metadata = '/.well-known/oauth-protected-resource/mcp';
  if (request.url === '/counts') return say(200, counts);
  if (request.url === metadata) {
    return say(200, { resource, authorization_servers: [origin(authorization)], scopes_supported: ['use'] });
  }
  if (request.url !== '/mcp' || request.method !== 'POST') return say(405, {});
  let body = '';
  for await (const piece of request) body += piece;
  const shown = (request.headers.authorization ?? '').replace(/^Bearer /, '');
  const token = shown && (await provider.AccessToken.find(shown));
  if (!token || token.isExpired) {
    return say(401, {}, { 'www-authenticate': `Bearer resource_metadata="${origin(server)}${metadata}"` });
  }
  const message = JSON.parse(body);
  if (message.id === undefined) return response.writeHead(202).end();
  const result = results[message.method];
  const outcome = result ? { result: result() } : { error: { code: -32601, message: 'no such method' } };
  return say(200, { jsonrpc: '2.0', id: message.id, ...outcome });
});
console.log(`listening on ${resource}`);
