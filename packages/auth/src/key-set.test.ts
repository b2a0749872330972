import { createPrivateKey, randomBytes } from 'node:crypto'
import { type Db, openDatabase } from '@platform/runtime/database'
import { createLogger } from '@platform/runtime/logger'
import { type Notifications, openNotifications } from '@platform/runtime/notifications'
import { createSealer, masterKeys } from '@platform/runtime/seal'
import { createDatabase } from '@platform/testkit/databases'
import { sql } from 'drizzle-orm'
import { createLocalJWKSet, jwtVerify } from 'jose'
import { afterAll, beforeAll, beforeEach, expect, onTestFinished, test } from 'vitest'
import { type KeySet, openKeySet } from './key-set.ts'
import { signingKeys } from './signing-keys-table.ts'

const DAY = 86_400_000
const k1 = `k1:${randomBytes(32).toString('base64')}`
const sealer = createSealer(masterKeys.parse(k1))
const logger = createLogger('test', 'silent')
/** Creates the table as the services' migrations do. */
async function migrate(url: string): Promise<void> {
  const { db, close } = openDatabase(url, { name: 'test', max: 1, prepare: false })
  await db.execute(sql`
    create table signing_keys (
      kid text primary key, alg text not null, public_jwk text not null, ciphertext bytea not null, kek_id text not null,
      publish_at timestamp (3) with time zone not null, activates_at timestamp (3) with time zone not null unique,
      retires_at timestamp (3) with time zone, created_at timestamp (3) with time zone not null default now()
    )`)
  await close()
}

let database: { db: Db; close(): Promise<void> }
let databaseUrl = ''
let clockTime = new Date()
let opened: KeySet[] = []

beforeAll(async () => {
  databaseUrl = (await createDatabase({ name: 'signing_keys', migrate })).url
  database = openDatabase(databaseUrl, { name: 'test', max: 5, prepare: true })
})
afterAll(() => database.close())
beforeEach(async () => {
  for (const keySet of opened) keySet.close()
  opened = []
  await database.db.delete(signingKeys)
})

const open = async (more: { notifications?: Notifications } = {}): Promise<KeySet> => {
  const keySet = await openKeySet({ db: database.db, alg: 'RS256', sealer, now: () => clockTime, logger, ...more })
  opened.push(keySet)
  return keySet
}
const sign = (keySet: KeySet) =>
  keySet.sign('at+jwt', {
    sub: 'x',
    iat: Math.floor(clockTime.getTime() / 1_000),
    exp: Math.floor(clockTime.getTime() / 1_000) + 300,
  })
const kidOf = (token: string) =>
  (JSON.parse(Buffer.from(token.split('.')[0] ?? '', 'base64url').toString()) as { kid: string }).kid

test('instances that start together make one key', async () => {
  clockTime = new Date('2026-03-01T12:00:00.000Z')
  const keySets = await Promise.all([open(), open(), open()])
  for (const keySet of keySets) await keySet.maintain()
  expect(new Set(keySets.map((keySet) => kidOf(sign(keySet)))).size).toBe(1)
})

test('three instances and verifiers with a JWKS of 15 minutes ago cross 1 January without one failure (B §5)', async () => {
  clockTime = new Date('2026-12-10T00:00:00.000Z')
  const keySets = [await open(), await open(), await open()]
  const before = kidOf(sign(keySets[0] as KeySet))
  // Each instance maintains at its own time; verifiers hold the oldest JWKS that the cache header allows.
  const caches: { at: number; jwks: ReturnType<KeySet['jwks']> }[] = []
  const signers = new Set<string>()
  for (let time = Date.UTC(2026, 11, 17) - 3_600_000, i = 0; time < Date.UTC(2027, 0, 1) + 2 * 3_600_000; i++) {
    const isNear =
      Math.abs(time - Date.UTC(2027, 0, 1)) < 3_600_000 || Math.abs(time - Date.UTC(2026, 11, 18)) < 3_600_000
    time += isNear ? 20_000 : 3_600_000
    clockTime = new Date(time)
    const keySet = keySets[i % 3] as KeySet
    await keySet.maintain()
    caches.push({ at: time, jwks: keySet.jwks() })
    const oldest = caches.findLast((cache) => cache.at <= time - 900_000) ?? caches[0]
    for (const signer of keySets) {
      const token = sign(signer)
      signers.add(kidOf(token))
      await jwtVerify(token, createLocalJWKSet(oldest?.jwks ?? { keys: [] }), { currentDate: clockTime })
    }
  }
  expect(signers.size).toBe(2)

  const after = sign(keySets[0] as KeySet)
  expect(kidOf(after)).not.toBe(before)
  expect(keySets[0]?.publicKey(before)).toBeDefined()
  clockTime = new Date(Date.UTC(2027, 0, 2) + 1)
  expect(keySets[0]?.publicKey(before)).toBeUndefined() // out of the JWKS a day later
  expect(keySets[0]?.publicKey(before, 'retired')).toBeDefined() // but still known for id_token_hint
})

