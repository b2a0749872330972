import type { Scope } from '@platform/auth/scopes'
import { OAuthError } from '@platform/errors/api-error'
import type { Deps } from '../../deps.ts'
import { readAcrValues } from '../accounts/authentication-level.ts'
import { type Client, findClient, namedClient, readScopes } from '../clients/client.ts'
import { isRegisteredRedirectUri } from '../clients/redirect-uri.ts'
import { readIdTokenHint } from './id-token-hint.ts'
import { type AuthorizeParameters, readAuthorizeParameters } from './parameters.ts'

const prompts = ['none', 'login', 'consent', 'select_account'] as const
type Prompt = (typeof prompts)[number]

/** An authorization request with a valid client, redirect URI and state: further refusals can be sent to that URI. */
export interface AuthorizeRequest {
  /** The query of the request, including `?`; the sign-in page returns to it. */
  search: string
  client: Client
  redirectUri: string
  state: string
  scopes: Scope[]
  codeChallenge: string | undefined
  nonce: string | undefined
  prompt: ReadonlySet<Prompt>
  maxAgeSeconds: number | undefined
  /** The preferred known value of `acr_values`; a preference, not a requirement (OIDC Core §5.5.1.1). */
  acr: ReturnType<typeof readAcrValues>
  /** The user that id_token_hint names. */
  hintedUserId: string | undefined
}

/** A refusal that travels to the client's redirect URI (B §4 point 2). */
export class AuthorizeRefusal extends Error {
  readonly error: string
  readonly request: AuthorizeRequest

  constructor(request: AuthorizeRequest, error: string, description: string) {
    super(description)
    this.error = error
    this.request = request
  }
}

const badRequest = (error: string, description: string) => new OAuthError(400, error, description)

/** Refuses the four parameters whose errors cannot be sent by a redirect, if they are repeated or not valid text (D58). */
function requireSingle(parameters: AuthorizeParameters, name: string): string | undefined {
  if (parameters.isDuplicate(name)) throw badRequest('invalid_request', `The parameter ${name} is sent more than once`)
  if (!parameters.isText(name)) throw badRequest('invalid_request', `The parameter ${name} is not text`)
  return parameters.get(name)
}

// Answered as JSON 400, in this order (B §4 point 1, D58, D59).

function requireResponseTypeCode(parameters: AuthorizeParameters): void {
  if (requireSingle(parameters, 'response_type') !== 'code')
    throw badRequest('invalid_client', 'Unsupported response_type')
}

async function requireClient(parameters: AuthorizeParameters, deps: Deps): Promise<Client> {
  const clientId = requireSingle(parameters, 'client_id')
  const client = clientId === undefined ? undefined : namedClient(await findClient(deps, clientId))
  if (!client) throw badRequest('invalid_client', 'The client_id is missing or unknown')
  return client
}

function requireRedirectUri(parameters: AuthorizeParameters, client: Client): string {
  const redirectUri = requireSingle(parameters, 'redirect_uri')
  if (redirectUri === undefined || !isRegisteredRedirectUri(client.redirectUris, redirectUri))
    throw badRequest('invalid_request', 'The redirect_uri is missing or not registered for this client')
  return redirectUri
}

function requireState(parameters: AuthorizeParameters): string {
  const state = requireSingle(parameters, 'state')
  if (state === undefined) throw badRequest('invalid_request', 'The parameter state is missing')
  return state
}

interface Asked {
  request: AuthorizeRequest
  parameters: AuthorizeParameters
  deps: Deps
  refuse: (error: string, description: string) => AuthorizeRefusal
}

/** One rule: throws `refuse()`, or writes the values it read into the request. */
type Check = (request: Asked) => void | Promise<void>

const refuseDuplicates: Check = ({ parameters, refuse }) => {
  const [name] = parameters.duplicates
  if (name !== undefined) throw refuse('invalid_request', 'A parameter is sent more than once')
}

const refuseWhatIsNotText: Check = ({ parameters, refuse }) => {
  if (!parameters.names.every((name) => parameters.isText(name)))
    throw refuse('invalid_request', 'A parameter is not text')
}

const refuseRequestObjects: Check = ({ parameters, refuse }) => {
  if (parameters.get('request') !== undefined)
    throw refuse('request_not_supported', 'Request objects are not supported')
  if (parameters.get('request_uri') !== undefined)
    throw refuse('request_uri_not_supported', 'Request objects are not supported')
}

