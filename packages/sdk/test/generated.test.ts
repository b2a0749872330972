import { readFile } from 'node:fs/promises'
import { startPlatform, type TestPlatform } from '@platform/testing/platform'
import { afterAll, beforeAll, expect, test } from 'vitest'
import * as sdk from '../src/index.ts'
import { generate, type OpenApiDocument } from './generated.ts'

let server: TestPlatform
let document: OpenApiDocument
beforeAll(async () => {
  server = await startPlatform()
  document = (await (await fetch(`${server.apiUrl}/docs/json`)).json()) as OpenApiDocument
})
afterAll(() => server.close())

const read = (path: string): Promise<string> => readFile(new URL(path, import.meta.url), 'utf8')

test('what is generated is that of the running service’s document: `npm run sdk` writes it', async () => {
  const generated = await generate(document)
  for (const [name, content] of Object.entries(generated))
    expect((await read(`../src/generated/${name}`)) === content, `${name} is the document’s`).toBe(true)
  expect(sdk.apiVersion).toBe(document.info.version)
  expect((JSON.parse(await read('../package.json')) as { version: string }).version).toBe(document.info.version)
})

test('each operation of the document is a function of its name, but for the exchange and the page of the reference', () => {
  const ids = Object.values(document.paths).flatMap((methods) =>
    Object.values(methods).flatMap(({ operationId }) => operationId ?? []),
  )
  expect(ids.filter((id) => !(id in sdk)).toSorted()).toEqual(['exchangeApiKey', 'getReference'])
})

const changed = (change: (document: OpenApiDocument) => void): Promise<unknown> => {
  const copy = structuredClone(document)
  change(copy)
  return generate(copy)
}
const made = { summary: 'Make a thing', responses: { '201': {} } }
const list = { content: { 'application/json': { schema: { properties: { items: {} } } } } }

test.each<[string, (document: OpenApiDocument) => void, string]>([
  [
    'a POST that nobody has classified',
    ({ paths }) => (paths['/things'] = { post: { ...made, operationId: 'makeThing' } }),
    'makeThing: say whether this POST may be repeated',
  ],
  [
    'a list that is paged in another way',
    ({ paths }) =>
      (paths['/things'] = {
        get: {
          summary: 'List things',
          operationId: 'listThings',
          parameters: [{ name: 'limit', in: 'query' }],
          responses: { '200': list },
        },
      }),
    'listThings: it is not known how this list is paged',
  ],
  [
    'a member of the path that is one of the query too',
    ({ paths }) =>
      (paths['/things/{id}'] = {
        get: {
          summary: 'Get a thing',
          operationId: 'getThing',
          parameters: [
            { name: 'id', in: 'path' },
            { name: 'id', in: 'query' },
          ],
          responses: {},
        },
      }),
    'getThing: id is a member of the path and of the query',
  ],
  [
    'a header that the runtime does not send',
    ({ paths }) =>
      (paths['/things'] = {
        get: { summary: 'x', operationId: 'things', parameters: [{ name: 'X-New', in: 'header' }], responses: {} },
      }),
    'things: the header X-New is unknown',
  ],
])('%s is not generated', async (_, change, sentence) => {
  await expect(changed(change)).rejects.toThrow(sentence)
})
