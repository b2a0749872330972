import { execFile } from 'node:child_process'
import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { startPlatform } from '@platform/testing/platform'
import { expect, test } from 'vitest'
import { readProviderFile } from '../src/areas/ai/gateway/providers/provider-file.ts'
import { echoOf } from './ai.ts'
import { newKey, newOwner } from './scenario.ts'

const service = join(import.meta.dirname, '..')
const page = await readFile(join(service, '../../docs/ai.md'), 'utf8')
const blocksOf = (language: string): string[] =>
  [...page.matchAll(new RegExp(`\`\`\`${language}\n(.*?)\`\`\``, 'gs'))].map(([, code = '']) => code)
const run = promisify(execFile)

test('the programs of docs/ai.md work as they stand', async () => {
  const platform = await startPlatform()
  try {
    const { id, secret } = await newKey(platform, await newOwner(platform), ['network:ai_gateway:chat'])
    const [renewal = '', ...programs] = blocksOf('ts')
    expect(programs).toHaveLength(3)
    for (const program of programs) {
      const text = `const [api, id, secret] = ${JSON.stringify([platform.apiUrl, id, secret])}\n`
      // Those that print nothing have their answer in `text`.
      const printed = program.includes('const { text }') ? '\nprocess.stdout.write(text)' : ''
      const code = text + renewal + program + printed
      const { stdout } = await run(process.execPath, ['--input-type=module', '--eval', code], { cwd: service })
      expect(stdout, program).toBe(echoOf('Hello'))
    }
  } finally {
    await platform.close()
  }
})

test('the file of providers in docs/ai.md is right', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'platform-ai-docs-'))
  try {
    const path = join(folder, 'ai-providers.json')
    await writeFile(path, blocksOf('json')[0] ?? '')
    const { providers, models } = await readProviderFile(path)
    expect([providers.length, models.length]).toStrictEqual([3, 3])
  } finally {
    await rm(folder, { recursive: true })
  }
})

test('docs/ai.md has every code that the gateway fails with', async () => {
  const folder = join(service, 'src/areas/ai/gateway')
  const names = (await readdir(folder, { recursive: true })).filter((name) => /(?<!\.test)\.ts$/.test(name))
  const sources = await Promise.all(names.map((name) => readFile(join(folder, name), 'utf8')))
  const failures = sources.flatMap((source) => [
    ...source.matchAll(/(?:AiError|super)\(\s*(\d{3}),\s*'(\w+)',\s*'(\w+)'/g),
  ])
  expect(failures.length).toBeGreaterThan(15)
  const rows = page.split('\n').filter((line) => /^\| \d{3}/.test(line))
  const missing = failures.filter(
    ([, status = '', type, code]) =>
      !rows.some((row) => row.includes(status) && row.includes(`\`${type}\``) && row.includes(`\`${code}\``)),
  )
  expect(missing.map(([, ...failure]) => failure)).toStrictEqual([])
})
