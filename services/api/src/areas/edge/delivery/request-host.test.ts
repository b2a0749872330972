import { describe, expect, test } from 'vitest'
import { isLabel, labelBelow, readTargetOf } from './request-host.ts'

const read = (host: string | undefined, url = '/p?q') => {
  const target = readTargetOf({ url, headers: host === undefined ? {} : { host } })
  return target && [target.hostname, target.url]
}

describe('the host that a request names', () => {
  test.each<[string, string | undefined, string[] | undefined]>([
    ['plain', 'shop.apps.example.net', ['shop.apps.example.net', '/p?q']],
    ['with a port', 'shop.apps.example.net:8443', ['shop.apps.example.net', '/p?q']],
    ['with an empty port', 'shop.apps.example.net:', ['shop.apps.example.net', '/p?q']],
    ['in upper case', 'Shop.APPS.example.net', ['shop.apps.example.net', '/p?q']],
    ['with the dot at its end', 'shop.apps.example.net.:80', ['shop.apps.example.net', '/p?q']],
    ['punycode', 'xn--bcher-kva.apps.example.net', ['xn--bcher-kva.apps.example.net', '/p?q']],
    ['an IPv4 address', '127.0.0.1:4002', ['127.0.0.1', '/p?q']],
    ['an IPv6 address', '[::1]:4002', ['[::1]', '/p?q']],
    ['missing', undefined, undefined],
    ['empty', '', undefined],
    ['two', 'a.apps.example.net, b.apps.example.net', undefined],
    ['with a user', 'user@shop.apps.example.net', undefined],
    ['with a password', 'user:pass@shop.apps.example.net', undefined],
    ['with a path', 'shop.apps.example.net/x', undefined],
    ['not ASCII', 'bücher.apps.example.net', undefined],
    ['with a space', 'shop .apps.example.net', undefined],
    ['with a percent sign', 'shop%2eapps.example.net', undefined],
    ['with a port that is none', 'shop.apps.example.net:80a', undefined],
    ['with a port of six digits', 'shop.apps.example.net:123456', undefined],
    ['a port alone', ':80', undefined],
  ])('%s', (_, host, expected) => expect(read(host)).toEqual(expected))

  test.each<[string, string[] | undefined]>([
    ['http://shop.apps.example.net/x?y', ['shop.apps.example.net', '/x?y']],
    ['HTTPS://SHOP.apps.example.net:8443/x', ['shop.apps.example.net', '/x']],
    ['http://shop.apps.example.net', ['shop.apps.example.net', '/']],
    ['http://shop.apps.example.net?y', ['shop.apps.example.net', '/?y']],
    ['http://user:pass@shop.apps.example.net/x', undefined],
    ['http:///x', undefined],
    ['ftp://shop.apps.example.net/x', undefined],
    ['*', undefined],
    ['shop.apps.example.net:443', undefined],
  ])('the target %s counts before the Host header', (url, expected) =>
    expect(read('other.apps.example.net', url)).toEqual(expected),
  )
})

test.each<[string, string | undefined]>([
  ['shop.apps.example.net', 'shop'],
  ['shop--preview.apps.example.net', 'shop--preview'],
  ['apps.example.net', undefined],
  ['.apps.example.net', undefined],
  ['a.shop.apps.example.net', undefined],
  ['shop..apps.example.net', undefined],
  ['..apps.example.net', undefined],
  ['shopapps.example.net', undefined],
  ['shop.apps.example.net.evil.example', undefined],
  ['shop.example.net', undefined],
  ['127.0.0.1', undefined],
])('%s has one label below apps.example.net, or it is no deployment’s', (hostname, label) =>
  expect(labelBelow(hostname, 'apps.example.net')).toBe(label),
)

test.each<[string, boolean]>([
  ['a', true],
  ['shop--preview', true],
  ['a'.repeat(63), true],
  ['a'.repeat(64), false],
  ['-a', false],
  ['a-', false],
  ['a_b', false],
  ['', false],
])('%s can be a label: %s', (text, expected) => expect(isLabel(text)).toBe(expected))
