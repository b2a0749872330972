import type { InferenceRequest } from './operations.ts'

/** The members that cap an answer, where an operation has any. */
export const capMembers = ['max_completion_tokens', 'max_tokens', 'max_output_tokens'] as const

/** The cap that a request sends, in tokens: the largest, where it sends several. undefined: none. */
export function capOf({
  body,
}: Pick<InferenceRequest, 'body'>): { member: (typeof capMembers)[number]; tokens: number } | undefined {
  return capMembers
    .flatMap((member) => {
      const tokens = body[member]
      return typeof tokens === 'number' ? [{ member, tokens }] : []
    })
    .toSorted((a, b) => b.tokens - a.tokens)[0]
}

/** True of operations whose requests can cap their answer. */
export const canBeCapped = ({ operation }: Pick<InferenceRequest, 'operation'>): boolean =>
  operation === 'chat.completions' || operation === 'responses'

/** The request with this cap, in tokens, in place of its own. Each route is sent it by the name that its provider knows. */
export function withOutputCap(request: InferenceRequest, tokens: number): InferenceRequest {
  const { max_completion_tokens: _, max_tokens: __, max_output_tokens: ___, ...body } = request.body
  const member = request.operation === 'responses' ? 'max_output_tokens' : 'max_completion_tokens'
  return { ...request, body: { ...body, [member]: tokens }, isCapOurs: true }
}
