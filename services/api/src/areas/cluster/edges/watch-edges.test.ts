import { openDatabase } from '@platform/runtime/database'
import { createLogger } from '@platform/runtime/logger'
import { newId } from '@platform/runtime/new-id'
import { createServiceDatabase } from '@platform/testing/service-databases'
import { sql } from 'drizzle-orm'
import { expect, onTestFinished, test } from 'vitest'
import { edges } from './table.ts'
import { openEdgeWatch } from './watch-edges.ts'

test('an edge hangs if its lease has lapsed; one that renews it or has left does not', async () => {
  const { db, close } = openDatabase((await createServiceDatabase('api')).url, { name: 'watch', max: 1, prepare: true })
  onTestFinished(close)
  const watch = openEdgeWatch({ db, logger: createLogger('test', 'silent') })
  onTestFinished(() => watch.close())
  const [hung, alive, gone] = [newId(), newId(), newId()]
  const lease = (id: string, seconds: number) => ({
    id,
    internalUrl: 'http://127.0.0.1:1',
    leaseUntil: sql`clock_timestamp() + make_interval(secs => ${seconds})`,
  })
  await db.insert(edges).values([lease(hung, -1), lease(alive, 60)])
  const calls: string[] = []
  const wait = (name: string, id: string, looks: number) =>
    watch.whileWaitingFor(id, looks, () => void calls.push(name))
  wait('alive', alive, 1)
  wait('gone', gone, 1)
  wait('given up', hung, 1)()
  wait('hung thrice', hung, 3)
  wait('hung once', hung, 1)
  await expect.poll(() => calls).toContain('hung thrice')
  expect(calls).toEqual(['hung once', 'hung thrice'])
})
