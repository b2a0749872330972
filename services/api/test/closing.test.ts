// engines: postgres
import { startPlatform, type TestPlatform } from '@platform/testing/platform'
import { asc, eq } from 'drizzle-orm'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { runtimeLogs } from '../src/areas/observe/runtime-logs/table.ts'
import { visit } from './deploy.ts'
import { logOf, newDeployment, untilEnded } from './deployments.ts'
import { buildOutput, handler } from './functions.ts'
import { newOwner } from './scenario.ts'

let platform: TestPlatform
beforeAll(async () => {
  platform = await startPlatform({ hasWorker: true })
})
afterAll(() => platform.close())

test('the runtime log has the lines that a Function prints while the process of its edge stops', async () => {
  const edge = await platform.addEdge()
  const code = `process.on('exit', () => console.log('last words'))\n${handler("res.end('hello')")}`
  const archive = buildOutput({ index: code }, { routes: [{ src: '/.*', dest: '/' }] })
  const { id, status, label } = await untilEnded(
    platform,
    (await newDeployment(platform, await newOwner(platform), { archive })).id,
  )
  if (status !== 'ACTIVE') throw new Error(await logOf(platform, id))
  expect((await visit(edge, `${label}.${platform.api.appsUrl.host}`)).text).toBe('hello')
  const printed = async () => {
    const ofDeployment = platform.api.db.select().from(runtimeLogs).where(eq(runtimeLogs.deploymentId, id))
    return (await ofDeployment.orderBy(asc(runtimeLogs.id))).map(({ message }) => message)
  }
  expect(await printed()).not.toContain('last words')
  await edge.stop(30_000)
  // All is stored once the process has closed: nobody waits any more.
  expect(await printed()).toContain('last words')
})
