import { expect, test } from 'vitest'
import { readOperation } from './operations.ts'
import { readTarget } from './raw-target.ts'

const prefix = { kind: 'prefix', prefix: '/s3' } as const

test.each([
  ['/s3', undefined, undefined],
  ['/s3/', undefined, undefined],
  ['/s3/b', 'b', undefined],
  ['/s3/b/', 'b', undefined],
  ['/s3/b?prefix=x', 'b', undefined],
  ['/s3/b/../../etc/passwd', 'b', '../../etc/passwd'],
  ['/s3/b/%2e%2e/x', 'b', '../x'],
  ['/s3/b/a//b', 'b', 'a//b'],
  ['/s3/b//a', 'b', '/a'],
  ['/s3/b/a%2Fb', 'b', 'a/b'],
  ['/s3/b/a%252Fb', 'b', 'a%2Fb'],
  ['/s3/b/a+b%20c', 'b', 'a+b c'],
  ['/s3/b/%D0%BA', 'b', 'к'],
  [`/s3/b/${Buffer.from('ü').toString('latin1')}`, 'b', 'ü'],
  [`/s3/b/${'k'.repeat(1_024)}`, 'b', 'k'.repeat(1_024)],
])('%s is bucket %s and key %s', (url, bucket, key) => {
  expect(readTarget(url, prefix)).toMatchObject({ bucket, key })
})

test.each([
  ['a NUL', '/s3/b/a%00b', 'InvalidArgument'],
  ['half an escape', '/s3/b/a%2', 'InvalidURI'],
  ['what is no UTF-8', '/s3/b/%ff', 'InvalidURI'],
  ['a lone surrogate', '/s3/b/%ED%A0%80', 'InvalidURI'],
  ['a query of what is no UTF-8', '/s3/b/k?a=%ff', 'InvalidArgument'],
  ['a NUL in the query', '/s3/b?prefix=%00', 'InvalidArgument'],
  ['1,025 bytes', `/s3/b/${'k'.repeat(1_025)}`, 'KeyTooLongError'],
  ['1,026 bytes in 513 characters', `/s3/b/${'%C3%BC'.repeat(513)}`, 'KeyTooLongError'],
])('a key with %s is refused', (_, url, code) => {
  expect(() => readTarget(url, prefix)).toThrow(expect.objectContaining({ code, status: 400 }))
})

const operation = (method: string, url: string, headers: Record<string, string> = {}) =>
  readOperation(method, readTarget(url, prefix), new Map(Object.entries(headers)))

test.each([
  ['GET', '/s3', 'ListBuckets'],
  ['PUT', '/s3/b', 'CreateBucket'],
  ['HEAD', '/s3/b/', 'HeadBucket'],
  ['GET', '/s3/b?list-type=2&prefix=', 'ListObjectsV2'],
  ['GET', '/s3/b/?delimiter=/', 'ListObjects'],
  ['GET', '/s3/b?location', 'GetBucketLocation'],
  ['POST', '/s3/b?delete', 'DeleteObjects'],
  ['POST', '/s3/b?delete=', 'DeleteObjects'],
  ['POST', '/s3/b', 'PostObject'],
  ['POST', '/s3/b/k?uploads', 'CreateMultipartUpload'],
  ['POST', '/s3/b/k?uploads=&x-id=CreateMultipartUpload', 'CreateMultipartUpload'],
  ['PUT', '/s3/b/k?partNumber=1&uploadId=u', 'UploadPart'],
  ['PUT', '/s3/b/k?x-id=PutObject', 'PutObject'],
  ['GET', '/s3/b/k?partNumber=1', 'GetObject'],
  ['GET', '/s3/b/k?uploadId=u', 'ListParts'],
  ['DELETE', '/s3/b/k?uploadId=u', 'AbortMultipartUpload'],
  ['DELETE', '/s3/b/k', 'DeleteObject'],
])('%s %s is %s', (method, url, name) => {
  expect(operation(method, url)).toBe(name)
})

test('a copy source makes a copy of a PUT', () => {
  expect(operation('PUT', '/s3/b/k', { 'x-amz-copy-source': '/b/x' })).toBe('CopyObject')
  expect(operation('PUT', '/s3/b/k?partNumber=1&uploadId=u', { 'x-amz-copy-source': '/b/x' })).toBe('UploadPartCopy')
})

test.each([
  ['PUT', '/s3/b?policy', 'PutBucketPolicy'],
  ['PUT', '/s3/b/k?legal-hold', 'PutObjectLegalHold'],
  ['PUT', '/s3/b/k?tagging&retention', 'PutObjectRetention'],
  ['DELETE', '/s3/b?acl', 'DELETE of ?acl of a bucket'],
  ['PUT', '/s3/b/k?policy', 'PUT of ?policy of an object'],
  ['PATCH', '/s3/b/k', 'PATCH of an object'],
  ['DELETE', '/s3', 'DELETE of the service'],
])('%s %s is refused as %s, which is not there', (method, url, name) => {
  expect(() => operation(method, url)).toThrow(
    expect.objectContaining({ code: 'NotImplemented', status: 501, message: `${name} is not implemented` }),
  )
})

test.each(['/s3/b/k?uploadId=u', '/s3/b/k?partNumber=1'])(
  'a PUT of half a part, %s, never becomes an object',
  (url) => {
    expect(() => operation('PUT', url)).toThrow(expect.objectContaining({ code: 'InvalidArgument' }))
  },
)
