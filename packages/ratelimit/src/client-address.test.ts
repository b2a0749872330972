import { expect, test } from 'vitest'
import { createClientAddress } from './client-address.ts'

const direct = createClientAddress([])
const proxied = createClientAddress(['10.0.0.0/8', '::1', '2001:db8:ffff::/48'])

test.each([
  ['the peer, where no proxy is trusted', direct, '203.0.113.9', '198.51.100.1', '203.0.113.9'],
  ['an IPv4 address that came as IPv6', direct, '::ffff:203.0.113.9', undefined, '203.0.113.9'],
  ['the /64 of an IPv6 address', direct, '2001:db8:1:2:3:4:5:6', undefined, '2001:db8:1:2::/64'],
  ['the /64 of a shortened IPv6 address', direct, '2001:db8::1', undefined, '2001:db8:0:0::/64'],
  ['the hop before a trusted proxy', proxied, '10.1.1.1', '198.51.100.1', '198.51.100.1'],
  [
    'the rightmost hop that is no proxy, whatever the client wrote before it',
    proxied,
    '10.1.1.1',
    '1.2.3.4, 198.51.100.1, 10.2.2.2',
    '198.51.100.1',
  ],
  ['the peer, where it is no proxy itself', proxied, '203.0.113.9', '1.2.3.4', '203.0.113.9'],
  ['the proxy, where the header is nonsense', proxied, '10.1.1.1', 'unknown', '10.1.1.1'],
  ['the proxy, where the header is missing', proxied, '10.1.1.1', undefined, '10.1.1.1'],
  ['a hop without its port', proxied, '10.1.1.1', '198.51.100.1:4711', '198.51.100.1'],
  ['an IPv6 hop without brackets and port', proxied, '::1', '[2001:db8:1:2::9]:4711', '2001:db8:1:2::/64'],
  ['an IPv6 hop without brackets', proxied, '::1', '[2001:db8:1:2::9]', '2001:db8:1:2::/64'],
  [
    'the hop before a proxy that is written with its port',
    proxied,
    '10.1.1.1',
    '1.2.3.4, 198.51.100.1, [::ffff:10.2.2.2]:80',
    '198.51.100.1',
  ],
  ['the proxy, where a hop has no address before its port', proxied, '10.1.1.1', 'unknown:80', '10.1.1.1'],
  ['a hop behind an IPv6 proxy', proxied, '::1', '2001:db8:1:2::9, 2001:db8:ffff::1', '2001:db8:1:2::/64'],
])('an address is %s (D56)', (_, address, peer, forwarded, expected) => {
  expect(address(peer, forwarded)).toBe(expected)
})

test('a proxy that is no address stops the start', () => {
  expect(() => createClientAddress(['proxy.internal'])).toThrow('proxy.internal')
})

test.each<[string | undefined, boolean]>([
  ['10.1.2.3', true],
  ['::ffff:10.1.2.3', true],
  ['11.1.2.3', false],
  ['not an address', false],
  [undefined, false],
])('the peer %s is a trusted proxy: %s', (peer, expected) => {
  expect(createClientAddress(['10.0.0.0/8']).isTrusted(peer)).toBe(expected)
})
