import { expect, test } from 'vitest'
import { endpoints } from '../../../services/api/src/endpoints.ts'
import { createDocument } from '../../../services/api/src/http/document.ts'
import { generate, type OpenApiDocument } from './generated.ts'

const document = JSON.parse(
  JSON.stringify(createDocument(endpoints, 'https://a.example', 'https://b.example')),
) as OpenApiDocument

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
