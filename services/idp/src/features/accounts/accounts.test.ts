import { startOwnPostgres } from '@platform/testkit/own-postgres'
import { expect, onTestFinished, test } from 'vitest'
import { startTestIdp } from '../../../test/start.ts'
import { createUser } from './accounts.ts'

test('refusing an email address that is taken leaves it out of the log of Postgres', async () => {
  const lines: string[] = []
  const server = await startOwnPostgres(['idp'], {}, (line) => void lines.push(line))
  onTestFinished(() => server.remove())
  const idp = await startTestIdp({ DATABASE_URL: server.url('idp') })
  onTestFinished(() => idp.close())
  const { email } = await idp.person()
  const taken = createUser(idp.deps, { email: email.toUpperCase() })
  await expect(taken).rejects.toThrow(`A user with the email ${email.toUpperCase()} exists already`)
  // A later line in the log proves that the log is being read.
  await idp.deps.db.execute('select 1 / 0 as "the end"').catch(() => undefined)
  await expect.poll(() => lines.join('\n')).toContain('the end')
  expect(lines.join('\n').toLowerCase()).not.toContain(email)
})
