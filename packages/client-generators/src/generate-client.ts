import { mkdir, symlink, writeFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { createClient } from '@hey-api/openapi-ts'
import openapiTypescript, { astToString } from 'openapi-typescript'

/** Where the modules that generated clients import are installed. */
const modules = resolve(import.meta.dirname, '../node_modules')

/**
 * Writes a client in TypeScript for an OpenAPI document into a new folder, offline: of openapi-typescript the types
 * `schema.ts`, for openapi-fetch; of Hey API the module `client/index.ts`, which needs nothing else. Modules that the client
 * imports resolve from the folder.
 *
 * Throws what the generator says of a document that it cannot read.
 */
export async function generateClient(
  generator: 'openapi-typescript' | 'hey-api',
  document: object,
  folder: string,
): Promise<void> {
  await mkdir(folder, { recursive: true })
  await symlink(modules, join(folder, 'node_modules'))
  await writeFile(join(folder, 'package.json'), '{ "type": "module" }')
  if (generator === 'hey-api')
    await createClient({
      input: structuredClone(document) as Record<string, unknown>,
      output: { path: join(folder, 'client'), module: { extension: '.js' } },
      logs: { level: 'silent', file: false },
    })
  else
    await writeFile(join(folder, 'schema.ts'), astToString(await openapiTypescript(structuredClone(document) as never)))
}
