import { z } from '@hono/zod-openapi'
import { endpoint } from '../../http/endpoint.ts'
import { id, instant, pathId, shown } from '../../http/fields.ts'
import { page } from '../../http/pages.ts'
import { reachApplication } from '../applications/reach.ts'
import { reachDeployment } from '../deployments/reach.ts'
import { label } from '../organizations/labels.ts'
import { checkAvailability, listDeploymentHostnames, listHostnames, setHostname } from './hostnames.ts'

const tag = 'Hostnames'
const spec = 'A §4 Applications'

const hostname = z.string().openapi({ example: 'acme.apps.example.com' })

const Hostname = z
  .object({
    id,
    hostname,
    type: z.enum(['DEPLOYMENT', 'BRANCH', 'APP']),
    active: z.boolean().openapi({ description: 'Whether a deployment answers there.' }),
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
    summary: 'List the hostnames of an application',
    description:
      'Hostnames of its environments and of its deployments that still answer, newest first. `label` is the first part of the production hostname; null until one is set.',
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
    summary: 'List the hostnames of a deployment',
    description:
      'Its own hostname, which it has from its creation on, and those of its environment while they serve this deployment. A retired deployment keeps its own with `active: false`, and answers 410 there.',
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
      '`available` is false, with a reason, for a label that is taken or reserved. The label that the application has is available to it.',
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
      'Possible before anything is deployed. Replaces the label that was set before; 409 if another application has it, 400 if it is reserved. Needs the role OWNER or ADMIN.',
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
