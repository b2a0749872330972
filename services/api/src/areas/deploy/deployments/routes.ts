import { z } from '@hono/zod-openapi'
import { BadRequest } from '@platform/errors/api-error'
import { endpoint } from '../deps.ts'
import { endingEventStream } from '../../../http/endpoint.ts'
import { id, instant, pathId, shown, text } from '../../../http/fields.ts'
import { keysetQuery, offsetPage, offsetQuery, page } from '../../../http/pages.ts'
import { requireApplicationProduct } from '../../tenancy/applications/product-access.ts'
import { findNamedEnvironment, reachApplication, reachEnvironmentOf } from '../../tenancy/applications/reach.ts'
import { ROOT_DIRECTORY_BYTES_MAX } from '../../tenancy/applications/root-directory.ts'
import { requireStreamAuthority } from '../../cluster/streams/stream-authority.ts'
import { placeToFollowFrom } from './build-log-feed.ts'
import { buildLogPage } from './build-log-page.ts'
import { createDeployment, deploymentsPage } from './deployments.ts'
import { gitMetadataOf, sentGit, shownGit } from './git-metadata.ts'
import { PART_NUMBER_MAX } from './part-url.ts'
import { cancelDeployment, promoteDeployment } from './promote.ts'
import { reachDeployment, reachDeploymentList } from './reach.ts'
import { shownDeployment } from './shown-deployment.ts'
import { deploymentStatuses } from './table.ts'
import { completeUpload, createPartUrl, startUpload } from './upload.ts'

const tag = 'Deployments'
const spec = 'A §4 Deployments'
const COMPLETE_BYTES_MAX = 2 * 1_024 * 1_024

const bytes = z.number().int().min(0).openapi({ example: 48_213 })

const Deployment = z
  .object({
    id,
    applicationId: id,
    environmentId: id,
    environment: z.enum(['production', 'preview']),
    status: z.enum(deploymentStatuses).openapi({ description: 'ACTIVE and FAILED are final.' }),
    hostname: shown('shop-3f9c01ab.apps.example.net').openapi({
      description: 'The deployment’s own hostname, which serves no other.',
    }),
    url: z.url().openapi({ format: 'uri', example: 'https://shop-3f9c01ab.apps.example.net' }),
    isProduction: z.boolean(),
    isCurrent: z.boolean().openapi({ description: 'Whether the hostname of its environment serves this deployment.' }),
    failureReason: shown('The archive holds no files').nullable(),
    retiredAt: instant
      .nullable()
      .openapi({ description: 'When the deployment was retired. It no longer answers, and its files are removed.' }),
    git: shownGit.nullable().openapi({ description: 'Git metadata as the client stated it; null if it sent none.' }),
    createdBy: z.object({ type: z.enum(['user', 'api_key']), id: shown('0199a3f0-5b7c-7cc0-9d3f-2f6f5c1b7a10') }),
    sizeBytes: bytes.nullable().openapi({ description: 'Total size of the files it serves.' }),
    buildDurationMs: z.number().int().min(0).nullable().openapi({ example: 840 }),
    variables: z
      .array(
        z.object({
          key: shown('LOG_LEVEL'),
          source: z.enum(['organization', 'application', 'environment']),
          digest: shown('mZk4pR0bJ5s').openapi({
            description: 'Changes with the value, which cannot be derived from it.',
          }),
        }),
      )
      .nullable()
      .openapi({ description: 'The variables it was provisioned with; null before that.' }),
    createdAt: instant,
    updatedAt: instant,
  })
  .openapi('Deployment')

const BuildLog = z
  .object({
    id,
    message: shown('Stored 12 new files of 40'),
    type: z.enum(['INFO', 'WARN', 'ERROR', 'DEBUG']),
    createdAt: instant.openapi({ description: 'Unique within the deployment, and increasing.' }),
  })
  .openapi('BuildLog')

/** A slug or a UUID: either is text of this form. */
const environmentFilter = z
  .string()
  .max(63)
  .regex(/^[A-Za-z0-9]+(-[A-Za-z0-9]+)*$/, 'Expected the slug or UUID of an environment')
  .openapi({ example: 'production' })

const ofDeployment = { id: pathId('Deployment') }
const read = 'network:deployments:read'
const trigger = 'network:deployments:trigger'
const uploadId = id.openapi({ description: 'The id that `upload/start` returned.' })
const partNumber = z.number().int().min(1).max(PART_NUMBER_MAX).openapi({ example: 1 })
const ETAG = '"9dd4e461268c8034f5c8564e155c67a6"' // of the byte "x"

const parts = z
  .array(
    z.strictObject({
      partNumber,
      etag: z
        .string()
        .regex(/^(?:"[0-9a-fA-F]{32}"|[0-9a-fA-F]{32})$/, 'Expected the ETag that the part was answered with')
        .openapi({ example: ETAG }),
    }),
  )
  .min(1)
  .max(PART_NUMBER_MAX)
  .superRefine((list, context) => {
    const seen = new Set<number>()
    for (const [index, part] of list.entries()) {
      if (seen.has(part.partNumber))
        context.addIssue({ code: 'custom', path: [index, 'partNumber'], message: 'Expected each part once' })
      seen.add(part.partNumber)
    }
  })

