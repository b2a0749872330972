import type { InferenceRequest } from './operations.ts'

/** The members that cap an answer, by operation. Members of other operations have no effect. */
const capMembers: Readonly<Partial<Record<InferenceRequest['operation'], readonly string[]>>> = {
  'chat.completions': ['max_completion_tokens', 'max_tokens'],
  responses: ['max_output_tokens'],
}

/** True for operations whose requests can cap their answer. */
export const canBeCapped = ({ operation }: Pick<InferenceRequest, 'operation'>): boolean =>
  capMembers[operation] !== undefined

/** Returns the request's cap in tokens: the largest if it has several, undefined if it has none. */
export function capOf({
  operation,
  body,
}: Pick<InferenceRequest, 'operation' | 'body'>): { member: string; tokens: number } | undefined {
  const caps = (capMembers[operation] ?? []).flatMap((member) => {
    const tokens = body[member]
    return typeof tokens === 'number' ? [{ member, tokens }] : []
  })
  return caps.toSorted((a, b) => b.tokens - a.tokens)[0]
}

/**
 * Returns the request with this cap, in tokens, in place of its own. Each route sends it under the name that its provider knows,
 * so that no provider ignores it.
 *
 * from: the origin of the cap.
 */
export function withOutputCap(
  request: InferenceRequest,
  tokens: number,
  from: NonNullable<InferenceRequest['capFrom']>,
): InferenceRequest {
  const { max_completion_tokens: _, max_tokens: __, max_output_tokens: ___, ...body } = request.body
  const member = request.operation === 'responses' ? 'max_output_tokens' : 'max_completion_tokens'
  return { ...request, body: { ...body, [member]: tokens }, capFrom: from }
}
