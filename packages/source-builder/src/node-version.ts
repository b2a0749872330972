import { type Tree, UnusableOutput } from '@platform/build-output/read-output'
import { intersects, ltr, major, satisfies, valid, validRange } from 'semver'
import { pathIn, printable, readPackage, readText, readYaml, upwards } from './manifests.ts'

/** Names of long-term versions by their major version; the list is complete for the versions before the platform's. */
const LTS: Record<string, number> = {
  argon: 4,
  boron: 6,
  carbon: 8,
  dubnium: 10,
  erbium: 12,
  fermium: 14,
  gallium: 16,
  hydrogen: 18,
  iron: 20,
  jod: 22,
  krypton: 24,
}
/** Names that mean any version that is kept. */
const ANY = /^(?:lts\/\*|lts\/-\d+|lts|node|stable|current|latest|\*)$/i
const SHOWN_MAX = 100

/** What a project asks of Node. */
interface Asked {
  /** Where it says so. */
  by: string
  /** As it is written. */
  written: string
  /** undefined: it cannot be read. */
  range: string | undefined
}

/** A version of .nvmrc and the like names the one that its author has: its major version counts. */
function rangeOfPin(written: string): string | undefined {
  const name = written.toLowerCase()
  if (ANY.test(name)) return '*'
  const lts = /^lts\/(\w+)$/.exec(name)?.[1]
  if (lts !== undefined) return Object.hasOwn(LTS, lts) ? `${LTS[lts]}.x` : undefined
  const version = /^v?(\d{1,4})(?:\.(?:\d{1,9}|x)){0,2}$/.exec(name)?.[1]
  return version === undefined ? undefined : `${version}.x`
}

/** The lines of a file of settings, without comments and empty ones. */
const linesOf = (text: string): string[] =>
  text
    .split('\n')
    .map((line) => line.replace(/#.*/, '').trim())
    .filter((line) => line !== '')

/** Looks up from the site's folder. In each folder package.json counts before the files of version managers. */
async function findAsked(tree: Tree, root: string): Promise<Asked | undefined> {
  for (const folder of upwards(root)) {
    const manifest = await readPackage(tree, folder)
    const path = pathIn(folder, 'package.json')
    const range = manifest?.engines?.node?.trim()
    if (range !== undefined) {
      const known = validRange(range) ?? undefined
      return { by: `${path} (engines.node)`, written: range, range: known }
    }
    const pinned = manifest?.volta?.node?.trim()
    if (pinned !== undefined) return { by: `${path} (volta.node)`, written: pinned, range: rangeOfPin(pinned) }
    for (const name of ['.nvmrc', '.node-version']) {
      const file = pathIn(folder, name)
      const [written] = linesOf(await readText(tree, file))
      if (written !== undefined) return { by: file, written, range: rangeOfPin(written) }
    }
  }
  return undefined
}

/** The file that has managers refuse another Node than the one of `engines`. */
async function findStrictness(tree: Tree, root: string): Promise<string | undefined> {
  for (const folder of upwards(root)) {
    const npmrc = pathIn(folder, '.npmrc')
    if (linesOf(await readText(tree, npmrc)).some((line) => /^engine-strict(?:\s*=\s*"?true"?)?$/.test(line)))
      return `${npmrc} (engine-strict)`
    const workspace = pathIn(folder, 'pnpm-workspace.yaml')
    if (tree.files.has(workspace) && (await readYaml(tree, workspace))['engineStrict'] === true)
      return `${workspace} (engineStrict)`
  }
  return undefined
}

export interface NodeVersion {
  /** A sentence for the log. */
  note: string
  /** What the project asks for is another version, which may be why something fails. */
  isOther: boolean
  /** A sentence to repeat with each failure. */
  caveat: string | undefined
}

/**
 * Compares what a project asks of Node (`engines.node`, `volta.node`, `.nvmrc`, `.node-version`, from the site's folder upwards)
 * with the version that there is. Throws UnusableOutput if the project needs a newer one, or refuses any other itself.
 */
export async function checkNodeVersion(tree: Tree, root: string, version: string): Promise<NodeVersion> {
  const asked = await findAsked(tree, root)
  if (asked === undefined)
    return { note: `Node is ${version}; the project asks for none.`, isOther: false, caveat: undefined }
  const written = printable(asked.written.slice(0, SHOWN_MAX))
  const ask = `${asked.by} asks for Node ${written}`
  if (asked.range !== undefined && satisfies(version, asked.range, { includePrerelease: true }))
    return { note: `Node is ${version}; ${ask}.`, isOther: false, caveat: undefined }
  if (asked.range !== undefined && valid(version) !== null && ltr(version, asked.range))
    throw new UnusableOutput(
      `${ask}, and this platform has ${version}. Let it run on that too, or ask the operator for a newer version of the platform.`,
    )
  const strict = asked.range === undefined ? undefined : await findStrictness(tree, root)
  if (strict !== undefined)
    throw new UnusableOutput(
      `${ask}, this platform has ${version}, and ${strict} refuses every other. Let it run on that too, or remove that line.`,
    )
  const isOfMajor = asked.range !== undefined && intersects(asked.range, `${major(version)}.x`)
  return {
    note: `${ask}; builds and Functions run on Node ${version}.`,
    isOther: true,
    caveat: `The project asks for Node ${written} and ran on ${isOfMajor ? version : `${major(version)}.x`}.`,
  }
}
