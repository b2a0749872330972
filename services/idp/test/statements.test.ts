// engines: postgres
import { unless } from '@platform/test-runner/task-meta'
import { readTestRun } from '@platform/test-runner/test-run'
import { createServiceDatabase } from '@platform/testing/service-databases'
import { findUnpreparable, recordedStatements } from '@platform/testkit/statements'
import { expect, test } from 'vitest'

const obstacle =
  readTestRun().scope === 'engines' ? undefined : 'it follows a whole run, on another Postgres (TEST_SCOPE=engines)'

test('Postgres prepares every statement that the service has sent in its tests', unless(obstacle), async () => {
  const statements = recordedStatements('idp')
  expect(statements.length).toBeGreaterThan(200)
  const { url } = await createServiceDatabase('idp')
  expect(await findUnpreparable(url, statements)).toEqual([])
})
