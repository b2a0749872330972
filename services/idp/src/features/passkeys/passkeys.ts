import { platformName } from '@platform/look/name'
import type {
  AuthenticatorTransport,
  PublicKeyCredentialCreationOptionsJSON,
  PublicKeyCredentialRequestOptionsJSON,
} from '@simplewebauthn/server'
import { isUniqueViolation } from '@platform/runtime/database'
import { newId } from '@platform/runtime/new-id'
import { type AuditActor, recordAudit } from '@platform/service/audit'
import { and, desc, eq } from 'drizzle-orm'
import { z } from 'zod'
import type { Deps } from '../../deps.ts'
import type { Session } from '../../site/session.ts'
import { users } from '../accounts/table.ts'
import { notifySecurityChange } from '../mail/notify-security-change.ts'
import type { Proof } from '../sessions/proof.ts'
import { isOurChallenge, newChallenge, type Purpose, useChallenge } from './challenge.ts'
import { passkeyProof } from './passkey-proof.ts'
import { providerOf } from './providers.ts'
import { passkeys } from './table.ts'

const PASSKEYS_MAX = 20
const TIMEOUT_MS = 300_000
const NAME_LENGTH_MAX = 64
/** EdDSA, ES256 and RS256. The library's own list begins with an algorithm that Node calls experimental. */
const supportedAlgorithmIDs = [-8, -7, -257]

type PasskeyDeps = Pick<Deps, 'db' | 'now' | 'sealer' | 'issuer'>

/** Loaded when a passkey is first checked: with its dependencies for attestations it would add 0.24 s to the start. */
const library = () => import('@simplewebauthn/server')

/** The domain of passkeys: the issuer's host, without its port. */
const rpIdOf = (issuer: string): string => new URL(issuer).hostname
/** The user handle, which the authenticator stores with a passkey and returns: the user's id, nothing personal. */
const userHandleOf = (userId: string): Buffer<ArrayBuffer> => Buffer.from(userId.replaceAll('-', ''), 'hex')

const asBytes = (challenge: string): string => Buffer.from(challenge).toString('base64url')

const transports = ['ble', 'hybrid', 'internal', 'nfc', 'usb'] as const
const asTransports = (names: readonly string[]): AuthenticatorTransport[] =>
  transports.filter((name) => names.includes(name))

const credential = <R extends z.ZodType>(response: R) =>
  z.object({
    id: z.base64url(),
    rawId: z.base64url(),
    type: z.literal('public-key'),
    clientExtensionResults: z.object({}).default({}),
    response,
  })
const createdCredential = credential(
  z.object({
    clientDataJSON: z.base64url(),
    attestationObject: z.base64url(),
    transports: z.array(z.string()).default([]),
  }),
)
const usedCredential = credential(
  z.object({
    clientDataJSON: z.base64url(),
    authenticatorData: z.base64url(),
    signature: z.base64url(),
    userHandle: z.base64url(),
  }),
)

/** Parses JSON that the browser sent; undefined if it does not match the shape. */
function parse<T>(shape: z.ZodType<T>, text: string): T | undefined {
  try {
    return shape.safeParse(JSON.parse(text)).data
  } catch {
    return undefined // not JSON
  }
}

/** The challenge that was signed, as the browser states it; the library has verified the signature. */
const challengeOf = (clientDataJson: string): string =>
  z.object({ challenge: z.string() }).parse(JSON.parse(Buffer.from(clientDataJson, 'base64url').toString())).challenge

export type Passkey = Pick<typeof passkeys.$inferSelect, 'id' | 'name' | 'isSynced' | 'createdAt' | 'lastUsedAt'>

/** The user's passkeys, newest first. */
export function listPasskeys({ db }: Pick<Deps, 'db'>, userId: string): Promise<Passkey[]> {
  return db
    .select({
      id: passkeys.id,
      name: passkeys.name,
      isSynced: passkeys.isSynced,
      createdAt: passkeys.createdAt,
      lastUsedAt: passkeys.lastUsedAt,
    })
    .from(passkeys)
    .where(eq(passkeys.userId, userId))
    .orderBy(desc(passkeys.id))
}

