import type { TestPlatform } from '@platform/testing/platform'

type AiTimings = TestPlatform['api']['ai']['timings']

/**
 * Shortens time limits of the AI gateway until `work` is over, which is to run into them. Whatever else a file asks for has the
 * product's, so that a machine that is slow makes nothing late.
 */
export async function hurryAi<Result>(
  { api }: Pick<TestPlatform, 'api'>,
  timings: Partial<AiTimings>,
  work: () => Promise<Result>,
): Promise<Result> {
  const before = { ...api.ai.timings }
  Object.assign(api.ai.timings, timings)
  try {
    return await work()
  } finally {
    Object.assign(api.ai.timings, before)
  }
}
