import { mkdirSync, mkdtempSync, rmSync, symlinkSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { readOutput } from '@platform/build-output/read-output'
import { afterAll, describe, expect, test } from 'vitest'
import { readBuiltProject } from './built-project.ts'
import { type Files, writeFiles } from './test-projects.ts'

const all = mkdtempSync(join(tmpdir(), 'workspace-server-'))
afterAll(() => rmSync(all, { recursive: true, force: true }))
let made = 0

/** A built workspace; links by path, with their targets. */
function workspace(files: Files, links: Record<string, string> = {}): string {
  const folder = join(all, String((made += 1)), 'project')
  writeFiles(folder, files)
  for (const [path, target] of Object.entries(links)) {
    mkdirSync(dirname(join(folder, path)), { recursive: true })
    symlinkSync(target, join(folder, path))
  }
  return folder
}

/** What the server of apps/api gets. */
async function read(folder: string, needed: readonly string[]) {
  const options = { root: 'apps/api', needed, outputDirectory: undefined, isSource: () => true, builtSince: Infinity }
  const built = await readBuiltProject({ folder, ...options, bytesMax: 2 ** 30 })
  const { functions } = await readOutput(built, built.root)
  const [server] = functions
  return { server, files: [...(server?.files.keys() ?? [])].toSorted(), links: server?.links, warnings: built.warnings }
}

const api: Files = { 'apps/api/package.json': '{"scripts":{"start":"node index.js"}}', 'apps/api/index.js': '' }

describe('a server of a workspace', () => {
  test('gets its folder, what npm hoisted above it and the packages that it needs, and of others nothing', async () => {
    const folder = workspace(
      {
        ...api,
        'apps/web/index.js': '',
        'packages/ui/index.js': '',
        'packages/ui/node_modules/own/index.js': '',
        'packages/other/index.js': '',
        'node_modules/hoisted/index.js': '',
        'README.md': '',
      },
      {
        'node_modules/ui': '../packages/ui',
        'node_modules/other': '../packages/other',
        'node_modules/web': '../apps/web',
        'node_modules/.bin/hoisted': '../hoisted/index.js',
      },
    )
    const { server, files, links, warnings } = await read(folder, ['packages/ui'])
    expect(server).toMatchObject({ path: 'apps/api/index.js', handler: 'apps/api/index.js', workingFolder: 'apps/api' })
    expect(files).toEqual([
      'apps/api/index.js',
      'apps/api/package.json',
      'node_modules/hoisted/index.js',
      'packages/ui/index.js',
      'packages/ui/node_modules/own/index.js',
    ])
    expect(links).toEqual(
      new Map([
        ['node_modules/ui', '../packages/ui'],
        ['node_modules/.bin/hoisted', '../hoisted/index.js'],
      ]),
    )
    expect(warnings).toEqual([])
  })

  test('keeps the links that pnpm made for it', async () => {
    const store = 'node_modules/.pnpm/fastify@5.0.0/node_modules/fastify'
    const folder = workspace(
      { ...api, [`${store}/index.js`]: '' },
      { 'apps/api/node_modules/fastify': `../../../${store}` },
    )
    const { files, links } = await read(folder, [])
    expect(files).toContain(`${store}/index.js`)
    expect(links).toEqual(new Map([['apps/api/node_modules/fastify', `../../../${store}`]]))
  })

  test('with its packages in its own folder is that folder', async () => {
    const folder = workspace({ ...api, 'apps/api/node_modules/a/index.js': '', 'packages/ui/index.js': '' })
    const { server, files } = await read(folder, [])
    expect(server).toMatchObject({ path: 'index.js', handler: 'index.js' })
    expect(server).not.toHaveProperty('workingFolder')
    expect(files).toEqual(['index.js', 'node_modules/a/index.js', 'package.json'])
  })

  test('gets nothing by a link that leads out of the archive, and is told its name', async () => {
    const folder = workspace(
      { ...api, 'node_modules/hoisted/index.js': '' },
      {
        'node_modules/evil': '../../../../../../../../etc',
        'node_modules/@a/absolute': '/etc',
        'apps/api/node_modules/up': '../../../..',
      },
    )
    const { files, links, warnings } = await read(folder, [])
    expect([files, links]).toEqual([
      ['apps/api/index.js', 'apps/api/package.json', 'node_modules/hoisted/index.js'],
      new Map(),
    ])
    expect(warnings.toSorted()).toEqual(
      ['apps/api/node_modules/up', 'node_modules/@a/absolute', 'node_modules/evil'].map(
        (path) => `The link "${path}" leads out of the project or to nothing and was left out`,
      ),
    )
  })

  test('needs no folder that a link replaced by another one', async () => {
    const folder = workspace({ ...api, 'node_modules/a/index.js': '' }, { 'packages/ui': '/etc' })
    await expect(read(folder, ['packages/ui'])).rejects.toThrow(
      'The build left nothing of the project at "packages/ui"',
    )
  })
})
