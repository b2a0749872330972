import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { major } from 'semver'

/** `yarn`: 1, `berry`: 2 and later. */
export type ManagerKind = 'npm' | 'pnpm' | 'yarn' | 'berry'

interface Pinned {
  /** On the npm registry. */
  packageName: string
  version: string
  /** Its folder on this machine: nothing outside of it is needed. */
  folder: string
  /** Below its folder. */
  entry: string
  /** False: it is a program of its own. */
  isScript: boolean
  /** The command that it is called by. */
  command: 'npm' | 'pnpm' | 'yarn'
}

const require = createRequire(import.meta.url)

function pin(packageName: string, command: Pinned['command'], entry: string, isScript = true): Pinned {
  const manifest = require.resolve(`${packageName}/package.json`)
  const { version } = require(manifest) as { version: string }
  return { packageName, version, folder: dirname(manifest), entry, isScript, command }
}

/** The package managers that builds use: those of this workspace's lockfile. Found at the first use. */
const managers: Record<ManagerKind, () => Pinned> = {
  npm: () => pin('npm', 'npm', 'bin/npm-cli.js'),
  pnpm: () => pin('pnpm', 'pnpm', 'pnpm', false),
  yarn: () => pin('yarn', 'yarn', 'bin/yarn.js'),
  berry: () => pin('@yarnpkg/cli-dist', 'yarn', 'bin/yarn.js'),
}
export const managerKinds = Object.keys(managers) as ManagerKind[]

const known = new Map<ManagerKind, Pinned>()

export function pinnedManager(kind: ManagerKind): Pinned {
  let manager = known.get(kind)
  if (!manager) known.set(kind, (manager = managers[kind]()))
  return manager
}

/** A package manager as a build calls it. */
export interface Manager {
  kind: ManagerKind
  version: string
  /** True: this version is fetched from the registry at the beginning of the build. */
  isFetched: boolean
}

/**
 * The pinned version, unless the project needs another one: of Yarn 2 and later the very one that it names, since each refuses
 * lockfiles of older ones; of the others one of the same major version. version: exact or a major one; undefined: any.
 */
export function chooseManager(kind: ManagerKind, version: string | undefined): Manager {
  const pinned = pinnedManager(kind)
  const isPinned =
    version === undefined ||
    (kind === 'berry' ? pinned.version === version : major(pinned.version) === Number(version.split('.', 1)[0]))
  return isPinned ? { kind, version: pinned.version, isFetched: false } : { kind, version, isFetched: true }
}

/** What calls a manager inside the sandbox, without arguments for it. */
export function commandOf({ kind, version, isFetched }: Manager): string[] {
  const { packageName, command } = pinnedManager(kind)
  // npm puts what it fetched in front of everything in PATH, so scripts find the same version.
  return isFetched ? ['npm', 'exec', '--yes', `--package=${packageName}@${version}`, '--', command] : [command]
}

/** Where the pinned manager of a kind is inside the sandbox. */
export const insideFolderOf = (kind: ManagerKind): string => join('/opt', kind)
