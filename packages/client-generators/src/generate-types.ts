import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createClient } from '@hey-api/openapi-ts'

/**
 * The types of an OpenAPI document in TypeScript: its named schemas, and of each operation `…Data`, `…Errors` and `…Response`.
 * The same document gives the same text.
 */
export async function generateTypes(document: object): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'types-'))
  try {
    await createClient({
      input: structuredClone(document) as Record<string, unknown>,
      output: { path: folder },
      plugins: ['@hey-api/typescript'],
      logs: { level: 'silent', file: false },
    })
    return await readFile(join(folder, 'types.gen.ts'), 'utf8')
  } finally {
    await rm(folder, { recursive: true })
  }
}
