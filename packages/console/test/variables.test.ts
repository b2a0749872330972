import type { EnvironmentVariable } from '@platform/sdk'
import { describe, expect, test } from 'vitest'
import { type Layer, mergeLayers } from '../src/screens/variables/layers.ts'
import { deleteLine, listLine, setLine, updateLine } from '../src/screens/variables/lines.ts'
import { differenceOf, readPasted } from '../src/screens/variables/pasted.ts'

/** A variable as the platform lists it. value: null is a sensitive one. */
function variable(layer: Layer, key: string, value: string | null): EnvironmentVariable {
  const isOfEnvironment = layer === 'production' || layer === 'preview'
  const scope = isOfEnvironment ? 'environment' : layer
  return {
    id: `${layer} ${key}`,
    key,
    value,
    sensitive: value === null,
    scope,
    source: scope,
    environmentId: isOfEnvironment ? layer : null,
    environmentName: isOfEnvironment ? { production: 'Production', preview: 'Preview' }[layer] : null,
    createdAt: '2026-11-29T00:00:00.000Z',
    updatedAt: '2026-11-29T00:00:00.000Z',
  }
}

describe('merged layers of variables', () => {
  const shown = (variables: EnvironmentVariable[], upTo: Layer) =>
    mergeLayers(variables, upTo).map(({ winner, hidden }) => [winner.id, ...hidden.map(({ id }) => id)])

  test('an environment wins over the application, this over the organization, and the hidden ones follow in this order', () => {
    const all = (['organization', 'production', 'preview', 'application'] as const).map((layer) =>
      variable(layer, 'A', layer),
    )
    expect(shown(all, 'production')).toEqual([['production A', 'application A', 'organization A']])
    expect(shown(all, 'preview')).toEqual([['preview A', 'application A', 'organization A']])
    expect(shown(all, 'application')).toEqual([['application A', 'organization A']])
    expect(shown(all, 'organization')).toEqual([['organization A']])
  })

  test('variables stand in the order of their names, and one of another environment alone is not there', () => {
    const all = [variable('application', 'b', '1'), variable('preview', 'C', '1'), variable('production', 'A', '1')]
    expect(shown(all, 'production')).toEqual([['production A'], ['application b']])
  })
})

describe('a pasted .env', () => {
  test('a pasted .env may have quotes, export, line breaks, comments, CRLF and a name twice, of which the last counts', () => {
    const text = [
      '\uFEFF# of the shop',
      'export URL="https://x/#top" # where',
      "KEY='-----BEGIN-----",
      "MII#no comment'",
      'EMPTY=',
      'TWICE=1',
      'PLAIN = two words  # said',
      'TWICE="2\\n"',
    ].join('\r\n')
    expect(readPasted(text)).toEqual({
      variables: [
        { key: 'URL', value: 'https://x/#top', times: 1 },
        { key: 'KEY', value: '-----BEGIN-----\r\nMII#no comment', times: 1 },
        { key: 'EMPTY', value: '', times: 1 },
        { key: 'TWICE', value: '2\n', times: 2 },
        { key: 'PLAIN', value: 'two words', times: 1 },
      ],
    })
  })

  test.each([
    ['a megabyte', `A=${'x'.repeat(1_000_000)}`, ['This text has 1.0 MB: expected 524 kB at most']],
    [
      'more than 1,000 names',
      Array.from({ length: 1_001 }, (_, nth) => `K${nth}=1`).join('\n'),
      ['This text has 1,001 names: expected 1,000 at most'],
    ],
    ['a line without a name', 'A=1\nhello', ['Line 2: expected KEY=value']],
    [
      'names and a value that the platform refuses',
      `PLATFORM_URL=x\nBIG=${'é'.repeat(32_769)}\nGOOD=1\nPLATFORM_ID=y`,
      [
        "PLATFORM_URL is reserved: names that begin with PLATFORM_ are the platform's",
        'The value of BIG has 65538 bytes: expected 65536 at most',
        "PLATFORM_ID is reserved: names that begin with PLATFORM_ are the platform's",
      ],
    ],
  ])('a pasted .env with %s has no variables, and says what is wrong', (_, text, problems) => {
    expect(readPasted(text)).toEqual({ problems })
  })
})

