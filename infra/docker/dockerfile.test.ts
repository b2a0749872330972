import { readdirSync, readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import { expect, test } from 'vitest'

const repository = resolve(import.meta.dirname, '../..')

test('the image installs from the manifest of every package that a service may import', () => {
  const copied = [
    ...readFileSync(resolve(repository, 'infra/Dockerfile'), 'utf8').matchAll(/^COPY (\S+)\/package\.json/gm),
  ]
  const packages = ['packages', 'services'].flatMap((folder) =>
    readdirSync(resolve(repository, folder)).map((name) => `${folder}/${name}`),
  )
  expect(copied.map(([, folder = '']) => folder).toSorted()).toEqual(packages.toSorted())
})

test('the image builds the clients that it serves', () => {
  const dockerfile = readFileSync(resolve(repository, 'infra/Dockerfile'), 'utf8')
  const [, dependencies = '', clients = '', services = ''] = dockerfile.split(/^FROM .*$/m)
  expect(dependencies).not.toContain('build.ts')
  expect(clients).toContain(' && node packages/sdk/build.ts && node packages/cli/build.ts \\\n')
  expect(clients).toContain(
    'cat packages/sdk/dist/checksums.txt packages/cli/dist/checksums.txt > clients/checksums.txt',
  )
  expect(services).toMatch(
    /^COPY --from=clients \/platform\/clients \.\/clients\nENV CLIENTS_FOLDER=\/platform\/clients$/m,
  )
})

test('the image compiles the programs that it starts, for the users that they run as, and reaps their children', () => {
  const dockerfile = readFileSync(resolve(repository, 'infra/Dockerfile'), 'utf8')
  const [asRoot = '', asNode = ''] = dockerfile.split('\nUSER node\n')
  expect(asRoot).toContain('NODE_COMPILE_CACHE=')
  expect(asRoot).toMatch(/^ && \(node services\/api\/src\/main\.ts worker /m)
  expect(asNode).toMatch(/node services\/api\/src\/main\.ts api /)
  expect(asNode).toMatch(/node services\/idp\/src\/main\.ts /)
  expect(asNode).toContain('ENTRYPOINT ["tini", "--"]')
  // What the launcher gives the services that it starts.
  expect(asRoot).toContain('NODE_OPTIONS=--max-semi-space-size=2')
  expect(asRoot).toContain('MALLOC_ARENA_MAX=2')
})
