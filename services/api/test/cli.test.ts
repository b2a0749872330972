import { execFile } from 'node:child_process'
import { randomBytes, randomUUID } from 'node:crypto'
import { createSealer, masterKeys } from '@platform/runtime/seal'
import { openText, sealText } from '@platform/runtime/sealed-text'
import { serviceEnvironment } from '@platform/testing/service-process'
import { callProgram } from '@platform/testkit/call-program'
import postgres from 'postgres'
import { expect, test } from 'vitest'
import { runCommandLine } from '../src/commands.ts'

/** The command line of a service with a database of its own. */
async function newCli() {
  const env = await serviceEnvironment('api', {
    IDP_URL: 'http://localhost:1',
    OBJECTS_URL: 'file:///tmp/platform-no-objects',
  })
  const program = new URL('../src/cli.ts', import.meta.url).pathname
  /** Runs a command in this process. */
  const run = async (more: Record<string, string>, ...words: string[]) => {
    const { code, ...printed } = await callProgram(runCommandLine, { words, env: { ...env, ...more } })
    return { status: code, ...printed }
  }
  /** Runs a command as an operator does. */
  const runProcess = (...args: string[]) =>
    new Promise<{ status: number; stdout: string; stderr: string }>((resolve) => {
      execFile(process.execPath, [program, ...args], { env }, (error, stdout, stderr) => {
        resolve({ status: typeof error?.code === 'number' ? error.code : error ? -1 : 0, stdout, stderr })
      })
    })
  return { env, run, runProcess, cli: (...args: string[]) => run({}, ...args) }
}

test('the CLI does what no endpoint does, and says what it did', async () => {
  const { env, cli, runProcess } = await newCli()
  expect(await runProcess('migrate')).toMatchObject({ status: 0, stdout: '{"migrated":true}\n' })
  expect(JSON.parse((await cli('keys', 'list')).stdout)).toMatchObject({ keys: [{ alg: 'ES256' }] })
  const sql = postgres(env.DATABASE_URL ?? '', { max: 1 })
  const organizationId = randomUUID()
  await sql`insert into organizations (id, name, slug, created_at, updated_at) values (${organizationId}, 'A', 'a-b', now(), now())`
  for (const [args, printed] of [
    [['quota', 'set', organizationId, 'applications', '3'], { organizationId, quota: 'applications', limit: 3 }],
    [['billing', 'cap', organizationId, '2500'], { organizationId, capMicros: 25_000_000 }],
  ] as const)
    expect(JSON.parse((await cli(...args)).stdout)).toEqual(printed)
  expect(await sql`select "limit" from quota_overrides`).toEqual([{ limit: '3' }])
  expect(await sql`select cap_micros from billing_caps`).toEqual([{ cap_micros: '25000000' }])
  await cli('quota', 'set', organizationId, 'applications', 'plan')
  await cli('billing', 'cap', organizationId, 'none')
  expect(await sql`select 1 from quota_overrides union all select 1 from billing_caps`).toEqual([])
  const of = { actor: 'operator', subject: `organization:${organizationId}` }
  expect(JSON.parse((await cli('audit', 'tail', '--actor', 'operator')).stdout)).toMatchObject([
    { ...of, action: 'quota.set', details: { quota: 'applications', limit: 3 } },
    { ...of, action: 'billing.capped', details: { capMicros: 25_000_000 } },
    { ...of, action: 'quota.set', details: { quota: 'applications', limit: null } },
    { ...of, action: 'billing.capped', details: { capMicros: null } },
  ])
  await sql.end()
})

