import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { major, valid } from 'semver'

/** `yarn`: version 1; `berry`: 2 and later. */
export type ManagerKind = 'npm' | 'pnpm' | 'yarn' | 'berry'

interface Pinned {
  /** Its name on the npm registry. */
  packageName: string
  version: string
  /** Its folder on this machine; self-contained. */
  folder: string
  /** Entry point, below its folder. */
  entry: string
  /** False if it is a native program. */
  isScript: boolean
  /** The name of its command. */
  command: 'npm' | 'pnpm' | 'yarn'
}

const require = createRequire(import.meta.url)

function pin(packageName: string, command: Pinned['command'], entry: string, isScript = true): Pinned {
  const manifest = require.resolve(`${packageName}/package.json`)
  const { version } = require(manifest) as { version: string }
  return { packageName, version, folder: dirname(manifest), entry, isScript, command }
}

/** The package managers of builds: those of this workspace's lockfile. Looked up at first use. */
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

/** A package manager for a build. */
export interface Manager {
  kind: ManagerKind
  version: string
  /** True if this version is fetched from the registry at the start of the build. */
  isFetched: boolean
}

/**
 * Chooses the pinned version, unless the project needs another one: for Yarn 2 and later exactly the version that the project
 * names, since each refuses older lockfiles; for the others the same major version suffices. version: exact or major;
 * undefined: any.
 */
export function chooseManager(kind: ManagerKind, version: string | undefined): Manager {
  const pinned = pinnedManager(kind)
  const isPinned =
    version === undefined ||
    (kind === 'berry' ? pinned.version === version : major(pinned.version) === Number(version.split('.', 1)[0]))
  return isPinned ? { kind, version: pinned.version, isFetched: false } : { kind, version, isFetched: true }
}

/** Where a build installs another version of its manager, inside the sandbox. */
const FETCHED_FOLDER = '/build/manager'
/** The programs that are installed there: first in PATH, so that everything finds the project's own version. */
export const FETCHED_PROGRAMS = `${FETCHED_FOLDER}/node_modules/.bin`

/**
 * The command line that installs a manager that has to be fetched, by the .npmrc of the folder in which it runs, and prints its version
 * if the project does not name it to the last digit.
 */
export function fetchCommandOf({ kind, version }: Manager): string[] {
  const { packageName, command } = pinnedManager(kind)
  const flags = ['--no-save', '--no-audit', '--no-fund', '--userconfig=.npmrc', `--prefix=${FETCHED_FOLDER}`]
  const install = ['npm', 'install', ...flags, `${packageName}@${version}`]
  if (valid(version) !== null) return install
  return ['/bin/sh', '-c', `"$@" && echo "${command} $(${command} --version)"`, 'sh', ...install]
}

/** Variables of every build with the pinned pnpm. */
export const PNPM_ENVIRONMENT: Readonly<Record<string, string>> = {
  // The version has already been chosen.
  pnpm_config_pm_on_fail: 'ignore',
  // It has just installed what its scripts need.
  pnpm_config_verify_deps_before_run: 'false',
}

/** The folder of a kind's pinned manager inside the sandbox. */
export const insideFolderOf = (kind: ManagerKind): string => join('/opt', kind)
