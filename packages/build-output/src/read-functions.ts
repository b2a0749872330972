import { z } from 'zod'
import type { OutputManifest } from './manifest.ts'
import { type Tree, UnusableOutput } from './output.ts'
import { readJson } from './read-json.ts'
import { treePath } from './tree-path.ts'

const functionConfig = z.looseObject({
  runtime: z.string(),
  handler: z.string().optional(),
  entrypoint: z.string().optional(),
  filePathMap: z.record(z.string(), z.string()).optional(),
})

const fallback = z.union([
  z.string(),
  z.looseObject({ fsPath: z.string().optional() }),
  z.looseObject({ type: z.string() }),
])
const prerenderConfig = z.looseObject({ fallback: fallback.nullish() })

/**
 * Reads the manifests of Functions and prerenders below `functions/`: each path they name is one of the archive's.
 *
 * root: of the project, which `filePathMap` counts from. Throws UnusableOutput for a path that leads outside or to nothing,
 * and, until Functions run here, for each Function.
 */
export async function readFunctions(tree: Tree, root: string, folder: string): Promise<OutputManifest['functions']> {
  const below = `${folder}/functions/`
  let found: string | undefined
  for (const path of tree.files.keys()) {
    if (!path.startsWith(below)) continue
    if (path.endsWith('.func/.vc-config.json')) {
      await readFunction(tree, root, path)
      found ??= path
    } else if (path.endsWith('.prerender-config.json')) {
      await readPrerender(tree, folder, path)
      found ??= path
    }
  }
  if (found !== undefined) {
    const name = found.slice(below.length).replace(/\.func\/\.vc-config\.json$|\.prerender-config\.json$/, '')
    throw new UnusableOutput(`The output holds the Function ${name} (${found}), and Functions cannot run here yet.`)
  }
  return {}
}

async function readFunction(tree: Tree, root: string, path: string): Promise<void> {
  const config = await readJson(tree, path, functionConfig)
  const folder = path.slice(0, -'/.vc-config.json'.length)
  const files = new Map<string, string>()
  for (const [to, from] of Object.entries(config.filePathMap ?? {})) {
    const target = treePath(to, folder, `${path}: the filePathMap entry`)
    const source = treePath(from, root, `${path}: the filePathMap entry`, '')
    if (!tree.files.has(source))
      throw new UnusableOutput(`${path}: filePathMap names ${JSON.stringify(from)}, which is not there.`)
    files.set(target, source)
  }
  const handler = config.handler ?? config.entrypoint
  if (handler === undefined) throw new UnusableOutput(`${path} names no handler.`)
  const entry = treePath(handler, folder, `${path}: the handler`)
  if (!tree.files.has(entry) && !files.has(entry))
    throw new UnusableOutput(`${path}: the handler ${JSON.stringify(handler)} is not there.`)
}

async function readPrerender(tree: Tree, folder: string, path: string): Promise<void> {
  const { fallback } = await readJson(tree, path, prerenderConfig)
  const name = typeof fallback === 'string' ? fallback : fallback?.['fsPath']
  if (typeof name !== 'string') return
  const source = treePath(name, path.slice(0, path.lastIndexOf('/')), `${path}: the fallback`, folder)
  if (!tree.files.has(source)) throw new UnusableOutput(`${path}: the fallback ${JSON.stringify(name)} is not there.`)
}
