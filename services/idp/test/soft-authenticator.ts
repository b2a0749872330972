import { createHash, generateKeyPairSync, type KeyObject, randomBytes, sign } from 'node:crypto'
import type { Visit } from '@platform/testkit/browser'

interface CreationOptions {
  challenge: string
  rp: { id: string }
  user: { id: string }
}
interface RequestOptions {
  challenge: string
  rpId: string
}

/** What differs from a browser and an authenticator that do as they should. */
interface Flaws {
  origin?: string
  rpId?: string
  challenge?: string
  isUserVerified?: boolean
  counter?: number
  userHandle?: string
}

const sha256 = (data: string | Buffer): Buffer => createHash('sha256').update(data).digest()
const decodeEntities = (text: string): string => text.replaceAll('&quot;', '"').replaceAll('&amp;', '&')

/** What a page asks the browser for, in the form that the script would read. */
export function passkeyOptionsOn(page: Visit): CreationOptions & RequestOptions & Record<string, unknown> {
  const options = /data-options="([^"]+)"/.exec(page.body)?.[1]
  if (options === undefined) throw new Error(`No passkey form on ${page.url} (${page.status})`)
  return JSON.parse(decodeEntities(options)) as ReturnType<typeof passkeyOptionsOn>
}

/**
 * A browser with an authenticator in it that holds one passkey (WebAuthn Level 3, ES256, attestation none), for what
 * Chromium's own would never do: lie about origin and counter, leave out the verification of its user, repeat itself.
 */
export class SoftAuthenticator {
  readonly #origin: string
  readonly #isSynced: boolean
  readonly #aaguid: Buffer
  readonly #privateKey: KeyObject
  readonly #publicKey: KeyObject
  readonly #credentialId = randomBytes(32)
  #userHandle = ''
  #counter = 0

  /** aaguid: of the model, as a UUID; none unless said. */
  constructor(origin: string, { isSynced = false, aaguid = '' }: { isSynced?: boolean; aaguid?: string } = {}) {
    this.#origin = origin
    this.#isSynced = isSynced
    this.#aaguid = aaguid === '' ? Buffer.alloc(16) : Buffer.from(aaguid.replaceAll('-', ''), 'hex')
    const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
    this.#privateKey = privateKey
    this.#publicKey = publicKey
  }

  #clientData(type: string, challenge: string, { origin = this.#origin }: Flaws): Buffer {
    return Buffer.from(JSON.stringify({ type, challenge, origin, crossOrigin: false }))
  }

  #authenticatorData(rpId: string, { isUserVerified = true, counter }: Flaws, attested?: Buffer): Buffer {
    // User present, user verified, backup eligible and backed up, attested data.
    const flags = 0x01 | (isUserVerified ? 0x04 : 0) | (this.#isSynced ? 0x18 : 0) | (attested ? 0x40 : 0)
    // Passkeys that are synced do not count.
    const counted = Buffer.alloc(4)
    counted.writeUInt32BE(counter ?? (this.#isSynced ? 0 : ++this.#counter))
    return Buffer.concat([sha256(rpId), Buffer.from([flags]), counted, attested ?? Buffer.alloc(0)])
  }

  #describe(response: Record<string, unknown>): string {
    const id = this.#credentialId.toString('base64url')
    return JSON.stringify({ id, rawId: id, type: 'public-key', clientExtensionResults: {}, response })
  }

  /** What the script would send for `navigator.credentials.create`. */
  create(options: CreationOptions, flaws: Flaws = {}): string {
    this.#userHandle = options.user.id
    const { x = '', y = '' } = this.#publicKey.export({ format: 'jwk' })
    const coordinate = (name: number, value: string) =>
      Buffer.concat([Buffer.from([name, 0x58, 32]), Buffer.from(value, 'base64url')])
    const coseKey = Buffer.concat([
      Buffer.from([0xa5, 0x01, 0x02, 0x03, 0x26, 0x20, 0x01]),
      coordinate(0x21, x),
      coordinate(0x22, y),
    ])
    const length = Buffer.from([0, this.#credentialId.length])
    const attested = Buffer.concat([this.#aaguid, length, this.#credentialId, coseKey])
    const authData = this.#authenticatorData(flaws.rpId ?? options.rp.id, flaws, attested)
    const text = (word: string) => Buffer.concat([Buffer.from([0x60 + word.length]), Buffer.from(word)])
    const attestationObject = Buffer.concat([
      Buffer.from([0xa3]),
      text('fmt'),
      text('none'),
      text('attStmt'),
      Buffer.from([0xa0]),
      text('authData'),
      Buffer.from([0x58, authData.length]),
      authData,
    ])
    const clientData = this.#clientData('webauthn.create', flaws.challenge ?? options.challenge, flaws)
    return this.#describe({
      clientDataJSON: clientData.toString('base64url'),
      attestationObject: attestationObject.toString('base64url'),
      transports: ['internal', 'a word of the future'],
    })
  }

  /** What the script would send for `navigator.credentials.get`. */
  get(options: RequestOptions, flaws: Flaws = {}): string {
    const clientData = this.#clientData('webauthn.get', flaws.challenge ?? options.challenge, flaws)
    const authenticatorData = this.#authenticatorData(flaws.rpId ?? options.rpId, flaws)
    const signature = sign('sha256', Buffer.concat([authenticatorData, sha256(clientData)]), this.#privateKey)
    return this.#describe({
      clientDataJSON: clientData.toString('base64url'),
      authenticatorData: authenticatorData.toString('base64url'),
      signature: signature.toString('base64url'),
      userHandle: flaws.userHandle ?? this.#userHandle,
    })
  }
}
