import { spawnSync } from 'node:child_process'
import { chmod, copyFile, mkdir, mkdtemp, readdir, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'

let checkout: string

beforeEach(async () => {
  checkout = await mkdtemp(join(tmpdir(), 'run-test-'))
  await mkdir(join(checkout, 'infra'))
  await mkdir(join(checkout, 'bin'))
  await copyFile(join(import.meta.dirname, 'run.sh'), join(checkout, 'infra/run.sh'))
  await writeFile(join(checkout, 'package.json'), '{ "packageManager": "pnpm@1.2.3" }')
})

afterEach(() => rm(checkout, { recursive: true }))

/** Puts another program in npx's place, which would ask a registry. */
async function installWith(script: string): Promise<void> {
  const npx = join(checkout, 'bin/npx')
  await writeFile(npx, `#!/bin/sh\n${script}\n`)
  await chmod(npx, 0o755)
}

const INSTALLS = `mkdir -p node_modules/.bin && ln -sf ${process.execPath} node_modules/.bin/node`

function run(...command: string[]) {
  const { status, stdout, stderr } = spawnSync('sh', ['infra/run.sh', ...command], {
    cwd: checkout,
    env: { PATH: `${join(checkout, 'bin')}:/usr/bin:/bin`, HOME: checkout },
    encoding: 'utf8',
  })
  return { status, stdout, stderr }
}

const SENTENCE =
  'Installing dependencies with pnpm@1.2.3 (once, about a minute; node_modules/.installing/log tells how far it is)…\n'

test('all that an installer prints is shown when it fails, and nothing runs', async () => {
  await installWith('echo out; echo "[WARN] Unsupported engine" >&2; echo the reason >&2; exit 1')
  const { status, stdout, stderr } = run('echo', 'ran')
  expect({ status, stdout }).toEqual({ status: 1, stdout: '' })
  expect(stderr).toMatch(
    /^Installing [^\n]+\nout\n\[WARN\] Unsupported engine\nthe reason\nThe dependencies could not be/,
  )
  expect(await readdir(join(checkout, 'node_modules'))).toEqual([])
})

test('an installer that succeeds is announced by one line and prints nothing, and is not called again', async () => {
  await installWith(`echo out; echo "[WARN] Unsupported engine" >&2; ${INSTALLS}`)
  expect(run('echo', 'ran')).toEqual({ status: 0, stdout: 'ran\n', stderr: SENTENCE })
  expect(run('echo', 'ran')).toEqual({ status: 0, stdout: 'ran\n', stderr: '' })
})

test('a person can read what an installer prints while it works', async () => {
  await installWith(`echo halfway; cp node_modules/.installing/log seen; ${INSTALLS}`)
  expect(run('cat', 'seen').stdout).toBe('halfway\n')
})

test('a start installs what the lockfile says, without a judgement of its own', async () => {
  await installWith(`echo "$@" >called; ${INSTALLS}`)
  expect(run('cat', 'called').stdout).toMatch(/^--yes pnpm@1\.2\.3 install --frozen-lockfile --trust-lockfile /)
})
