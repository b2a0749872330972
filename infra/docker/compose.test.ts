import { readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import { expect, test } from 'vitest'
import { parse } from 'yaml'

interface Container {
  restart?: string
  mem_limit?: string
  logging?: { driver: string; options: Record<string, string> }
  healthcheck?: object
  depends_on?: Record<string, { condition: string }>
}
const { services } = parse(readFileSync(resolve(import.meta.dirname, '../../docker-compose.yml'), 'utf8'), {
  merge: true,
}) as { services: Record<string, Container> }

test.each(Object.entries(services))(
  'the container %s starts again, has bounds for its memory and its log, and tells whether it is healthy',
  (_, container) => {
    expect(container).toMatchObject({
      restart: 'unless-stopped',
      mem_limit: expect.stringMatching(/^(\$\{\w+:-)?\d+[mg]\}?$/),
      logging: { driver: 'json-file', options: { 'max-size': '10m', 'max-file': '2' } },
      healthcheck: {},
    })
  },
)

test('the API, the worker and the edge wait until the store of objects answers', () => {
  for (const name of ['api', 'worker', 'edge'])
    expect(services[name]?.depends_on).toMatchObject({
      objects: { condition: 'service_healthy' },
      postgres: { condition: 'service_healthy' },
    })
})
