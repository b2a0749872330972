import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import ranges from '@fontsource-variable/inter/unicode.json' with { type: 'json' }

const packageFile = createRequire(import.meta.url).resolve

/** A file of Inter (SIL Open Font License 1.1), all weights in one, for a range of characters. */
interface FontFile {
  /** Changes with its content, so it may be cached for ever. */
  name: string
  type: 'font/woff2'
  bytes: Buffer
  /** In the words of `unicode-range`: a browser fetches only files whose characters a page shows. */
  range: string
}

function fontFile(subset: 'latin' | 'latin-ext'): FontFile {
  const bytes = readFileSync(packageFile(`@fontsource-variable/inter/files/inter-${subset}-wght-normal.woff2`))
  const hash = createHash('sha256').update(bytes).digest('hex').slice(0, 16)
  return { name: `inter-${subset}.${hash}.woff2`, type: 'font/woff2', bytes, range: ranges[subset] }
}

/** What both services serve beside their style sheets. */
export const fontFiles: readonly FontFile[] = [fontFile('latin'), fontFile('latin-ext')]
