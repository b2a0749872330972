import { readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import { expect, test } from 'vitest'

const repository = resolve(import.meta.dirname, '../..')
const read = (path: string): string => readFileSync(resolve(repository, path), 'utf8')

/** Of a service in docker-compose.yml: its lines, and those of the block that it is built on. */
function serviceOf(name: string): string {
  const [, block] = new RegExp(`^  ${name}:(.*\\n(?:    .*\\n|\\n)*)`, 'm').exec(read('docker-compose.yml')) ?? []
  if (block === undefined) throw new Error(`docker-compose.yml has no service ${name}`)
  return block
}

/** Debian's packages of the programs that the sandbox starts. */
const packages = {
  bubblewrap: ['bwrap'],
  // Not the sandbox's own: what builds use inside of it.
  'ca-certificates': [],
  git: ['git'],
  iproute2: ['ip'],
  nftables: ['nft'],
  passt: ['pasta'],
  tini: [],
  'util-linux': ['nsenter', 'prlimit', 'setpriv', 'unshare'],
}

test('the image has every program that the sandbox looks for', () => {
  const installed = /apt-get install --yes --no-install-recommends ([^\\]+) \\/.exec(read('infra/Dockerfile'))?.[1]
  expect(installed?.trim().split(' ').toSorted()).toEqual(Object.keys(packages))
  const lists = [...read('packages/sandbox/src/find-obstacles.ts').matchAll(/\[([^\]]+)\]\s*\.(?:every|filter)/g)]
  const wanted = lists.flatMap(([, list = '']) => [...list.matchAll(/'(\w+)'/g)].map(([, program]) => program))
  expect(wanted).toContain('pasta')
  expect(
    wanted.filter(
      (program) =>
        !Object.values(packages)
          .flat()
          .includes(program ?? ''),
    ),
  ).toEqual([])
})

test('edges and workers may wall Functions in, and refuse those that they cannot', () => {
  for (const name of ['edge', 'worker']) {
    const service = serviceOf(name)
    expect(service).toContain('<<: [*sandbox, *api]')
    expect(service).toContain(`functions-${name}:/var/cache/fn`)
  }
  const environment = serviceOf('api')
  expect(environment).toContain('FUNCTION_SANDBOX: ${FUNCTION_SANDBOX:-required}')
  expect(environment).toContain('FUNCTION_EGRESS: ${FUNCTION_EGRESS:-public}')
  expect(environment).toContain('BUILD_EGRESS: ${BUILD_EGRESS:-public}')
  expect(environment).toContain('API_INTERNAL_URL: http://api:4000')
  expect(environment).toContain('FUNCTIONS_FOLDER: /var/cache/fn')
})

test('services that run no Functions have no rights for it', () => {
  for (const name of ['api', 'idp']) expect(serviceOf(name)).not.toMatch(/sandbox\b.*\*|cap_add|root|unconfined/)
})
