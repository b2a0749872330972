import { containerOf, deploymentsOf, type Workload, workloadsOf } from '@platform/testkit/kubernetes-manifests'
import { exampleFields, exampleSecrets, ofKind, type Rule, startsWith, unless } from './rule-parts.ts'

/** The variable of each named port, as the roles of the API and the identity provider read it. */
const portVariables = (workload: string): Record<string, string> => ({
  http: workload === 'edge' ? 'EDGE_PORT' : 'PORT',
  console: 'CONSOLE_PORT',
  s3: 'S3_PORT',
  internal: 'EDGE_INTERNAL_PORT',
  health: 'HEALTH_PORT',
})

const serviceOf = (workload: Workload): 'api' | 'idp' =>
  containerOf(workload).args[1]?.startsWith('services/idp/') ? 'idp' : 'api'

export const variablesExist: Rule = (manifests, services) =>
  workloadsOf(manifests).flatMap((workload) => {
    const { name } = workload.metadata
    const { variables, loadConfig } = services[serviceOf(workload)]
    const { env = [], envFrom = [] } = containerOf(workload)
    const maps = ofKind(manifests, 'ConfigMap').filter(({ metadata }) =>
      envFrom.some(({ configMapRef }) => configMapRef?.name === metadata.name),
    )
    const set = [...env.map((each) => each.name), ...maps.flatMap(({ data = {} }) => Object.keys(data))]
    const isPutInto = (variable: string) => env.some(({ value }) => String(value).includes(`$(${variable})`))
    const wrong = [
      ...set
        .filter((each) => !variables.includes(each) && !isPutInto(each))
        .map((each) => `there is no variable ${each}`),
      ...set.filter((each) => secretVariables.has(each)).map((each) => `${each} belongs into a Secret`),
      ...env
        .filter((each, n) => env.findIndex((other) => other.name === each.name) !== n)
        .map((each) => `${each.name} is set twice`),
    ]
    try {
      const values = startsWith(workload, manifests)
      const config = loadConfig(values) as Record<string, unknown>
      wrong.push(
        ...Object.keys(values)
          .filter((each) => values[each]?.includes('$('))
          .map((each) => `${each} holds a variable that has no value`),
        ...(containerOf(workload).ports ?? [])
          .filter((port) => config[portVariables(name)[port.name] ?? ''] !== port.containerPort)
          .map((port) => `nothing listens on the port ${port.name}, ${port.containerPort}`),
        ...['HOST', 'HEALTH_HOST']
          .filter((each) => workload.kind === 'Deployment' && config[each] !== '0.0.0.0')
          .map((each) => `${each} is not 0.0.0.0, so no other pod reaches it`),
      )
    } catch (error) {
      wrong.push((error as Error).message)
    }
    return wrong.map((what) => `${name}: ${what}`)
  })
/** Those of every Secret, and what else may hold a password. */
const secretVariables = new Set(Object.values(exampleSecrets).flatMap((secret) => Object.keys(secret)))

/** What variables of one service say of the other, or of Services. */
export const variablesAgree: Rule = (manifests) => {
  const find = (name: string) => deploymentsOf(manifests).find(({ metadata }) => metadata.name === name)
  const [api, idp, edge] = ['api', 'idp', 'edge'].map((name) => {
    const found = find(name)
    return found ? startsWith(found, manifests) : {}
  }) as [Record<string, string>, Record<string, string>, Record<string, string>]
  const leads = (url: string | undefined, name: string): boolean => {
    const service = ofKind(manifests, 'Service').find(({ metadata }) => metadata.name === name)
    const [http] = service?.spec.ports ?? []
    return http !== undefined && url === `http://${name}:${http.port}`
  }
  const issuers = (idp['INVITATION_ISSUERS'] ?? '').split(',').map((entry) => entry.split('='))
  return [
    ...unless(api['IDP_URL'] === idp['PUBLIC_URL'], 'IDP_URL of api is not PUBLIC_URL of idp'),
    ...unless(
      idp['AUDIENCES']?.split(',').includes(api['PUBLIC_URL'] ?? '') === true,
      'AUDIENCES of idp lacks the API',
    ),
    ...unless(
      issuers.some(([issuer]) => issuer === api['PUBLIC_URL']),
      'INVITATION_ISSUERS of idp lacks the API, so nobody can take an invitation',
    ),
    ...issuers
      .filter(([issuer, fetchFrom]) => issuer === api['PUBLIC_URL'] && !leads(fetchFrom, 'api'))
      .map(() => 'INVITATION_ISSUERS leads to no Service api'),
    ...unless(leads(api['IDP_INTERNAL_URL'], 'idp'), 'IDP_INTERNAL_URL leads to no Service idp'),
    ...unless(leads(edge['API_INTERNAL_URL'], 'api'), 'API_INTERNAL_URL leads to no Service api'),
    ...unless(
      edge['EDGE_INTERNAL_URL'] === `http://${exampleFields['status.podIP']}:${edge['EDGE_INTERNAL_PORT']}`,
      'EDGE_INTERNAL_URL is not the address and port of the pod',
    ),
    ...unless(
      Boolean(api['CONSOLE_URL'] && api['CONSOLE_CLIENT_IDS']),
      'There is no console: its URL or client is missing',
    ),
  ]
}

/** The program of each workload, as an argument of node. */
const programs: Readonly<Record<string, string>> = {
  api: 'services/api/src/main.ts api',
  edge: 'services/api/src/main.ts edge',
  worker: 'services/api/src/main.ts worker',
  idp: 'services/idp/src/main.ts',
  'migrate-api': 'services/api/src/cli.ts migrate',
  'migrate-idp': 'services/idp/src/cli.ts migrate',
}
export const programsAreTheirs: Rule = (manifests) =>
  workloadsOf(manifests).flatMap((workload) => {
    const { args, command } = containerOf(workload)
    const { name } = workload.metadata
    return unless(
      // The image's entrypoint is tini, which passes signals on.
      command === undefined && args.join(' ') === `node ${programs[name]}`,
      `${name} does not start ${programs[name]}`,
    )
  })
