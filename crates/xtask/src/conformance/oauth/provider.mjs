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
    clients: [client('agent'), client('holder', { dpop_bound_access_tokens: true })],
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
  server.on('request', provider.callback());
  console.log(`listening on ${issuer}`);
});
