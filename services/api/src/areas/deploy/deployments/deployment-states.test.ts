import { startPlatform, type TestPlatform } from '@platform/testing/platform'
import postgres from 'postgres'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { deploymentOf, environmentOf, newDeployment, untilEnded } from '../../../../test/deployments.ts'
import { newOwner, type Owner } from '../../../../test/scenario.ts'
import { zipOf } from '../../../../test/zip.ts'

let platform: TestPlatform
let ana: Owner
beforeAll(async () => {
  platform = await startPlatform({ hasWorker: true })
  ana = await newOwner(platform)
})
afterAll(() => platform.close())

const archive = [{ name: 'index.html', content: '<h1>hello</h1>' }]

test('plain files that need no build pass every state, each one seen from outside (D45, D82)', async () => {
  const sql = postgres(platform.databaseUrl, { max: 1 })
  onTestFinished(() => sql.end())
  // Recorded with the transaction that commits the status: an invisible status would share its transaction with the next one.
  await sql`create table seen_statuses (n bigserial, deployment_id uuid, status text, xid xid8)`
  await sql`
    create function note_status() returns trigger language plpgsql as $$
    begin
      insert into seen_statuses (deployment_id, status, xid) values (new.id, new.status, pg_current_xact_id());
      return null;
    end $$`
  await sql`
    create trigger note_status after update on deployments
    for each row when (old.status <> new.status) execute function note_status()`
  const { applicationId } = ana
  const { id } = (await platform.call(ana.token, 'POST /deployments', { applicationId })).body as { id: string }
  const upload = `POST /deployments/${id}/upload`
  const { uploadId } = (await platform.call(ana.token, `${upload}/start`)).body as { uploadId: string }
  const { url } = (await platform.call(ana.token, `${upload}/part`, { uploadId, partNumber: 1 })).body as {
    url: string
  }
  const sent = await fetch(url, { method: 'PUT', body: zipOf(archive) })
  const parts = [{ partNumber: 1, etag: sent.headers.get('etag') }]
  expect((await platform.call(ana.token, `${upload}/complete`, { uploadId, parts })).status).toBe(204)
  await untilEnded(platform, id)
  const seen = await sql<{ status: string; xid: string }[]>`
    select status, xid::text from seen_statuses where deployment_id = ${id} order by n`
  expect(seen.map(({ status }) => status)).toEqual(['QUEUED', 'STARTING', 'BUILDING', 'PROVISIONING', 'ACTIVE'])
  expect(new Set(seen.map(({ xid }) => xid)).size).toBe(seen.length)
})

test('promoting brings back the variables that a deployment was provisioned with, whatever they are now (D97)', async () => {
  const owner = await newOwner(platform)
  const variables = `/applications/${owner.applicationId}/env-vars`
  const made = await platform.call(owner.token, `POST ${variables}`, { key: 'LEVEL', value: 'old' })
  const deploy = async () => (await untilEnded(platform, (await newDeployment(platform, owner, { archive })).id)).id
  const shown = async (id: string) => (await platform.call(owner.token, `GET /deployments/${id}`)).body as object
  const first = await deploy()
  const before = await deploymentOf(platform, first)
  expect(before).toMatchObject({ status: 'ACTIVE', variables: [{ key: 'LEVEL', source: 'application' }] })
  const changes = [
    await platform.call(owner.token, `PATCH ${variables}/${made.body.id}`, { value: 'new' }),
    await platform.call(owner.token, `POST ${variables}`, { key: 'MORE', value: 'x' }),
  ]
  expect(changes.map(({ status }) => status)).toEqual([200, 201])
  const second = await deploy()
  const after = await deploymentOf(platform, second)
  expect(after.variables?.map(({ key }) => key)).toEqual(['LEVEL', 'MORE'])
  expect(after.variables?.[0]?.digest).not.toBe(before.variables?.[0]?.digest)
  expect((await environmentOf(platform, owner)).currentDeploymentId).toBe(second)

  // Whether a value is sensitive is stored for the logs, but never shown.
  const listed = ({ variables }: typeof before) =>
    variables?.map(({ key, source, digest }) => ({ key, source, digest }))
  const promoted = await platform.call(owner.token, `POST /deployments/${first}/promote`)
  expect([promoted.status, promoted.body]).toMatchObject([200, { isCurrent: true, variables: listed(before) }])
  expect(await shown(first)).toMatchObject({ isCurrent: true, variables: listed(before) })
  expect(await shown(second)).toMatchObject({ isCurrent: false, variables: listed(after) })
  expect((await deploymentOf(platform, first)).sealedVariables).toBe(before.sealedVariables)
})
