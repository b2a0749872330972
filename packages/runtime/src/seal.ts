import {
  createCipheriv,
  createDecipheriv,
  createHmac,
  createSecretKey,
  hkdfSync,
  type KeyObject,
  randomBytes,
  timingSafeEqual,
} from 'node:crypto'
import { z } from 'zod'

/** Master keys in the order of MASTER_KEYS: the first seals, all of them open. */
export type MasterKeys = readonly [MasterKey, ...MasterKey[]]
interface MasterKey {
  id: string
  key: Buffer
}

/** `id:base64` of 32 bytes, comma-separated; the newest first; each id once. */
export const masterKeys = z
  .string()
  .regex(/^([\w.-]{1,32}:[A-Za-z0-9+/]{43}=)(,[\w.-]{1,32}:[A-Za-z0-9+/]{43}=)*$/)
  .transform(
    (text) =>
      text.split(',').map((part) => {
        const [id = '', key = ''] = part.split(':')
        return { id, key: Buffer.from(key, 'base64') }
      }) as unknown as MasterKeys,
  )
  // With duplicate ids, values sealed with one key would be opened with the other.
  .refine((keys) => new Set(keys.map(({ id }) => id)).size === keys.length, 'two keys have the same id')

/** A sealed value: which master key, and nonce (12 bytes) + tag (16 bytes) + ciphertext. */
export interface Sealed {
  kekId: string
  ciphertext: Buffer
}

export interface Sealer {
  /** The id of the key that seals now; rows sealed under another need to be resealed. */
  readonly kekId: string
  /** `context` is bound as associated data: a value sealed for one row does not open for another. */
  seal(plaintext: Buffer | string, context: string): Sealed
  /** Throws if the key is unknown, or the value or its context was changed. */
  open(sealed: Sealed, context: string): Buffer
}

/** Seals values at rest with AES-256-GCM under the operator's master keys. */
export function createSealer(keys: MasterKeys): Sealer {
  // As KeyObjects: with raw bytes each cipher would cost three times as much (measured, 36 µs against 12).
  const current = createSecretKey(keys[0].key)
  const byId = new Map(keys.map(({ id, key }) => [id, createSecretKey(key)]))
  return {
    kekId: keys[0].id,
    seal(plaintext, context) {
      const nonce = randomBytes(12)
      const cipher = createCipheriv('aes-256-gcm', current, nonce).setAAD(Buffer.from(context))
      const body = Buffer.concat([
        typeof plaintext === 'string' ? cipher.update(plaintext, 'utf8') : cipher.update(plaintext),
        cipher.final(),
      ])
      return { kekId: keys[0].id, ciphertext: Buffer.concat([nonce, cipher.getAuthTag(), body]) }
    },
    open({ kekId, ciphertext }, context) {
      const key = byId.get(kekId)
      if (!key) throw new Error(`A value is sealed under master key ${kekId}, which MASTER_KEYS does not hold`)
      const decipher = createDecipheriv('aes-256-gcm', key, ciphertext.subarray(0, 12), { authTagLength: 16 })
      decipher.setAAD(Buffer.from(context)).setAuthTag(ciphertext.subarray(12, 28))
      try {
        return Buffer.concat([decipher.update(ciphertext.subarray(28)), decipher.final()])
      } catch {
        // OpenSSL only reports that it could not authenticate data.
        throw new Error(
          `A value that was sealed under master key ${kekId} does not open: MASTER_KEYS holds another key under this id, or the value was changed`,
        )
      }
    },
  }
}

/** Signs URLs that authorize by themselves (D12): `keyId.mac`, valid as long as its master key is configured. */
export interface Signer {
  sign(message: string): string
  /** In constant time; false for anything but a valid signature of this message. */
  verify(message: string, signature: string): boolean
}

/** Creates a signer whose keys are derived from the master keys for one purpose: signatures for another purpose do not verify. */
export function createSigner(keys: MasterKeys, purpose: string): Signer {
  const derive = ({ key }: MasterKey) =>
    createSecretKey(Buffer.from(hkdfSync('sha256', key, '', `sign ${purpose}`, 32)))
  const current = derive(keys[0])
  const derived = new Map(keys.map((key) => [key.id, derive(key)]))
  const macOf = (key: KeyObject, message: string) => createHmac('sha256', key).update(message).digest('base64url')
  return {
    sign: (message) => `${keys[0].id}.${macOf(current, message)}`,
    verify(message, signature) {
      const dot = signature.lastIndexOf('.')
      const key = derived.get(signature.slice(0, dot))
      if (!key) return false
      const [expected, actual] = [macOf(key, message), signature.slice(dot + 1)].map((text) => Buffer.from(text))
      return expected?.length === actual?.length && timingSafeEqual(expected as Buffer, actual as Buffer)
    },
  }
}
