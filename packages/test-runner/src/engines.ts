import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'

/** Engines that a production platform brings and that `npm test` replaces by embedded ones. */
const ENGINES = ['postgres', 'redis', 's3'] as const
export type Engine = (typeof ENGINES)[number]

const LINE = /^\/\/ engines: (.*)$/m

/** What the tests of a file ask of an engine, by the text that shows it. */
const SIGNS: readonly (readonly [Engine, RegExp])[] = [
  ['postgres', /\bholding\(/],
  ['postgres', /advisory/i],
  ['postgres', /\bfor (no key update|update|share|key share)\b/i],
  ['postgres', /(?<!Symbol)\.for\('/],
  ['redis', /ioredis|testRedisUrl/],
  ['s3', /newObjectsUrl|objectsUrl|s3Url !==/],
]

/** Whole folders whose tests stand on the objects' store. */
const STORED = /\/areas\/(storage|deploy\/artifacts)\//

/**
 * The engines that can change what a test file shows, as its line `// engines: postgres, s3` names them; none for
 * `// engines: none, REASON`, and undefined for a file without a line.
 * Throws on a name that is not in ENGINES, and on `none` without a reason.
 */
export function enginesOf(text: string): Engine[] | undefined {
  const line = LINE.exec(text)?.[1]
  if (line === undefined || /^none, \w/.test(line)) return line === undefined ? undefined : []
  return line.split(', ').map((name) => {
    const engine = ENGINES.find((each) => each === name)
    if (engine === undefined) throw new Error(`"${name}" is not one of the engines ${ENGINES.join(', ')}`)
    return engine
  })
}

/** The engines that a file's text shows and its line does not name; none if the line says why no engine changes anything. */
export function enginesNotNamed(path: string, text: string): Engine[] {
  const named = enginesOf(text)
  if (named?.length === 0) return []
  const shown = new Set(SIGNS.filter(([, sign]) => sign.test(text)).map(([engine]) => engine))
  if (STORED.test(path)) shown.add('s3')
  return ENGINES.filter((engine) => shown.has(engine) && !named?.includes(engine))
}

/** All test files below a folder, relative to it, sorted. */
export const testFiles = (folder: string): string[] =>
  globSync('**/*.test.ts', { cwd: folder, exclude: (name) => name === 'node_modules' || name === 'frameworks' }).sort()

const namesEngines = (folder: string, path: string): boolean =>
  (enginesOf(readFileSync(join(folder, path), 'utf8'))?.length ?? 0) > 0

/** The test files below a folder that no engine can change, relative to it. */
export const testFilesWithoutEngines = (folder: string): string[] =>
  testFiles(folder).filter((path) => !namesEngines(folder, path))

/** Whether there is a test file below a folder that an engine can change. */
export const asksEngines = (folder: string): boolean => testFiles(folder).some((path) => namesEngines(folder, path))
