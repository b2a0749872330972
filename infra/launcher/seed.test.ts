import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { env } from 'node:process'
import { type Postgres, startPostgres } from '@platform/embedded-postgres/start-postgres'
import postgres, { type Sql } from 'postgres'
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { clients } from './clients.ts'
import { createDatabases } from './databases.ts'
import { readSecrets, type Secrets } from './secrets.ts'
import { bringSeedIntoLine } from './seed.ts'

const repository = resolve(import.meta.dirname, '../..')
const origins = { consoleUrl: 'http://localhost:4003', baseUrl: 'http://localhost:4000' }
const elsewhere = { consoleUrl: 'http://localhost:14003', baseUrl: 'http://localhost:14000' }
const DEVICE_GRANT = 'urn:ietf:params:oauth:grant-type:device_code'

let work: string
let secrets: Secrets
let server: Postgres
let idp: { cli: string; cwd: string; env: Record<string, string> }
let sql: Sql
beforeAll(async () => {
  work = await mkdtemp(join(tmpdir(), 'platform-seed-test-'))
  secrets = await readSecrets(work)
  server = await startPostgres({ dataFolder: join(work, 'postgres'), port: undefined, log: () => {} })
  await createDatabases(server.url('postgres'), secrets.databasePasswords)
  const DATABASE_URL = server.url('idp', { name: 'idp', password: secrets.databasePasswords.idp })
  idp = {
    cli: 'services/idp/src/cli.ts',
    cwd: repository,
    env: {
      PATH: env['PATH'] ?? '',
      PUBLIC_URL: 'http://localhost:4001',
      AUDIENCES: origins.baseUrl,
      MASTER_KEYS: secrets.masterKeys,
      DATABASE_URL,
    },
  }
  sql = postgres(DATABASE_URL, { max: 1 })
})
afterAll(async () => {
  await sql?.end()
  await server?.stop()
  await rm(work, { recursive: true, force: true })
})

/** A folder of its own, on an identity provider without clients. */
let dataFolder: string
beforeEach(async () => {
  dataFolder = await mkdtemp(join(work, 'data-'))
  const [{ exists = false } = {}] = await sql`select to_regclass('clients') is not null as exists`
  if (exists === true) await sql`delete from clients`
})

const seed = (at: typeof origins = origins) => bringSeedIntoLine({ dataFolder, secrets, ...at, ...idp })

/** Does what a start does that finds nothing to do: the identity provider's command would end with a failure. */
const seedWithoutCommand = (at: typeof origins = origins) =>
  bringSeedIntoLine({ dataFolder, secrets, ...at, ...idp, cli: 'missing.ts' })

const writeMarker = (marker: object | string) =>
  writeFile(join(dataFolder, 'seeded'), typeof marker === 'string' ? marker : JSON.stringify(marker))
const readMarker = async () => JSON.parse(await readFile(join(dataFolder, 'seeded'), 'utf8')) as object

/** The redirect URIs of the two clients that have the platform's own addresses. */
async function readUris() {
  const rows = await sql`select id, redirect_uris, post_logout_redirect_uris from clients`
  const of = (id: string) => rows.find((row) => row['id'] === id)
  return {
    console: of(clients.console.id)?.['redirect_uris'] as string[] | undefined,
    afterLogout: of(clients.console.id)?.['post_logout_redirect_uris'] as string[] | undefined,
    docs: of(clients.docs.id)?.['redirect_uris'] as string[] | undefined,
  }
}

const setUris = (id: string, redirectUris: string[], postLogoutRedirectUris: string[] = []) =>
  sql`update clients set ${sql({ redirect_uris: redirectUris, post_logout_redirect_uris: postLogoutRedirectUris })} where id = ${id}`

const ownCallback = 'https://own.example.com/callback'
const ownDocs = 'https://own.example.com/docs'
const own = 'https://own.example.com/'

/** A seeded folder, in which a person added an address to each client, as a release with this marker leaves it. */
async function seedOfBefore(marker: object | string): Promise<void> {
  await seed()
  await setUris(clients.console.id, [ownCallback, 'http://localhost:4003/callback'], ['http://localhost:4003/', own])
  await setUris(clients.docs.id, ['http://localhost:4000/docs', ownDocs])
  await writeMarker(marker)
}