test('the organization of a deleted user is handed over, and never left without an OWNER', async () => {
  const { env, cli } = await newCli()
  await cli('migrate')
  const sql = postgres(env.DATABASE_URL ?? '', { max: 1 })
  const organizationId = randomUUID()
  await sql`insert into organizations (id, name, slug, created_at, updated_at) values (${organizationId}, 'A', 'a-b', now(), now())`
  await cli('member', 'set', organizationId, 'gone', 'OWNER')
  await cli('member', 'set', organizationId, 'mia', 'MEMBER')
  expect(JSON.parse((await cli('organization', 'list', 'gone')).stdout)).toEqual({
    userId: 'gone',
    organizations: [{ organizationId, name: 'A', role: 'OWNER' }],
  })
  expect(await cli('member', 'remove', organizationId, 'gone')).toMatchObject({
    status: 1,
    stderr: 'gone is the only OWNER: use organization transfer to name another\n',
  })
  expect((await cli('member', 'set', organizationId, 'gone', 'MEMBER')).stderr).toContain('is the only OWNER')
  expect((await cli('organization', 'transfer', organizationId, 'mai')).stderr).toContain('mai is no member')
  expect(JSON.parse((await cli('organization', 'transfer', organizationId, 'mia')).stdout)).toEqual({
    organizationId,
    ownerId: 'mia',
    formerOwnerIds: ['gone'],
  })
  expect(await cli('member', 'remove', organizationId, 'gone')).toMatchObject({
    status: 1,
    stderr: 'gone is not a member of the organization\n',
  })
  expect(JSON.parse((await cli('member', 'list', organizationId)).stdout)).toEqual({
    organizationId,
    members: [{ userId: 'mia', email: null, role: 'OWNER' }],
  })
  const [last] = JSON.parse((await cli('audit', 'tail', '--count', '1')).stdout) as object[]
  expect(last).toMatchObject({
    action: 'organization.transferred',
    subject: `organization:${organizationId}`,
    details: { ownerId: 'mia', formerOwnerIds: ['gone'] },
  })
  await sql.end()
})

test('the CLI says why not', async () => {
  const { cli, runProcess } = await newCli()
  await cli('migrate')
  const id = randomUUID()
  const answers: [args: string[], answer: { status: number; stdout?: string; stderr?: string }][] = [
    [['--help'], { status: 0, stdout: 'plan activate' }],
    [['nope'], { status: 2, stderr: 'Usage' }],
    [['plan', 'activate'], { status: 2, stderr: 'Usage' }],
    [['keys', 'list', '--loud'], { status: 2, stderr: 'Usage' }],
    [['plan', 'activate', id, 'network', 'pro'], { status: 1, stderr: 'There is no such organization\n' }],
    [['plan', 'activate', 'x', 'network', 'pro'], { status: 1, stderr: 'x is not a UUID\n' }],
    [['product', 'grant', id, 'nope'], { status: 1, stderr: 'There is no product nope\n' }],
    [['member', 'set', id, 'u', 'BOSS'], { status: 1, stderr: 'no role BOSS' }],
    [['quota', 'set', id, 'nope', '1'], { status: 1, stderr: 'no quota nope; choose one of applications' }],
    [['billing', 'cap', id, '1.5'], { status: 1, stderr: '1.5 is neither a whole number nor none' }],
  ]
  for (const [args, { status, stdout = '', stderr = '' }] of answers) {
    const said = await cli(...args)
    expect([args, said.status]).toEqual([args, status])
    expect(said.stdout).toContain(stdout)
    expect(said.stderr).toContain(stderr)
    if (status !== 0) expect(said.stdout).toBe('')
  }
  // Processes end with the same codes and words.
  for (const index of [1, 4]) {
    const [args = [], { status } = { status: 0 }] = answers[index] ?? []
    expect(await runProcess(...args)).toEqual({ ...(await cli(...args)), status })
  }
})

