import { readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import { expect, test } from 'vitest'
import { parse } from 'yaml'
import type { ServiceVariables } from '../kubernetes/rule-parts.ts'

const configOf = async (service: 'api' | 'idp') => {
  const { loadConfig } = (await import(
    new URL(`../../services/${service}/src/config.ts`, import.meta.url).href
  )) as ServiceVariables
  return loadConfig as (env: Record<string, string>) => Record<string, unknown>
}
const [loadApiConfig, loadIdpConfig] = [await configOf('api'), await configOf('idp')]

interface Container {
  environment?: Record<string, string>
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

/** What a service starts with. Variables of Docker Compose have their defaults, and what is in `own`. */
const environmentOf = (name: string, own: Record<string, string>): Record<string, string> =>
  Object.fromEntries(
    Object.entries(services[name]?.environment ?? {}).map(([variable, value]) => [
      variable,
      value.replace(/\$\{(\w+):[-?]([^}]*)\}/, (_, known: string, otherwise: string) => own[known] ?? otherwise),
    ]),
  )
const MASTER_KEYS = `k1:${Buffer.alloc(32).toString('base64')}`

test('both services start with what the file gives them, and invitations of the API lead to the identity provider and back', () => {
  const own = { MASTER_KEYS, MAIL_URL: 'smtp://mail.example.com', SIGN_UP: 'open' }
  const [api, idp] = [loadApiConfig(environmentOf('api', own)), loadIdpConfig(environmentOf('idp', own))]
  expect(idp).toMatchObject({ SIGN_UP: 'open', INVITATION_ISSUERS: [[api['PUBLIC_URL'], 'http://api:4000']] })
  expect([api['MAIL_URL'], idp['MAIL_URL']]).toEqual([own.MAIL_URL, own.MAIL_URL])
  expect(loadIdpConfig(environmentOf('idp', { MASTER_KEYS }))['SIGN_UP']).toBe('closed')
})

test('the API, the worker and the edge wait until the store of objects answers', () => {
  for (const name of ['api', 'worker', 'edge'])
    expect(services[name]?.depends_on).toMatchObject({
      objects: { condition: 'service_healthy' },
      postgres: { condition: 'service_healthy' },
    })
})