const refuseOtherResponseModes: Check = ({ parameters, refuse }) => {
  const mode = parameters.get('response_mode')
  if (mode !== undefined && mode !== 'query') throw refuse('invalid_request', 'The response_mode has to be query')
}

const requireGrantOfClient: Check = ({ request, refuse }) => {
  if (!request.client.grants.includes('authorization_code'))
    throw refuse('unauthorized_client', 'The client is not allowed this flow')
}

const readScope: Check = ({ request, parameters, refuse }) => {
  const scopes = readScopes(request.client, parameters.get('scope') ?? '')
  if (!scopes) throw refuse('invalid_scope', 'The scope is missing, unknown or not allowed for this client')
  request.scopes = scopes
}

/** Public clients send an S256 challenge; plain, the default if the method is missing, is refused for every client (B §4, §5). */
const readCodeChallenge: Check = ({ request, parameters, refuse }) => {
  const challenge = parameters.get('code_challenge')
  const method = parameters.get('code_challenge_method')
  if (challenge === undefined && method === undefined && request.client.kind === 'confidential') return
  if (challenge === undefined) throw refuse('invalid_request', 'The code_challenge is missing')
  if (method !== 'S256') throw refuse('invalid_request', 'The code_challenge_method has to be S256')
  if (!/^[\w-]{43}$/.test(challenge)) throw refuse('invalid_request', 'The code_challenge is not an S256 challenge')
  request.codeChallenge = challenge
}

const NONCE_LENGTH_MAX = 512

const readNonce: Check = ({ request, parameters, refuse }) => {
  const nonce = parameters.get('nonce')
  if (nonce !== undefined && Array.from(nonce).length > NONCE_LENGTH_MAX)
    throw refuse('invalid_request', `The nonce has more than ${NONCE_LENGTH_MAX} characters`)
  request.nonce = nonce
}

const readPrompt: Check = ({ request, parameters, refuse }) => {
  const values = (parameters.get('prompt') ?? '').split(' ').filter((value) => value !== '')
  if (!values.every((value) => (prompts as readonly string[]).includes(value)))
    throw refuse('invalid_request', 'The prompt is unknown')
  if (values.includes('none') && values.length > 1) throw refuse('invalid_request', 'The prompt none stands alone')
  request.prompt = new Set(values as Prompt[])
}

const readMaxAge: Check = ({ request, parameters, refuse }) => {
  const maxAge = parameters.get('max_age')
  if (maxAge === undefined) return
  if (!/^\d{1,9}$/.test(maxAge)) throw refuse('invalid_request', 'The max_age is not a number of seconds')
  request.maxAgeSeconds = Number(maxAge)
}

const readAcr: Check = ({ request, parameters }) => {
  request.acr = readAcrValues(parameters.get('acr_values') ?? '')
}

const readHint: Check = async ({ request, parameters, deps, refuse }) => {
  const hint = parameters.get('id_token_hint')
  if (hint === undefined) return
  const hinted = await readIdTokenHint(deps, hint)
  if (!hinted) throw refuse('invalid_request', 'The id_token_hint is not an ID token of this issuer')
  request.hintedUserId = hinted.userId
}

/** Answered by a redirect to the client, in this order (B §4 point 2). Unknown parameters are ignored. */
const checks: readonly Check[] = [
  refuseDuplicates,
  refuseWhatIsNotText,
  refuseRequestObjects,
  refuseOtherResponseModes,
  requireGrantOfClient,
  readScope,
  readCodeChallenge,
  readNonce,
  readPrompt,
  readMaxAge,
  readAcr,
  readHint,
]

/**
 * Checks everything about an authorization request except the session, which comes last. Throws OAuthError if the request is
 * answered here (JSON 400), AuthorizeRefusal if the client is told by a redirect.
 */
export async function checkAuthorizeRequest(deps: Deps, search: string): Promise<AuthorizeRequest> {
  const parameters = readAuthorizeParameters(search)
  requireResponseTypeCode(parameters)
  const client = await requireClient(parameters, deps)
  const redirectUri = requireRedirectUri(parameters, client)
  const state = requireState(parameters)
  const request: AuthorizeRequest = {
    search,
    client,
    redirectUri,
    state,
    scopes: [],
    codeChallenge: undefined,
    nonce: undefined,
    prompt: new Set(),
    maxAgeSeconds: undefined,
    acr: undefined,
    hintedUserId: undefined,
  }
  const refuse = (error: string, description: string) => new AuthorizeRefusal(request, error, description)
  for (const check of checks) await check({ request, parameters, deps, refuse })
  return request
}
