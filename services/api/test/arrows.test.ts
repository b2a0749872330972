import { execFile } from 'node:child_process'
import { readdirSync } from 'node:fs'
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join, relative, resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import { promisify } from 'node:util'
import { afterAll, beforeAll, expect, test } from 'vitest'

interface Rule {
  name: string
  severity: string
  from: unknown
  to: unknown
}
interface Rules {
  arrows: Record<string, string[]>
  default: { forbidden: Rule[] }
}
interface Report {
  summary: { violations: { from: string; to: string; rule: { name: string } }[] }
}

const file = resolve(import.meta.dirname, '../../../.dependency-cruiser.mjs')
const { arrows, default: rules } = (await import(pathToFileURL(file).href)) as Rules
const areas = readdirSync(resolve(import.meta.dirname, '../src/areas'))

/** An import from a file to another, both relative to services/api/src, and the rules that forbid it: none where it is allowed. */
type Probe = [title: string, from: string, to: string, rules: string[]]

const pairs = areas.flatMap((from) => areas.filter((to) => to !== from).map((to) => [from, to] as const))
const betweenAreas = pairs.map(([from, to]): Probe => {
  const isAllowed = arrows[from]?.includes(to) === true
  const title = `the area ${from} ${isAllowed ? 'may' : 'may not'} import the area ${to}`
  const broken = isAllowed ? [] : [`${from}-knows-an-area-above`]
  return [title, `areas/${from}/probe/to-${to}.ts`, `areas/${to}/feature/rule.ts`, broken]
})

const below = 'area-is-known-below-it'
const starts = 'feature-knows-who-starts-it'
const twice = 'area-is-opened-twice'
const driver = 'feature-knows-driver'
const lists = 'area-lists-another'
const others: Probe[] = [
  ['http may not import an area', 'http/probe.ts', 'areas/cluster/feature/rule.ts', [below]],
  ['core.ts may not import an area', 'core.ts', 'areas/cluster/feature/rule.ts', [below]],
  ['area.ts may not import an area', 'area.ts', 'areas/cluster/feature/rule.ts', [below]],
  ['a role may not import a feature', 'roles/probe.ts', 'areas/cluster/feature/rule.ts', [below]],
  ['a role may not open an area', 'roles/probe.ts', 'areas/cluster/area.ts', [twice, below]],
  ['a feature may not open an area', 'areas/edge/probe/opens.ts', 'areas/cluster/area.ts', [twice]],
  ['a feature may not open its own area', 'areas/edge/probe/opens.ts', 'areas/edge/area.ts', [twice]],
  ['run.ts may not open an area', 'run.ts', 'areas/cluster/area.ts', [twice]],
  ...['config', 'compose', 'endpoints', 'schema', 'commands', 'run', 'roles/api'].map((name): Probe => {
    const title = `a feature may not import ${name}.ts of the service`
    return [title, 'areas/edge/probe/starts.ts', `${name}.ts`, [starts]]
  }),
  ...['endpoints', 'tables', 'commands'].flatMap((list): Probe[] => [
    [
      `a feature may not import ${list}.ts of its area`,
      'areas/edge/probe/lists.ts',
      `areas/edge/${list}.ts`,
      [`list-of-${list}-is-imported`],
    ],
    [
      `a feature may not import ${list}.ts of an area below`,
      'areas/edge/probe/lists.ts',
      `areas/cluster/${list}.ts`,
      [`list-of-${list}-is-imported`],
    ],
  ]),
  [
    'a feature may not import routes.ts of its neighbour',
    'areas/edge/probe/neighbour.ts',
    'areas/edge/feature/routes.ts',
    ['routes-are-imported'],
  ],
  [
    'a feature of storage may not import a driver',
    'areas/storage/probe/driver.ts',
    'areas/storage/drivers/folder.ts',
    [driver],
  ],
  ['what serves hostnames may not import a driver', 'areas/edge/serve.ts', 'areas/storage/drivers/folder.ts', [driver]],
  [
    'the opening of another area may not import a driver',
    'areas/edge/area.ts',
    'areas/storage/drivers/folder.ts',
    ['area-knows-driver-of-another'],
  ],
  ...['endpoints', 'tables', 'commands'].map((list): Probe => {
    const title = `the opening of an area may not import ${list}.ts of an area below`
    return [title, 'areas/edge/area.ts', `areas/cluster/${list}.ts`, [lists]]
  }),
  [
    'the endpoints of an area may not import routes.ts of an area below',
    'areas/edge/endpoints.ts',
    'areas/cluster/feature/routes.ts',
    [lists],
  ],
  ...['compose', 'commands', 'roles/api'].map((name): Probe => {
    const title = `the opening of an area may not import ${name}.ts of the service`
    return [title, 'areas/edge/area.ts', `${name}.ts`, ['area-knows-who-starts-it']]
  }),
  ['a feature may import its neighbour', 'areas/edge/probe/neighbour.ts', 'areas/edge/feature/rule.ts', []],
  ['a feature may import http', 'areas/edge/probe/http.ts', 'http/endpoint.ts', []],
  ['a feature may import core.ts', 'areas/edge/probe/core.ts', 'core.ts', []],
  ['a role may import area.ts', 'roles/probe.ts', 'area.ts', []],
  ['a driver may import a feature of its area', 'areas/storage/drivers/s3.ts', 'areas/storage/feature/rule.ts', []],
  ['the opening of storage may import a driver', 'areas/storage/area.ts', 'areas/storage/drivers/folder.ts', []],
  ...areas.flatMap((area): Probe[] => [
    [`compose.ts may open the area ${area}`, 'compose.ts', `areas/${area}/area.ts`, []],
    [`endpoints.ts may import the endpoints of ${area}`, 'endpoints.ts', `areas/${area}/endpoints.ts`, []],
    [`schema.ts may import the tables of ${area}`, 'schema.ts', `areas/${area}/tables.ts`, []],
    [`commands.ts may import the commands of ${area}`, 'commands.ts', `areas/${area}/commands.ts`, []],
    [`the opening of ${area} may import config.ts`, `areas/${area}/area.ts`, 'config.ts', []],
    [`the opening of ${area} may import its endpoints`, `areas/${area}/area.ts`, `areas/${area}/endpoints.ts`, []],
    [
      `the endpoints of ${area} may import routes.ts of a feature`,
      `areas/${area}/endpoints.ts`,
      `areas/${area}/feature/routes.ts`,
      [],
    ],
  ]),
]
const probes = [...betweenAreas, ...others]

