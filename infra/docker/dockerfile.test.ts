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

test('the image builds the clients and the console that it serves', () => {
  const dockerfile = readFileSync(resolve(repository, 'infra/Dockerfile'), 'utf8')
  const [, dependencies = '', clients = '', services = ''] = dockerfile.split(/^FROM .*$/m)
  expect(dependencies).not.toContain('build.ts')
  expect(clients).toContain(
    ' && node packages/sdk/build.ts && node packages/cli/build.ts && node packages/console/build.ts \\\n',
  )
  expect(clients).toContain(
    'cat packages/sdk/dist/checksums.txt packages/cli/dist/checksums.txt > clients/checksums.txt',
  )
  expect(clients).toContain('cp -R packages/console/dist clients/console\n')
  expect(services).toMatch(
    /^COPY --from=clients \/platform\/clients \.\/clients\nENV CLIENTS_FOLDER=\/platform\/clients$/m,
  )
})

test('the image exposes the port of the console, which docker-compose.yml publishes on this machine alone', () => {
  const read = (name: string) => readFileSync(resolve(repository, name), 'utf8')
  const [, exposed = ''] = /^EXPOSE (.*)$/m.exec(read('infra/Dockerfile')) ?? []
  const [, api = ''] = /^  api: .*?$(.*?)^  worker:$/ms.exec(read('docker-compose.yml')) ?? []
  expect(exposed.split(' ')).toContain('4003')
  expect(api).toContain("CONSOLE_PORT: '4003'")
  expect(api).toContain("'127.0.0.1:4003:4003'")
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
