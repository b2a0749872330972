import { createHash } from 'node:crypto'
import { z } from 'zod'
import { isSettable } from './answer.ts'
import { patternOf } from './conditions.ts'
import type { PrerenderRules } from './manifest.ts'
import { type Tree, UnusableOutput } from './output.ts'
import { condition } from './read-conditions.ts'
import { readJson } from './read-json.ts'
import { treePath } from './tree-path.ts'

const NAMES_MAX = 200

const seconds = z.union([z.number().nonnegative(), z.boolean()])
const names = z.array(z.string().max(1_024)).max(NAMES_MAX)
const header = z.union([z.string(), z.array(z.string())])

const prerenderConfig = z.looseObject({
  expiration: seconds.nullish(),
  staleExpiration: seconds.nullish(),
  group: z.number().int().nullish(),
  bypassToken: z.string().max(1_024).nullish(),
  experimentalBypassFor: z.array(condition).max(NAMES_MAX).nullish(),
  allowQuery: names.nullish(),
  allowHeader: names.nullish(),
  passQuery: z.boolean().nullish(),
  exposeErrBody: z.boolean().nullish(),
  fallback: z
    .union([
      z.string(),
      z.looseObject({ fsPath: z.string().optional(), contentType: z.string().optional(), type: z.string().optional() }),
    ])
    .nullish(),
  initialHeaders: z.record(z.string(), header).nullish(),
  initialStatus: z.int().min(200).max(599).nullish(),
  chain: z.looseObject({ outputPath: z.string(), headers: z.record(z.string(), z.string()).optional() }).nullish(),
})

/** Returns the seconds of `expiration`; `true` means none, like `false`. */
const secondsOf = (value: number | boolean | null | undefined): number | false =>
  typeof value === 'number' ? value : false

/** Returns the SHA-256 of a token, in base64url, as stored in manifests. */
export const hashToken = (token: string): string => createHash('sha256').update(token).digest('base64url')

/** A fallback's file: its path in the output, and its location. */
interface Fallback {
  path: string
  source: string
}

/**
 * Reads how the responses of a Prerender Function are cached.
 *
 * folder: the output's. path: of its `.prerender-config.json`. Throws UnusableOutput for a malformed config, and for a missing
 * fallback.
 */
export async function readPrerender(
  tree: Tree,
  folder: string,
  path: string,
): Promise<{ rules: PrerenderRules; fallback: Fallback | undefined }> {
  const config = await readJson(tree, path, prerenderConfig)
  const fallback = readFallback(tree, folder, path, config.fallback)
  const contentType = typeof config.fallback === 'object' ? config.fallback?.contentType : undefined
  const initial = Object.entries(config.initialHeaders ?? {}).flatMap(([name, value]) =>
    [value].flat().map((one): [string, string] => [name.toLowerCase(), one]),
  )
  if (contentType !== undefined && !initial.some(([name]) => name === 'content-type'))
    initial.push(['content-type', contentType])
  for (const [name, value] of initial)
    if (!isSettable(name) || !/^[\t\x20-\x7E\x80-\xFF]*$/.test(value))
      throw new UnusableOutput(`${path}: initialHeaders has ${JSON.stringify(name)}, which is no header of an answer.`)
  const staleExpiration = secondsOf(config.staleExpiration)
  const { bypassToken, experimentalBypassFor, allowQuery, allowHeader, group, initialStatus, chain } = config
  const rules: PrerenderRules = {
    expiration: secondsOf(config.expiration),
    ...(staleExpiration !== false && { staleExpiration }),
    ...(typeof group === 'number' && { group }),
    ...(typeof bypassToken === 'string' && bypassToken !== '' && { bypassTokenHash: hashToken(bypassToken) }),
    ...(experimentalBypassFor && experimentalBypassFor.length > 0 && { bypassFor: experimentalBypassFor }),
    ...(allowQuery && { allowQuery }),
    ...(allowHeader && { allowHeader: allowHeader.map((name) => name.toLowerCase()) }),
    ...(config.passQuery === true && { passQuery: true as const }),
    ...(config.exposeErrBody === true && { exposesErrorBody: true as const }),
    ...(fallback && { fallback: fallback.path }),
    // A cached cookie would give all visitors the same one.
    initialHeaders: initial.filter(([name]) => name !== 'set-cookie'),
    ...(typeof initialStatus === 'number' && { initialStatus }),
    ...(chain && { chain: { path: chain.outputPath.replace(/^\//, ''), headers: chain.headers ?? {} } }),
  }
  return { rules, fallback }
}

function readFallback(
  tree: Tree,
  folder: string,
  path: string,
  fallback: z.infer<typeof prerenderConfig>['fallback'],
): Fallback | undefined {
  const name = typeof fallback === 'string' ? fallback : fallback?.['fsPath']
  if (typeof name !== 'string') return undefined
  const source = treePath(name, path.slice(0, path.lastIndexOf('/')), `${path}: the fallback`, folder)
  if (!tree.files.has(source)) throw new UnusableOutput(`${path}: the fallback ${JSON.stringify(name)} is not there.`)
  return { path: source.slice(folder.length + 1), source }
}

/** Yields the patterns that decide which visitors get uncached pages. */
export function* patternsOfPrerender({ bypassFor = [] }: PrerenderRules): Generator<string> {
  for (const { value } of bypassFor) {
    const pattern = patternOf(value)
    if (pattern !== undefined) yield pattern
  }
}