/** Two features built on each other: of folders, so neither file is in a circle. */
const circle = [
  ['areas/edge/here/one.ts', 'areas/edge/there/one.ts'],
  ['areas/edge/there/two.ts', 'areas/edge/here/two.ts'],
] as const

let folder: string
let reported: string[]
const line = (rule: string, from: string, to: string) => `${rule}: ${from} → ${to}`
const rulesAgainst = (from: string, to: string) =>
  reported.filter((text) => text.endsWith(`: ${from} → ${to}`)).map((text) => text.slice(0, text.indexOf(':')))

beforeAll(async () => {
  const imports = new Map<string, string[]>()
  for (const [from, to] of [...probes.map(([, from, to]) => [from, to] as const), ...circle]) {
    imports.set(from, [...(imports.get(from) ?? []), to])
    imports.set(to, imports.get(to) ?? [])
  }
  folder = await mkdtemp(join(tmpdir(), 'arrows-'))
  const source = join(folder, 'services/api/src')
  for (const [path, targets] of imports) {
    const home = dirname(join(source, path))
    const lines = targets.map((to, index) => {
      const way = relative(home, join(source, to))
      // A type alone, which counts like a value.
      return `import type { Stub as Stub${index} } from '${way.startsWith('.') ? way : `./${way}`}'\n`
    })
    await mkdir(home, { recursive: true })
    await writeFile(join(source, path), `${lines.join('')}export type Stub = string\n`)
  }
  const { stdout } = await promisify(execFile)(
    join(dirname(file), 'node_modules/.bin/depcruise'),
    ['--config', file, '--output-type', 'json', 'services'],
    { cwd: folder, maxBuffer: 64_000_000 },
  )
  const { summary } = JSON.parse(stdout) as Report
  const short = (path: string) => path.replace('services/api/src/', '')
  reported = summary.violations.map(({ from, to, rule }) => line(rule.name, short(from), short(to)))
})
afterAll(() => rm(folder, { recursive: true, force: true }))

test('the arrows are drawn between exactly the areas on disk', () => {
  expect(Object.keys(arrows).toSorted()).toEqual(areas.toSorted())
})

test('there are 23 arrows, and none goes up', () => {
  const order = Object.keys(arrows)
  const drawn = Object.entries(arrows).flatMap(([from, to]) => to.map((area) => [from, area] as const))
  expect(drawn).toHaveLength(23)
  expect(drawn.filter(([from, to]) => !order.slice(0, order.indexOf(from)).includes(to))).toEqual([])
})

test('no file of an area is excepted from the arrows', () => {
  const home = '^services/api/src/areas/'
  const ruleOf = (area: string) =>
    rules.forbidden
      .filter(({ name }) => name === `${area}-knows-an-area-above`)
      .map(({ severity, from, to }) => ({ severity, from, to }))
  for (const [area, others] of Object.entries(arrows)) {
    const to = { path: home, pathNot: `${home}(${[area, ...others].join('|')})/` }
    expect(ruleOf(area)).toEqual([{ severity: 'error', from: { path: `${home}${area}/` }, to }])
  }
})

test.each(probes)('%s', (_title, from, to, broken) => {
  expect(rulesAgainst(from, to).toSorted()).toEqual(broken.toSorted())
})

test('two features of an area may not be built on each other', () => {
  expect(rulesAgainst('areas/edge/here', 'areas/edge/there')).toEqual(['features-in-a-circle'])
  expect(rulesAgainst('areas/edge/there', 'areas/edge/here')).toEqual(['features-in-a-circle'])
})

test('nothing is reported beside what these probes break', () => {
  const ofProbes = probes.flatMap(([, from, to, broken]) => broken.map((rule) => line(rule, from, to)))
  const ofCircle = [
    ['here', 'there'],
    ['there', 'here'],
  ].map(([from, to]) => line('features-in-a-circle', `areas/edge/${from}`, `areas/edge/${to}`))
  expect(reported.toSorted()).toEqual([...ofProbes, ...ofCircle].toSorted())
})
