import { cp, mkdir, readdir, readFile, stat } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { readOutput, type Tree } from '@platform/build-output/read-output'
import { compileOutput } from '@platform/build-output/router'
import type { FunctionSource } from '@platform/function-runtime/function-runtime'

/** A Function of a framework's build, as its slot needs it, and how it is asked for a page. */
export interface BuiltFunction {
  source: Pick<FunctionSource, 'kind' | 'folder' | 'handler' | 'isWeb' | 'hasHelpers'>
  request: { path: string; headers: Record<string, string> }
}

/** The files of a project that its Build Output may name; links are followed, as an archive's are. */
async function treeOf(project: string): Promise<Tree> {
  const files = new Map<string, { bytes: number; source: string }>()
  const visit = async (folder: string): Promise<void> => {
    for (const name of await readdir(join(project, folder))) {
      const path = folder === '' ? name : `${folder}/${name}`
      const stats = await stat(join(project, path)).catch(() => undefined)
      if (stats?.isDirectory()) await visit(path)
      else if (stats) files.set(path, { bytes: stats.size, source: path })
    }
  }
  for (const folder of ['.vercel/output', '.next', 'node_modules', 'dist', '.output'])
    if ((await stat(join(project, folder)).catch(() => undefined))?.isDirectory()) await visit(folder)
  return { files, read: (path) => readFile(join(project, path)) }
}

/** Puts together what answers at a path of a project's Build Output, in a folder that is made. Throws where that is no Function. */
export async function assembleFunction(project: string, path: string, folder: string): Promise<BuiltFunction> {
  const tree = await treeOf(project)
  const { manifest, assets, functions } = await readOutput(tree, '')
  const paths = new Set(assets.map((asset) => asset.path))
  const host = 'page.example'
  const request = { method: 'GET', path, query: '', host, headers: {}, protocol: 'https' } as const
  let answer = compileOutput(manifest).route(request, (name) => paths.has(name))
  while (answer.kind === 'middleware') answer = answer.resume({ status: 200, headers: [['x-middleware-next', '1']] })
  if (answer.kind !== 'function' && answer.kind !== 'prerender')
    throw new Error(`${path} of ${project} is answered by no Function: ${answer.kind}`)
  const own = manifest.functions[answer.path]?.function
  const fn = functions.find((each) => each.path === own)
  if (!fn || fn.handler === undefined) throw new Error(`${path} of ${project} has no handler`)
  for (const [target, source] of fn.files) {
    await mkdir(dirname(join(folder, target)), { recursive: true })
    await cp(join(project, source), join(folder, target), { dereference: true })
  }
  const { kind, handler, isWeb, hasHelpers } = fn
  return {
    source: { kind, folder, handler, isWeb, hasHelpers },
    request: {
      path: answer.url,
      headers: { host, 'x-forwarded-proto': 'https', ...Object.fromEntries(answer.requestHeaders) },
    },
  }
}
