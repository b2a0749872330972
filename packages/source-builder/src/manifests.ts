import { readJson } from '@platform/build-output/read-json'
import type { Tree } from '@platform/build-output/read-output'
import { UnusableOutput } from '@platform/build-output/read-output'
import { z } from 'zod'

/** Of YAML: four times as much can take minutes to parse. */
const SETTINGS_BYTES_MAX = 65_536

const text = z.string().max(4_096)
/** A member of another type is left to the project's own tools. */
const optional = <T extends z.ZodType>(schema: T) => schema.optional().catch(undefined)
const texts = optional(z.record(z.string(), z.unknown()))

const packageJson = z.object({
  name: optional(text),
  version: optional(text),
  packageManager: optional(text),
  engines: optional(z.object({ node: optional(text) })),
  volta: optional(z.object({ node: optional(text) })),
  main: z.unknown().optional(),
  scripts: texts,
  dependencies: texts,
  devDependencies: texts,
  optionalDependencies: texts,
  peerDependencies: texts,
  overrides: z.unknown().optional(),
  resolutions: z.unknown().optional(),
  pnpm: z.unknown().optional(),
  workspaces: z.unknown().optional(),
})
export type PackageJson = z.infer<typeof packageJson>

const vercelJson = z.looseObject({
  buildCommand: text.nullish(),
  installCommand: text.nullish(),
  outputDirectory: text.nullish(),
})
export type VercelJson = z.infer<typeof vercelJson>

/** A path below a folder of the project; '' is its root. */
export const pathIn = (folder: string, name: string): string => (folder === '' ? name : `${folder}/${name}`)

/** A folder and its parents, up to the archive's root: ''. */
export function* upwards(folder: string): Generator<string> {
  for (let each = folder; ; each = each.slice(0, Math.max(0, each.lastIndexOf('/')))) {
    yield each
    if (each === '') return
  }
}

export const readPackage = async (tree: Tree, folder: string): Promise<PackageJson | undefined> =>
  tree.files.has(pathIn(folder, 'package.json'))
    ? readJson(tree, pathIn(folder, 'package.json'), packageJson)
    : undefined

export async function readVercel(tree: Tree, root: string): Promise<VercelJson> {
  const path = pathIn(root, 'vercel.json')
  return tree.files.has(path) ? readJson(tree, path, vercelJson) : {}
}

/** A text of the project on one line of a log: control characters are shown as escapes. */
export const printable = (text: string): string =>
  // oxlint-disable-next-line no-control-regex -- these are what is looked for
  text.replace(/[\u0000-\u001f\u007f]/g, (found) => JSON.stringify(found).slice(1, -1))

/** The content of a short file of settings; '' if there is none. Throws UnusableOutput if it is too large. */
export async function readText(tree: Tree, path: string): Promise<string> {
  const file = tree.files.get(path)
  if (file === undefined) return ''
  if (file.bytes > SETTINGS_BYTES_MAX)
    throw new UnusableOutput(`${path} is larger than ${SETTINGS_BYTES_MAX / 1_024} KiB`)
  return (await tree.read(path)).toString('utf8').replace(/^\uFEFF/, '')
}

/** The members of a file of YAML; none if it has none. Throws UnusableOutput that names it. */
export async function readYaml(tree: Tree, path: string): Promise<Record<string, unknown>> {
  const written = await readText(tree, path)
  let value: unknown
  try {
    const { isCollection, parseDocument, visit } = await import('yaml') // most projects need none
    const document = parseDocument(written, { logLevel: 'error', uniqueKeys: false })
    let isPlain = document.errors.length === 0
    // Each is written as a text to become the name of a member, again and again where they are nested.
    visit(document, { Pair: (_, { key }) => void (isPlain &&= !isCollection(key)) })
    if (!isPlain) throw new Error('It has errors, or lists for keys')
    value = document.toJS()
  } catch (error) {
    throw new UnusableOutput(`${path} is no YAML.`, { cause: error })
  }
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? { ...value } : {}
}

/** True if a package names another one, for its build or for later. */
export const dependsOn = ({ dependencies, devDependencies }: PackageJson, name: string): boolean =>
  [dependencies, devDependencies].some((each) => each?.[name] !== undefined)
