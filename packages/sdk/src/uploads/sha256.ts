import { sha256 as createHashInJavaScript } from '@noble/hashes/sha2.js'
import { bytesToHex } from '@noble/hashes/utils.js'

interface Hash {
  update(bytes: Uint8Array): unknown
  digest(): Uint8Array
}

/** The runtime's own where it has one that takes a file piece by piece; browsers have none. */
function createHash(): Hash {
  const { process } = globalThis as { process?: { getBuiltinModule?: (name: string) => unknown } }
  const crypto = process?.getBuiltinModule?.('node:crypto') as { createHash(name: string): Hash } | undefined
  return crypto?.createHash('sha256') ?? createHashInJavaScript.create()
}

/** The SHA-256 of all bytes, in hexadecimal. Reads a piece at a time, so that a page goes on answering its user. */
export async function sha256Of(data: Blob, signal?: AbortSignal): Promise<string> {
  const hash = createHash()
  const reader = data.stream().getReader()
  for (;;) {
    signal?.throwIfAborted()
    const { done, value } = await reader.read()
    if (done) return bytesToHex(hash.digest())
    hash.update(value)
  }
}