/** Options for `navigator.credentials.create`, as JSON, to create a passkey for this user in this session. */
export async function describeNewPasskey(deps: PasskeyDeps, session: Session): Promise<string> {
  const { user, cookie } = session
  const held = await deps.db
    .select({ credentialId: passkeys.credentialId, transports: passkeys.transports })
    .from(passkeys)
    .where(eq(passkeys.userId, user.id))
  const name = [user.givenName, user.familyName].filter((part) => part !== null).join(' ')
  const options: PublicKeyCredentialCreationOptionsJSON = {
    rp: { id: rpIdOf(deps.issuer), name: platformName },
    user: {
      id: userHandleOf(user.id).toString('base64url'),
      name: user.email,
      displayName: name === '' ? user.email : name,
    },
    challenge: asBytes(newChallenge(deps, 'passkey-add', cookie)),
    pubKeyCredParams: supportedAlgorithmIDs.map((alg) => ({ type: 'public-key', alg })),
    timeout: TIMEOUT_MS,
    attestation: 'none',
    authenticatorSelection: { residentKey: 'required', requireResidentKey: true, userVerification: 'required' },
    excludeCredentials: held.map((passkey) => ({
      id: passkey.credentialId.toString('base64url'),
      type: 'public-key',
      transports: asTransports(passkey.transports),
    })),
  }
  return JSON.stringify(options)
}

const readName = (text: string, otherwise: string): string => {
  // oxlint-disable-next-line no-control-regex -- they are what is taken out
  const name = text.replaceAll(/[\0-\x1f\x7f]/g, ' ').trim()
  return Array.from(name === '' ? otherwise : name)
    .slice(0, NAME_LENGTH_MAX)
    .join('')
}

/** The name, with the lowest number from 2 on if the user already has one of this name. Stays within the length limit. */
function distinctName(name: string, taken: readonly string[]): string {
  const isTaken = (name: string) => taken.some((other) => other.toLowerCase() === name.toLowerCase())
  for (let number = 2, distinct = name; ; number++) {
    if (!isTaken(distinct)) return distinct
    const suffix = ` ${number}`
    distinct = `${Array.from(name)
      .slice(0, NAME_LENGTH_MAX - suffix.length)
      .join('')}${suffix}`
  }
}

interface NewPasskey {
  /** The credential as the browser's script sent it. */
  answer: string
  /** Empty: named after its provider. */
  name: string
  /** For an unnamed passkey whose provider is unknown. */
  nameOtherwise: string
}

/** RFC 8176: proof of possession of a hardware or synced key, and a user verified by their device: two factors. */
const amrOf = (isSynced: boolean): string => `${isSynced ? 'swk' : 'hwk'} user mfa`

/**
 * Adds a passkey to the session's user. Returns the result: a passkey is added only once, and a user has at most twenty. If
 * the user has another passkey of that name, a number is appended. amr: the methods that creating it has proven.
 */
export async function addPasskey(
  deps: Deps,
  { user, cookie }: Session,
  { answer, name, nameOtherwise }: NewPasskey,
): Promise<{ kind: 'added'; amr: string } | { kind: 'refused' | 'present' | 'full' }> {
  const { db, now, issuer } = deps
  const response = parse(createdCredential, answer)
  if (!response) return { kind: 'refused' }
  const { verifyRegistrationResponse } = await library()
  const verified = await verifyRegistrationResponse({
    response: {
      ...response,
      response: { ...response.response, transports: asTransports(response.response.transports) },
    },
    expectedChallenge: (challenge) => isOurChallenge(deps, 'passkey-add', cookie, challenge),
    expectedOrigin: issuer,
    expectedRPID: rpIdOf(issuer),
    requireUserVerification: true,
    supportedAlgorithmIDs,
  }).catch(() => undefined) // whatever the library objects to
  if (!verified?.verified) return { kind: 'refused' }
  const { credential: made, credentialDeviceType, aaguid } = verified.registrationInfo
  const isSynced = credentialDeviceType === 'multiDevice'
  const time = now()
  try {
    const outcome = await db.transaction(async (tx) => {
      await tx.select({ id: users.id }).from(users).where(eq(users.id, user.id)).for('update')
      const held = await tx.select({ name: passkeys.name }).from(passkeys).where(eq(passkeys.userId, user.id))
      if (held.length >= PASSKEYS_MAX) return 'full'
      if (!(await useChallenge(tx, time, challengeOf(response.response.clientDataJSON)))) return 'refused'
      const id = newId()
      await tx.insert(passkeys).values({
        id,
        userId: user.id,
        credentialId: Buffer.from(made.id, 'base64url'),
        publicKey: Buffer.from(made.publicKey),
        counter: made.counter,
        transports: asTransports(response.response.transports),
        isSynced,
        name: distinctName(
          readName(name, providerOf(aaguid) ?? nameOtherwise),
          held.map((passkey) => passkey.name),
        ),
        createdAt: time,
      })
      await recordAudit(tx, time, {
        actor: `user:${user.id}`,
        action: 'user.passkey_added',
        subject: `user:${user.id}`,
        details: { passkeyId: id },
      })
      return 'added'
    })
    if (outcome !== 'added') return { kind: outcome }
    notifySecurityChange(deps, user.id, { kind: 'passkey-added' })
    return { kind: 'added', amr: amrOf(isSynced) }
  } catch (error) {
    if (isUniqueViolation(error, 'passkeys_credential')) return { kind: 'present' }
    throw error
  }
}

