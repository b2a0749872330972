import { z } from '@hono/zod-openapi'
import { endpoint } from '../deps.ts'
import { id, instant, pathId, shown } from '../../../http/fields.ts'
import { page } from '../../../http/pages.ts'
import { reachApplication } from '../../tenancy/applications/reach.ts'
import { reachDeployment } from '../deployments/reach.ts'
import { label } from '../../tenancy/organizations/labels.ts'
import { checkAvailability, listDeploymentHostnames, listHostnames, setHostname } from './hostnames.ts'

const tag = 'Hostnames'
const spec = 'A §4 Applications'

const hostname = z.string().openapi({ example: 'acme.apps.example.com' })

const Hostname = z
  .object({
    id,
    hostname,
    type: z.enum(['DEPLOYMENT', 'BRANCH', 'APP']),
    active: z.boolean().openapi({ description: 'Whether a deployment answers at this hostname.' }),
    deploymentId: id.nullable(),
    branchId: id.nullable(),
    source: z.enum(['system', 'user']),
    url: z.url().openapi({ format: 'uri', example: 'https://acme.apps.example.net' }),
    createdAt: instant,
  })
  .openapi('Hostname')

const Hostnames = z
  .object({
    ...page(Hostname).shape,
    label: shown('acme').nullable().openapi({ description: 'The production label.' }),
  })
  .openapi('Hostnames')

const ofApplication = { id: pathId('Application') }

export const hostnameEndpoints = [
  endpoint({
    operation: 'listHostnames',
    on: 'GET /applications/{id}/hostnames',
    spec,
    tag,
    summary: 'List hostnames',
    description:
      'Hostnames of the environments and of deployments that still answer, newest first. `label` is the first part of the production hostname, null until it is set.',
    actor: 'any',
    scope: 'network:applications:read',
    params: ofApplication,
    reach: (call) => reachApplication(call, call.params.id),
    returns: [200, Hostnames],
    handle: ({ deps, target }) => listHostnames(deps, target),
  }),
  endpoint({
    operation: 'listDeploymentHostnames',
    on: 'GET /deployments/{id}/hostnames',
    spec: 'A §4 Deployments',
    tag,
    summary: 'List deployment hostnames',
    description:
      'The deployment’s own hostname, and those of its environment while they serve it. A retired deployment keeps its own hostname with `active: false`; it answers 410 there.',
    actor: 'any',
    scope: 'network:deployments:read',
    params: { id: pathId('Deployment') },
    reach: (call) => reachDeployment(call, call.params.id),
    returns: [200, page(Hostname)],
    handle: ({ deps, target }) => listDeploymentHostnames(deps, target),
  }),
  endpoint({
    operation: 'getHostnameAvailability',
    on: 'GET /applications/{id}/hostname/availability',
    spec,
    tag,
    summary: 'Check label availability',
    description:
      '`available` is false, with a `reason`, if the label is taken or reserved. The application’s current label is available to it.',
    actor: 'any',
    scope: 'network:applications:read',
    params: ofApplication,
    query: z.object({ label: label.openapi({ description: 'The label to check.' }) }),
    reach: (call) => reachApplication(call, call.params.id),
    returns: [
      200,
      z
        .object({ available: z.boolean(), reason: shown('The hostname is taken').optional() })
        .openapi('HostnameAvailability'),
    ],
    handle: ({ deps, target, query }) => checkAvailability(deps, target, query.label),
  }),
  endpoint({
    operation: 'setHostname',
    on: 'PUT /applications/{id}/hostname',
    spec,
    tag,
    summary: 'Set the production hostname',
    description:
      'Replaces the current label; works before the first deployment. 409 if another application has the label, 400 if it is reserved. Needs the role OWNER or ADMIN.',
    actor: 'any',
    scope: 'network:applications:write',
    params: ofApplication,
    body: z.strictObject({ label }),
    reach: (call) => reachApplication(call, call.params.id, 'admin'),
    returns: [200, z.object({ label: shown('acme'), hostname, live: z.boolean() }).openapi('ProductionHostname')],
    fails: [409],
    handle: ({ deps, actor, target, body }) => setHostname(deps, actor, target, body.label),
  }),
]
