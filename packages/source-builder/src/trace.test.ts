import { existsSync, readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { findTestObstacle } from '@platform/sandbox/test-obstacle'
import { unless } from '@platform/test-runner/task-meta'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { openTestBuilder, type TestBuilder } from './test-builds.ts'
import { type Files, shellProject } from './test-projects.ts'

const obstacle = findTestObstacle(['bwrap', 'setpriv', 'prlimit', 'unshare'])
const manifest = (more: object = {}): string => JSON.stringify({ version: '1.0.0', ...more })

/** A server in TypeScript as pnpm installs it: each package is a link to its folder, and beside that are links to what it needs. */
const STORE = 'node_modules/.pnpm'
const FILES: Files = {
  'src/main.ts': `
    import type { Server } from 'node:http'
    import { readFileSync } from 'node:fs'
    import { join } from 'node:path'
    import modern from 'modern'
    const old: unknown = (await import('old')).default
    console.log(modern, old, readFileSync(join(import.meta.dirname, '../views/page.html'), 'utf8') satisfies string)`,
  'src/unused.ts': '',
  'views/page.html': 'page',
  [`${STORE}/modern@1/node_modules/modern/package.json`]: manifest({
    name: 'modern',
    exports: {
      require: './required.cjs',
      browser: './browser.js',
      'node-addons': './index.mjs',
      default: './default.mjs',
    },
  }),
  [`${STORE}/modern@1/node_modules/modern/index.mjs`]: `
    import { createRequire as requireFrom } from 'node:module'
    const require = requireFrom(import.meta.url)
    require('./bundled.cjs')
    export { default } from 'shared'`,
  [`${STORE}/modern@1/node_modules/modern/bundled.cjs`]: '',
  [`${STORE}/modern@1/node_modules/modern/required.cjs`]: '',
  [`${STORE}/modern@1/node_modules/modern/browser.js`]: '',
  [`${STORE}/modern@1/node_modules/modern/default.mjs`]: '',
  [`${STORE}/shared@1/node_modules/shared/package.json`]: manifest({
    name: 'shared',
    exports: { import: './index.mjs', require: './index.cjs' },
  }),
  [`${STORE}/shared@1/node_modules/shared/index.mjs`]: 'export default 1',
  [`${STORE}/shared@1/node_modules/shared/index.cjs`]: 'module.exports = 1',
  [`${STORE}/old@1/node_modules/old/package.json`]: manifest({ name: 'old', main: 'lib' }),
  [`${STORE}/old@1/node_modules/old/lib/index.js`]: `
    require('shared')
    require('./native.node')
    require('./locales/' + process.env.LOCALE)`,
  [`${STORE}/old@1/node_modules/old/lib/native.node`]: 'addon',
  [`${STORE}/old@1/node_modules/old/lib/libnative.so.2`]: 'library',
  [`${STORE}/old@1/node_modules/old/lib/locales/en.js`]: '',
  [`${STORE}/old@1/node_modules/old/README.md`]: '',
}
const LINKS = {
  'node_modules/modern': '.pnpm/modern@1/node_modules/modern',
  'node_modules/old': '.pnpm/old@1/node_modules/old',
  [`${STORE}/modern@1/node_modules/shared`]: '../../shared@1/node_modules/shared',
  [`${STORE}/old@1/node_modules/shared`]: '../../shared@1/node_modules/shared',
}

describe('a trace', unless(obstacle), () => {
  let tested: TestBuilder
  let outcome: Awaited<ReturnType<TestBuilder['build']>>
  beforeAll(async () => {
    tested = openTestBuilder('none')
    const link = Object.entries(LINKS).map(([path, target]) => `ln -s ${target} ${path}`)
    // What only its user may read is traced too.
    outcome = await tested.build(shellProject([...link, 'chmod -R go= node_modules'].join(' && '), FILES))
  })
  afterAll(() => tested?.[Symbol.asyncDispose](), 60_000)

  const trace = (entry: string, signal = new AbortController().signal) =>
    tested.builder.trace({ ...outcome, entry, signal })
  /** Replaces nft by a program of a stranger, who has found a way to have it run. */
  const replaceTracer = (code: string): void =>
    writeFileSync(
      join(tested.folder, 'own/tracer/node_modules/@vercel/nft/out/index.js'),
      `exports.nodeFileTrace = async (entries, { base }) => { const fs = require('node:fs'); ${code} }`,
    )

  test('lists what a module reaches as Node resolves it, with links on the way, and nothing else', async () => {
    expect(outcome.failure, outcome.output).toBeUndefined()
    const unreached = /unused|required|browser|default|README/
    expect(((await trace('src/main.ts')) ?? []).toSorted()).toEqual(
      [...Object.keys(FILES).filter((path) => !unreached.test(path)), ...Object.keys(LINKS), 'package.json'].toSorted(),
    )
  })

  test('of a module that is not there is none', async () => {
    expect(await trace('src/missing.js')).toBeUndefined()
  })

  test('ends with a signal', async () => {
    const reason = new Error('Stopped')
    await expect(trace('src/main.ts', AbortSignal.abort(reason))).rejects.toBe(reason)
  })

  test('changes nothing that was built, whatever runs', async () => {
    replaceTracer(`
      const tried = (act) => { try { return act() ?? 'done' } catch (error) { return error.code } }
      return { fileList: [
        tried(() => fs.writeFileSync(base + '/new', '')), tried(() => fs.symlinkSync('/etc/passwd', base + '/src/link')),
        tried(() => fs.unlinkSync(base + '/src/main.ts')), tried(() => fs.writeFileSync('/build/home/new', '')),
        tried(() => fs.readFileSync(base + '/views/page.html', 'utf8')),
      ] }`)
    expect(await trace('src/main.ts')).toEqual(['EROFS', 'EROFS', 'EROFS', 'EROFS', 'page'])
    expect(readdirSync(join(outcome.project, 'src'))).toEqual(['main.ts', 'unused.ts'])
    expect(existsSync(join(outcome.project, 'new'))).toBe(false)
  })

  test.each([
    ['fails', `throw new Error('no')`],
    ['lists without an end', `return { fileList: Array.from({ length: 200_001 }, () => 'a') }`],
    ['lists too much', `return { fileList: ['x'.repeat(2 ** 24 + 1)] }`],
  ])('that %s is none', async (_, code) => {
    replaceTracer(code)
    expect(await trace('src/main.ts')).toBeUndefined()
  })

  test('leaves no warning', () => {
    expect(tested.warnings).toEqual([])
  })
})
