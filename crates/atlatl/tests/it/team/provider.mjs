// A real identity provider, the npm package oidc-provider, with a client for people and a service account.
// Arguments: the module to load, the URL of the API. Prints its issuer, then an access token for each line of
// standard input: a person logs in with a browser's requests, a service account with its client's secret.
import { createServer } from "node:http";
import { createInterface } from "node:readline";
import { randomBytes, createHash, generateKeyPairSync } from "node:crypto";
import { pathToFileURL } from "node:url";

const [module, api] = process.argv.slice(2);
const { Provider } = await import(pathToFileURL(module));
const GROUPS = { ann: ["everyone", "staff"], bob: ["everyone"] };
const REDIRECT = "http://127.0.0.1/callback";

const server = createServer();
await new Promise((listening) => server.listen(0, "127.0.0.1", listening));
const issuer = `http://127.0.0.1:${server.address().port}`;
const key = generateKeyPairSync("ec", { namedCurve: "P-256" }).privateKey.export({ format: "jwk" });
const provider = new Provider(issuer, {
  jwks: { keys: [{ ...key, use: "sig", alg: "ES256", kid: randomBytes(8).toString("hex") }] },
  cookies: { keys: [randomBytes(16).toString("hex")] },
  clients: [
    {
      client_id: "assistant",
      token_endpoint_auth_method: "none",
      application_type: "native",
      redirect_uris: [REDIRECT],
      id_token_signed_response_alg: "ES256",
    },
    {
      client_id: "nightly-import",
      client_secret: "secret of the import",
      grant_types: ["client_credentials"],
      redirect_uris: [],
      response_types: [],
      id_token_signed_response_alg: "ES256",
    },
  ],
  findAccount: (_, id) => ({ accountId: id, claims: () => ({ sub: id, groups: GROUPS[id] }) }),
  extraTokenClaims: (_, token) => ({ groups: GROUPS[token.accountId] }),
  features: {
    devInteractions: { enabled: true },
    clientCredentials: { enabled: true },
    resourceIndicators: {
      enabled: true,
      getResourceServerInfo: () => ({
        scope: "memory:read memory:write",
        audience: api,
        accessTokenFormat: "jwt",
        accessTokenTTL: 300,
        jwt: { sign: { alg: "ES256" } },
      }),
    },
  },
});
server.on("request", provider.callback());

async function serviceAccount() {
  const credentials = Buffer.from("nightly-import:secret%20of%20the%20import").toString("base64");
  return token({ grant_type: "client_credentials", resource: api, scope: "memory:write" }, credentials);
}

// What a browser does: it follows redirects, keeps cookies, and sends the two forms of the provider.
async function person(name) {
  const verifier = randomBytes(32).toString("base64url");
  const query = new URLSearchParams({
    client_id: "assistant",
    response_type: "code",
    redirect_uri: REDIRECT,
    scope: "memory:read memory:write",
    resource: api,
    code_challenge: createHash("sha256").update(verifier).digest("base64url"),
    code_challenge_method: "S256",
  });
  const cookies = new Map();
  const forms = [{ prompt: "login", login: name, password: "any" }, { prompt: "consent" }];
  let url = `${issuer}/auth?${query}`;
  let form;
  for (let requests = 0; requests < 20; requests += 1) {
    const cookie = [...cookies].map(([name, value]) => `${name}=${value}`).join("; ");
    const request = { redirect: "manual", headers: { cookie } };
    if (form) Object.assign(request, { method: "POST", body: new URLSearchParams(form) });
    const answer = await fetch(url, request);
    for (const set of answer.headers.getSetCookie()) {
      const [, name, value] = /^([^=]+)=([^;]*)/.exec(set);
      if (value) cookies.set(name, value);
      else cookies.delete(name);
    }
    const next = answer.headers.get("location");
    form = undefined;
    if (next?.startsWith(REDIRECT)) {
      const code = new URL(next).searchParams.get("code");
      return token({ grant_type: "authorization_code", client_id: "assistant", code, code_verifier: verifier, redirect_uri: REDIRECT, resource: api });
    }
    if (next) url = new URL(next, url).href;
    else if (answer.status === 200 && url.includes("/interaction/")) form = forms.shift();
    else throw new Error(`${url}: ${answer.status} ${await answer.text()}`);
  }
  throw new Error("too many redirects");
}

async function token(parameters, basic) {
  const headers = basic ? { authorization: `Basic ${basic}` } : {};
  const answer = await fetch(`${issuer}/token`, { method: "POST", headers, body: new URLSearchParams(parameters) });
  const body = await answer.json();
  if (!body.access_token) throw new Error(JSON.stringify(body));
  return body.access_token;
}

console.log(`issuer ${issuer}`);
for await (const name of createInterface({ input: process.stdin })) {
  console.log(`token ${await (name === "nightly-import" ? serviceAccount() : person(name))}`);
}
process.exit(0);
