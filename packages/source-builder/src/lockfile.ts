import { type Tree, UnusableOutput } from '@platform/build-output/read-output'
import { pathIn, upwards } from './manifests.ts'
import type { ManagerKind } from './package-managers.ts'

/** Lockfiles in order of precedence, if a folder has several and nothing else decides. */
const LOCKFILES: readonly { name: string; managers: readonly ManagerKind[] }[] = [
  { name: 'pnpm-lock.yaml', managers: ['pnpm'] },
  { name: 'yarn.lock', managers: ['yarn', 'berry'] },
  { name: 'package-lock.json', managers: ['npm'] },
  { name: 'npm-shrinkwrap.json', managers: ['npm'] },
]
const OTHERS = ['bun.lock', 'bun.lockb', 'deno.lock']
/** The format of lockfiles that the pinned Yarn writes. */
const BERRY_FORMAT = 10
const LOCKFILE_BYTES_MAX = 32 * 1_048_576

export interface Lockfile {
  folder: string
  /** From the archive's root. */
  path: string
  kind: ManagerKind
  /** The major version that wrote it, if the pinned one cannot read it. */
  version: string | undefined
  /** The pinned version can read it, but would rewrite it. */
  isOlder: boolean
  content: Buffer
  /** Paths of the lockfiles of other managers beside it. */
  others: string[]
}

async function readLockfile(
  tree: Tree,
  path: string,
): Promise<Pick<Lockfile, 'kind' | 'version' | 'isOlder' | 'content'>> {
  if ((tree.files.get(path)?.bytes ?? 0) > LOCKFILE_BYTES_MAX)
    throw new UnusableOutput(`${path} is larger than ${LOCKFILE_BYTES_MAX / 1_048_576} MiB`)
  const content = await tree.read(path)
  const head = content.toString('latin1', 0, 1_000)
  const plain = { version: undefined, isOlder: false, content }
  if (path.endsWith('yarn.lock')) {
    const format = /^__metadata:\s+version:\s*(\d+)/m.exec(head)?.[1]
    return { ...plain, kind: format === undefined ? 'yarn' : 'berry', isOlder: Number(format) < BERRY_FORMAT }
  }
  if (!path.endsWith('pnpm-lock.yaml')) return { ...plain, kind: 'npm' }
  const format = Number(/^lockfileVersion:\s*'?(\d+)/m.exec(head)?.[1] ?? 9)
  // pnpm reads only its own formats, and no older ones.
  return { ...plain, kind: 'pnpm', version: format <= 5 ? '7' : format <= 6 ? '8' : undefined }
}

/** The relevant lockfile: the nearest one; if a folder has several, that of the wanted manager. */
export async function findLockfile(
  tree: Tree,
  root: string,
  wanted: ManagerKind | undefined,
): Promise<Lockfile | undefined> {
  for (const folder of upwards(root)) {
    const here = LOCKFILES.filter(({ name }) => tree.files.has(pathIn(folder, name)))
    const chosen = here.find(({ managers }) => wanted !== undefined && managers.includes(wanted)) ?? here[0]
    if (chosen) {
      const path = pathIn(folder, chosen.name)
      const others = here.filter(({ managers }) => managers[0] !== chosen.managers[0])
      return {
        folder,
        path,
        ...(await readLockfile(tree, path)),
        others: others.map(({ name }) => pathIn(folder, name)),
      }
    }
  }
  return undefined
}

/** Sentences on the lockfile of a project: there is none, or there are several. */
export function warnOfLockfile(tree: Tree, root: string, lock: Lockfile | undefined): string[] {
  if (lock === undefined) {
    const others = OTHERS.filter((name) => tree.files.has(pathIn(root, name)))
    return [
      `There is no lockfile of npm, pnpm or yarn${others.length > 0 ? ` (${others.join(', ')} is not read)` : ''}, so the newest versions that package.json allows are installed.`,
    ]
  }
  if (lock.others.length === 0) return []
  return [
    `There are lockfiles of several package managers: ${lock.path} is used, ${lock.others.join(' and ')} not. Remove what is out of use, or name the manager in "packageManager" of package.json.`,
  ]
}
