import { z } from '@hono/zod-openapi'
import { line, lines, shown } from '../../../http/fields.ts'

/** Postgres's largest integer. */
const PULL_REQUEST_MAX = 2_147_483_647

/** As a pattern for the document, too: an authority without user or password. What follows has no spaces and no backslashes. */
const REPOSITORY = /^https?:\/\/[^\s\\/?#@]+([/?#][^\s\\]*)?$/u

const commit = '8f3b6f0c2d1e4a59b7c8d9e0f1a2b3c4d5e6f708'
const branch = 'feature/checkout'
const message = 'Show the total before paying'
const repository = 'https://git.example.com/acme/shop'
const pullRequest = z.number().int().min(1).max(PULL_REQUEST_MAX).openapi({ example: 42 })

/** What a client may state about the commit that it deploys (D122). Limits count characters. */
export const sentGit = z.strictObject({
  commit: line(64).optional().openapi({ example: commit }),
  branch: line(255).optional().openapi({ example: branch }),
  message: lines(1_000).optional().openapi({ description: 'May have several lines.', example: message }),
  isDirty: z.boolean().optional().openapi({ description: 'Whether files differ from the commit.' }),
  pullRequest: pullRequest.optional(),
  // CI systems like to put a token in the URL that they clone from; everyone who reads the deployment would see it.
  repository: line(2_048)
    .refine(
      (text) => REPOSITORY.test(text) && URL.canParse(text),
      'Expected an http or https URL without user, password and spaces',
    )
    .optional()
    .openapi({
      format: 'uri',
      pattern: REPOSITORY.source,
      description: 'An http or https URL without user and password.',
      example: repository,
    }),
})

/** The same as a deployment shows it: every member, null where nothing was sent. */
export const shownGit = z.object({
  commit: shown(commit).nullable(),
  branch: shown(branch).nullable(),
  message: shown(message).nullable(),
  isDirty: z.boolean().nullable(),
  pullRequest: pullRequest.nullable(),
  repository: z.string().nullable().openapi({ format: 'uri', example: repository }),
})

export type GitMetadata = z.output<typeof shownGit>

/** What was sent, as it is stored; null if no member was. */
export function gitMetadataOf(sent: z.output<typeof sentGit> | undefined): GitMetadata | null {
  if (sent === undefined || Object.keys(sent).length === 0) return null
  const { commit = null, branch = null, message = null, isDirty = null, pullRequest = null, repository = null } = sent
  return { commit, branch, message, isDirty, pullRequest, repository }
}
