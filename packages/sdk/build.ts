// Writes dist/: the published package as sdk-<version>-<8 hex of its SHA-256>.tgz, and checksums.txt in the format of sha256sum. The
// same sources, dependencies, compiler and pnpm give the same bytes, so a name stands for one content.
import { execFileSync, type StdioOptions } from 'node:child_process'
import { createHash } from 'node:crypto'
import { copyFile, mkdir, mkdtemp, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { join } from 'node:path'

interface Manifest {
  version: string
  exports: Record<string, string>
  dependencies: Record<string, string>
}

const home = import.meta.dirname
const dist = join(home, 'dist')
const stdio: StdioOptions = ['ignore', 'inherit', 'inherit']

const readManifest = async (path: string) => JSON.parse(await readFile(path, 'utf8')) as Manifest

/** The exact version that is installed, which is the one that the tests ran with. */
const installedVersion = async (name: string) =>
  (await readManifest(join(home, 'node_modules', name, 'package.json'))).version

function entryOf(source: string): { types: string; default: string } {
  const path = source.replace(/^\.\/src\//, './').replace(/\.ts$/, '')
  return { types: `${path}.d.ts`, default: `${path}.js` }
}

/** The package.json as it is published. */
async function describePackage(): Promise<object> {
  const { version, exports, dependencies } = await readManifest(join(home, 'package.json'))
  const versions = Object.keys(dependencies).map(async (name) => [name, await installedVersion(name)] as const)
  return {
    name: '@platform/sdk',
    version,
    description: 'The platform in one import: a typed client of its API.',
    type: 'module',
    sideEffects: false,
    engines: { node: '>=20.19' },
    exports: Object.fromEntries(Object.entries(exports).map(([name, source]) => [name, entryOf(source)])),
    dependencies: Object.fromEntries(await Promise.all(versions)),
  }
}

/** Compiles and packs in an empty folder. Returns the path of the package. */
async function packIn(work: string): Promise<string> {
  const folder = join(work, 'package')
  await mkdir(folder)
  const compiler = join(createRequire(import.meta.url).resolve('typescript/package.json'), '../bin/tsc')
  execFileSync(process.execPath, [compiler, '-p', join(home, 'tsconfig.build.json'), '--outDir', folder], { stdio })
  await writeFile(join(folder, 'package.json'), `${JSON.stringify(await describePackage(), null, 2)}\n`)
  await copyFile(join(home, 'README.md'), join(folder, 'README.md'))
  // It sorts the entries, and gives all of them one owner and one time.
  const packed = join(work, 'packed.tgz')
  execFileSync('pnpm', ['pack', '--silent', '--out', packed], { cwd: folder, stdio })
  return packed
}

// A platform may be serving from dist/ meanwhile: whole files come into it, and what they replace goes last.
const work = await mkdtemp(join(home, 'node_modules/.build-'))
try {
  const packed = await packIn(work)
  const sha256 = createHash('sha256')
    .update(await readFile(packed))
    .digest('hex')
  const { version } = await readManifest(join(home, 'package.json'))
  const name = `sdk-${version}-${sha256.slice(0, 8)}.tgz`
  const checksums = join(work, 'checksums.txt')
  await writeFile(checksums, `${sha256}  ${name}\n`)
  await mkdir(dist, { recursive: true })
  await rename(packed, join(dist, name))
  await rename(checksums, join(dist, 'checksums.txt'))
  for (const other of await readdir(dist))
    if (other !== name && other !== 'checksums.txt') await rm(join(dist, other), { recursive: true })
} finally {
  await rm(work, { recursive: true })
}