/** Renames one of the user's passkeys; an empty name changes nothing. Safe to repeat. */
export async function renamePasskey(
  { db }: Pick<Deps, 'db'>,
  { userId, passkeyId, name }: { userId: string; passkeyId: string; name: string },
): Promise<void> {
  const wanted = readName(name, '')
  if (wanted === '') return
  await db
    .update(passkeys)
    .set({ name: wanted })
    .where(and(eq(passkeys.id, passkeyId), eq(passkeys.userId, userId)))
}

/** Removes passkeys of a user, one or all: they sign nobody in from then on. Safe to repeat. */
export async function removePasskeys(
  deps: Deps,
  { userId, passkeyId }: { userId: string; passkeyId?: string },
  actor: AuditActor,
): Promise<void> {
  const { db, now } = deps
  const time = now()
  const removed = await db.transaction(async (tx) => {
    const gone = await tx
      .delete(passkeys)
      .where(and(eq(passkeys.userId, userId), passkeyId === undefined ? undefined : eq(passkeys.id, passkeyId)))
      .returning({ id: passkeys.id })
    for (const { id } of gone)
      await recordAudit(tx, time, {
        actor,
        action: 'user.passkey_removed',
        subject: `user:${userId}`,
        details: { passkeyId: id },
      })
    return gone
  })
  if (removed.length > 0) notifySecurityChange(deps, userId, { kind: 'passkey-removed' })
}

/** The purpose of a passkey request, and the cookie of the requesting browser. */
interface Asked {
  purpose: Exclude<Purpose, 'passkey-add'>
  cookie: string
}

/** Options for `navigator.credentials.get`, as JSON, to ask for any passkey of ours. */
export function describePasskeyRequest(
  deps: Pick<Deps, 'sealer' | 'now' | 'issuer'>,
  { purpose, cookie }: Asked,
): string {
  const options: PublicKeyCredentialRequestOptionsJSON = {
    rpId: rpIdOf(deps.issuer),
    challenge: asBytes(newChallenge(deps, purpose, cookie)),
    timeout: TIMEOUT_MS,
    userVerification: 'required',
  }
  return JSON.stringify(options)
}

/**
 * The user of a passkey, from what the browser's script sent; undefined if the passkey is unknown, the challenge belongs to
 * another browser, or anything else is wrong. The proof detects a replay when the session starts.
 */
export async function findPasskeyUser(
  deps: PasskeyDeps,
  { purpose, cookie }: Asked,
  answer: string,
): Promise<{ userId: string; amr: string; proof: Proof } | undefined> {
  const { db, issuer } = deps
  const response = parse(usedCredential, answer)
  if (!response) return undefined
  const [row] = await db
    .select()
    .from(passkeys)
    .where(eq(passkeys.credentialId, Buffer.from(response.id, 'base64url')))
  if (!row || !userHandleOf(row.userId).equals(Buffer.from(response.response.userHandle, 'base64url'))) return undefined
  const { verifyAuthenticationResponse } = await library()
  const verified = await verifyAuthenticationResponse({
    response,
    expectedChallenge: (challenge) => isOurChallenge(deps, purpose, cookie, challenge),
    expectedOrigin: issuer,
    expectedRPID: rpIdOf(issuer),
    requireUserVerification: true,
    // The counter is compared when the session starts, together with everything that must happen once.
    credential: { id: response.id, publicKey: new Uint8Array(row.publicKey), counter: 0 },
  }).catch(() => undefined) // whatever the library objects to
  if (!verified?.verified) return undefined
  return {
    userId: row.userId,
    amr: amrOf(row.isSynced),
    proof: passkeyProof({
      passkeyId: row.id,
      counter: verified.authenticationInfo.newCounter,
      challenge: challengeOf(response.response.clientDataJSON),
    }),
  }
}
