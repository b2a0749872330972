import { uuidV7 } from './uuid-v7.ts'

/** Parts the members of a call from what are its headers. */
export type Place = (
  params: Record<string, unknown>,
  idempotencyKey: string | undefined,
) => [params: Record<string, unknown>, headers: Record<string, string>]

/** Where an inference belongs: headers that are members of its call. */
export const placement = {
  organizationId: 'X-Organization-Id',
  applicationId: 'X-Application-Id',
  endUserId: 'X-End-User-Id',
} as const

/** Of inference. */
export const placed: Place = ({ organizationId, applicationId, endUserId, ...params }) => {
  const members = Object.entries({ organizationId, applicationId, endUserId }).filter(
    ([, value]) => value !== undefined,
  )
  return [
    params,
    Object.fromEntries(members.map(([name, value]) => [placement[name as keyof typeof placement], value as string])),
  ]
}

/** Of inference that creates something. */
export const placedOnce: Place = (given, key = uuidV7()) => {
  const [params, headers] = placed(given, key)
  return [params, { ...headers, 'idempotency-key': key }]
}
