import { fileURLToPath } from 'node:url'
import { ATTEMPTS } from '@platform/sandbox/attempts'
import { OWN, PUBLIC } from '@platform/sandbox/test-network'
import { unless } from '@platform/test-runner/task-meta'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { API, HEALTH_PORT, POSTGRES, type RunningPod } from './cluster.ts'
import { type ControlPlane, openControlPlane } from './control-plane.ts'
import { buildSource, sourceFile as file } from './deployments.ts'
import { containerOf, type Workload } from '@platform/testkit/kubernetes-manifests'
import { findPodObstacle } from './pod.ts'

const EDGE_PORT = 4002
const TRY_ATTEMPTS = fileURLToPath(import.meta.resolve('@platform/sandbox/try-attempts'))

/** Fetches a URL and says what came of it. */
const FETCH = `const get = (url) => fetch(url, { signal: AbortSignal.timeout(3000) }).then((answer) => answer.text(), (error) => 'failed ' + (error.cause?.code ?? error.name))`

/** A project whose build looks at the network, and whose server does so for its visitors. */
const PROJECT = [
  file('package.json', { scripts: { build: 'node make.js', 'start:prod': 'node dist/main.js' } }),
  file(
    'make.js',
    `${FETCH}
    ;(async () => {
      const seen = await Promise.all(['http://public.example/', 'http://10.0.0.1/', 'http://${OWN}/'].map(get))
      console.log('The build saw ' + seen.join(', '))
      require('node:fs').mkdirSync('dist')
      require('node:fs').copyFileSync('main.js', 'dist/main.js')
    })()`,
  ),
  file(
    'main.js',
    `${FETCH}
    require('node:http').createServer(async (req, res) => {
      const urls = new URL(req.url, 'http://site').searchParams.getAll('url')
      res.end(JSON.stringify(await Promise.all(urls.map((url) => get(url.replace('API_URL', process.env.PLATFORM_API_URL))))))
    }).listen(process.env.PORT)`,
  ),
]

const linesOf = (pod: RunningPod): Record<string, unknown>[] =>
  pod
    .log()
    .split('\n')
    .filter((line) => line.startsWith('{') && line.endsWith('}'))
    .map((line) => JSON.parse(line) as Record<string, unknown>)

/** The line in which a pod says whether Functions can run. */
async function wallsOf(pod: RunningPod): Promise<Record<string, unknown>> {
  const find = () => linesOf(pod).find(({ msg }) => /^Functions can(not)? run/.test(String(msg)))
  await expect.poll(find).toBeDefined()
  return find() ?? {}
}

