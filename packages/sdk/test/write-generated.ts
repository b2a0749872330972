import { readFile, writeFile } from 'node:fs/promises'
import { endpoints } from '../../../services/api/src/endpoints.ts'
import { createDocument } from '../../../services/api/src/http/document.ts'
import { generate, type OpenApiDocument } from './generated.ts'

// The document that the service answers; its origins are left out of what is generated.
const document = createDocument(
  endpoints,
  'https://api.example.com',
  'https://id.example.com',
) as unknown as OpenApiDocument

const { version } = document.info
for (const name of ['sdk', 'cli']) {
  const packageFile = new URL(`../../${name}/package.json`, import.meta.url)
  const text = await readFile(packageFile, 'utf8')
  await writeFile(packageFile, text.replace(/"version": ".*"/, `"version": "${version}"`))
}
for (const [name, content] of Object.entries(await generate(JSON.parse(JSON.stringify(document)) as OpenApiDocument)))
  await writeFile(new URL(`../src/generated/${name}`, import.meta.url), content)
