// A certified identity provider on a loopback port: access tokens as JWTs for the resource that is asked for, bound to a key if the
// client proves one. Prints `listening on ISSUER`.
import http from 'node:http';
import { Provider } from 'oidc-provider';

const SCOPES = 'mcp:use mcp:operate';

const server = http.createServer();
server.listen(0, '127.0.0.1', () => {
  const issuer = `http://127.0.0.1:${server.address().port}`;
  const client = (id, more) => ({
    client_id: id,
    client_secret: `${id}-secret-of-the-test`,
    grant_types: ['client_credentials'],
    redirect_uris: [],
    response_types: [],
    scope: SCOPES,
    ...more,
  });
  const provider = new Provider(issuer, {
    clients: [
      client('agent'),
      client('holder', { dpop_bound_access_tokens: true }),
      client('person', { grant_types: ['authorization_code'], response_types: ['code'], redirect_uris: ['http://127.0.0.1/callback'] }),
    ],
    interactions: { url: (_context, interaction) => `/interaction/${interaction.uid}` },
    findAccount: (_context, id) => ({ accountId: id, claims: () => ({ sub: id }) }),
    scopes: SCOPES.split(' '),
    features: {
      clientCredentials: { enabled: true },
      devInteractions: { enabled: false },
      dPoP: { enabled: true },
      resourceIndicators: {
        enabled: true,
        defaultResource: () => undefined,
        getResourceServerInfo: (_context, resource) => ({
          scope: SCOPES,
          audience: resource,
          accessTokenTTL: 600,
          accessTokenFormat: 'jwt',
        }),
      },
    },
  });
  provider.on('server_error', (_context, error) => console.error(error));
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
  server.on('request', (request, response) => {
    if (!request.url.startsWith('/interaction/')) return answer(request, response);
    return interact(request, response).catch((error) => {
      console.error(error);
      response.writeHead(500).end(String(error));
    });
  });
  console.log(`listening on ${issuer}`);
});
