import { createPrivateKey, createPublicKey, generateKeyPair, type KeyObject, sign } from 'node:crypto'
import { promisify } from 'node:util'
import { SIGNING_KEYS_LOCK } from '@platform/runtime/advisory-locks'
import type { Db } from '@platform/runtime/database'
import type { Logger } from '@platform/runtime/logger'
import type { Notifications } from '@platform/runtime/notifications'
import type { Sealer } from '@platform/runtime/seal'
import { openRotatingKeys, RELOAD_MS, type RotatingKeys } from '@platform/service/rotating-keys'
import { asc, eq, getTableColumns } from 'drizzle-orm'
import { calculateJwkThumbprint, type JWK } from 'jose'
import { signingKeys } from './signing-keys-table.ts'

export type SigningAlgorithm = 'RS256' | 'ES256'

/** How long a predecessor stays in the JWKS: far longer than the tokens that it signed are valid. */
const RETIRED_AFTER_MS = 86_400_000
/** max-age + stale-while-revalidate of the JWKS (B §2): no cached copy is older. */
const JWKS_CACHED_MS = 900_000
/** How long a late key waits: until every process has loaded it, and then until every cached JWKS without it has expired. */
const LATE_KEY_WAITS_MS = 2 * RELOAD_MS + JWKS_CACHED_MS

interface KeyPair {
  privateKey: KeyObject
  publicKey: KeyObject
  publicJwk: JWK
}

/** An issuer's signing keys: the one that signs now, and those published to verifiers. */
export interface KeySet extends Pick<RotatingKeys<unknown>, 'maintain' | 'rotateNow' | 'reencrypt' | 'close'> {
  readonly alg: SigningAlgorithm
  /** Returns a compact JWS of the claims, signed by the active key. `typ` goes into the header. Synchronous. */
  sign(typ: string, claims: object): string
  /** Returns the current JWKS (RFC 7517): published keys that are not retired. */
  jwks(): { keys: JWK[] }
  /** Returns the public key of a kid in the JWKS; with `retired`, of any key this issuer ever had (for id_token_hint). */
  publicKey(kid: string, which?: 'published' | 'retired'): KeyObject | undefined
  /** Changes whenever the set of published keys does. */
  version(): string
}

const generate = promisify(generateKeyPair)
const newPrivateKey = async (alg: SigningAlgorithm): Promise<KeyObject> =>
  (alg === 'RS256' ? await generate('rsa', { modulusLength: 2048 }) : await generate('ec', { namedCurve: 'P-256' }))
    .privateKey

/** Bytes of each of the two numbers of an ES256 signature (RFC 7518 §3.4). */
const ES256_NUMBER_BYTES = 32

/**
 * Converts a DER signature (SEQUENCE of two INTEGERs) to the two concatenated numbers of a JWS. node:crypto offers this by
 * `dsaEncoding`, but then the key has to be in an options object: measured, 75 µs per signature instead of 30.
 */
function rawSignature(der: Buffer): Buffer {
  const raw = Buffer.alloc(2 * ES256_NUMBER_BYTES)
  let position = 2
  for (const end of [ES256_NUMBER_BYTES, 2 * ES256_NUMBER_BYTES]) {
    const length = der.readUInt8(position + 1)
    // A leading zero keeps a number positive; short numbers are padded on the left.
    const digits = der.subarray(position + 2 + Math.max(0, length - ES256_NUMBER_BYTES), position + 2 + length)
    digits.copy(raw, end - digits.length)
    position += 2 + length
  }
  return raw
}

const base64url = (value: object): string => Buffer.from(JSON.stringify(value)).toString('base64url')

interface KeySetOptions {
  db: Db
  alg: SigningAlgorithm
  sealer: Sealer
  now: () => Date
  logger: Logger
  /** Announces rotations in other processes; without it they are noticed by the reload every 60 s. */
  notifications?: Notifications
}

/**
 * Opens the key set of a service. Creates the first key if there is none.
 *
 * The newest activated key signs; its successor is published 14 days ahead.
 */
export async function openKeySet({ db, alg, sealer, now, logger, notifications }: KeySetOptions): Promise<KeySet> {
  const headers = new Map<string, string>()
  const { kid: id, ciphertext, kekId, activatesAt, retiresAt } = signingKeys
  const keys = await openRotatingKeys({
    db,
    sealer,
    now,
    logger,
    notifications,
    name: 'signing',
    lock: SIGNING_KEYS_LOCK,
    channel: 'signing_keys',
    columns: { id, ciphertext, kekId, activatesAt, retiresAt },
    isOfSet: eq(signingKeys.alg, alg),
    contextOf: (kid) => kid,
    overlapMs: RETIRED_AFTER_MS,
    lateKeyWaitsMs: LATE_KEY_WAITS_MS,
    read: (db) =>
      db
        .select({ ...getTableColumns(signingKeys), id })
        .from(signingKeys)
        .where(eq(signingKeys.alg, alg))
        .orderBy(asc(signingKeys.activatesAt)),
    open(row, secret): KeyPair {
      const privateKey = createPrivateKey({ key: secret, format: 'der', type: 'pkcs8' })
      return { privateKey, publicKey: createPublicKey(privateKey), publicJwk: JSON.parse(row.publicJwk) as JWK }
    },
    async insert(tx, activatesAt, seal) {
      const privateKey = await newPrivateKey(alg)
      const publicJwk = createPublicKey(privateKey).export({ format: 'jwk' }) as JWK
      const kid = await calculateJwkThumbprint(publicJwk)
      const sealed = seal(privateKey.export({ format: 'der', type: 'pkcs8' }), kid)
      const jwk = JSON.stringify({ kid, use: 'sig', alg, ...publicJwk })
      await tx.insert(signingKeys).values({ kid, alg, publicJwk: jwk, ...sealed, publishAt: now(), activatesAt })
      return kid
    },
  })
  const { maintain, rotateNow, reencrypt, close } = keys

  return {
    alg,
    sign(typ, claims) {
      const { id: kid, material } = keys.active()
      const name = `${kid} ${typ}`
      let header = headers.get(name)
      if (!header) {
        header = base64url({ alg, typ, kid })
        headers.set(name, header)
      }
      const signed = `${header}.${base64url(claims)}`
      // Synchronous on purpose: in the thread pool, a signature would wait behind Argon2.
      const made = sign('sha256', Buffer.from(signed), material.privateKey)
      const signature = alg === 'ES256' ? rawSignature(made) : made
      return `${signed}.${signature.toString('base64url')}`
    },
    jwks: () => ({ keys: keys.live().map(({ material }) => material.publicJwk) }),
    publicKey: (kid, which = 'published') =>
      (which === 'published' ? keys.live() : keys.all()).find(({ id }) => id === kid)?.material.publicKey,
    version: () =>
      keys
        .live()
        .map(({ id }) => id)
        .join(),
    maintain,
    rotateNow,
    reencrypt,
    close,
  }
}
