import { execFile } from 'node:child_process'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { runInNewContext } from 'node:vm'
import { expect, test } from 'vitest'
import { document } from '../../../../test/operations.ts'
import { startScript } from './reference-start.ts'

interface Operation {
  operationId: string
  'x-codeSamples'?: { lang: string; label: string; source: string }[]
}

const repository = join(import.meta.dirname, '../../../../../..')

/** The operations as the page gives them to Scalar, by the script's own function. */
function adaptedOperations(): Operation[] {
  const configuration = { clientId: 'client', baseUrl: 'https://api.platform.test', scopes: [] }
  const page = {
    createElement: () => undefined,
    querySelector: () => ({ content: 'nonce' }),
    getElementById: () => ({ textContent: JSON.stringify(configuration) }),
    addEventListener: () => undefined,
  }
  const adapt = runInNewContext(`${startScript}; adapt`, { document: page }) as (openApi: object) => {
    paths: Record<string, Record<string, Operation>>
  }
  const { paths } = adapt(structuredClone(document))
  return Object.values(paths).flatMap((methods) => Object.values(methods))
}

const samples = adaptedOperations().flatMap(({ operationId, 'x-codeSamples': samples = [] }) =>
  samples.map(({ lang, label, source }) => ({ operationId, lang, label, source })),
)

test('an operation has a sample of the SDK exactly if the SDK has a function for it', async () => {
  const generated = await readFile(join(repository, 'packages/sdk/src/generated/operations.ts'), 'utf8')
  const functions = [...generated.matchAll(/^export const (\w+) = .*operation</gm)].map(([, name = '']) => name)
  expect(samples.map(({ operationId }) => operationId).toSorted()).toEqual(functions.toSorted())
  expect(new Set(samples.map(({ lang, label }) => `${lang} ${label}`))).toEqual(new Set(['typescript SDK']))
})

test('a sample of the SDK gives a body, and what path and query need, as the example of the document has them', () => {
  const { source } = samples.find(({ operationId }) => operationId === 'completeUpload') ?? {}
  expect(source).toBe(`import { completeUpload, Platform, staticToken } from '@platform/sdk'

const platform = new Platform({
  baseUrl: 'https://api.platform.test',
  credential: staticToken(token),
})
await completeUpload(platform, {
  id: '0199a3f0-5b7c-7cc0-9d3f-2f6f5c1b7a10',
  body: {
    uploadId: '0199a3f0-5b7c-7cc0-9d3f-2f6f5c1b7a10',
    parts: [
      {
        partNumber: 1,
        etag: "\\"9dd4e461268c8034f5c8564e155c67a6\\""
      }
    ]
  }
})`)
})

test('each sample of the SDK compiles', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'samples-'))
  try {
    const compilerOptions = {
      target: 'esnext',
      module: 'nodenext',
      lib: ['esnext', 'dom', 'dom.iterable', 'dom.asynciterable'],
      types: [],
      strict: true,
      noEmit: true,
      skipLibCheck: true,
      allowImportingTsExtensions: true,
      paths: { '@platform/sdk': [join(repository, 'packages/sdk/src/index.ts')] },
    }
    await writeFile(join(folder, 'package.json'), '{ "type": "module" }')
    await writeFile(join(folder, 'tsconfig.json'), JSON.stringify({ compilerOptions }))
    for (const { operationId, source } of samples)
      await writeFile(join(folder, `${operationId}.ts`), `declare const token: string\n${source}\n`)
    const tsc = promisify(execFile)(join(repository, 'node_modules/.bin/tsc'), ['-p', folder])
    const complaints = await tsc.then(
      () => '',
      (error: { stdout: string }) => error.stdout,
    )
    expect(complaints).toBe('')
  } finally {
    await rm(folder, { recursive: true })
  }
})
