import type { IHasher } from 'hash-wasm'

/** SHA-256's block size, and so the size of an HMAC key block. */
const BLOCK_BYTES = 64

/** Loads the library with the first key that signs: few processes ever need it. */
async function createSha256(): Promise<IHasher> {
  const { createSHA256 } = await import('hash-wasm')
  return createSHA256()
}

async function stateAfter(block: Buffer): Promise<Uint8Array> {
  const hash = await createSha256()
  return hash.init().update(block).save()
}

/**
 * The two SHA-256 states that an HMAC keyed with `"AWS4" + secret` starts from: inner, then outer, each as hash-wasm
 * saves it, prefixed with the inner one's length (4 bytes, big-endian). Every day's SigV4 key can be derived from them, but not
 * the secret (D42). They still grant signing power, so the caller seals them.
 *
 * Throws if the secret does not fit into one block.
 */
export async function createSigningState(secret: string): Promise<Buffer> {
  const key = Buffer.from(`AWS4${secret}`)
  if (key.length > BLOCK_BYTES) throw new Error('The secret is longer than a block of its hash')
  const block = Buffer.alloc(BLOCK_BYTES)
  key.copy(block)
  const [inner, outer] = await Promise.all([
    stateAfter(block.map((byte) => byte ^ 0x36) as Buffer),
    stateAfter(block.map((byte) => byte ^ 0x5c) as Buffer),
  ])
  const length = Buffer.alloc(4)
  length.writeUInt32BE(inner.length)
  return Buffer.concat([length, inner, outer])
}

/** The HMAC-SHA256 of `message` under the state's key; 32 bytes. For a date, this is SigV4's `kDate`. */
export async function hmacFromState(state: Buffer, message: string): Promise<Buffer> {
  const innerEnd = 4 + state.readUInt32BE(0)
  const finish = async (saved: Buffer, data: string | Uint8Array): Promise<Uint8Array> => {
    const hash = await createSha256()
    return hash.load(saved).update(data).digest('binary')
  }
  const inner = await finish(state.subarray(4, innerEnd), message)
  return Buffer.from(await finish(state.subarray(innerEnd), inner))
}
