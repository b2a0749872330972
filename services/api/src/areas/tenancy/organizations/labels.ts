import { randomInt } from 'node:crypto'
import { z } from '@hono/zod-openapi'
import { BadRequest } from '@platform/errors/api-error'

const SLUG_LENGTH_MAX = 50
const LABEL_LENGTH_MIN = 3
/** Leaves room for a deployment's hostname, which appends a hyphen and eight digits; a DNS label has at most 63 characters. */
const LABEL_LENGTH_MAX = 54

/** Labels that would suggest the platform itself. */
const reserved = new Set([
  'about',
  'account',
  'admin',
  'api',
  'app',
  'apps',
  'assets',
  'auth',
  'billing',
  'blog',
  'cdn',
  'console',
  'dashboard',
  'demo',
  'docs',
  'edge',
  'files',
  'help',
  'id',
  'idp',
  'internal',
  'login',
  'mail',
  'mcp',
  'metrics',
  'objects',
  'platform',
  'preview',
  'root',
  's3',
  'security',
  'static',
  'status',
  'storage',
  'support',
  'system',
  'ws',
  'www',
])

/** Deployment hostnames end this way; other labels must not (D76). */
const endsLikeDeployment = (label: string): boolean => /-[0-9a-f]{8}$/.test(label)

/**
 * A DNS label without `--`, of 3 to `lengthMax` characters, in any case. It is lower-cased before anything about it is judged
 * (D76, D95); of ASCII alone, since other letters, such as the Kelvin sign, would turn into some that a label may have.
 */
const labelOf = (lengthMax: number) =>
  z
    .string()
    .overwrite((text) => text.replaceAll(/[A-Z]+/g, (letters) => letters.toLowerCase()))
    .min(LABEL_LENGTH_MIN)
    .max(lengthMax)
    .regex(/^[a-z0-9]+(-[a-z0-9]+)*$/, 'Expected letters, digits and single hyphens between them')
    .openapi({ pattern: '^[A-Za-z0-9]+(-[A-Za-z0-9]+)*$', example: 'acme' })

/** A slug, as input (D75). */
export const slug = labelOf(SLUG_LENGTH_MAX)
/** The first label of a hostname, as input (D76). */
export const label = labelOf(LABEL_LENGTH_MAX)

/** Why a well-formed label is not available to anybody; undefined if it is (D76). */
export function whyReserved(name: string): string | undefined {
  if (reserved.has(name)) return `The name ${name} is reserved`
  if (endsLikeDeployment(name)) return 'A name cannot end with a hyphen and eight hexadecimal digits'
  return undefined
}

/** Throws BadRequest for reserved names and the endings of deployment hostnames, which the schema cannot exclude (D76). */
export function refuseReservedLabel(name: string): void {
  const why = whyReserved(name)
  if (why !== undefined) throw new BadRequest(why)
}

const suffix = (): string => Array.from({ length: 5 }, () => 'bcdfghjkmnpqrstvwxz'[randomInt(19)]).join('')

/**
 * Yields slugs to try for a name, best first: the name itself if it makes a label, then with random endings. Endless; the caller
 * stops at the first free one.
 */
export function* slugsFor(name: string, fallback: string): Generator<string> {
  const plain = name
    .normalize('NFKD')
    .toLowerCase()
    .replaceAll(/[^a-z0-9]+/g, ' ')
    .trim()
    .replaceAll(/ +/g, '-')
    .slice(0, SLUG_LENGTH_MAX - 6)
    .replace(/-$/, '')
  if (plain.length >= LABEL_LENGTH_MIN && !reserved.has(plain) && !endsLikeDeployment(plain)) yield plain
  for (;;) yield `${plain || fallback}-${suffix()}`
}
