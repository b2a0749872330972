// engines: s3
import { randomBytes } from 'node:crypto'
import { startPlatform, type TestPlatform } from '@platform/testing/platform'
import { inArray } from 'drizzle-orm'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type ReceivedBody, receiveBody } from './receive-body.ts'
import { blobs } from './table.ts'

let platform: TestPlatform
beforeAll(async () => {
  platform = await startPlatform()
})
afterAll(() => platform.close())

/** Too large to be stored in the row. */
async function* source() {
  yield randomBytes(40_000)
}
const receive = () => receiveBody(platform.api, source(), { bytesMax: 1e6 })
const statesOf = async ({ blobs: options }: ReceivedBody) =>
  (
    await platform.api.db
      .select({ state: blobs.state })
      .from(blobs)
      .where(
        inArray(
          blobs.id,
          options.map(({ id }) => id),
        ),
      )
  ).map(({ state }) => state)

test('a body that nobody keeps is given up at the end of its scope', async () => {
  let left: ReceivedBody
  {
    await using body = await receive()
    left = body
    expect(await statesOf(body)).toEqual(['pending'])
  }
  expect(await statesOf(left)).not.toContain('pending')
})

test('so is one whose scope ends in an error, which is thrown on', async () => {
  let left: ReceivedBody | undefined
  const fail = async () => {
    await using body = await receive()
    left = body
    throw new Error('refused')
  }
  await expect(fail()).rejects.toThrow('refused')
  expect(left && (await statesOf(left))).not.toContain('pending')
})

test('a body that is kept stays', async () => {
  let left: ReceivedBody
  {
    await using body = await receive()
    body.keep()
    left = body
  }
  expect(await statesOf(left)).toEqual(['pending'])
})
