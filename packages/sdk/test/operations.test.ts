import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { startPlatform, type TestPlatform } from '@platform/testing/platform'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { actorKindOf } from '../../../services/api/test/access-rules.ts'
import { faultsOf } from '../../../services/api/test/answer-check.ts'
import { newFunction } from '../../../services/api/test/deployments.ts'
import { type Operation, operations } from '../../../services/api/test/operations.ts'
import { makerFor, recipeOf, referencesOf, testProviders } from '../../../services/api/test/recipes.ts'
import { newOwner } from '../../../services/api/test/scenario.ts'
import * as sdk from '../src/index.ts'
import { placement } from '../src/place.ts'
import { generate, type OpenApiDocument } from './generated.ts'

let server: TestPlatform
let folder: string
let person: Awaited<ReturnType<TestPlatform['person']>>
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'clients-'))
  await writeFile(join(folder, 'checksums.txt'), 'none\n')
  server = await startPlatform({ aiProviders: testProviders, env: { CLIENTS_FOLDER: folder } })
  person = await server.person()
})
afterAll(async () => {
  await server.close()
  await rm(folder, { recursive: true })
})

test('what is generated is that of the running service’s document: `npm run sdk` writes it', async () => {
  const read = (path: string): Promise<string> => readFile(new URL(path, import.meta.url), 'utf8')
  const document = (await (await fetch(`${server.apiUrl}/docs/json`)).json()) as OpenApiDocument
  const generated = await generate(document)
  for (const [name, content] of Object.entries(generated))
    expect((await read(`../src/generated/${name}`)) === content, `${name} is the document’s`).toBe(true)
  expect(sdk.apiVersion).toBe(document.info.version)
  expect((JSON.parse(await read('../package.json')) as { version: string }).version).toBe(document.info.version)
})

type Members = Record<string, unknown>
type AnyOperation = (platform: sdk.Platform, params: Members, options?: sdk.CallOptions) => Promise<unknown>

const platformOf = (token: string) => new sdk.Platform({ baseUrl: server.apiUrl, credential: sdk.staticToken(token) })

/** What the SDK's function takes for the request that the recipe of an operation describes, and who sends it. */
async function callOf(operation: Operation): Promise<{ platform: sdk.Platform; params: Members }> {
  const owner = await newOwner(server, person)
  // Files are the operator's: no recipe makes one.
  if (operation.operationId === 'getClientFile')
    return { platform: platformOf(owner.token), params: { file: 'checksums.txt' } }
  const make = makerFor(server, owner)
  const ids: Record<string, Record<string, string>> = { path: {}, query: {}, body: {}, header: {} }
  for (const { on, name, thing } of referencesOf(operation)) {
    const id = (await make(operation, on, name)) ?? (await thing.make(server, owner))
    Object.assign(ids[on] ?? {}, { [name]: id })
  }
  const { query, body, headers } = recipeOf(operation)
  const sent = headers?.(ids['header'] ?? {}) ?? {}
  const placed = Object.entries(placement).flatMap(([member, header]) =>
    sent[header] === undefined ? [] : [[member, sent[header]]],
  )
  return {
    platform: platformOf(
      actorKindOf(operation) === 'function' ? (await newFunction(server, owner)).token : owner.token,
    ),
    params: {
      ...ids['path'],
      ...query?.(ids['query'] ?? {}),
      ...(Object.fromEntries(placed) as Members),
      ...(body && { body: body(ids['body'] ?? {}) }),
    },
  }
}

/** A stream is opened and left; its first event, where one comes by itself. */
async function firstOf(call: AnyOperation, platform: sdk.Platform, params: Members): Promise<string> {
  const leaving = new AbortController()
  const opened = Promise.withResolvers<string>()
  const options = { signal: leaving.signal, onState: opened.resolve }
  const events = sdk.follow(call as never, platform, params, options)
  const ended = events.next().catch(() => undefined)
  const state = await opened.promise
  leaving.abort()
  await ended
  return state
}

const called: string[] = []

test.each(
  operations
    .filter(({ operationId }) => operationId in sdk)
    .map((operation) => [operation.operationId, operation] as const),
)('%s answers what its type says', async (name, operation) => {
  const call = (sdk as unknown as Record<string, AnyOperation>)[name] as AnyOperation
  const { platform, params } = await callOf(operation)
  called.push(name)
  const [[status, success] = []] = Object.entries(operation.responses).filter(([each]) => each.startsWith('2'))
  const [type, content] = Object.entries(success?.content ?? {})[0] ?? []
  if (type === 'text/event-stream') return expect(await firstOf(call, platform, params)).toBe('live')

  let answered = ''
  const answer = await call(platform, params, { onResponse: (each) => (answered = String(each.status)) })
  expect(answered).toBe(status)
  if (type === undefined) return expect(answer).toBeUndefined()
  if (type === 'application/json') return expect(faultsOf(content?.schema ?? {}, answer)).toEqual([])
  if (type === 'text/csv') return expect(answer).toMatch(/^id,/)
  if (name === 'getClientFile') return expect(answer).toBe('none\n')
  expect(answer).toBeInstanceOf(Blob)
  return expect((answer as Blob).type).toMatch(/^(audio|video)\//)
})

test('each operation of the document was called, but for the three that the SDK leaves out', () => {
  const ids = operations.map(({ operationId }) => operationId)
  expect(ids.filter((id) => !called.includes(id)).toSorted()).toEqual([
    'exchangeApiKey',
    'getReference',
    'openInvitation',
  ])
})
