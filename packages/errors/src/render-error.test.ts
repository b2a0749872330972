import { expect, test } from 'vitest'
import {
  BadRequest,
  Forbidden,
  InvalidToken,
  NotFound,
  OAuthError,
  QuotaExceeded,
  Throttled,
  ValidationFailed,
} from './api-error.ts'
import { renderError } from './render-error.ts'
import { S3Error } from './s3-error.ts'

const context = { path: '/x', requestId: 'r1' }
const render = (shape: Parameters<typeof renderError>[0], error: unknown) => {
  const { status, headers, body } = renderError(shape, error, context)
  return { status, headers, body: JSON.parse(body) as unknown }
}

test('a resource failure is one string and nothing else (A §7)', () => {
  expect(render('resource', new NotFound('Application'))).toMatchObject({
    status: 404,
    body: { error: 'Application not found' },
  })
  expect(Object.keys(render('resource', new BadRequest('No')).body as object)).toEqual(['error'])
})

test('what is no ApiError is a 500 that says nothing of its cause (A §7)', () => {
  const { status, body } = render('resource', new Error('password of db is hunter2'))
  expect({ status, body }).toEqual({ status: 500, body: { error: 'Internal error' } })
})

test('a 401 challenges with Bearer and repeats only the description (A §7)', () => {
  expect(render('resource', new InvalidToken('The "token" has\nexpired'))).toMatchObject({
    status: 401,
    headers: { 'www-authenticate': 'Bearer error="invalid_token", error_description="The ?token? has?expired"' },
    body: { error: 'The "token" has\nexpired' },
  })
})

test('a throttle says rate_limit_exceeded and Retry-After 60, a quota neither (A §8)', () => {
  expect(render('resource', new Throttled())).toMatchObject({
    status: 429,
    headers: { 'retry-after': '60' },
    body: { error: 'rate_limit_exceeded', message: expect.any(String) },
  })
  const quota = render('resource', new QuotaExceeded('applications', 25, 25))
  expect(quota.headers).not.toHaveProperty('retry-after')
  expect(quota.body).toEqual({ error: expect.stringMatching(/applications.*25 of 25.*support/) as string })
})

test('a validation failure has every field and one entry per failing field (A §7, D13, D14)', () => {
  const failure = (property: string) => ({
    property,
    message: `${property} wrong`,
    summary: 'wrong',
    expected: 'string',
    found: 1,
  })
  expect(render('resource', new ValidationFailed('body', [failure('/a'), failure('/b')]))).toMatchObject({
    status: 422,
    body: {
      error: '/a wrong',
      type: 'validation',
      on: 'body',
      ...failure('/a'),
      errors: [
        { type: 'validation', on: 'body', ...failure('/a') },
        { type: 'validation', on: 'body', ...failure('/b') },
      ],
    },
  })
})

test('the token endpoint answers error and error_description, never cached (A §5)', () => {
  expect(render('oauth', new OAuthError(400, 'invalid_grant', 'Used'))).toMatchObject({
    status: 400,
    headers: { 'cache-control': 'no-store' },
    body: { error: 'invalid_grant', error_description: 'Used' },
  })
  expect(render('oauth', new Error('x')).body).toEqual({ error: 'server_error', error_description: 'Internal error' })
})

test('the AI gateway nests message, type, param and code (A §7, D21)', () => {
  expect(render('ai-gateway', new Forbidden('No scope', 'insufficient_scope')).body).toEqual({
    error: { message: 'No scope', type: 'permission_error', param: null, code: 'insufficient_scope' },
  })
  const failure = {
    property: '/messages/0/role',
    message: 'Required',
    summary: 'Required',
    expected: 'string',
    found: null,
  }
  expect(render('ai-gateway', new ValidationFailed('body', [failure])).body).toMatchObject({
    error: { param: 'messages[0].role' },
  })
})

test('S3 failures are XML, and what a client wrote cannot break out of it', () => {
  const { status, headers, body } = renderError('s3', new NotFound('<b>&"'), { path: '/s3/<x>', requestId: 'r1' })
  expect({ status, type: headers['content-type'], id: headers['x-amz-request-id'] }).toEqual({
    status: 404,
    type: 'application/xml',
    id: 'r1',
  })
  expect(body).toContain(
    '<Code>NoSuchKey</Code><Message>&#60;b&#62;&#38;&#34; not found</Message><Resource>/s3/&#60;x&#62;</Resource><RequestId>r1</RequestId>',
  )
})

test('an S3 failure has its own code and further elements', () => {
  const failure = new S3Error(416, 'InvalidRange', 'Out of range', { details: { ActualObjectSize: '<3>' } })
  const { status, body } = renderError('s3', failure, { path: '/s3/b/k', requestId: 'r1' })
  expect(status).toBe(416)
  expect(body).toContain(
    '<Code>InvalidRange</Code><Message>Out of range</Message><ActualObjectSize>&#60;3&#62;</ActualObjectSize><Resource>/s3/b/k</Resource>',
  )
})
