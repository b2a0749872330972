import type { TestPlatform } from '@platform/testing/platform'
import { decodeJwt } from 'jose'

/** The claim `joined` of a token of somebody who accepted invitations to organizations of this API. */
export const acceptedHere = ({ apiUrl }: Pick<TestPlatform, 'apiUrl'>, ids: readonly string[]): string[] =>
  ids.map((id) => `${apiUrl}#${id}`)

/**
 * A token like another, signed by the identity provider's key with claims that it does not give on request: of another person, of an
 * older sign-in, or of somebody who accepted invitations (`joined`).
 */
export const tokenLike = (
  { idp }: Pick<TestPlatform, 'idp'>,
  token: string,
  claims: { sub?: string; scope?: string; auth_time?: number; joined?: unknown },
): string => idp.keySet.sign('at+jwt', { ...decodeJwt(token), ...claims })
