// Writes dist/, or the folder that it is given: the console as static files, each with copies that are compressed already. One build serves
// every installation: addresses come from /config.json, which the API makes.
import { mkdir, mkdtemp, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { promisify } from 'node:util'
import { brotliCompress, constants, gzip } from 'node:zlib'
import { fontFiles } from '@platform/look/font'
import { icon } from '@platform/look/mark'
import { tokensCss } from '@platform/look/tokens'
import { build } from 'vite'

const home = import.meta.dirname
/** Default: dist/. */
const [, , folder = join(home, 'dist')] = process.argv
// It would be emptied.
if (folder.startsWith('-')) throw new Error(`There are no options: ${folder}`)
const dist = resolve(folder)
const compressible = /\.(?:html|js|css|svg)$/

/** The look's tokens, font and icon, where the style sheet and the page import them from. */
async function writeLook(): Promise<void> {
  const folder = join(home, 'node_modules/.look')
  await rm(folder, { recursive: true, force: true })
  await mkdir(folder, { recursive: true })
  await writeFile(join(folder, 'look.css'), tokensCss.replaceAll('url(', 'url(./'))
  await writeFile(join(folder, 'icon.svg'), icon.text)
  for (const { name, bytes } of fontFiles) await writeFile(join(folder, name), bytes)
}

async function compressFiles(folder: string): Promise<void> {
  for (const entry of await readdir(folder, { recursive: true, withFileTypes: true })) {
    if (!entry.isFile() || !compressible.test(entry.name)) continue
    const path = join(entry.parentPath, entry.name)
    const bytes = await readFile(path)
    await writeFile(`${path}.gz`, await promisify(gzip)(bytes, { level: 9 }))
    const params = { [constants.BROTLI_PARAM_QUALITY]: 11, [constants.BROTLI_PARAM_SIZE_HINT]: bytes.length }
    await writeFile(`${path}.br`, await promisify(brotliCompress)(bytes, { params }))
  }
}

// A platform may be serving from dist/ meanwhile: a whole folder takes its place.
const work = await mkdtemp(join(home, 'node_modules/.build-'))
try {
  await writeLook()
  const draft = join(work, 'console')
  await build({ configFile: join(home, 'vite.config.ts'), build: { outDir: draft, emptyOutDir: true } })
  await compressFiles(draft)
  await rm(dist, { recursive: true, force: true })
  await rename(draft, dist)
} finally {
  await rm(work, { recursive: true, force: true })
}
