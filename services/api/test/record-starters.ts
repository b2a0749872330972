import { mkdir, mkdtemp, open, readdir, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import { argv } from 'node:process'
import { makeStarter } from './make-starter.ts'
import { type Starter, starters } from './starters.ts'

// `node test/record-starters.ts [ID…]` writes what planning a build reads of each project, so that tests of plans need no npm.

const FOLDER = join(import.meta.dirname, 'starters/recorded')
const LOCKFILES = ['package-lock.json', 'pnpm-lock.yaml', 'yarn.lock']
const MANIFESTS = [
  'package.json',
  'vercel.json',
  'turbo.json',
  'nx.json',
  'pnpm-workspace.yaml',
  '.npmrc',
  '.yarnrc.yml',
  '.nvmrc',
  '.node-version',
]
/** Whose lockfile it is stands at its beginning. */
const LOCKFILE_BYTES = 1_000

async function readStart(path: string, bytes: number): Promise<string> {
  await using file = await open(path)
  const { buffer, bytesRead } = await file.read(Buffer.alloc(bytes), 0, bytes, 0)
  return buffer.toString('utf8', 0, bytesRead)
}

async function record(row: Starter, folder: string): Promise<void> {
  const project = await makeStarter(row, folder)
  const entries = await readdir(project, { recursive: true, withFileTypes: true })
  const files = entries
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name).slice(project.length + 1))
    .sort()
  const contents: Record<string, string> = {}
  for (const path of files) {
    const name = basename(path)
    if (MANIFESTS.includes(name)) contents[path] = await readStart(join(project, path), 100_000)
    if (LOCKFILES.includes(name)) contents[path] = await readStart(join(project, path), LOCKFILE_BYTES)
  }
  await writeFile(join(FOLDER, `${row.id}.json`), `${JSON.stringify({ files, contents }, null, 2)}\n`)
}

const chosen = argv.slice(2)
const folder = await mkdtemp(join(tmpdir(), 'starters-'))
try {
  await mkdir(FOLDER, { recursive: true })
  for (const row of starters)
    if (chosen.length === 0 || chosen.includes(row.id)) await record(row, join(folder, row.id))
} finally {
  await rm(folder, { recursive: true })
}
