import { PlatformError } from './errors.ts'
import type { ListApiKeysResponse, NewApiKey } from './generated/types.ts'
import type { Operation } from './operation.ts'
import type { Platform } from './platform.ts'
import { repeat } from './repetition.ts'
import { prepare } from './request.ts'
import type { CallOptions } from './sender.ts'

const list = { method: 'GET', path: '/api-keys', query: ['applicationId'], repetition: repeat } as const

/**
 * Of a key that was created while its answer was lost, nobody has the secret: a repetition is answered 409 (D79). The error then
 * names the keys that may be it. None is deleted, since names may repeat (D29).
 */
export function tellingLostSecret<D extends { body: { name: string; applicationId: string } }>(
  create: Operation<D, NewApiKey>,
): Operation<D, NewApiKey> {
  const call = async (platform: Platform, params: D, options: CallOptions = {}): Promise<NewApiKey> => {
    try {
      return await (create as unknown as typeof call)(platform, params, options)
    } catch (error) {
      if (!(error instanceof PlatformError) || error.status !== 409) throw error
      const { name, applicationId } = params.body
      const listed = await platform
        .send<ListApiKeysResponse>(prepare(platform.baseUrl, list, { applicationId }, {}), { signal: options.signal })
        .catch(() => undefined)
      throw new PlatformError(`A key ${name} may have been created whose secret was lost: ${error.message}`, {
        status: error.status,
        operation: error.operation,
        attempts: error.attempts,
        requestId: error.requestId,
        code: 'secret_lost',
        apiKeyIds: listed?.items.filter((key) => key.name === name).map(({ id }) => id),
        cause: error,
      })
    }
  }
  return Object.assign(call, { spec: create.spec }) as unknown as Operation<D, NewApiKey>
}