test('keys reencrypt seals everything under the first master key, so that the old one can go', async () => {
  const { env, run, cli } = await newCli()
  await cli('migrate')
  await cli('keys', 'list') // makes the first signing key
  const { MASTER_KEYS: old = '' } = env
  const sealer = createSealer(masterKeys.parse(old))
  const sql = postgres(env.DATABASE_URL ?? '', { max: 1 })
  const organizationId = randomUUID()
  await sql`insert into organizations (id, name, slug, created_at, updated_at) values (${organizationId}, 'A', 'a-b', now(), now())`
  for (let i = 0; i < 3; i++) {
    const id = randomUUID()
    const { kekId, ciphertext } = sealer.seal(`value ${i}`, id)
    await sql`
      insert into env_vars (id, layer, organization_id, key, sensitive, ciphertext, kek_id, created_at, updated_at)
      values (${id}, 'organization', ${organizationId}, ${`KEY_${i}`}, false, ${ciphertext}, ${kekId}, now(), now())`
  }
  const applicationId = randomUUID()
  await sql`insert into applications (id, organization_id, name, slug, created_at, updated_at) values (${applicationId}, ${organizationId}, 'A', 'a-b', now(), now())`
  const keyId = randomUUID()
  const state = sealer.seal('state', `api_key:${keyId}`)
  await sql`
    insert into api_keys (id, application_id, name, scopes, secret_hash, signing_state, signing_kek_id, created_by_user_id, created_at, updated_at)
    values (${keyId}, ${applicationId}, 'k', '{}', ${Buffer.alloc(32)}, ${state.ciphertext}, ${state.kekId}, 'u', now(), now())`
  const environmentId = randomUUID()
  await sql`insert into environments (id, application_id, slug, name) values (${environmentId}, ${applicationId}, 'production', 'P')`
  const deploymentId = randomUUID()
  const context = `variables of deployment ${deploymentId}`
  await sql`
    insert into deployments (id, organization_id, application_id, environment_id, seq, status, label, created_by, sealed_variables, created_at, updated_at)
    values (${deploymentId}, ${organizationId}, ${applicationId}, ${environmentId}, 1, 'ACTIVE', 'a-b', '{}', ${sealText(sealer, '{"A":"b"}', context, 'plain')}, now(), now())`

  const providerKeyId = randomUUID()
  const providerKey = sealer.seal('sk-test', providerKeyId)
  await sql`
    insert into ai_provider_keys (id, organization_id, provider, ciphertext, kek_id, last4, created_by_user_id, created_at, updated_at)
    values (${providerKeyId}, ${organizationId}, 'openai', ${providerKey.ciphertext}, ${providerKey.kekId}, '**st', 'u', now(), now())`

  const newer = `newer:${randomBytes(32).toString('base64')}`
  const both = { MASTER_KEYS: `${newer},${old}` }
  expect(JSON.parse((await run(both, 'keys', 'reencrypt')).stdout)).toEqual({
    signingKeys: 1,
    variables: 3,
    deployments: 1,
    apiKeys: 1,
    aiProviderKeys: 1,
  })
  expect(JSON.parse((await run(both, 'keys', 'reencrypt')).stdout)).toEqual({
    signingKeys: 0,
    variables: 0,
    deployments: 0,
    apiKeys: 0,
    aiProviderKeys: 0,
  })

  const alone = createSealer(masterKeys.parse(newer))
  const rows = await sql<{ id: string; ciphertext: Buffer; kek_id: string }[]>`select * from env_vars order by key`
  expect(rows.map((row) => alone.open({ ciphertext: row.ciphertext, kekId: row.kek_id }, row.id).toString())).toEqual([
    'value 0',
    'value 1',
    'value 2',
  ])
  const [key] = await sql<{ ciphertext: Buffer; kek_id: string }[]>`
    select signing_state as ciphertext, signing_kek_id as kek_id from api_keys`
  if (!key) throw new Error('The key is gone')
  expect(alone.open({ ciphertext: key.ciphertext, kekId: key.kek_id }, `api_key:${keyId}`).toString()).toBe('state')
  const [deployment] = await sql<{ sealed: string }[]>`select sealed_variables as sealed from deployments`
  expect(openText(alone, deployment?.sealed ?? '', context, 'plain')).toBe('{"A":"b"}')
  expect((await run({ MASTER_KEYS: newer }, 'keys', 'list')).status).toBe(0)
  await sql.end()
})
