import { expect, test, vi } from 'vitest'
import {
  getOrganization,
  isConflict,
  isNotFound,
  isQuota,
  isSecretLost,
  needsSignIn,
  needsStepUp,
  PlatformError,
} from '../src/index.ts'
import { type Behaviour, json, startHostileServer } from './hostile-server.ts'

const id = '0199a3f0-5b7c-7cc0-9d3f-2f6f5c1b7a10'

async function failed(behaviour: Behaviour): Promise<PlatformError> {
  const { platform } = await startHostileServer([behaviour])
  const error: unknown = await getOrganization(platform, { id }, { retries: 0 }).catch((thrown: unknown) => thrown)
  if (!(error instanceof PlatformError)) throw new Error('It did not fail')
  return error
}
const xml =
  (text: string): Behaviour =>
  (response) =>
    response.writeHead(403, { 'content-type': 'application/xml' }).end(text)

test.each<[string, Behaviour, object]>([
  [
    'of a resource',
    json(404, { error: 'Not found' }, { 'x-request-id': 'r-1' }),
    { message: 'Not found', requestId: 'r-1' },
  ],
  [
    'of a throttle',
    json(429, { error: 'rate_limit_exceeded', message: 'Too many requests' }, { 'retry-after': '60' }),
    { message: 'Too many requests', code: 'rate_limit_exceeded', retryAfterSeconds: 60, retryable: true },
  ],
  [
    'of OAuth',
    json(400, { error: 'invalid_scope', error_description: 'The key lacks it' }),
    { message: 'The key lacks it', code: 'invalid_scope', retryable: false },
  ],
  [
    'of the AI gateway',
    json(429, { error: { message: 'Used up', type: 'insufficient_quota', param: null, code: 'insufficient_quota' } }),
    { message: 'Used up', code: 'insufficient_quota', type: 'insufficient_quota', retryable: false },
  ],
  ['of S3', xml('<Error><Code>AccessDenied</Code><Message>Denied</Message></Error>'), { message: 'Denied' }],
  [
    'of a validation',
    json(422, {
      error: 'Expected a string',
      message: 'Expected a string',
      type: 'validation',
      errors: [
        {
          type: 'validation',
          on: 'body',
          property: '/name',
          message: 'Expected a string',
          expected: 'string',
          found: 7,
        },
      ],
    }),
    {
      message: 'Expected a string',
      type: 'validation',
      errors: [{ property: '/name', message: 'Expected a string', expected: 'string', found: 7 }],
    },
  ],
  [
    'of something between',
    (response) => response.writeHead(502, { 'content-type': 'text/html' }).end('<h1>Bad gateway</h1>'),
    { status: 502, message: 'Status 502', retryable: true },
  ],
])('the body %s becomes the members of the error', async (_, behaviour, members) => {
  expect(await failed(behaviour)).toMatchObject({
    operation: 'GET /organizations/{id}',
    attempts: 1,
    errors: [],
    ...members,
  })
})

test('a page in the place of an answer is an error that names its type', async () => {
  const error = await failed((response) => response.writeHead(200, { 'content-type': 'text/html' }).end('<p>Sign in'))
  expect(error.message).toContain('"text/html" is not JSON')
})

test('each guard knows its failure and no other', async () => {
  vi.spyOn(Math, 'random').mockReturnValue(0)
  const challenge = { 'www-authenticate': 'Bearer error="insufficient_user_authentication", max_age="900"' }
  const failures: Record<string, PlatformError> = {
    isNotFound: await failed(json(404, { error: 'x' })),
    isConflict: await failed(json(409, { error: 'x' })),
    needsSignIn: await failed(json(401, { error: 'x' })),
    needsStepUp: await failed(json(403, { error: 'x' }, challenge)),
    isQuota: await failed(json(429, { error: 'The plan allows 25 applications' })),
    isSecretLost: new PlatformError('x', { status: 409, operation: 'x', attempts: 1, code: 'secret_lost' }),
    forbidden: await failed(json(403, { error: 'x' })),
    throttled: await failed(json(429, { error: 'rate_limit_exceeded', message: 'x' }, { 'retry-after': '60' })),
    streams: await failed(json(429, { error: 'too_many_concurrent_streams', message: 'x' })),
    provider: await failed(json(429, { error: { message: 'x', type: 'x', code: 'rate_limit_exceeded' } })),
  }
  const guards = { isNotFound, isConflict, needsSignIn, needsStepUp, isQuota, isSecretLost }
  for (const [name, error] of Object.entries(failures)) {
    const knowing = Object.entries(guards).flatMap(([guard, knows]) => (knows(error) ? [guard] : []))
    expect([name, knowing]).toEqual([
      name,
      name === 'isSecretLost' ? ['isConflict', name] : name in guards ? [name] : [],
    ])
  }
  expect(isQuota(await failed(json(402, { error: 'The cap is reached' })))).toBe(true)
  expect(failures['needsStepUp']?.maxAge).toBe(900)
  expect(Object.values(guards).some((knows) => knows(new Error('x')))).toBe(false)
  vi.restoreAllMocks()
})
