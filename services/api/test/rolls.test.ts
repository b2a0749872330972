import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { unless } from '@platform/test-runner/task-meta'
import { isDrill } from '@platform/testkit/test-environment'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { startBuildWorker } from '../src/areas/deploy/builds/build-worker.ts'
import { STICKY_PARAMETER } from '../src/areas/edge/sticky-sessions/sticky-endpoint.ts'
import { askBySocket, podAddress, type RunningPod } from './cluster.ts'
import { type ControlPlane, openControlPlane } from './control-plane.ts'
import { buildSource } from './deployments.ts'
import { buildOutput, handler } from './functions.ts'
import { startNginx } from './nginx.ts'
import { findPodObstacle } from './pod.ts'

const EDGE_PORT = 4002
const TIMEOUT = 600_000
/** Replacements of both edges. */
const ROUNDS = isDrill ? 10 : 1
const REQUESTS = isDrill ? 3_000 : 300
const REQUESTS_A_SECOND = 25
/** Each sends the next request once the last is answered. */
const PINNED_VISITORS = 5
/** How long each tenth answer takes: longer than a pod that stops says so. */
const SLOW_MS = 1_500

/** A Function that tells which process answers, and whether its visitor's was lost. */
const SITE = `import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
const instance = randomUUID()
${handler(`await sleep(Number(new URL(req.url, 'http://site').searchParams.get('ms')))
  res.end(JSON.stringify({ instance, isRestarted: req.headers['x-sticky-restarted'] === '1' }))`)}`

interface Who {
  instance: string
  isRestarted: boolean
}

const upstreamOf = (address: string): string => `${address}:${EDGE_PORT}`

describe('edges behind nginx in a cluster', { ...unless(await findPodObstacle(['nginx'])), timeout: TIMEOUT }, () => {
  let plane: ControlPlane
  const folder = mkdtempSync(join(tmpdir(), 'rolls-'))
  beforeAll(async () => {
    plane = await openControlPlane()
  })
  afterAll(async () => {
    await plane?.close()
    rmSync(folder, { recursive: true, force: true })
  })

  test('two pods replaced one by one fail no request of a Function, and pinned visitors keep their process until it ends', async () => {
    const { cluster, api } = plane
    const builds = startBuildWorker(api)
    onTestFinished(() => builds.stop())
    const archive = buildOutput({ index: SITE }, { routes: [{ src: '/.*', dest: '/' }] })
    const { id: deploymentId, status, log, host } = await buildSource(plane, plane, { archive })
    expect(status, log).toBe('ACTIVE')

    const startEdge = async (): Promise<RunningPod> => {
      const pod = await cluster.start(cluster.deployment('edge'))
      await pod.untilReady()
      return pod
    }
    const pods = [await startEdge(), await startEdge()]
    const upstreams = Array.from({ length: 2 + 2 * ROUNDS }, (_, n) => upstreamOf(podAddress(n + 1)))
    const socket = join(folder, 'nginx.sock')
    const nginx = await startNginx([{ port: `unix:${socket}`, upstreams }], {
      namespace: cluster.node,
      leftOut: upstreams.slice(pods.length),
    })

    const failures: string[] = []
    let sentCount = 0
    const visit = async (path: string, method: string): Promise<Who | undefined> => {
      sentCount += 1
      try {
        const { status, headers, text } = await askBySocket(socket, path, { host, method })
        if (status === 200) return JSON.parse(text) as Who
        failures.push(`${method} ${path}: ${status} ${String(headers['x-platform-error'])}`)
      } catch (error) {
        failures.push(`${method} ${path}: ${(error as Error).message}`)
      }
      return undefined
    }

    const over = new AbortController()
    const underWay = new Set<Promise<unknown>>()
    const startedAt = performance.now()
    let due = 0
    const pacing = setInterval(() => {
      for (; due < ((performance.now() - startedAt) / 1_000) * REQUESTS_A_SECOND; due++) {
        const path = `/?ms=${due % 10 === 0 ? SLOW_MS : 0}`
        const done = visit(path, due % 2 === 0 ? 'POST' : 'GET').finally(() => underWay.delete(done))
        underWay.add(done)
      }
    }, 5)
    onTestFinished(() => clearInterval(pacing))
    const expiresAt = new Date(Date.now() + 3_600_000)
    const pinned = Array.from({ length: PINNED_VISITORS }, async (_, n) => {
      const token = api.stickyTokens.mint({ deploymentId, key: `visitor ${n}`, path: '/', expiresAt })
      const answers: Who[] = []
      for (; !over.signal.aborted; await sleep(200)) {
        const answer = await visit(`/?ms=${n === 0 ? SLOW_MS : 0}&${STICKY_PARAMETER}=${token}`, 'GET')
        if (answer) answers.push(answer)
      }
      return answers
    })

    for (let round = 0; round < ROUNDS; round++)
      for (const n of [0, 1]) {
        const old = pods[n] as RunningPod
        const successor = await startEdge()
        await nginx.takeIn(upstreamOf(successor.address))
        // A pod is told to stop while others still hear that it is no longer an endpoint.
        const stopped = old.stop()
        await nginx.leaveOut(upstreamOf(old.address))
        expect(await stopped, old.log()).toBe(0)
        pods[n] = successor
      }
    await expect.poll(() => sentCount).toBeGreaterThanOrEqual(REQUESTS)
    over.abort()
    clearInterval(pacing)
    const answersOfPinned = await Promise.all(pinned)
    await Promise.all(underWay)

    expect(failures, `${await nginx.readErrors()}\n${pods.map((pod) => pod.log()).join('\n')}`).toEqual([])
    const moves = answersOfPinned.flatMap((answers) =>
      answers.filter((answer, n) => n > 0 && answer.instance !== answers[n - 1]?.instance),
    )
    // Each visitor's edge was replaced at least once.
    expect(moves.length).toBeGreaterThanOrEqual(PINNED_VISITORS)
    expect(moves.filter(({ isRestarted }) => !isRestarted)).toEqual([])
  })
})
