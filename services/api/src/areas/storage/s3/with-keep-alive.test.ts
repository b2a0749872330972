// engines: s3
import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { s3Failure } from '@platform/s3-protocol/wire/s3-failure'
import { writeXml } from '@platform/s3-protocol/wire/write-xml'
import { expect, test } from 'vitest'
import type { S3Call, S3Reply } from './s3-call.ts'
import { withKeepAlive } from './with-keep-alive.ts'

async function reply(answer: Promise<S3Reply>, outgoing: ServerResponse): Promise<void> {
  try {
    const { status, headers, body } = await answer
    if (!outgoing.headersSent) outgoing.writeHead(status, headers)
    outgoing.end(body)
  } catch {
    outgoing.writeHead(500).end() // the real listener renders the error; here only throwing matters
  }
}

/** What a client receives from work that finishes only after `signs` keep-alive writes were seen. */
async function answerOf(signs: number, outcome: () => string) {
  let finish: () => void = () => {}
  const seen = new Promise<void>((resolve) => (finish = resolve))
  const server = createServer((incoming, outgoing) => {
    const logger = { warn: () => {} }
    const exchange = { incoming, outgoing, path: '/s3/b/k', requestId: 'r', deps: { logger } }
    const work = () => seen.then(outcome)
    void reply(withKeepAlive({ exchange } as unknown as S3Call, work, 10), outgoing)
  })
  await new Promise<void>((resolve) => server.listen(0, resolve))
  if (signs === 0) finish()
  const answer = await fetch(`http://localhost:${(server.address() as AddressInfo).port}`)
  let text = ''
  for await (const chunk of answer.body ?? []) {
    text += Buffer.from(chunk).toString()
    if ((text.split('?>')[1]?.length ?? 0) >= signs) finish()
  }
  server.close()
  return { status: answer.status, text }
}

const failing = () => {
  throw s3Failure('InvalidPart')
}

test('what is quick is answered plainly, and a failure has its status', async () => {
  expect(await answerOf(0, () => writeXml('R', {}))).toEqual({ status: 200, text: writeXml('R', {}) })
  expect((await answerOf(0, failing)).status).toBe(500)
})

test('what takes long begins early with white space, and a failure is a document behind it', async () => {
  const declaration = '<\\?xml version="1.0" encoding="UTF-8"\\?>'
  const done = await answerOf(3, () => writeXml('R', { A: 1 }))
  expect(done.status).toBe(200)
  expect(done.text).toMatch(new RegExp(`^${declaration}\\s{3,}<R xmlns="[^"]+"><A>1</A></R>$`))
  const failed = await answerOf(3, failing)
  expect(failed.text).toMatch(new RegExp(`^${declaration}\\s{3,}<Error><Code>InvalidPart</Code>`))
})
