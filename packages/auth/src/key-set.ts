import { createPrivateKey, createPublicKey, generateKeyPair, type KeyObject, sign } from 'node:crypto'
import { promisify } from 'node:util'
import { SIGNING_KEYS_LOCK } from '@platform/runtime/advisory-locks'
import type { Db } from '@platform/runtime/database'
import type { Logger } from '@platform/runtime/logger'
import type { Notifications } from '@platform/runtime/notifications'
import type { Sealer } from '@platform/runtime/seal'
import { and, asc, desc, eq, gt, isNull, ne, or, sql } from 'drizzle-orm'
import { calculateJwkThumbprint, type JWK } from 'jose'
import { signingKeys } from './signing-keys-table.ts'

export type SigningAlgorithm = 'RS256' | 'ES256'

const DAY_MS = 86_400_000
/** How long before its boundary the next key is published, so that every cached JWKS has it in time. */
const PUBLISHED_AHEAD_MS = 14 * DAY_MS
/** How long a predecessor stays in the JWKS: far longer than any token that it signed lives. */
const RETIRED_AFTER_MS = DAY_MS
/** max-age + stale-while-revalidate of the JWKS (B §2): no cache is older. */
const JWKS_CACHED_MS = 900_000
const RELOAD_MS = 60_000
/** How long a late key waits: until every process has read it, and then until every JWKS without it has run out. */
const LATE_KEY_WAITS_MS = 2 * RELOAD_MS + JWKS_CACHED_MS
/** Where a rotation that takes effect at once is announced to the other processes of the service. */
const CHANNEL = 'signing_keys'

interface LoadedKey {
  kid: string
  privateKey: KeyObject
  publicKey: KeyObject
  publicJwk: JWK
  activatesAt: number
  retiresAt: number
}

/** An issuer's signing keys: which one signs now, and which ones verifiers may see. */
export interface KeySet {
  readonly alg: SigningAlgorithm
  /** A compact JWS of the claims, signed by the key that is active now. `typ` goes into the header. Synchronous. */
  sign(typ: string, claims: object): string
  /** The JWKS of now (RFC 7517): published and not retired. */
  jwks(): { keys: JWK[] }
  /** The public key of a kid in the JWKS; with `retired`, of any this issuer ever had (for id_token_hint). */
  publicKey(kid: string, which?: 'published' | 'retired'): KeyObject | undefined
  /** Changes whenever the set of published keys does. */
  version(): string
  /** Makes the key that is due, if any, and reads what other processes made. Runs by itself every 60 s. */
  maintain(): Promise<void>
  /**
   * A new key that signs at once, and every other out of the JWKS: for a key that leaked. Every process of the service
   * that listens signs with it as soon as the rotation commits. Returns the new kid.
   * record: runs in the same transaction, for the issuer's audit.
   */
  rotateNow(record?: (tx: Pick<Db, 'insert'>, kid: string) => Promise<void>): Promise<string>
  /** Seals every key anew that is not under the sealer's current master key. Returns how many. */
  reencrypt(): Promise<number>
  close(): void
}

/** 00:00 UTC of the last 1 January or 1 July at or before `at`, and of the one after it (B §5). */
export function rotationBoundaries(at: Date): { last: Date; next: Date } {
  const year = at.getUTCFullYear()
  const isSecondHalf = at.getUTCMonth() >= 6
  return {
    last: new Date(Date.UTC(year, isSecondHalf ? 6 : 0)),
    next: new Date(isSecondHalf ? Date.UTC(year + 1, 0) : Date.UTC(year, 6)),
  }
}

const generate = promisify(generateKeyPair)
const newPrivateKey = async (alg: SigningAlgorithm): Promise<KeyObject> =>
  (alg === 'RS256' ? await generate('rsa', { modulusLength: 2048 }) : await generate('ec', { namedCurve: 'P-256' }))
    .privateKey

/** Bytes of each of the two numbers of an ES256 signature (RFC 7518 §3.4). */
const ES256_NUMBER_BYTES = 32

