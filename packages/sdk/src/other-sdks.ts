import { baseUrlOf } from './request.ts'
import type { Platform } from './platform.ts'

/**
 * Options for `new S3Client(…)` of @aws-sdk/client-s3. The key itself is taken, since a credential shows its secret to nobody.
 *
 * baseUrl: of the API. id, secret: of an API key with a storage scope, or PLATFORM_CLIENT_ID and PLATFORM_CLIENT_SECRET of a Function.
 */
export function s3Config({ baseUrl, id, secret }: { baseUrl: string; id: string; secret: string }): {
  endpoint: string
  region: string
  forcePathStyle: true
  credentials: { accessKeyId: string; secretAccessKey: string }
} {
  return {
    endpoint: `${baseUrlOf(baseUrl)}/s3`,
    region: 'local',
    forcePathStyle: true,
    credentials: { accessKeyId: id, secretAccessKey: secret },
  }
}

/**
 * Options for `new OpenAI(…)`. `apiKey` is a function: a token lasts 300 s, the client for as long as it likes.
 *
 * organizationId: whose calls these are; needed by members of several organizations.
 */
export function openaiConfig(
  platform: Platform,
  { organizationId, applicationId }: { organizationId?: string | undefined; applicationId?: string | undefined } = {},
): { baseURL: string; apiKey: () => Promise<string>; defaultHeaders: Record<string, string> } {
  return {
    baseURL: `${platform.baseUrl}/ai/v1`,
    apiKey: () => platform.token(),
    defaultHeaders: {
      ...(organizationId !== undefined && { 'X-Organization-Id': organizationId }),
      ...(applicationId !== undefined && { 'X-Application-Id': applicationId }),
    },
  }
}