test('the switch is at 00:00 UTC to the millisecond, without reading the database (B §5)', async () => {
  clockTime = new Date('2026-06-20T00:00:00.000Z')
  const keySet = await open()
  clockTime = new Date('2026-06-30T23:59:59.999Z')
  const before = kidOf(sign(keySet))
  clockTime = new Date('2026-07-01T00:00:00.000Z')
  expect(kidOf(sign(keySet))).not.toBe(before)
})

test('the next key is published 14 days ahead, and not before (B §5)', async () => {
  clockTime = new Date('2026-06-16T23:59:59.999Z')
  const keySet = await open()
  expect(keySet.jwks().keys).toHaveLength(1)
  clockTime = new Date('2026-06-17T00:00:00.000Z')
  await keySet.maintain()
  expect(keySet.jwks().keys).toHaveLength(2)
})

test('a key made late, after an outage over the boundary, waits until every cached JWKS has run out', async () => {
  clockTime = new Date('2026-03-01T00:00:00.000Z')
  const [keySet, neighbour] = [await open(), await open()]
  const old = kidOf(sign(keySet))
  const madeAt = Date.UTC(2026, 7, 1)
  clockTime = new Date(madeAt)
  await keySet.maintain()
  expect(keySet.jwks().keys).toHaveLength(2)
  // The neighbour reloads the keys once a minute, so for that long it serves a JWKS without the late one.
  clockTime = new Date(madeAt + 59_999)
  const cached = { jwks: neighbour.jwks(), until: clockTime.getTime() + 900_000 }
  expect(cached.jwks.keys).toHaveLength(1)
  await neighbour.maintain()
  for (; clockTime.getTime() < cached.until; clockTime = new Date(clockTime.getTime() + 1_000))
    await jwtVerify(sign(keySet), createLocalJWKSet(cached.jwks), { currentDate: clockTime })
  clockTime = new Date(madeAt + 17 * 60_000)
  expect(kidOf(sign(keySet))).not.toBe(old)
  expect(kidOf(sign(neighbour))).toBe(kidOf(sign(keySet)))
})

test('an ES256 signature is what other implementations verify, whatever the size of its numbers', async () => {
  clockTime = new Date('2026-03-01T00:00:00.000Z')
  const keySet = await openKeySet({ db: database.db, alg: 'ES256', sealer, now: () => clockTime, logger })
  opened.push(keySet)
  const jwks = createLocalJWKSet(keySet.jwks())
  // One number in 256 is a byte short, so a thousand signatures include some of each kind.
  const tokens = Array.from({ length: 1_000 }, () => sign(keySet))
  const verified = await Promise.all(tokens.map((token) => jwtVerify(token, jwks, { currentDate: clockTime })))
  expect(verified).toHaveLength(1_000)
})

test('an emergency rotation signs with the new key at once and withdraws the others', async () => {
  clockTime = new Date('2026-12-25T00:00:00.000Z')
  const keySet = await open()
  const leaked = kidOf(sign(keySet))
  clockTime = new Date(clockTime.getTime() + DAY)
  const kid = await keySet.rotateNow()
  expect(kidOf(sign(keySet))).toBe(kid)
  expect(keySet.jwks().keys.map((key) => key.kid)).not.toContain(leaked)
  clockTime = new Date('2027-01-01T00:00:01.000Z')
  await keySet.maintain()
  expect(keySet.jwks().keys.map((key) => key.kid)).toContain(kidOf(sign(keySet)))
})

test('an emergency rotation in one process is known to the others at once', async () => {
  clockTime = new Date('2026-12-25T00:00:00.000Z')
  const notifications = openNotifications(databaseUrl, logger)
  onTestFinished(() => notifications.close())
  const [rotating, listening] = [await open(), await open({ notifications })]
  const leaked = kidOf(sign(listening))
  clockTime = new Date(clockTime.getTime() + DAY)
  const kid = await rotating.rotateNow()
  // Without the notification it would take a minute, until the keys are reloaded.
  await expect.poll(() => kidOf(sign(listening))).toBe(kid)
  expect(listening.publicKey(leaked)).toBeUndefined()
})

test('keys are sealed at rest and can be sealed anew under another master key', async () => {
  clockTime = new Date('2026-03-01T00:00:00.000Z')
  await open()
  const rows = await database.db.select().from(signingKeys)
  expect(rows.map(({ kekId }) => kekId)).toEqual(['k1'])
  expect(() =>
    createPrivateKey({ key: rows[0]?.ciphertext.subarray(28) ?? Buffer.alloc(0), format: 'der', type: 'pkcs8' }),
  ).toThrow(/DER|asn1|wrong tag|unsupported/i)

  const k2 = `k2:${randomBytes(32).toString('base64')}`
  const openWith = (keys: string) =>
    openKeySet({
      db: database.db,
      alg: 'RS256',
      sealer: createSealer(masterKeys.parse(keys)),
      now: () => clockTime,
      logger,
    })
  await expect(openWith(k2)).rejects.toThrow('k1')
  const both = await openWith(`${k2},${k1}`)
  expect(await both.reencrypt()).toBe(1)
  both.close()
  const alone = await openWith(k2)
  expect(alone.jwks().keys[0]?.kid).toBe(rows[0]?.kid)
  alone.close()
})
