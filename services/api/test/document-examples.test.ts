import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Person, startPlatform, type TestPlatform } from '@platform/testing/platform'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { actorKindOf } from './access-rules.ts'
import { faultsOfAnswer } from './answer-check.ts'
import { newFunction } from './deployments.ts'
import { exampleOf } from './example-of.ts'
import { open, type Operation, operations, type Parameter } from './operations.ts'
import { makerFor, type MakeNamed, oneSecondOfNothing, testProviders } from './recipes.ts'
import { newKey, newOwner, type Owner } from './scenario.ts'
import { openSender } from './send.ts'

let platform: TestPlatform
let sender: ReturnType<typeof openSender>
let person: Person
let readOwner: Owner
let functionToken: string
let clientsFolder: string

beforeAll(async () => {
  const providers = [{ ...testProviders.providers[0], id: 'openai' }, ...testProviders.providers]
  clientsFolder = await mkdtemp(join(tmpdir(), 'clients-'))
  const clientFile = operations.find(({ operationId }) => operationId === 'getClientFile')?.parameters?.[0]
  await writeFile(join(clientsFolder, String(clientFile?.schema.example)), 'x')
  const env = { CLIENTS_FOLDER: clientsFolder }
  platform = await startPlatform({ aiProviders: { ...testProviders, providers }, env })
  sender = openSender(platform.apiUrl)
  person = await platform.person()
  readOwner = await newOwner(platform, person)
  functionToken = (await newFunction(platform, readOwner)).token
})
afterAll(async () => {
  sender.close()
  await platform.close()
  await rm(clientsFolder, { recursive: true })
})

type Members = Record<string, unknown>

/** Values that only an answer of the service can have. */
const answered: ReadonlySet<string> = new Set(['cursor', 'Last-Event-ID'])

/** What the operation deletes exists only where this parameter is sent. */
const alwaysSent: Record<string, string> = { deleteAiPolicy: 'applicationId' }

const isUuid = (value: unknown): boolean =>
  typeof value === 'string' && /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/.test(value)

/** The example of a body, with ids of things that exist in place of the document's. */
async function exampleBody(operation: Operation, mediaType: string, make: MakeNamed, owner: Owner): Promise<unknown> {
  const content = operation.requestBody?.content[mediaType]
  if (!content) throw new Error(`${operation.operationId} takes no ${mediaType}`)
  const example = content.example ?? exampleOf(content.schema, operation.operationId)
  if (Array.isArray(example)) return example
  const members = { ...(example as Members) }
  for (const [name, value] of Object.entries(members))
    if (isUuid(value)) members[name] = (await make(operation, 'body', name)) ?? value
  if ('client_secret' in members) {
    const { id, secret } = await newKey(platform, owner, ['network:env_vars:read'])
    Object.assign(members, { client_id: id, client_secret: secret })
  }
  return members
}

/** A body as its media type encodes it. A form's file is a sound, which an example cannot hold. */
async function encode(mediaType: string, example: unknown): Promise<{ type: string; bytes: Buffer }> {
  if (mediaType === 'application/json') return { type: mediaType, bytes: Buffer.from(JSON.stringify(example)) }
  const form = mediaType === 'multipart/form-data' ? new FormData() : new URLSearchParams()
  for (const [name, value] of Object.entries(example as Members))
    if (form instanceof FormData && name === 'file')
      form.set(name, new File([Buffer.from(oneSecondOfNothing, 'base64')], 'speech.wav'))
    else form.set(name, String(value))
  const encoded = new Response(form)
  return { type: encoded.headers.get('content-type') ?? '', bytes: Buffer.from(await encoded.arrayBuffer()) }
}

/** Sends what the document shows for an operation: with its required parameters, all its headers, and this optional one. */
async function sendExample(operation: Operation, mediaType: string | undefined, optional?: Parameter) {
  const { method, operationId, parameters = [] } = operation
  // What changes something gets an owner of its own: an example names the same thing each time.
  const owner = method === 'GET' || open.includes(operation) ? readOwner : await newOwner(platform, person)
  const make = makerFor(platform, owner)
  const sent = parameters.filter(
    (parameter) =>
      parameter.required ||
      parameter === optional ||
      alwaysSent[operationId] === parameter.name ||
      (parameter.in === 'header' && !answered.has(parameter.name)),
  )
  const values: Record<string, Record<string, string>> = { path: {}, query: {}, header: {} }
  for (const { in: place, name, schema } of sent) {
    const example = String(exampleOf(schema, `${operationId} ${name}`))
    const isNamed = place === 'path' || isUuid(example)
    const named = isNamed ? await make(operation, place as 'path' | 'query' | 'header', name) : undefined
    Object.assign(values[place] ?? {}, { [name]: named ?? example })
  }
  const path = operation.path.replaceAll(/\{(\w+)\}/g, (_, name: string) =>
    encodeURIComponent(values['path']?.[name] ?? ''),
  )
  const query = new URLSearchParams(values['query']).toString()
  const body =
    mediaType === undefined ? undefined : await encode(mediaType, await exampleBody(operation, mediaType, make, owner))
  const token = actorKindOf(operation) === 'function' ? functionToken : owner.token
  return sender.send({
    method,
    path: query === '' ? path : `${path}?${query}`,
    token: open.includes(operation) ? null : token,
    headers: { ...values['header'], ...(body && { 'content-type': body.type }) },
    body: body?.bytes,
  })
}

test.each(operations.map((operation) => [operation.operationId, operation] as const))(
  '%s succeeds when sent as the document shows it',
  async (_, operation) => {
    const mediaTypes = operation.requestBody ? Object.keys(operation.requestBody.content) : [undefined]
    const optional = (operation.parameters ?? []).filter(
      (parameter) => parameter.in === 'query' && !parameter.required && !answered.has(parameter.name),
    )
    const requests = [
      ...mediaTypes.map((mediaType) => ({ what: mediaType ?? 'nothing', mediaType, parameter: undefined })),
      ...optional.map((parameter) => ({ what: parameter.name, mediaType: mediaTypes[0], parameter })),
    ]
    const faults: string[] = []
    for (const { what, mediaType, parameter } of requests) {
      const answer = await sendExample(operation, mediaType, parameter)
      const isSuccess = answer.status < 400 && answer.status in operation.responses
      if (!isSuccess) faults.push(`with ${what}: ${answer.status} ${answer.text}`)
      faults.push(...faultsOfAnswer(operation, answer).map((fault) => `with ${what}: ${fault}`))
    }
    expect(faults).toEqual([])
  },
)
