import { nameOf, type PackFile } from './source.ts'

/** Names of files and folders that hold secrets. */
const SECRET_NAMES = [
  /^\.git$/i,
  /^\.env(?!\.example$)/i,
  /\.env$/i,
  /^\.dev\.vars/i,
  /^\.(?:netrc|git-credentials)$/i,
  /^\.(?:ssh|aws|kube|docker|platform)$/i,
  /^id_(?:rsa|ed25519)/i,
  /\.(?:p12|pfx|jks)$/i,
  // Also `terraform.tfstate.backup`.
  /\.tfstate(?:\.|$)/i,
]

const PRIVATE_KEY = /BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY/
/** A value that is a variable of the environment is no secret, and its file is what builds need. */
const VARIABLE = /^["']?\$\{\w+(?:\?|:?-)?\}["']?$/
const TOKENS = new Map([
  ['.npmrc', /_(?:authToken|auth|password)\s*=[^\S\n]*("[^"\n]*"|[^\s;#]*)/gi],
  ['.yarnrc.yml', /npmAuth(?:Token|Ident)["']?\s*:\s*("[^"]*"|'[^']*'|[^\s,#]*)/gi],
])
/** `https://name:password@host` */
const URL_PASSWORD = /:\/\/[^\s/:@]*:([^\s/@]+)@/g

/** Overlap of two pieces of a file that are looked through: what is looked for is shorter. */
const OVERLAP = 4_096

/** Whether a path is left out by its name alone. */
export const isSecretName = (path: string): boolean => SECRET_NAMES.some((name) => name.test(nameOf(path)))

/** Why a file is left out by its content, such as `holds a private key`; undefined for all other files. */
export async function findSecret(file: PackFile): Promise<string | undefined> {
  const name = nameOf(file.path).toLowerCase()
  const tokens = TOKENS.get(name)
  if (tokens !== undefined)
    return (await someText(file, (text) => PRIVATE_KEY.test(text) || holdsToken(text, tokens)))
      ? 'holds a token'
      : undefined
  if (!/\.(?:pem|key)$/.test(name)) return undefined
  return (await someText(file, (text, bytes) => PRIVATE_KEY.test(text) || isBinaryKey(bytes)))
    ? 'holds a private key'
    : undefined
}

const holdsToken = (text: string, tokens: RegExp): boolean =>
  [...text.matchAll(tokens), ...text.matchAll(URL_PASSWORD)].some(
    ([, value = '']) => !VARIABLE.test(value) && !/^(?:""|'')?$/.test(value),
  )

/** Whether a file begins as private keys in DER do (PKCS#1, #8, #12, SEC 1): with a sequence whose first member is a version. */
function isBinaryKey([tag, length = 0, ...rest]: Uint8Array): boolean {
  const [integer, bytes] = rest.slice(length < 0x80 ? 0 : length & 0x7f)
  return tag === 0x30 && integer === 2 && bytes === 1
}

/** Whether any piece of a file is found. bytes: the first ones of the file, the same each time. */
async function someText(file: PackFile, isFound: (text: string, bytes: Uint8Array) => boolean): Promise<boolean> {
  const decoder = new TextDecoder('latin1')
  let start: Uint8Array | undefined
  let kept = ''
  for await (const chunk of file.open()) {
    start ??= chunk.slice(0, 16)
    // UTF-16, as PowerShell writes it, is ASCII with zeros in between.
    const text = kept + decoder.decode(chunk, { stream: true }).replaceAll('\0', '')
    if (isFound(text, start)) return true
    kept = text.slice(-OVERLAP)
  }
  return false
}
