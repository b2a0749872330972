import { z } from '@hono/zod-openapi'
import { endpoint } from '../../http/endpoint.ts'
import { id, instant, pathId, shown } from '../../http/fields.ts'
import { page } from '../../http/pages.ts'
import { reachApplication } from '../applications/reach.ts'
import { label } from '../organizations/labels.ts'
import { checkAvailability, listHostnames, setHostname } from './hostnames.ts'

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
      'All of them, newest first. `label` is the first part of the production hostname, null until one was set.',
    actor: 'any',
    scope: 'network:applications:read',
    params: ofApplication,
    reach: (call) => reachApplication(call, call.params.id),
    returns: [200, Hostnames],
    handle: ({ deps, target }) => listHostnames(deps, target),
  }),
  endpoint({
    operation: 'getHostnameAvailability',
    on: 'GET /applications/{id}/hostname/availability',
    spec,
    tag,
    summary: 'Ask whether the application could have a label',
    description:
      '`available` is false, with a reason, for a label that is taken or reserved. The label that the application has is available to it.',
    actor: 'any',
    scope: 'network:applications:read',
    params: ofApplication,
    query: z.object({ label: label.openapi({ description: 'The label to ask for.' }) }),
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
      'May be done before anything is deployed. Takes the place of the label that was set before; 409 when another application has it, 400 when it is reserved. Needs the role OWNER or ADMIN.',
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
