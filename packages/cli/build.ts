// Writes dist/, or the folder that it is given: the command line as a package, cli-<version>-<8 hex of its SHA-256>.tgz, for npx; as one file, platform.mjs, for node;
// what agents read of it; and checksums.txt in the format of sha256sum. Equal sources, dependencies, esbuild and pnpm give equal bytes.
import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { chmod, copyFile, mkdir, mkdtemp, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { build } from 'esbuild'

const home = import.meta.dirname
/** Default: dist/. */
const dist = resolve(process.argv[2] ?? join(home, 'dist'))
const NODE_MIN = [20, 19]
const DRAFT = '.draft'

/**
 * What comes before the program. It is old JavaScript, and the program's own imports are calls of `require`: so a Node that lacks what
 * they name gets as far as this sentence.
 */
const banner = `import { createRequire } from 'node:module'
var found = process.versions.node.split('.').map(Number)
if (found[0] < ${NODE_MIN[0]} || (found[0] === ${NODE_MIN[0]} && found[1] < ${NODE_MIN[1]})) {
  console.error('platform needs Node ${NODE_MIN.join('.')} or newer, and this is ' + process.version)
  process.exit(2)
}
var require = createRequire(import.meta.url);`

async function bundle(): Promise<string> {
  const { outputFiles } = await build({
    entryPoints: [join(home, 'src/main.ts')],
    bundle: true,
    write: false,
    minify: true,
    // Stack traces keep the names of classes and functions.
    keepNames: true,
    platform: 'node',
    format: 'iife',
    target: 'es2022',
    banner: { js: banner },
    legalComments: 'none',
    logLevel: 'warning',
  })
  return outputFiles[0]?.text ?? ''
}

const hashOf = (bytes: Uint8Array): string => createHash('sha256').update(bytes).digest('hex')

// A platform may be serving from dist/ meanwhile: whole files come into it, and what they replace goes last.
const work = await mkdtemp(join(home, 'node_modules/.build-'))
try {
  const { version } = JSON.parse(await readFile(join(home, 'package.json'), 'utf8')) as { version: string }
  const folder = join(work, 'package')
  await mkdir(folder)
  await writeFile(join(folder, 'platform.mjs'), await bundle())
  await chmod(join(folder, 'platform.mjs'), 0o755)
  const manifest = {
    name: '@platform/cli',
    version,
    description: 'The platform from a terminal: deploy, look, configure.',
    type: 'module',
    engines: { node: `>=${NODE_MIN.join('.')}` },
    bin: { platform: './platform.mjs' },
  }
  await writeFile(join(folder, 'package.json'), `${JSON.stringify(manifest, null, 2)}\n`)
  await copyFile(join(home, 'README.md'), join(folder, 'README.md'))
  const packed = join(work, 'packed.tgz')
  // It sorts the entries, and gives all of them one owner and one time.
  execFileSync('pnpm', ['pack', '--silent', '--out', packed], { cwd: folder, stdio: ['ignore', 'inherit', 'inherit'] })
  const name = `cli-${version}-${hashOf(await readFile(packed)).slice(0, 8)}.tgz`
  const files = new Map([
    [name, packed],
    ['platform.mjs', join(folder, 'platform.mjs')],
    ...['llms.txt', 'agents.md'].map((each) => [each, join(home, each)] as const),
  ])
  const lines: string[] = []
  await mkdir(dist, { recursive: true })
  for (const [each, path] of files) {
    lines.push(`${hashOf(await readFile(path))}  ${each}\n`)
    await copyFile(path, join(dist, DRAFT))
    await rename(join(dist, DRAFT), join(dist, each))
  }
  await writeFile(join(dist, DRAFT), lines.join(''))
  await rename(join(dist, DRAFT), join(dist, 'checksums.txt'))
  for (const other of await readdir(dist))
    if (!files.has(other) && other !== 'checksums.txt') await rm(join(dist, other), { recursive: true })
} finally {
  await rm(work, { recursive: true })
}