export const deploymentEndpoints = [
  endpoint({
    operation: 'listDeployments',
    on: 'GET /deployments',
    spec,
    tag,
    summary: 'List deployments',
    description:
      'Deployments of every application that the caller can reach, newest first. API keys see those of their own application. 400 if `environment` and `environmentId` contradict each other.',
    actor: 'any',
    scope: read,
    query: z.object({
      ...keysetQuery,
      organizationId: id.optional().openapi({ description: 'Deployments of this organization.' }),
      applicationId: id.optional().openapi({ description: 'Deployments of this application.' }),
      environment: environmentFilter
        .optional()
        .openapi({ description: 'Deployments in the environment with this UUID, or in all with this slug.' }),
      environmentId: environmentFilter
        .optional()
        .openapi({ description: 'Alias of `environment`; if both are sent, they must agree.' }),
      status: z.enum(deploymentStatuses).optional().openapi({ description: 'Deployments with this status.' }),
    }),
    reach: (call) => reachDeploymentList(call, call.query),
    returns: [200, page(Deployment)],
    fails: [400],
    handle: ({ deps, target, query: { from, limit, status } }) =>
      deploymentsPage(deps, target, { from, limit, status }),
  }),
  endpoint({
    operation: 'createDeployment',
    on: 'POST /deployments',
    spec,
    tag,
    summary: 'Create a deployment',
    description:
      'The deployment is PENDING until its archive is uploaded: start the upload, PUT each part, then complete it. It fails if that takes longer than a day. 402 when the organization has reached its billing cap or used its included compute; 429 without `Retry-After` when the plan quota is used up.',
    actor: 'any',
    scope: trigger,
    body: z
      .strictObject({
        applicationId: id,
        environment: text(255)
          .optional()
          .openapi({ description: 'Slug or UUID of an environment; `production` by default.', example: 'preview' }),
        environmentId: text(255)
          .optional()
          .openapi({ description: 'Alias of `environment`; send one of the two.', example: 'preview' }),
        rootDirectory: text(ROOT_DIRECTORY_BYTES_MAX).optional().openapi({
          description: 'The folder of the archive to deploy, instead of the application’s root directory.',
          example: 'apps/shop',
        }),
        git: sentGit.optional().openapi({
          description:
            'Git metadata to show with the deployment. The platform neither fetches nor verifies it. Lengths count characters.',
        }),
        // Only its presence counts; it may be nested too deeply to serialize again.
        gitSource: z
          .unknown()
          .transform((value) => (value === undefined ? undefined : true))
          .optional()
          .openapi({ type: 'object', description: 'Not supported yet (400). Upload an archive instead.', example: {} }),
      })
      .openapi({
        example: {
          applicationId: '0199a3f0-5b7c-7cc0-9d3f-2f6f5c1b7a10',
          environment: 'preview',
          git: { commit: '8f3b6f0c2d1e4a59b7c8d9e0f1a2b3c4d5e6f708', branch: 'feature/checkout', pullRequest: 42 },
        },
      }),
    async reach(call) {
      const application = await reachApplication(call, call.body.applicationId)
      await requireApplicationProduct(call.deps, 'network', application.id)
      const environment =
        (await findNamedEnvironment(call, application, call.body)) ??
        (await reachEnvironmentOf(call, application, undefined))
      return { application, environment }
    },
    returns: [201, Deployment],
    fails: [402, 404],
    handle({ deps, actor, target, body }) {
      if (body.gitSource !== undefined) throw new BadRequest('gitSource is not supported yet: upload an archive')
      return createDeployment(deps, actor, target, {
        rootDirectory: body.rootDirectory,
        git: gitMetadataOf(body.git),
      })
    },
  }),
  endpoint({
    operation: 'getDeployment',
    on: 'GET /deployments/{id}',
    spec,
    tag,
    summary: 'Get a deployment',
    description:
      'Includes the status; `failureReason` says why a deployment failed. 365 days after it was retired or has failed a deployment is deleted, unless the operator chose another time: it then answers 404, with everything below it.',
    actor: 'any',
    scope: read,
    params: ofDeployment,
    reach: (call) => reachDeployment(call, call.params.id),
    returns: [200, Deployment],
    handle: ({ deps, target }) => shownDeployment(deps, target),
  }),
  endpoint({
    operation: 'startUpload',
    on: 'POST /deployments/{id}/upload/start',
    spec: 'A §4 Deployments, D80',
    tag,
    summary: 'Start an upload',
    description: 'Returns the same upload every time until it is complete, then 409.',
    actor: 'any',
    scope: trigger,
    params: ofDeployment,
    reach: (call) => reachDeployment(call, call.params.id),
    returns: [200, z.object({ uploadId: id }).openapi('Upload')],
    fails: [409],
    handle: ({ deps, target }) => startUpload(deps, target),
  }),
  endpoint({
    operation: 'createPartUrl',
    on: 'POST /deployments/{id}/upload/part',
    spec: 'A §4 Deployments, D80',
    tag,
    summary: 'Create a part upload URL',
    description:
      'PUT the bytes of the part to `url` within an hour; the URL needs no token. The response has an `ETag`, which `upload/complete` asks for. Uploading a part again replaces it. 413 when all parts together exceed the archive size of the plan.',
    actor: 'any',
    scope: trigger,
    params: ofDeployment,
    body: z.strictObject({ uploadId, partNumber }),
    reach: (call) => reachDeployment(call, call.params.id),
    returns: [
      200,
      z
        .object({
          url: z.url().openapi({
            format: 'uri',
            example:
              'https://api.example.com/files/deployments/0199a3f0-5b7c-7cc0-9d3f-2f6f5c1b7a10/1?expires=1795600000&signature=k1.Zm9v',
          }),
        })
        .openapi('PartUrl'),
    ],
    fails: [409],
    handle: ({ deps, target, body }) => createPartUrl(deps, target, body),
  }),
  endpoint({
    operation: 'completeUpload',
    on: 'POST /deployments/{id}/upload/complete',
    spec: 'A §4 Deployments, D45, D80',
    tag,
    summary: 'Complete an upload',
    description:
      'Lists every part with its ETag, in any order, numbered from 1 without gaps; parts that are left out are discarded. The deployment becomes QUEUED. Repeating the same list returns 204, a different one 409.',
    actor: 'any',
    scope: trigger,
    params: ofDeployment,
    body: z.strictObject({ uploadId, parts }),
    bodyBytesMax: COMPLETE_BYTES_MAX,
    reach: (call) => reachDeployment(call, call.params.id),
    returns: [204],
    fails: [409],
    handle: ({ deps, target, body }) => completeUpload(deps, target, body),
  }),
  endpoint({
    operation: 'promoteDeployment',
    on: 'POST /deployments/{id}/promote',
    spec: 'wire.md Deployments',
    tag,
    summary: 'Promote a deployment',
    description:
      'Makes an ACTIVE deployment the current one of its environment within a second, without a build and with the variables that it was provisioned with. Use it to roll back. Builds that are already running do not replace it; deployments created later do. 409 if the deployment is not ACTIVE or has been retired.',
    actor: 'any',
    scope: trigger,
    params: ofDeployment,
    reach: (call) => reachDeployment(call, call.params.id),
    returns: [200, Deployment],
    fails: [409],
    handle: ({ deps, actor, target }) => promoteDeployment(deps, actor, target),
  }),
  endpoint({
    operation: 'cancelDeployment',
    on: 'POST /deployments/{id}/cancel',
    spec: 'wire.md Deployments',
    tag,
    summary: 'Cancel a deployment',
    description: 'Fails a deployment that has not ended yet, with the reason `Cancelled`. 409 if it has ended.',
    actor: 'any',
    scope: trigger,
    params: ofDeployment,
    reach: (call) => reachDeployment(call, call.params.id),
    returns: [200, Deployment],
    fails: [409],
    handle: ({ deps, actor, target }) => cancelDeployment(deps, actor, target),
  }),
  endpoint({
    operation: 'listBuildLogs',
    on: 'GET /deployments/{id}/logs',
    spec: 'A §1 Pagination, D84',
    tag,
    summary: 'List build log lines',
    description:
      'Oldest first. To poll, send the `createdAt` of the last line as `createdAt[gt]`; to be notified, open the stream.',
    actor: 'any',
    scope: read,
    params: ofDeployment,
    query: z.object({
      ...offsetQuery,
      'createdAt[gt]': instant.optional().openapi({ description: 'Lines after this moment.' }),
    }),
    reach: (call) => reachDeployment(call, call.params.id),
    returns: [200, offsetPage(BuildLog)],
    handle: ({ deps, target, query: { offset, limit, 'createdAt[gt]': after } }) =>
      buildLogPage(deps, target.id, { offset, limit, after }),
  }),
  endpoint({
    operation: 'streamBuildLog',
    on: 'GET /deployments/{id}/logs/stream',
    spec: 'A §6, D47, D85',
    tag,
    summary: 'Stream the build log',
    description:
      'Server-sent events: `log` for each line, with the id of the line; `status` on connect and whenever the status changes; `end` once the deployment has ended and every line has been sent. Starts at the first line, or after `Last-Event-ID`; 204 if nothing is left. A stream ends after 15 minutes, or within a minute of its reader losing access. 429 `too_many_concurrent_streams` when the deployment has 20 open streams.',
    actor: 'any',
    scope: read,
    params: ofDeployment,
    headers: z.object({ 'Last-Event-ID': id.optional().openapi({ description: 'The id of the last line received.' }) }),
    reach: (call) => reachDeployment(call, call.params.id),
    returns: [200, endingEventStream],
    async handle({ deps, actor, target, headers }) {
      const place = await placeToFollowFrom(deps, target.id, headers['Last-Event-ID'])
      if (place === undefined) return undefined
      return deps.buildLogFeed.watch(target.id, place, () =>
        requireStreamAuthority({ deps, actor }, () => reachDeployment({ deps, actor }, target.id)),
      )
    },
  }),
]
