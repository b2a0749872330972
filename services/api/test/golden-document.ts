import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { stderr } from 'node:process'
import { isDeepStrictEqual } from 'node:util'
import { endpoints } from '../src/endpoints.ts'
import { createDocument } from '../src/http/document.ts'

interface OpenApiDocument {
  info: { version: string }
}

const file = new URL('openapi.golden.json', import.meta.url)

/** The document that this code generates, as it is compared: with made-up origins. */
export const currentDocument = (): OpenApiDocument =>
  JSON.parse(
    JSON.stringify(createDocument(endpoints, 'https://api.example.com', 'https://id.example.com')),
  ) as OpenApiDocument

/** The document as it was last agreed on; a review of a change sees what it means for clients. */
export const goldenDocument = (): OpenApiDocument | undefined =>
  existsSync(file) ? (JSON.parse(readFileSync(file, 'utf8')) as OpenApiDocument) : undefined

/** Agrees on the current document. Refuses a changed one of the same version, since clients go by that (A §9). */
function agree(): void {
  const [current, golden] = [currentDocument(), goldenDocument()]
  if (isDeepStrictEqual(current, golden)) return
  if (current.info.version === golden?.info.version) {
    stderr.write(
      `The document has changed and is still ${golden.info.version}: raise API_VERSION in src/http/document.ts first.\n`,
    )
    process.exit(1)
  }
  writeFileSync(file, `${JSON.stringify(current, null, 2)}\n`)
}

if (import.meta.main) agree()