/**
 * The two numbers of a DER signature (SEQUENCE of two INTEGERs), side by side as a JWS has them. node:crypto would do it
 * when asked by `dsaEncoding`, but then takes the key out of an options object: measured, 75 µs a signature against 30.
 */
function rawSignature(der: Buffer): Buffer {
  const raw = Buffer.alloc(2 * ES256_NUMBER_BYTES)
  let at = 2
  for (const end of [ES256_NUMBER_BYTES, 2 * ES256_NUMBER_BYTES]) {
    const length = der.readUInt8(at + 1)
    // A leading zero keeps a number positive; short ones are padded on the left.
    const digits = der.subarray(at + 2 + Math.max(0, length - ES256_NUMBER_BYTES), at + 2 + length)
    digits.copy(raw, end - digits.length)
    at += 2 + length
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
  /** Tells of rotations in other processes; without it they are noticed by the reading every 60 s. */
  notifications?: Notifications
}

/**
 * Opens the key set of a service. Makes the first key where there is none.
 *
 * The signer is the newest key whose time has come, asked anew for every signature, so replicas switch at the same
 * instant without talking to each other (B §5). Keys are made under an advisory lock; `activates_at` is unique besides.
 */
export async function openKeySet({ db, alg, sealer, now, logger, notifications }: KeySetOptions): Promise<KeySet> {
  let keys: LoadedKey[] = []
  /** The last reading of the keys. One at a time: an older answer must never come after a newer one. */
  let loading: Promise<void> = Promise.resolve()
  const headers = new Map<string, string>()

  const load = (): Promise<void> => (loading = loading.then(readKeys, readKeys))

  async function readKeys(): Promise<void> {
    const rows = await db
      .select()
      .from(signingKeys)
      .where(eq(signingKeys.alg, alg))
      .orderBy(asc(signingKeys.activatesAt))
    const known = new Map(keys.map((key) => [key.kid, key]))
    keys = rows.map((row) => {
      const before = known.get(row.kid)
      const privateKey =
        before?.privateKey ?? createPrivateKey({ key: sealer.open(row, row.kid), format: 'der', type: 'pkcs8' })
      return {
        kid: row.kid,
        privateKey,
        publicKey: before?.publicKey ?? createPublicKey(privateKey),
        publicJwk: before?.publicJwk ?? (JSON.parse(row.publicJwk) as JWK),
        activatesAt: row.activatesAt.getTime(),
        retiresAt: row.retiresAt?.getTime() ?? Number.POSITIVE_INFINITY,
      }
    })
  }

  async function insertKey(
    tx: Pick<Db, 'insert' | 'update'>,
    activatesAt: Date,
    othersRetireAt: Date,
  ): Promise<string> {
    const privateKey = await newPrivateKey(alg)
    const publicJwk = createPublicKey(privateKey).export({ format: 'jwk' }) as JWK
    const kid = await calculateJwkThumbprint(publicJwk)
    const sealed = sealer.seal(privateKey.export({ format: 'der', type: 'pkcs8' }), kid)
    const jwk = { kid, use: 'sig', alg, ...publicJwk }
    await tx
      .insert(signingKeys)
      .values({ kid, alg, publicJwk: JSON.stringify(jwk), ...sealed, publishAt: now(), activatesAt })
    await tx
      .update(signingKeys)
      .set({ retiresAt: othersRetireAt })
      .where(
        sql`${signingKeys.alg} = ${alg} and ${signingKeys.kid} <> ${kid} and (${signingKeys.retiresAt} is null or ${signingKeys.retiresAt} > ${othersRetireAt.toISOString()}::timestamptz)`,
      )
    return kid
  }

  /** When the key that is due becomes active; undefined when none is due. */
  function dueActivation(newest: Date | undefined): Date | undefined {
    const at = now()
    const { last, next } = rotationBoundaries(at)
    if (!newest) return at
    // Nobody was up to make the key of the last boundary: make it now, and let every cached JWKS run out first.
    if (newest < last) return new Date(at.getTime() + LATE_KEY_WAITS_MS)
    if (newest < next && at.getTime() >= next.getTime() - PUBLISHED_AHEAD_MS) return next
    return undefined
  }

  /** Returns whether there may be another one due: the first key of all can stand right before a boundary. */
  async function makeDueKey(): Promise<boolean> {
    const newest = keys.findLast(({ retiresAt }) => retiresAt > now().getTime())
    if (!dueActivation(newest && new Date(newest.activatesAt))) return false
    await db.transaction(async (tx) => {
      await tx.execute(sql`select pg_advisory_xact_lock(${SIGNING_KEYS_LOCK})`)
      const [found] = await tx
        .select({ at: signingKeys.activatesAt })
        .from(signingKeys)
        .where(and(eq(signingKeys.alg, alg), or(isNull(signingKeys.retiresAt), gt(signingKeys.retiresAt, now()))))
        .orderBy(desc(signingKeys.activatesAt))
        .limit(1)
      const activatesAt = dueActivation(found?.at)
      if (!activatesAt) return // another process was first
      const kid = await insertKey(tx, activatesAt, new Date(activatesAt.getTime() + RETIRED_AFTER_MS))
      logger.info({ kid, alg, activatesAt }, 'signing key made')
    })
    await load()
    return true
  }

  async function maintain(): Promise<void> {
    await load()
    while (await makeDueKey());
  }

  function signer(): LoadedKey {
    const at = now().getTime()
    const key = keys.findLast(({ activatesAt, retiresAt }) => activatesAt <= at && retiresAt > at)
    if (!key) throw new Error('No signing key is active')
    return key
  }

  const published = () => {
    const at = now().getTime()
    return keys.filter(({ retiresAt }) => retiresAt > at)
  }

  const goOnWithKnown = (error: unknown) =>
    logger.warn({ err: error }, 'signing keys could not be read; the known ones go on')

  await maintain()
  const timer = setInterval(() => void maintain().catch(goOnWithKnown), RELOAD_MS).unref()
  const reload = () => void load().catch(goOnWithKnown)
  notifications?.listen(CHANNEL, { onMessage: reload, onListening: reload })

  return {
    alg,
    sign(typ, claims) {
      const key = signer()
      const name = `${key.kid} ${typ}`
      let header = headers.get(name)
      if (!header) {
        header = base64url({ alg, typ, kid: key.kid })
        headers.set(name, header)
      }
      const signed = `${header}.${base64url(claims)}`
      // Synchronous on purpose: the thread pool is where Argon2 runs, and a signature would wait behind it.
      const made = sign('sha256', Buffer.from(signed), key.privateKey)
      const signature = alg === 'ES256' ? rawSignature(made) : made
      return `${signed}.${signature.toString('base64url')}`
    },
    jwks: () => ({ keys: published().map(({ publicJwk }) => publicJwk) }),
    publicKey: (kid, which = 'published') =>
      (which === 'published' ? published() : keys).find((key) => key.kid === kid)?.publicKey,
    version: () =>
      published()
        .map(({ kid }) => kid)
        .join(),
    maintain,
    async rotateNow(record) {
      const kid = await db.transaction(async (tx) => {
        await tx.execute(sql`select pg_advisory_xact_lock(${SIGNING_KEYS_LOCK})`)
        // A successor that waits for its boundary may be known to whoever knows the rest; it never signed, so it goes.
        await tx.delete(signingKeys).where(and(eq(signingKeys.alg, alg), gt(signingKeys.activatesAt, now())))
        const made = await insertKey(tx, now(), now())
        await record?.(tx, made)
        await tx.execute(sql`select pg_notify(${CHANNEL}, '')`)
        return made
      })
      await load()
      return kid
    },
    async reencrypt() {
      const rows = await db.select().from(signingKeys).where(ne(signingKeys.kekId, sealer.kekId))
      for (const row of rows) {
        await db
          .update(signingKeys)
          .set(sealer.seal(sealer.open(row, row.kid), row.kid))
          .where(eq(signingKeys.kid, row.kid))
      }
      return rows.length
    },
    close: () => clearInterval(timer),
  }
}
