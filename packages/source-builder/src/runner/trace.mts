import { readFileSync } from 'node:fs'
import { createRequire, stripTypeScriptTypes } from 'node:module'
import type * as Nft from '@vercel/nft'
import type { Step } from './messages.ts'

/** The conditions of `exports` in Node, beside `import`, `require`, `module-sync` and `default`, which nft chooses by itself. */
const CONDITIONS = ['node', 'node-addons']
const TYPESCRIPT = /\.[cm]?ts$/

/** A file as nft reads it: without types, which its parser does not know. null if there is none. */
function readSource(path: string): string | null {
  let text: string
  try {
    text = readFileSync(path, 'utf8')
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code === 'ENOENT' || code === 'ENOTDIR' || code === 'EISDIR') return null
    throw error
  }
  if (!TYPESCRIPT.test(path)) return text
  try {
    return stripTypeScriptTypes(text)
  } catch {
    // Node could not run it either, or it is no TypeScript.
    return text
  }
}

/**
 * Lists the files that a module reaches, and the links on the way, by their paths below the project: what it imports, native addons with
 * their libraries, and the package.json files by which Node resolves them.
 */
export async function trace({ project, folder, entry, tracer }: Extract<Step, { kind: 'trace' }>): Promise<string[]> {
  const { nodeFileTrace } = createRequire(`${tracer}/`)('@vercel/nft') as typeof Nft
  const manifests = new Map<string, string | null>()
  const { fileList } = await nodeFileTrace([entry], {
    base: project,
    processCwd: folder,
    conditions: CONDITIONS,
    // Bundlers leave both in one file.
    mixedModules: true,
    readFile: async (path) => {
      // Code is read once, and would fill the memory.
      if (!path.endsWith('/package.json')) return readSource(path)
      let manifest = manifests.get(path)
      if (manifest === undefined) manifests.set(path, (manifest = readSource(path)))
      return manifest
    },
  })
  return [...fileList]
}
