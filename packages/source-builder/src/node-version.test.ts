import { UnusableOutput } from '@platform/build-output/read-output'
import { describe, expect, test } from 'vitest'
import { checkNodeVersion } from './node-version.ts'
import { type Files, treeOf } from './test-projects.ts'

const NODE = '24.5.0'
const check = (files: Files, root = '') => checkNodeVersion(treeOf(files), root, NODE)
const engines = (node: string): Files => ({ 'package.json': JSON.stringify({ engines: { node } }) })
const volta = (node: string): Files => ({ 'package.json': JSON.stringify({ volta: { node } }) })

test.each<[string, Files]>([
  ['nothing', {}],
  ['24.x', engines('24.x')],
  ['>=20', engines('>=20')],
  ['^22 || ^24', engines('^22 || ^24')],
  ['a later patch of the same major version by a version manager', { '.nvmrc': 'v24.99.1\n' }],
  ['24 by .node-version', { '.node-version': '24' }],
  ['24 by Volta', volta('24.1.0')],
  ['lts/*', { '.nvmrc': 'lts/*' }],
  ['lts/krypton', { '.nvmrc': '# ours\nlts/krypton\n' }],
  ['node', { '.nvmrc': 'node' }],
])('a project that asks for %s gets it', async (_, files) => {
  expect(await check(files)).toMatchObject({ isOther: false, caveat: undefined })
})

test.each<[string, Files, string]>([
  ['20.x', engines('20.x'), 'package.json (engines.node)'],
  ['<24', engines('<24'), 'package.json (engines.node)'],
  ['what?', engines('what?'), 'package.json (engines.node)'],
  ['18.20.1', volta('18.20.1'), 'package.json (volta.node)'],
  ['lts/iron', { '.nvmrc': 'lts/iron' }, '.nvmrc'],
  ['v20', { '.node-version': 'v20\n' }, '.node-version'],
  ['lts/unheard-of', { '.nvmrc': 'lts/unheard-of' }, '.nvmrc'],
  ['lts/constructor', { '.nvmrc': 'lts/constructor' }, '.nvmrc'],
  ['99999999999999999999', { '.nvmrc': '99999999999999999999' }, '.nvmrc'],
  ['20', { '.nvmrc': '20 # the long-term one' }, '.nvmrc'],
])(
  'a project that asks for the older or unknown %s is told, and told again when it fails',
  async (written, files, by) => {
    expect(await check(files)).toEqual({
      note: `${by} asks for Node ${written}; builds and Functions run on Node ${NODE}.`,
      isOther: true,
      caveat: `The project asks for Node ${written} and ran on 24.x.`,
    })
  },
)

test.each<[string, Files, string]>([
  ['>=26', engines('>=26'), 'package.json (engines.node)'],
  ['^24.9.0', engines('^24.9.0'), 'package.json (engines.node)'],
  ['26.1.0', { '.nvmrc': '26.1.0' }, '.nvmrc'],
])('a project that needs the newer %s is refused', async (written, files, by) => {
  await expect(check(files)).rejects.toThrow(
    new UnusableOutput(
      `${by} asks for Node ${written}, and this platform has ${NODE}. Let it run on that too, or ask the operator for a newer version of the platform.`,
    ),
  )
})

test('a project that asks for another version of the same major is told both', async () => {
  expect(await check(engines('24.1.0'))).toMatchObject({
    caveat: `The project asks for Node 24.1.0 and ran on ${NODE}.`,
  })
})

describe('where it is asked', () => {
  test('package.json counts before a version manager, and the nearer folder before the farther', async () => {
    const both = { ...engines('>=20'), '.nvmrc': '18' }
    expect(await check(both)).toMatchObject({ isOther: false })
    expect(await check({ ...both, 'web/package.json': '{}', 'web/.nvmrc': '20' }, 'web')).toMatchObject({
      isOther: true,
    })
    expect(await check({ '.nvmrc': '20', 'web/package.json': '{}' }, 'web')).toMatchObject({ isOther: true })
  })

  test.each<[string, Files]>([
    ['.npmrc (engine-strict)', { '.npmrc': 'fund=false\nengine-strict = true\n' }],
    ['.npmrc (engine-strict)', { '.npmrc': `${'\n'.repeat(60_000)}engine-strict` }],
    ['pnpm-workspace.yaml (engineStrict)', { 'pnpm-workspace.yaml': 'engineStrict: true\n' }],
  ])('%s refuses an older one', async (by, files) => {
    await expect(check({ ...engines('20.x'), ...files })).rejects.toThrow(
      `package.json (engines.node) asks for Node 20.x, this platform has ${NODE}, and ${by} refuses every other.`,
    )
    expect(await check({ ...engines('24.x'), ...files })).toMatchObject({ isOther: false })
  })
})
