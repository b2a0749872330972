import { z } from 'zod'
import { s3Failure } from '../wire/s3-failure.ts'

const operand = z.union([z.string(), z.number()])
const scalar = operand.transform(String)
const isLengthRange = (kind: string): boolean => kind.toLowerCase() === 'content-length-range'
const Policy = z.object({
  expiration: z.iso.datetime({ offset: true }).transform((text) => new Date(text)),
  conditions: z
    .array(
      z.union([
        z
          .tuple([z.string(), operand, operand])
          .refine(([kind, min, max]) => !isLengthRange(kind) || (Number(min) >= 0 && Number(max) >= 0)),
        // An empty condition restricts nothing, although its author meant it to restrict something.
        z.record(z.string(), scalar).refine((equal) => Object.keys(equal).length > 0),
      ]),
    )
    .min(1)
    .max(200),
})
type PostPolicy = z.infer<typeof Policy>

/** The file length that the policy allows, in bytes. */
export interface LengthRange {
  min: number
  max: number
}

const denied = (what: string) => s3Failure('AccessDenied', `Invalid according to Policy: ${what}`)

/** Fields that need no condition. */
const isFree = (name: string): boolean =>
  name === 'x-amz-signature' || name === 'file' || name === 'policy' || name.startsWith('x-ignore-')

/**
 * Reads a policy: base64 of JSON with an expiration and 1 to 200 conditions (S3 API "POST policy"). Verifies nothing. Throws
 * InvalidArgument.
 */
export function readPolicy(text: string): PostPolicy {
  let parsed: unknown
  try {
    parsed = JSON.parse(Buffer.from(text, 'base64').toString())
  } catch {
    throw s3Failure('InvalidArgument', 'The policy is not base64 of JSON')
  }
  const policy = Policy.safeParse(parsed)
  if (!policy.success)
    throw s3Failure(
      'InvalidArgument',
      'The policy is malformed: it must hold an expiration in ISO 8601 and 1 to 200 conditions, none of them empty',
    )
  return policy.data
}

/**
 * Checks a form against its policy (S3 API "POST policy"): the policy has not expired, every condition holds, and every field has
 * a condition. fields: names in lower case, including `bucket`; `key` with the file's name filled in.
 *
 * Throws AccessDenied.
 */
export function checkPolicy(policy: PostPolicy, fields: ReadonlyMap<string, string>, now: Date): LengthRange {
  if (policy.expiration <= now) throw denied('Policy expired.')
  const named = new Set<string>(['bucket'])
  const range = { min: 0, max: Number.MAX_SAFE_INTEGER }
  for (const condition of policy.conditions) {
    if (!Array.isArray(condition)) {
      for (const [name, value] of Object.entries(condition)) hold('eq', name, value)
      continue
    }
    const [kind, what, value] = condition
    if (isLengthRange(kind)) {
      range.min = Math.max(range.min, Number(what))
      range.max = Math.min(range.max, Number(value))
    } else hold(kind.toLowerCase(), String(what).replace(/^\$/, ''), String(value))
  }
  const unnamed = [...fields.keys()].find((name) => !isFree(name) && !named.has(name))
  if (unnamed !== undefined) throw denied(`Extra input fields: ${unnamed}`)
  return range

  function hold(kind: string, field: string, value: string): void {
    const name = field.toLowerCase()
    named.add(name)
    const fieldValue = fields.get(name) ?? ''
    const holds = kind === 'eq' ? fieldValue === value : kind === 'starts-with' && startsSo(name, fieldValue, value)
    if (!holds) throw denied(`Policy Condition failed: ["${kind}", "$${field}", "${value}"]`)
  }
}

/** In a list of content types, each must have the prefix. */
const startsSo = (name: string, value: string, prefix: string): boolean =>
  name === 'content-type' ? value.split(',').every((type) => type.trim().startsWith(prefix)) : value.startsWith(prefix)
