import { createHash, randomBytes } from 'node:crypto'
import type { Browser } from '@platform/testkit/browser'

export interface Tokens {
  access_token: string
  token_type: string
  expires_in: number
  scope?: string
  refresh_token?: string
  id_token?: string
}

export interface Person {
  email: string
  password: string
}

/**
 * Signs a person in through the real pages and comes back with tokens: authorization code with PKCE, as a public client
 * does it. A browser that is signed in already is not asked again.
 */
export async function signIn(
  browser: Browser,
  flow: {
    idpUrl: string
    clientId: string
    redirectUri: string
    scopes: readonly string[]
    extra?: Record<string, string>
  },
  person: Person,
): Promise<Tokens> {
  const verifier = randomBytes(32).toString('base64url')
  const state = randomBytes(8).toString('base64url')
  const query = new URLSearchParams({
    client_id: flow.clientId,
    redirect_uri: flow.redirectUri,
    response_type: 'code',
    scope: flow.scopes.join(' '),
    state,
    code_challenge: createHash('sha256').update(verifier).digest('base64url'),
    code_challenge_method: 'S256',
    ...flow.extra,
  })
  let page = await browser.follow(
    await browser.visit(`${flow.idpUrl}/oauth2/authorize?${query.toString()}`),
    flow.idpUrl,
  )
  if (page.location === undefined && page.body.includes('name="password"')) {
    page = await browser.follow(await browser.submit(page, person as unknown as Record<string, string>), flow.idpUrl)
  }
  // Clients that are not first-party, and those on a loopback address, ask for consent.
  if (page.location === undefined && page.body.includes('name="decision"')) {
    page = await browser.follow(await browser.submit(page, {}, { name: 'decision', value: 'approve' }), flow.idpUrl)
  }
  if (page.location === undefined)
    throw new Error(`Sign-in ended on a page (${page.status}): ${page.body.slice(0, 2_000)}`)
  const back = new URL(page.location)
  const code = back.searchParams.get('code')
  if (!code || back.searchParams.get('state') !== state)
    throw new Error(`Sign-in came back without a code: ${back.search}`)
  const form = {
    grant_type: 'authorization_code',
    client_id: flow.clientId,
    code,
    redirect_uri: flow.redirectUri,
    code_verifier: verifier,
  }
  return redeem(flow.idpUrl, form, browser.headers)
}

/** Asks a token endpoint. Throws what it answered when it refuses. */
async function redeem(
  issuer: string,
  form: Record<string, string>,
  headers: Record<string, string> = {},
): Promise<Tokens> {
  const answer = await fetch(`${issuer}/oauth2/token`, { method: 'POST', headers, body: new URLSearchParams(form) })
  const body = (await answer.json()) as Tokens
  if (!answer.ok) throw new Error(`The token endpoint answered ${answer.status}: ${JSON.stringify(body)}`)
  return body
}
