import { expect, test } from 'vitest'
import { readRawHeaders } from '../wire/raw-headers.ts'
import { readTarget } from '../wire/raw-target.ts'
import { canonicalRequest, canonicalUris } from './canonical-request.ts'
import { EMPTY_SHA256, sha256Hex } from './hash.ts'

const HOST = 'examplebucket.s3.amazonaws.com'
const DATE = '20130524T000000Z'
const uriOf = (url: string) => canonicalUris(readTarget(url, { kind: 'host', bucket: 'examplebucket' })).toArray()

interface Example {
  method: string
  url: string
  headers: Record<string, string>
  payloadHash: string
  /** The SHA-256 of its canonical request, from the documentation. */
  digest: string
}

/** "Examples: Signature Calculations", by header and by query, of the Amazon S3 API reference. */
const examples: Record<string, Example> = {
  'GET object': {
    method: 'GET',
    url: '/test.txt',
    headers: { Host: HOST, Range: 'bytes=0-9', 'x-amz-content-sha256': EMPTY_SHA256, 'x-amz-date': DATE },
    payloadHash: EMPTY_SHA256,
    digest: '7344ae5b7ee6c3e7e6b0fe0640412a37625d1fbfff95c48bbb2dc43964946972',
  },
  'PUT object': {
    method: 'PUT',
    url: '/test$file.text',
    headers: {
      Date: 'Fri, 24 May 2013 00:00:00 GMT',
      Host: HOST,
      'x-amz-content-sha256': '44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072',
      'x-amz-date': DATE,
      'x-amz-storage-class': 'REDUCED_REDUNDANCY',
    },
    payloadHash: '44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072',
    digest: '9e0e90d9c76de8fa5b200d8c849cd5b8dc7a3be3951ddb7f6a76b4158342019d',
  },
  'GET bucket lifecycle': {
    method: 'GET',
    url: '/?lifecycle',
    headers: { Host: HOST, 'x-amz-content-sha256': EMPTY_SHA256, 'x-amz-date': DATE },
    payloadHash: EMPTY_SHA256,
    digest: '9766c798316ff2757b517bc739a67f6213b4ab36dd5da2f94eaebf79c77395ca',
  },
  'list objects': {
    method: 'GET',
    url: '/?prefix=J&max-keys=2',
    headers: { Host: HOST, 'x-amz-content-sha256': EMPTY_SHA256, 'x-amz-date': DATE },
    payloadHash: EMPTY_SHA256,
    digest: 'df57d21db20da04d7fa30298dd4488ba3a2b47ca3a489c74750e0f1e7df1b9b7',
  },
  'presigned GET': {
    method: 'GET',
    url: `/test.txt?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=AKIAIOSFODNN7EXAMPLE%2F20130524%2Fus-east-1%2Fs3%2Faws4_request&X-Amz-Date=${DATE}&X-Amz-Expires=86400&X-Amz-SignedHeaders=host&X-Amz-Signature=${'0'.repeat(64)}`,
    headers: { Host: HOST },
    payloadHash: 'UNSIGNED-PAYLOAD',
    digest: '3bfa292879f6447bbcda7001decf97f4a54dc650c8942174ae0a9121cf58ad04',
  },
}

test.each(Object.keys(examples))('the documented %s has the documented canonical request', (name) => {
  const { method, url, headers: sent, payloadHash, digest } = examples[name] as Example
  const headers = readRawHeaders(Object.entries(sent).flat())
  const signedHeaders = [...headers.keys()].toSorted()
  const digests = uriOf(url).map((uri) =>
    sha256Hex(canonicalRequest({ method, uri, host: HOST, headers, signedHeaders, payloadHash })),
  )
  expect(digests.at(-1)).toBe(digest)
})

test('a request that is not in SigV4’s own spelling is tried as sent, then in that spelling', () => {
  expect(uriOf('/a%2Fb(c)?y=%7e&x')).toEqual([
    { path: '/a%2Fb(c)', query: 'x=&y=%7e' },
    { path: '/a%2Fb%28c%29', query: 'x=&y=~' },
  ])
  expect(uriOf('/a%20b?x=1')).toEqual([{ path: '/a%20b', query: 'x=1' }])
})

test('parameters are sorted by their spelling, then by value, and the signature is not among them', () => {
  expect(uriOf('/?b=2&B=1&b=1&a-b=&X-Amz-Signature=0')[0]?.query).toBe('B=1&a-b=&b=1&b=2')
})

test('header values are trimmed, runs of white space are one space, and repeated headers are joined', () => {
  const headers = readRawHeaders(['Host', 'sent', 'X-Amz-Meta-A', '  a \t b ', 'x-amz-meta-a', 'c'])
  const [uri] = uriOf('/')
  const text = canonicalRequest({
    method: 'GET',
    uri: uri as { path: string; query: string },
    host: 'tried',
    headers,
    signedHeaders: ['host', 'x-amz-meta-a'],
    payloadHash: 'UNSIGNED-PAYLOAD',
  })
  expect(text).toBe('GET\n/\n\nhost:tried\nx-amz-meta-a:a b ,c\n\nhost;x-amz-meta-a\nUNSIGNED-PAYLOAD')
})
