import { cp, mkdir, readdir, readFile, writeFile } from 'node:fs/promises'
import { stripTypeScriptTypes } from 'node:module'
import { join } from 'node:path'
import type { Mount } from '@platform/sandbox/sandbox'

const sources = join(import.meta.dirname, 'launcher')

/** How slots see the launcher's folder. */
export const mountLauncher = (folder: string): Mount => ({ source: folder, target: '/run/launcher' })

/** Writes the launcher's modules as JavaScript, once, so that no slot pays for stripping types. */
export async function writeLauncher(folder: string): Promise<void> {
  await mkdir(folder, { recursive: true, mode: 0o755 })
  for (const name of await readdir(sources)) {
    const target = join(folder, name.replace(/\.ts$/, '.mjs'))
    if (!name.endsWith('.ts')) await cp(join(sources, name), target)
    else await writeFile(target, strip(await readFile(join(sources, name), 'utf8')), { mode: 0o644 })
  }
}

function strip(source: string): string {
  const { emitWarning } = process
  // The warning about an experimental feature of Node would only reach the operator.
  process.emitWarning = () => {}
  try {
    return stripTypeScriptTypes(source).replaceAll(/(\b(?:from\s+|import\()'\.\/[^']+)\.ts'/g, "$1.mjs'")
  } finally {
    process.emitWarning = emitWarning
  }
}
