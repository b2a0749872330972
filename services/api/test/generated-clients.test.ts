import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { generateClient } from '@platform/client-generators/generate-client'
import { startPlatform, type TestPlatform } from '@platform/testing/platform'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { runClient } from './client-process.ts'
import { newOwner, type Owner } from './scenario.ts'

const compiler = join(dirname(createRequire(import.meta.url).resolve('typescript/package.json')), 'bin/tsc')

let platform: TestPlatform
let owner: Owner
let folder: string
beforeAll(async () => {
  platform = await startPlatform()
  owner = await newOwner(platform)
  folder = await mkdtemp(join(tmpdir(), 'generated-clients-'))
})
afterAll(async () => {
  await platform.close()
  await rm(folder, { recursive: true, force: true })
})

const head = `declare const process: { argv: string[] }
const [, , baseUrl = '', token = '', organizationId = '', newName = ''] = process.argv
const headers = { Authorization: \`Bearer \${token}\` }
`
const tail = `
const isMissing = missing.response?.status === 404
// By the types of the document: a member that it does not name would not compile.
const name: string | undefined = created.data?.name
const at: string | undefined = created.data?.organization.createdAt
const message: string | undefined = missing.error?.error
console.log(JSON.stringify({ name, at, total: listed.data?.total, isMissing, message }))
`

/** Programs that create an application, list applications and ask for a missing organization, by the generated client. */
const programs = {
  'openapi-typescript': `import createClient from 'openapi-fetch'
import type { paths } from './schema.js'
${head}
const client = createClient<paths>({ baseUrl, headers })
const created = await client.POST('/applications', { body: { organizationId, name: newName } })
const listed = await client.GET('/applications', { params: { query: { organizationId, limit: 5 } } })
const missing = await client.GET('/organizations/{id}', {
  params: { path: { id: '0199a3f0-5b7c-7cc0-9d3f-2f6f5c1b7a10' } },
})
${tail}`,
  'hey-api': `import { client } from './client/client.gen.js'
import { createApplication, getOrganization, listApplications } from './client/index.js'
${head}
client.setConfig({ baseUrl, headers })
const created = await createApplication({ body: { organizationId, name: newName } })
const listed = await listApplications({ query: { organizationId, limit: 5 } })
const missing = await getOrganization({ path: { id: '0199a3f0-5b7c-7cc0-9d3f-2f6f5c1b7a10' } })
${tail}`,
} as const

/** Types that the generated code and its library cannot agree on are errors too: nothing is skipped. */
const compilerOptions = {
  strict: true,
  module: 'nodenext',
  target: 'es2024',
  lib: ['es2024', 'dom', 'dom.iterable', 'dom.asynciterable'],
  types: [],
  rootDir: '.',
  outDir: 'out',
}

test.each(Object.entries(programs))(
  '%s makes a client of the document that compiles and calls the service',
  async (generator, program) => {
    const { body } = await platform.call(null, 'GET /docs/json')
    const home = join(folder, generator)
    await generateClient(generator as keyof typeof programs, body as object, home)
    await writeFile(join(home, 'program.ts'), program)
    await writeFile(join(home, 'tsconfig.json'), JSON.stringify({ compilerOptions, include: ['*.ts', 'client'] }))
    await runClient(process.execPath, [compiler, '--project', home], {})
    const { apiUrl } = platform
    const printed = await runClient(
      process.execPath,
      [join(home, 'out/program.js'), apiUrl, owner.token, owner.organizationId, generator],
      {},
    )
    expect(JSON.parse(printed)).toEqual({
      name: generator,
      at: expect.stringMatching(/^\d{4}-.*Z$/) as string,
      total: expect.any(Number) as number,
      isMissing: true,
      message: 'Organization not found',
    })
  },
)
