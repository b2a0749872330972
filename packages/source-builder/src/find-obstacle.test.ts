import { execFileSync } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { findTestObstacle } from '@platform/sandbox/test-obstacle'
import { unless } from '@platform/test-runner/task-meta'
import { afterAll, describe, expect, test } from 'vitest'
import { openBuilder } from './open-builder.ts'

const obstacle = findTestObstacle(['bwrap', 'pasta', 'nft', 'ip', 'nsenter', 'setpriv', 'prlimit', 'unshare'])
const WITHOUT_WALLS =
  'Builds need bubblewrap, and it does not work here: the program bwrap is not installed. Install the package bubblewrap (apt install bubblewrap) and allow user namespaces, or upload what the build makes instead of its source'

describe('why nothing can be built', unless(obstacle), () => {
  const folder = mkdtempSync(join(tmpdir(), 'obstacle-'))
  afterAll(() => rmSync(folder, { recursive: true, force: true }))

  /** The builder's answer in a mount namespace in which programs are covered, and again once they are uncovered. */
  function sayWithout(program: string, egress: string): unknown {
    const code = `
      import { execFileSync } from 'node:child_process'
      import { openBuilder } from ${JSON.stringify(pathToFileURL(join(import.meta.dirname, 'open-builder.ts')))}
      const builder = openBuilder({ folder: process.argv[1], egress: '${egress}', registries: [], onWarning: () => {} })
      const before = await builder.findObstacle()
      const failed = await builder.build({ name: 'x', folder: process.argv[1] + '/x' }).catch((error) => error.message)
      execFileSync('umount', [process.argv[2]])
      console.log(JSON.stringify([before, failed, await builder.findObstacle() ?? null]))
      await builder.close()`
    const path = execFileSync('/bin/sh', ['-c', `readlink -f "$(command -v ${program})"`], { encoding: 'utf8' }).trim()
    const script = `mount --bind /dev/null ${path}; exec "$@"`
    const node = [process.execPath, '--input-type=module-typescript', '-e', code, join(folder, program), path]
    const args = ['--mount', '--propagation', 'private', '/bin/sh', '-ec', script, 'sh', ...node]
    return JSON.parse(execFileSync('unshare', args, { encoding: 'utf8', cwd: import.meta.dirname }))
  }

  test('without bubblewrap a sentence says what to install, until it is', () => {
    expect(sayWithout('bwrap', 'none')).toEqual([WITHOUT_WALLS, WITHOUT_WALLS, null])
  })

  test('without what closes private addresses it says so, and how to do without', () => {
    const sentence =
      'Builds cannot be kept from private addresses: not installed: pasta. Install the packages passt, nftables and iproute2 and run as root, or set BUILD_EGRESS=registry to let them reach package registries alone, or BUILD_EGRESS=none to let them reach nothing'
    expect(sayWithout('pasta', 'public')).toEqual([sentence, sentence, null])
  })

  test('a folder that cannot be had is said, and nothing is made there', async () => {
    const path = join(folder, 'refused')
    const builder = openBuilder({
      folder: path,
      prepare: () => Promise.reject(new Error('The folder belongs to somebody else')),
      egress: 'none',
      registries: [],
      onWarning: () => {},
    })
    expect(await builder.findObstacle()).toBe('The folder belongs to somebody else')
    expect(() => rmSync(path)).toThrow(/ENOENT/)
    await builder.close()
  })
})
