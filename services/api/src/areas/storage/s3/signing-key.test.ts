// engines: s3
import { createHmac } from 'node:crypto'
import { expect, test } from 'vitest'
import { createSigningState } from '../../credentials/api-keys/signing-state.ts'
import { createSigningKeys } from './signing-key.ts'

const secret = 'wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY'

/** The signing key of a day and region, from the secret, by node:crypto alone. */
function keyOf({ day, region }: { day: string; region: string }): Buffer {
  const step = (key: Buffer | string, text: string) => createHmac('sha256', key).update(text).digest()
  return step(step(step(step(`AWS4${secret}`, day), region), 's3'), 'aws4_request')
}

test('the signing key follows from the sealed state alone, and a new state under one id is another key', async () => {
  const opened = { count: 0 }
  const seal = async (text: string) => ({ keyId: 'k', kekId: 'm', ciphertext: await createSigningState(text) })
  const keys = createSigningKeys({ open: ({ ciphertext }) => (opened.count++, ciphertext) })
  const state = await seal(secret)
  for (const region of ['r', 'r', 'another', 'r']) {
    const claim = { day: '20261121', region }
    expect((await keys(state, claim)).export()).toEqual(keyOf(claim))
  }
  expect(opened.count).toBe(1)
  const claim = { day: '20261121', region: 'r' }
  expect((await keys(await seal('another'), claim)).export()).not.toEqual(keyOf(claim))
  expect((await keys(state, { ...claim, day: '20261122' })).export()).toEqual(keyOf({ ...claim, day: '20261122' }))
})