describe('a pod made by hand from the rendered manifests', unless(await findPodObstacle()), () => {
  let plane: ControlPlane
  let edge: RunningPod
  let worker: RunningPod
  let built: Awaited<ReturnType<typeof buildSource>>
  const start = async (change?: (deployment: Workload) => void, name = 'edge'): Promise<RunningPod> => {
    const deployment = plane.cluster.deployment(name)
    change?.(deployment)
    return plane.cluster.start(deployment)
  }
  beforeAll(async () => {
    plane = await openControlPlane()
    edge = await start()
    worker = await start(undefined, 'worker')
    await Promise.all([edge.untilReady(), worker.untilReady()])
    built = await buildSource(plane, plane, { archive: PROJECT })
  })
  afterAll(() => plane?.close())

  test('a pod has the users and capabilities of its manifest, read-only control groups and no device of the machine', async () => {
    const script = `cat /proc/self/uid_map | xargs; grep Cap[BE] /proc/self/status | cut -f 2; echo /dev/*; find /sys/fs/cgroup -writable`
    const [users, effective, bounding, devices, ...writable] = (await edge.exec(['sh', '-c', script]))
      .trim()
      .split('\n')
    expect(users).toBe('0 100000 65536')
    // CHOWN, DAC_OVERRIDE, FOWNER, KILL, SETGID, SETUID, NET_ADMIN and SYS_ADMIN.
    expect([effective, bounding]).toEqual(['00000000002010eb', '00000000002010eb'])
    expect(devices?.replaceAll('/dev/', '')).toBe(
      'fd full null ptmx pts random shm stderr stdin stdout tty urandom zero',
    )
    expect(writable).toEqual([])
  })

  test('an edge starts in its pod, with all walls for Functions', async () => {
    expect(await wallsOf(edge), edge.log()).toMatchObject({
      msg: 'Functions can run',
      isIsolated: true,
      isNetworkClosed: true,
      hasOwnUsers: true,
    })
  })

  test('a worker in its pod builds a project that reaches public hosts alone', async () => {
    expect(built.status, `${built.failureReason}\n${built.log}\n${worker.log()}`).toBe('ACTIVE')
    expect(built.log).toMatch(/The build saw I am public, failed \w+, failed \w+\n/)
    expect(await worker.stop(), worker.log()).toBe(0)
  })

  test('an edge answers a Function at its hostname, which reaches public hosts and the API, and nothing of the cluster', async () => {
    const ask = async (urls: string[]) => {
      const query = urls.map((url) => `url=${encodeURIComponent(url)}`).join('&')
      const { status, text } = await edge.ask(EDGE_PORT, `/?${query}`, built)
      expect(status, `${text}\n${edge.log()}`).toBe(200)
      return JSON.parse(text) as string[]
    }
    const open = [`http://${PUBLIC}/`, 'http://public.example/', 'API_URL/.well-known/jwks.json']
    expect(await ask(open)).toEqual(['I am public', 'I am public', expect.stringContaining('"keys"')])
    const closed = [
      'http://10.0.0.1/',
      'http://private.example/',
      'http://169.254.169.254/',
      `http://${OWN}/`,
      `http://${POSTGRES}:5432/`,
      `http://${API}:4000/`,
      `http://${edge.address}:${EDGE_PORT}/`,
      `http://${edge.address}:4005/`,
      `http://${edge.address.replace(/\d+$/, '1')}/`,
      `http://127.0.0.1:${HEALTH_PORT}/`,
    ]
    expect((await ask(closed)).filter((each) => !each.startsWith('failed'))).toEqual([])
    expect(plane.cluster.takeArrivals()).toBe(0)

    // The pod itself reaches them.
    const own = `${FETCH}; Promise.all(${JSON.stringify(closed)}.map(get)).then((all) => console.log(JSON.stringify(all)))`
    const reached = JSON.parse(await edge.exec(['node', '-e', own])) as string[]
    expect(reached.slice(0, 4)).toEqual(['I am private', 'I am private', 'I am metadata', 'I am the node'])
    expect(plane.cluster.takeArrivals()).toBe(1)
  })

  test('everything that untrusted code may try has its expected result in the pod of an edge', async () => {
    const answers = JSON.parse(await edge.exec(['node', TRY_ATTEMPTS, 'veth'])) as Record<string, string>
    const wrong = ATTEMPTS.filter(({ name, answer }) => !answer.test(answers[name] ?? 'no answer'))
    expect(wrong.map(({ name }) => [name, answers[name]])).toEqual([])
  })

  const variable = (deployment: Workload, name: string): void => {
    const container = containerOf(deployment)
    container.env = container.env?.filter((each) => each.name !== name) ?? []
  }
  test.each<{ what: string; change: (deployment: Workload) => void; sentence: RegExp }>([
    {
      what: 'procMount: Unmasked',
      change: (deployment) => void delete containerOf(deployment).securityContext?.procMount,
      sentence: /procMount: Unmasked/,
    },
    {
      what: 'the capability NET_ADMIN',
      change: (deployment) => {
        const { capabilities } = containerOf(deployment).securityContext ?? {}
        if (capabilities?.add) capabilities.add = capabilities.add.filter((name) => name !== 'NET_ADMIN')
      },
      sentence: /NET_ADMIN.*capabilities\.add/,
    },
    {
      what: 'FUNCTION_NETWORK=veth',
      change: (deployment) => variable(deployment, 'FUNCTION_NETWORK'),
      sentence: /\/dev\/net\/tun.*FUNCTION_NETWORK=veth/,
    },
  ])('an edge without $what says so, and runs no Function', async ({ change, sentence }) => {
    const pod = await start(change)
    const { msg } = await wallsOf(pod)
    expect(msg).toMatch(/^Functions cannot run here: /)
    expect(msg).toMatch(sentence)
    await pod.untilReady()
    const { status, headers } = await pod.ask(EDGE_PORT, '/', built)
    expect([status, headers['x-platform-error']]).toEqual([503, expect.anything()])
    await pod.kill()
  })

  test('an API starts in its pod, as a user without rights who may write to nothing but /tmp', async () => {
    const api = await start(undefined, 'api')
    await api.untilReady()
    expect((await api.ask(4000, '/.well-known/jwks.json')).status).toBe(200)
    const script = `id -u; grep -E 'Cap(Prm|Bnd)|NoNewPrivs' /proc/self/status | cut -f 2; for each in / /var/cache /tmp; do touch $each/x 2> /dev/null && echo $each; done; true`
    const seen = await api.exec(['sh', '-c', script])
    expect(seen.trim().split('\n')).toEqual(['1000', '0000000000000000', '0000000000000000', '1', '/tmp'])
    expect(await api.stop(), api.log()).toBe(0)
  })

  test('an API that is told of Services does not start, since that of edges has the name of its variable', async () => {
    const api = await start(({ spec }) => void delete spec.template.spec.enableServiceLinks, 'api')
    const { code, log } = await api.ended
    expect([code, log]).toEqual([1, expect.stringMatching(/^EDGE_PORT is not valid/)])
  })

  test('an edge without hostUsers: false ends before it does anything, and says why', async () => {
    const pod = await start(({ spec }) => void delete spec.template.spec.hostUsers)
    const ended = await Promise.race([pod.ended, wallsOf(pod)])
    expect(ended).toEqual({
      code: 1,
      log: expect.stringMatching(/^\S+ is true, and root .* root of the machine: set hostUsers: false in its pod/),
    })
  })
})
