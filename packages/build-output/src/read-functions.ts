import { z } from 'zod'
import type { OutputManifest } from './manifest.ts'
import { type Output, type OutputFunction, type Tree, UnusableOutput } from './output.ts'
import { readJson } from './read-json.ts'
import { readPrerender } from './read-prerender.ts'
import { treePath } from './tree-path.ts'
import type { Warnings } from './warnings.ts'

const FUNCTIONS_MAX = 1_000
/** For all Functions together; each file is a row. */
const FILES_MAX = 200_000
const CONFIG = '.func/.vc-config.json'
const PRERENDER = '.prerender-config.json'

const functionConfig = z.looseObject({
  runtime: z.string(),
  handler: z.string().optional(),
  entrypoint: z.string().optional(),
  filePathMap: z.record(z.string(), z.string()).optional(),
  launcherType: z.string().optional(),
  awsLambdaHandler: z.string().optional(),
  useWebApi: z.boolean().optional(),
  shouldAddHelpers: z.boolean().optional(),
  memory: z.number().int().positive().optional(),
  environment: z.record(z.string(), z.string()).optional(),
})
type FunctionConfig = z.infer<typeof functionConfig>

interface Functions {
  functions: OutputFunction[]
  /** All paths of Functions. */
  byPath: OutputManifest['functions']
  /** Functions whose responses are cached, by path. */
  prerenders: NonNullable<OutputManifest['prerenders']>
  fallbacks: Output['fallbacks']
}

/**
 * Reads the Functions below `functions/`: every path in their manifests has to be in the archive. A folder that links to another
 * Function's folder is an additional path of that Function.
 *
 * root: the project's, which `filePathMap` is relative to. Throws UnusableOutput for a path that leads outside or does not exist,
 * and for anything but a Node.js Function.
 */
export async function readFunctions(tree: Tree, root: string, folder: string, warnings: Warnings): Promise<Functions> {
  const below = `${folder}/functions/`
  const functions: OutputFunction[] = []
  const byPath: Functions['byPath'] = {}
  const bySource = new Map<string, string>()
  const prerenders: Functions['prerenders'] = {}
  const fallbacks = new Map<string, string>()
  let files = 0
  const filesOf = groupByFunction(tree, below)
  for (const path of [...tree.files.keys()].toSorted()) {
    if (!path.startsWith(below)) continue
    if (path.endsWith(CONFIG)) {
      const name = path.slice(below.length, -CONFIG.length)
      const source = tree.files.get(path)?.source ?? path
      const known = bySource.get(source)
      if (known === undefined) {
        const read = await readFunction(tree, root, path, name, filesOf.get(name) ?? [])
        functions.push(read)
        bySource.set(source, name)
        files += read.files.size
      }
      byPath[name] = { function: known ?? name }
    } else if (path.endsWith(PRERENDER)) {
      const { rules, fallback } = await readPrerender(tree, folder, path)
      prerenders[path.slice(below.length, -PRERENDER.length)] = rules
      if (fallback) fallbacks.set(fallback.path, fallback.source)
    }
  }
  if (functions.length > FUNCTIONS_MAX || files > FILES_MAX)
    throw new UnusableOutput(
      `The output has ${functions.length} Functions with ${files} files; at most ${FUNCTIONS_MAX} with ${FILES_MAX} can be deployed.`,
    )
  requireFunctions(prerenders, byPath, below, warnings)
  return {
    functions,
    byPath,
    prerenders,
    fallbacks: [...fallbacks].map(([path, source]) => ({ path, source })),
  }
}

/** Groups the archive's files by the Function whose folder contains them. Of nested folders, the inner one gets its files. */
function groupByFunction(tree: Tree, below: string): Map<string, string[]> {
  const groups = new Map<string, string[]>()
  for (const path of tree.files.keys())
    if (path.startsWith(below) && path.endsWith(CONFIG)) groups.set(path.slice(below.length, -CONFIG.length), [])
  for (const path of tree.files.keys()) {
    if (!path.startsWith(below)) continue
    for (let end = path.lastIndexOf('.func/'); end !== -1; end = path.lastIndexOf('.func/', end - 1)) {
      const group = groups.get(path.slice(below.length, end))
      if (!group) continue
      group.push(path)
      break
    }
  }
  return groups
}