test('a new folder is seeded with the addresses of its ports, and nothing is run while they stay the same', async () => {
  await seed(elsewhere)
  expect(await readUris()).toEqual({
    console: ['http://localhost:14003/callback'],
    afterLogout: ['http://localhost:14003/'],
    docs: ['http://localhost:14000/docs'],
  })
  const marker = await readMarker()
  expect(marker).toEqual({ version: 4, ...elsewhere, at: expect.any(String) as string })
  await seedWithoutCommand(elsewhere)
  expect(await readMarker()).toEqual(marker)
  await expect(seedWithoutCommand()).rejects.toThrow('could not be made')
  await expect(seedWithoutCommand({ ...elsewhere, baseUrl: origins.baseUrl })).rejects.toThrow('could not be made')
})

test('on other ports our addresses of before go and the new ones come, and those that a person added stay', async () => {
  await seedOfBefore({ version: 4, ...origins })
  await seed(elsewhere)
  expect(await readUris()).toEqual({
    console: [ownCallback, 'http://localhost:14003/callback'],
    afterLogout: [own, 'http://localhost:14003/'],
    docs: [ownDocs, 'http://localhost:14000/docs'],
  })
  await seedWithoutCommand(elsewhere)
  await seed()
  expect(await readUris()).toEqual({
    console: [ownCallback, 'http://localhost:4003/callback'],
    afterLogout: [own, 'http://localhost:4003/'],
    docs: [ownDocs, 'http://localhost:4000/docs'],
  })
})

test('with another port of one of the two, what a person did to the client of the other stays', async () => {
  await seed()
  await setUris(clients.console.id, [])
  await seed({ ...origins, baseUrl: elsewhere.baseUrl })
  expect(await readUris()).toEqual({ console: [], afterLogout: [], docs: ['http://localhost:14000/docs'] })
})

test('a client that a person deleted is not made again on other ports', async () => {
  await seed()
  await sql`delete from clients where id in ${sql([clients.console.id, clients.docs.id])}`
  await seed(elsewhere)
  expect(await readUris()).toEqual({ console: undefined, afterLogout: undefined, docs: undefined })
})

test('a folder of version 3, whose marker has no addresses, had its console at port 4003 and its reference at any', async () => {
  await seedOfBefore({ version: 3 })
  await setUris(clients.docs.id, ['http://localhost:4100/docs', ownDocs, 'http://localhost:4100/docs/mine'])
  await seed(elsewhere)
  expect(await readUris()).toEqual({
    console: [ownCallback, 'http://localhost:14003/callback'],
    afterLogout: [own, 'http://localhost:14003/'],
    docs: [ownDocs, 'http://localhost:4100/docs/mine', 'http://localhost:14000/docs'],
  })
  await seedWithoutCommand(elsewhere)
})

test('a folder of version 3 on the ports of before keeps its console as a person left it', async () => {
  await seedOfBefore({ version: 3 })
  await setUris(clients.console.id, [])
  await seed()
  expect((await readUris()).console).toEqual([])
  expect(await readMarker()).toMatchObject({ version: 4, ...origins })
})

test('a folder of version 2 gets the client of the reference', async () => {
  await seedOfBefore({ version: 2 })
  await sql`delete from clients where id = ${clients.docs.id}`
  await seed(elsewhere)
  expect(await readUris()).toMatchObject({
    console: [ownCallback, 'http://localhost:14003/callback'],
    docs: ['http://localhost:14000/docs'],
  })
})

test('a folder of version 1 has its console moved from port 3000, without the device flow', async () => {
  await seedOfBefore(`${new Date().toISOString()}\n`)
  await setUris(clients.console.id, ['http://localhost:3000/callback', ownCallback], ['http://localhost:3000/'])
  await sql`update clients set grants = array_append(grants, ${DEVICE_GRANT}) where id = ${clients.console.id}`
  await seed(elsewhere)
  expect(await readUris()).toMatchObject({
    console: [ownCallback, 'http://localhost:14003/callback'],
    // That release wrote none: this one is somebody's.
    afterLogout: ['http://localhost:3000/', 'http://localhost:14003/'],
  })
  const [row] = await sql`select grants from clients where id = ${clients.console.id}`
  expect(row?.['grants']).toEqual(['authorization_code', 'refresh_token'])
})

test('a start that is interrupted before its marker is written moves the addresses at the next one', async () => {
  await seedOfBefore({ version: 4, ...origins })
  const before = await readFile(join(dataFolder, 'seeded'))
  await seed(elsewhere)
  const moved = await readUris()
  await writeFile(join(dataFolder, 'seeded'), before)
  await seed(elsewhere)
  expect(await readUris()).toEqual(moved)
})
