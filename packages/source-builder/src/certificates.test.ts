import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { OTHER_AUTHORITY, PRIVATE_AUTHORITY } from '@platform/sandbox/test-authorities'
import { findTestObstacle } from '@platform/sandbox/test-obstacle'
import { unless } from '@platform/test-runner/task-meta'
import { type PackageRegistry, startPackageRegistry } from '@platform/testkit/package-registry'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { openTestBuilder, type TestBuilder } from './test-builds.ts'
import { GREETER, greetingProject, shellProject } from './test-projects.ts'

const obstacle = findTestObstacle(['bwrap', 'setpriv', 'prlimit'])
const NAMES = ['NODE_EXTRA_CA_CERTS', 'SSL_CERT_FILE', 'GIT_SSL_CAINFO']

/** Prints, for each URL, the status of the answer or why there is none. */
const fetchAll = (...urls: string[]): string => `
  for (const url of ${JSON.stringify(urls)})
    console.log('FETCHED', await fetch(url).then(({ status }) => status, ({ cause }) => cause.code))`

describe('a build, where the platform trusts a private authority', unless(obstacle), () => {
  const folder = mkdtempSync(join(tmpdir(), 'certificates-'))
  let registry: PackageRegistry
  let tested: TestBuilder
  beforeAll(async () => {
    const extraCertificates = join(folder, 'company.pem')
    writeFileSync(extraCertificates, PRIVATE_AUTHORITY.certificate)
    registry = await startPackageRegistry([GREETER], PRIVATE_AUTHORITY.server)
    tested = openTestBuilder('registry', [registry.url], { extraCertificates })
  })
  afterAll(async () => {
    await tested?.[Symbol.asyncDispose]()
    await registry?.close()
    rmSync(folder, { recursive: true })
  })

  test.each(['npm', 'pnpm', 'yarn', 'berry'] as const)(
    '%s installs from a registry of that authority',
    async (kind) => {
      const { failure, output } = await tested.build(greetingProject(kind, registry))
      expect(failure, output).toBeUndefined()
    },
  )

  test(
    'Node, curl and git trust it, below a program that drops variables too',
    unless(findTestObstacle(['curl', 'git'])),
    async () => {
      const ask = `node fetch.mjs; curl -sS -o curled -w 'CURLED %{http_code}\\n' ${registry.url}/greeter; git ls-remote ${registry.url}/none.git`
      const files = shellProject(`sh ask.sh; env ${NAMES.map((name) => `-u ${name}`).join(' ')} npm run ask`, {
        'package.json': JSON.stringify({ scripts: { ask: 'sh ask.sh' } }),
        'ask.sh': ask,
        'fetch.mjs': fetchAll(registry.url + '/greeter'),
      })
      const { output } = await tested.build(files)
      for (const line of ['FETCHED 200', 'CURLED 200', `fatal: repository '${registry.url}/none.git/' not found`])
        expect(
          output.split('\n').filter((each) => each === line),
          output,
        ).toHaveLength(2)
    },
  )

  test("an application's variables of the same names win", async () => {
    const files = shellProject('node fetch.mjs; curl -sS ' + registry.url, {
      'own.pem': OTHER_AUTHORITY.certificate,
      'fetch.mjs': `
        import { createServer } from 'node:https'
        const server = createServer(${JSON.stringify(OTHER_AUTHORITY.server)}, (_, outgoing) => outgoing.end())
        await new Promise((resolve) => server.listen(4567, '127.0.0.1', resolve))
        ${fetchAll('https://127.0.0.1:4567/', registry.url)}
        server.close()`,
    })
    const { output } = await tested.build(files, {
      variables: { NODE_EXTRA_CA_CERTS: 'own.pem', SSL_CERT_FILE: 'own.pem' },
    })
    expect(output).toContain('FETCHED 200\nFETCHED UNABLE_TO_VERIFY_LEAF_SIGNATURE\n')
    expect(output).toContain('curl: (60)')
  })
})