const isNode = ({ runtime }: FunctionConfig): boolean => /^nodejs\d+\.x$/.test(runtime)

async function readFunction(
  tree: Tree,
  root: string,
  path: string,
  name: string,
  own: readonly string[],
): Promise<OutputFunction> {
  const config = await readJson(tree, path, functionConfig)
  const isEdge = config.runtime === 'edge'
  if (!isEdge && !isNode(config))
    throw new UnusableOutput(
      `${path} asks for the runtime ${JSON.stringify(config.runtime)}; Functions run on Node.js here (nodejs24.x), or as edge Functions.`,
    )
  if (config.launcherType !== undefined && config.launcherType !== 'Nodejs')
    throw new UnusableOutput(
      `${path} asks for the launcher ${JSON.stringify(config.launcherType)}, and only Nodejs is known.`,
    )
  if (config.launcherType === undefined && config.awsLambdaHandler !== undefined)
    throw new UnusableOutput(`${path} describes a Lambda handler, and Functions answer HTTP here: launcherType Nodejs.`)
  const folder = path.slice(0, -'/.vc-config.json'.length)
  const files = new Map<string, string>()
  for (const source of own) {
    const target = source.slice(folder.length + 1)
    if (target !== '.vc-config.json') files.set(target, source)
  }
  for (const [to, from] of Object.entries(config.filePathMap ?? {})) {
    const target = treePath(to, folder, `${path}: the filePathMap entry`)
    const source = treePath(from, root, `${path}: the filePathMap entry`, '')
    const linked = tree.files.has(source) ? [source] : below(tree, source)
    if (linked.length === 0)
      throw new UnusableOutput(`${path}: filePathMap names ${JSON.stringify(from)}, which is not there.`)
    for (const each of linked) files.set(target.slice(folder.length + 1) + each.slice(source.length), each)
  }
  const entry = config.handler ?? config.entrypoint
  if (entry === undefined) throw new UnusableOutput(`${path} names no handler.`)
  const handler = treePath(entry, folder, `${path}: the handler`).slice(folder.length + 1)
  if (!files.has(handler)) throw new UnusableOutput(`${path}: the handler ${JSON.stringify(entry)} is not there.`)
  requireTree(files, path)
  return {
    path: name,
    kind: isEdge ? 'edge' : 'handler',
    handler,
    isWeb: config.useWebApi === true,
    hasHelpers: config.shouldAddHelpers === true,
    ...(config.memory !== undefined && { memoryMb: config.memory }),
    environment: config.environment ?? {},
    files,
  }
}

/** Returns the files below a folder: an entry of a map may name a linked one. */
const below = (tree: Tree, folder: string): string[] =>
  [...tree.files.keys()].filter((path) => path.startsWith(`${folder}/`))

/** Rejects a map in which a path is both a file and a folder. */
function requireTree(files: ReadonlyMap<string, string>, path: string): void {
  for (const target of files.keys())
    for (let slash = target.indexOf('/'); slash !== -1; slash = target.indexOf('/', slash + 1))
      if (files.has(target.slice(0, slash)))
        throw new UnusableOutput(
          `${path}: filePathMap has ${JSON.stringify(target.slice(0, slash))} as a file and a folder.`,
        )
}

/** Skips pages without a Function, and rejects those whose rest comes from a missing Function. */
function requireFunctions(
  prerenders: Functions['prerenders'],
  byPath: Functions['byPath'],
  below: string,
  warnings: Warnings,
): void {
  for (const [path, { chain }] of Object.entries(prerenders)) {
    if (byPath[path] === undefined) {
      warnings.add(`${below}${path}${PRERENDER} is ignored: there is no Function ${path}.func.`)
      delete prerenders[path]
    } else if (chain && byPath[chain.path] === undefined)
      throw new UnusableOutput(
        `${below}${path}${PRERENDER}: chain names ${JSON.stringify(chain.path)}, which is no Function.`,
      )
  }
}
