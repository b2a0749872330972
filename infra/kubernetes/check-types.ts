import { execFile } from 'node:child_process'
import { mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import type { Manifest } from '@platform/testkit/kubernetes-manifests'

const run = promisify(execFile)
const infra = join(import.meta.dirname, '..')

/** The module that declares a kind: `kubernetes-models` is laid out by versions. */
const moduleOf = ({ apiVersion, kind }: Manifest): string =>
  `${apiVersion.startsWith('gateway.') ? '@kubernetes-models/gateway-api' : 'kubernetes-models'}/${apiVersion}/${kind}`

/**
 * Compiles sets of manifests against the types of Kubernetes' API, each object as a literal: in one, fields that its type does not have
 * are errors. The packages' own validators let those pass.
 *
 * Returns the compiler's sentences for each set, by its name (of `[a-z0-9-]`).
 */
export async function checkTypes(
  sets: Readonly<Record<string, readonly Manifest[]>>,
): Promise<Record<string, string[]>> {
  const folder = await mkdtemp(join(tmpdir(), 'platform-manifests-'))
  try {
    await symlink(join(infra, 'node_modules'), join(folder, 'node_modules'))
    await mkdir(join(folder, 'sets'))
    for (const [name, manifests] of Object.entries(sets)) {
      const literals = manifests.map(
        (each, n) =>
          `import type { I${each.kind} as Type${n} } from '${moduleOf(each)}'\n` +
          `export const object${n}: Type${n} = ${JSON.stringify(each)}\n`,
      )
      await writeFile(join(folder, 'sets', `${name}.ts`), literals.join(''))
    }
    const settings = {
      compilerOptions: {
        noEmit: true,
        strict: true,
        module: 'nodenext',
        target: 'esnext',
        skipLibCheck: true,
        types: [],
      },
      include: ['sets/*.ts'],
    }
    await writeFile(join(folder, 'tsconfig.json'), JSON.stringify(settings))
    const { stdout } = await run(join(infra, 'node_modules/.bin/tsc'), ['--pretty', 'false', '-p', folder], {
      cwd: folder,
      maxBuffer: 16 * 1_024 ** 2,
    }).catch((error: Error & { stdout?: string }) => ({ stdout: error.stdout ?? error.message }))
    const found: Record<string, string[]> = Object.fromEntries(Object.keys(sets).map((name) => [name, []]))
    for (const line of stdout.split('\n').filter((each) => each !== '' && !each.startsWith(' '))) {
      const [, name = '', sentence = ''] = /^sets\/([a-z0-9-]+)\.ts\(\d+,\d+\): error TS\d+: (.*)$/.exec(line) ?? []
      if (!found[name]) throw new Error(`tsc says: ${line}`)
      found[name].push(sentence)
    }
    return found
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}
