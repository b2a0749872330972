import type { AuthorizationServer } from 'oauth4webapi'
import { PlatformError } from '../errors.ts'
import type { Sender } from '../sender.ts'
import { repeat } from '../repetition.ts'

const ENDPOINTS = [
  'authorization_endpoint',
  'token_endpoint',
  'device_authorization_endpoint',
  'revocation_endpoint',
  'userinfo_endpoint',
  'end_session_endpoint',
] as const

/** An identity provider's metadata (RFC 8414). Each endpoint that a sign-in needs is there, and of the issuer's origin. */
export type Metadata = AuthorizationServer & Record<(typeof ENDPOINTS)[number], string>

const RESOURCE = '/.well-known/oauth-protected-resource'
const CONFIGURATION = '/.well-known/openid-configuration'

function refuse(path: string, message: string): never {
  throw new PlatformError(message, { status: 0, operation: `GET ${path}`, attempts: 1 })
}

const readDocument = <T>(platform: Sender, path: string, origin: string, signal?: AbortSignal): Promise<T> =>
  platform.send<T>({ method: 'GET', path, url: origin + path, repetition: repeat, isPublic: true }, { signal })

/**
 * The metadata of an issuer. Throws PlatformError unless it names the same issuer and nothing but endpoints of its origin: a code
 * or a refresh token that is sent there goes nowhere else. Throws it before a request if the issuer is less protected than the platform.
 */
export async function readMetadata(platform: Sender, issuer: string, signal?: AbortSignal): Promise<Metadata> {
  const { baseUrl } = platform
  if (baseUrl.startsWith('https:') && !issuer.startsWith('https:'))
    refuse(CONFIGURATION, `The identity provider ${issuer} is not on HTTPS, as ${baseUrl} is: nothing is sent to it`)
  const metadata = await readDocument<AuthorizationServer>(platform, CONFIGURATION, issuer, signal)
  if (metadata.issuer !== issuer)
    refuse(CONFIGURATION, `The identity provider ${issuer} calls itself ${metadata.issuer}: nothing is sent to it`)
  const { origin } = new URL(issuer)
  for (const name of ENDPOINTS)
    if (!metadata[name]?.startsWith(`${origin}/`))
      refuse(CONFIGURATION, `The ${name} of ${issuer} is of another origin: nothing is sent to it`)
  return metadata as Metadata
}

/** The identity provider of a platform: the first authorization server that it names beside itself (RFC 9728). Throws PlatformError. */
export async function discover(platform: Sender, signal?: AbortSignal): Promise<Metadata> {
  const { baseUrl } = platform
  const { resource, authorization_servers: servers = [] } = await readDocument<{
    resource: string
    authorization_servers?: string[]
  }>(platform, RESOURCE, baseUrl, signal)
  // Its tokens would be for that name, and a Platform of this one would refuse them.
  if (resource !== baseUrl) refuse(RESOURCE, `The platform at ${baseUrl} calls itself ${resource}: use that as baseUrl`)
  const issuer = servers.find((server) => server !== baseUrl)
  if (!issuer) refuse(RESOURCE, `The platform at ${baseUrl} names no identity provider`)
  return readMetadata(platform, issuer, signal)
}