describe('the difference that a pasted variable makes', () => {
  const there = [
    variable('application', 'SAME', '1'),
    variable('production', 'HERE', '1'),
    variable('organization', 'HERE', '0'),
    variable('production', 'SECRET', null),
    variable('application', 'COVERED', null),
    variable('production', 'LINES', 'a\r\nb'),
  ]
  test.each([
    ['a pasted variable is new where no layer has the name', 'NEW', '1', 'new', undefined, undefined],
    [
      'a pasted variable is new where a wider layer has another value, which it hides',
      'SAME',
      '2',
      'new',
      undefined,
      'application SAME',
    ],
    [
      'a pasted variable is unchanged where a wider layer gives its value',
      'SAME',
      '1',
      'unchanged',
      undefined,
      'application SAME',
    ],
    [
      'a pasted variable is unchanged where the layer has its value',
      'HERE',
      '1',
      'unchanged',
      'production HERE',
      undefined,
    ],
    [
      'a pasted variable is a change though a hidden layer has its value',
      'HERE',
      '0',
      'changed',
      'production HERE',
      undefined,
    ],
    [
      'a pasted variable is a change of a sensitive one, whatever its value',
      'SECRET',
      '1',
      'changed',
      'production SECRET',
      undefined,
    ],
    [
      'a pasted variable is new over a sensitive one, whatever its value',
      'COVERED',
      '1',
      'new',
      undefined,
      'application COVERED',
    ],
    [
      'a pasted variable is unchanged where its line ends alone differ',
      'LINES',
      'a\nb',
      'unchanged',
      'production LINES',
      undefined,
    ],
  ] as const)('%s', (_, key, value, kind, known, wider) => {
    const {
      known: ofLayer,
      wider: ofWider,
      ...rest
    } = differenceOf({ key, value, isSensitive: false }, there, 'production')
    expect([rest.kind, ofLayer?.id, ofWider?.id]).toEqual([kind, known, wider])
  })

  test('a pasted variable is a change where its value is the same and becomes sensitive', () => {
    expect(differenceOf({ key: 'HERE', value: '1', isSensitive: true }, there, 'production').kind).toBe('changed')
    expect(differenceOf({ key: 'SAME', value: '1', isSensitive: true }, there, 'production').kind).toBe('new')
  })
})

describe('the line of a terminal', () => {
  const place = { organization: { id: 'o' } as never, application: { id: 'a' } as never, path: 'acme/shop' }
  const alone = { ...place, application: undefined, path: undefined }

  test('the line that sets a variable names its layer, and takes its value from stdin, whether or not it is sensitive', () => {
    const app = ['--app', 'acme/shop']
    const set = (layer: Layer, value: string | null) => setLine(place, layer, variable(layer, 'A', value))
    const rest = { names: ['A'], isValuePiped: true }
    expect(set('application', '-x')).toEqual({ words: ['env', 'set', ...app], ...rest })
    expect(set('preview', '1')).toEqual({ words: ['env', 'set', ...app, '--env', 'preview'], ...rest })
    expect(set('organization', null)).toEqual({
      words: ['env', 'set', '--sensitive', ...app, '--layer', 'organization'],
      ...rest,
    })
    expect(updateLine(place, variable('preview', 'A', '1'), false)).toEqual(set('preview', '1'))
  })

  test('the line that makes a sensitive variable readable is a request, since the command line leaves it sensitive', () => {
    const body = { value: '<value>', sensitive: false }
    expect(updateLine(place, variable('preview', 'A', '1'), true)).toEqual({
      method: 'PATCH',
      path: '/applications/a/env-vars/preview A',
      body,
    })
    expect(updateLine(place, variable('organization', 'A', '1'), true)).toEqual({
      method: 'PATCH',
      path: '/organizations/o/env-vars/organization A',
      body,
    })
  })

  test('each line is a request without the value where an organization has no application that the command line could name it by', () => {
    const path = '/organizations/o/env-vars'
    const one = variable('organization', 'A', '1')
    expect(listLine(alone)).toEqual({ method: 'GET', path })
    expect(setLine(alone, 'organization', one)).toEqual({
      method: 'POST',
      path,
      body: { key: 'A', value: '<value>', sensitive: false },
    })
    expect(updateLine(alone, variable('organization', 'A', null), false)).toEqual({
      method: 'PATCH',
      path: `${path}/organization A`,
      body: { value: '<value>', sensitive: true },
    })
    expect(deleteLine(alone, one)).toEqual({ method: 'DELETE', path: `${path}/organization A` })
  })
})
