import { describe, expect, test } from 'vitest'
import { canMatchBelow, compileHost, isHostPattern } from './host-pattern.ts'

describe('the host of a rule in _headers', () => {
  test.each<[host: string, asked: string, expected: object | undefined]>([
    ['a.example', 'a.example', {}],
    ['A.Example', 'a.example', {}],
    ['a.example', 'b.example', undefined],
    ['a.example', 'xa.example', undefined],
    ['a.example', 'a.example.org', undefined],
    ['a.example', 'axexample', undefined],
    ['a.example', 'a.example:8080', {}],
    ['a.example:8080', 'a.example:8080', {}],
    ['a.example:8080', 'a.example', undefined],
    ['a.example:443', 'a.example', {}],
    ['a.example:80', 'a.example', undefined],
    [':project.example', 'a.example', { project: 'a' }],
    [':project.example', 'a.b.example', undefined],
    [':project.example', '.example', undefined],
    [':version.:project.example', 'v1.shop.example', { version: 'v1', project: 'shop' }],
    [':name--preview.example', 'shop--preview.example', { name: 'shop' }],
    ['*.example', 'a.b.example', { splat: 'a.b' }],
    ['*', 'a.example', { splat: 'a.example' }],
    ['a.*', 'a.example:1', { splat: 'example' }],
  ])('the host %s of a rule matches %s with %j', (host, asked, expected) => {
    expect(isHostPattern(host)).toBe(true)
    expect(compileHost(host)({ host: asked, protocol: 'https' })).toEqual(expected)
  })

  test('a request without a port has the default port of its protocol', () => {
    expect(compileHost('a.example:80')({ host: 'a.example', protocol: 'http' })).toEqual({})
  })

  test.each([
    '',
    'user@a.example',
    'a b',
    '*.*.example',
    'bücher.example',
    'a.example:999999',
    'a:1:2',
    'a'.repeat(254),
  ])('%j is no host of a rule', (host) => expect(isHostPattern(host)).toBe(false))
})

describe('whether a host can be one of the platform', () => {
  test.each([
    ['shop.apps.example', true],
    ['SHOP.apps.example', true],
    ['shop--preview.apps.example:443', true],
    [':project.apps.example', true],
    ['*.apps.example', true],
    ['*', true],
    ['*example', true],
    ['s*e', true],
    ['shop.*', true],
    [':label.:domain.:top', true],
    [':a:b', false],
    ['shop.:domain.example', true],
    [':name-0a1b2c3d.apps.example', true],
    [':project.pages.dev', false],
    ['apps.example', false],
    ['.apps.example', false],
    ['*.pages.dev', false],
    ['a.b.apps.example', false],
    [':a.:b.apps.example', false],
    ['*.b.apps.example', false],
    ['shop.apps.example.org', false],
    ['shop_1.apps.example', false],
    ['*.*.apps.example', false],
  ])('a hostname below apps.example matches %s: %s', (host, expected) => {
    expect(canMatchBelow(host, 'apps.example')).toBe(expected)
  })
})
