import * as sdk from '@aws-sdk/client-s3'
import { expect, test } from 'vitest'
import { readOperation } from './operations.ts'
import { readTarget } from './raw-target.ts'
import type { S3Error } from '@platform/errors/s3-error'

/** Returns the operation of a request, or the message of its rejection. */
function readAs(method: string, path: string, headers: Record<string, string> = {}): string {
  try {
    return readOperation(
      method,
      readTarget(`/s3${path}`, { kind: 'prefix', prefix: '/s3' }),
      new Map(Object.entries(headers)),
    )
  } catch (error) {
    const { code, status, message } = error as S3Error
    expect([code, status]).toEqual(['NotImplemented', 501])
    return message
  }
}

/** The operations of the SDK's model, with the method and path of each. */
const modelled = Object.values(sdk as Record<string, unknown>).flatMap((schema) => {
  if (!Array.isArray(schema) || schema[0] !== 9) return []
  const [, , name, { http }] = schema as [9, string, string, { http: [method: string, path: string] }]
  return [{ name, method: http[0], path: http[1] }]
})

/** Query parameters that the paths in the model do not show. */
const parameters: Readonly<Record<string, string>> = {
  AbortMultipartUpload: 'uploadId=u',
  CompleteMultipartUpload: 'uploadId=u',
  ListParts: 'uploadId=u',
  UploadPart: 'partNumber=1&uploadId=u',
  UploadPartCopy: 'partNumber=1&uploadId=u',
  GetBucketAnalyticsConfiguration: 'id=x',
  GetBucketIntelligentTieringConfiguration: 'id=x',
  GetBucketInventoryConfiguration: 'id=x',
  GetBucketMetricsConfiguration: 'id=x',
  GetObjectAnnotation: 'annotationName=x',
}

/** Operations of other S3 endpoints, which clients never send to this one. */
const elsewhere = new Set(['ListDirectoryBuckets', 'WriteGetObjectResponse'])
const here = modelled.filter(({ name }) => !elsewhere.has(name))

test('the SDK models the operations of S3', () => {
  expect(here.length).toBeGreaterThan(100)
})

test.each(here)('$name is implemented or refused by its name', ({ name, method, path }) => {
  const below = name === 'ListBuckets' ? path : path.replace('/{Key+}', '/key').replace('/', '/bucket/')
  const query = parameters[name]
  const sent = query === undefined ? below : `${below}${below.includes('?') ? '&' : '?'}${query}`
  const headers: Record<string, string> = /Copy/.test(name) ? { 'x-amz-copy-source': '/a/b' } : {}
  expect([name, `${name} is not implemented`]).toContain(readAs(method, sent, headers))
})

const METHODS = ['GET', 'HEAD', 'PUT', 'POST', 'DELETE', 'PATCH']
const subresources = [...new Set(here.flatMap(({ path }) => /\?([A-Za-z-]+)(?:&|$)/.exec(path)?.[1] ?? []))].filter(
  (name) => name !== 'x-id' && name !== 'list-type',
)

test.each(subresources)('?%s is never ignored, by any method, of a bucket or an object', (subresource) => {
  for (const method of METHODS)
    for (const path of ['/bucket', '/bucket/key']) {
      const read = readAs(method, `${path}?${subresource}`)
      const operation = here.find(({ name }) => read === name || read === `${name} is not implemented`)
      // Either an S3 operation on this subresource, or nothing in S3.
      if (operation)
        expect(operation).toMatchObject({ method, path: expect.stringContaining(`?${subresource}`) as string })
      else
        expect(read).toMatch(new RegExp(`^${method} of \\?${subresource} of an? (bucket|object) is not implemented$`))
    }
})
