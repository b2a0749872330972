// Imports go one way. An arrow leads from who imports to what is imported: tests → testing → services → packages. In the API it is
// main → run → compose → areas → http → packages; the roles import no area. In the identity provider it is main → run → roles →
// features → site → http → packages, where `site` is what all pages of the account site share. Tests may import anything and are
// left out.

/** The areas of the API, lowest first, and which areas each may import. Whatever is not named fails. */
export const arrows = {
  cluster: [],
  tenancy: ['cluster'],
  credentials: ['tenancy'],
  ai: ['tenancy'],
  storage: ['tenancy', 'credentials'],
  // ai: the billing cap counts what models cost.
  deploy: ['cluster', 'tenancy', 'credentials', 'storage', 'ai'],
  observe: ['cluster', 'tenancy', 'deploy'],
  edge: ['cluster', 'tenancy', 'storage', 'deploy', 'observe'],
  // observe: the overview of an organization's applications reads the sums of requests.
  overview: ['tenancy', 'storage', 'deploy', 'edge', 'observe'],
}

const areas = '^services/api/src/areas/'
const feature = `^services/idp/src/features/[^/]+$|${areas}[^/]+/[^/]+$`

/**
 * Features of the identity provider by level; those that are not named are pages of the account site, above both. None imports a
 * feature of a level above its own.
 */
const rules =
  '^services/idp/src/features/(access|accounts|attempts|clients|consents|grants|known-browsers|links|mail|refresh|sessions)/'
const protocol = '^services/idp/src/features/(authorize|device|discovery|revoke|token|userinfo)/'

export default {
  forbidden: [
    {
      name: 'features-in-a-circle',
      comment: 'Of two features one is built on the other. Subfolders belong to their feature; type imports count.',
      severity: 'error',
      scope: 'folder',
      from: { path: feature },
      to: { circular: true },
    },
    ...Object.entries(arrows).map(([area, below]) => ({
      name: `${area}-knows-an-area-above`,
      comment: 'The table at the head of this file says which areas an area may import.',
      severity: 'error',
      from: { path: `${areas}${area}/` },
      to: { path: areas, pathNot: `${areas}(${[area, ...below].join('|')})/` },
    })),
    {
      name: 'package-knows-service',
      severity: 'error',
      from: { path: '^packages/' },
      to: { path: '^(services|testing|infra|bench)/' },
    },
    {
      name: 'package-below-knows-package-above',
      comment: 'auth imports service; service imports errors, runtime and ratelimit.',
      severity: 'error',
      from: { path: '^packages/(errors|runtime|ratelimit)/' },
      to: { path: '^packages/(service|auth|[^/]+-protocol)/' },
    },
    {
      name: 'service-package-knows-auth',
      severity: 'error',
      from: { path: '^packages/service/' },
      to: { path: '^packages/(auth|[^/]+-protocol)/' },
    },
    {
      name: 'runtime-knows-http',
      severity: 'error',
      from: { path: '^packages/runtime/' },
      to: { path: '^(node:)?https?$' },
    },
    {
      name: 'protocol-knows-platform',
      comment:
        'A protocol knows no database. Of packages/service it takes what HTTP says of tags, conditions and ranges.',
      severity: 'error',
      from: { path: '^packages/[^/]+-protocol/' },
      to: {
        path: ['^packages/(auth|ratelimit|runtime)/', 'node_modules/(drizzle-orm|postgres|ioredis|hono)/'],
      },
    },
    {
      name: 'service-knows-service',
      severity: 'error',
      from: { path: '^services/([^/]+)/' },
      to: { path: '^services/', pathNot: '^services/$1/' },
    },
    {
      name: 'product-knows-tests',
      severity: 'error',
      from: { path: '^(services|packages)/', pathNot: '^packages/testkit/' },
      to: { path: '^(testing|packages/testkit)/' },
    },
    {
      name: 'feature-knows-who-starts-it',
      comment: 'A feature takes what it uses as arguments.',
      severity: 'error',
      from: { path: '^services/[^/]+/src/(features|areas|site|http)/', pathNot: `${areas}[^/]+/area\\.ts$` },
      to: {
        path: [
          '^services/[^/]+/src/(drivers|roles|commands)/',
          '^services/[^/]+/src/(config|compose|run|main|cli|commands|endpoints|schema)\\.ts$',
        ],
      },
    },
    {
      name: 'area-knows-who-starts-it',
      comment: 'What opens an area reads the configuration, and knows no more of what stands above.',
      severity: 'error',
      from: { path: `${areas}[^/]+/area\\.ts$` },
      to: { path: '^services/api/src/(roles/|(compose|run|main|cli|commands|endpoints|schema)\\.ts$)' },
    },
    {
      name: 'area-is-known-below-it',
      comment: 'What every area stands on, and what starts them all, names none.',
      severity: 'error',
      from: { path: '^services/api/src/((http|roles)/|(core|area)\\.ts$)' },
      to: { path: areas },
    },
    {
      name: 'area-is-opened-twice',
      comment: 'compose.ts opens each area once.',
      severity: 'error',
      from: { pathNot: '^services/api/src/compose\\.ts$' },
      to: { path: `${areas}[^/]+/area\\.ts$` },
    },
    ...[
      ['endpoints', 'endpoints'],
      ['tables', 'schema'],
      ['commands', 'commands'],
    ].map(([list, all]) => ({
      name: `list-of-${list}-is-imported`,
      comment: 'By the list of all areas, and by what opens its own.',
      severity: 'error',
      from: { pathNot: `^services/api/src/${all}\\.ts$|${areas}[^/]+/area\\.ts$` },
      to: { path: `${areas}[^/]+/${list}\\.ts$` },
    })),
    {
      name: 'area-lists-another',
      comment: 'What opens and lists an area knows the lists and routes of its own alone.',
      severity: 'error',
      from: { path: `${areas}([^/]+)/(area|endpoints)\\.ts$` },
      to: { path: `${areas}.*(endpoints|tables|commands|routes)\\.ts$`, pathNot: `${areas}$1/` },
    },
    {
      name: 'feature-knows-driver',
      comment: 'Which driver stands behind an interface is chosen where its area is opened.',
      severity: 'error',
      from: { path: areas, pathNot: `${areas}[^/]+/(drivers/|area\\.ts$)` },
      to: { path: `${areas}[^/]+/drivers/` },
    },
    {
      name: 'area-knows-driver-of-another',
      severity: 'error',
      from: { path: `${areas}([^/]+)/area\\.ts$` },
      to: { path: `${areas}[^/]+/drivers/`, pathNot: `${areas}$1/` },
    },
    {
      name: 'site-knows-feature',
      comment:
        'What every page is made of knows none of them. What it needs of a feature is handed in by endpoints.ts.',
      severity: 'error',
      from: { path: '^services/[^/]+/src/site/' },
      to: { path: '/src/features/' },
    },
    {
      name: 'http-knows-site',
      severity: 'error',
      from: { path: '^services/idp/src/http/' },
      to: { path: '/src/(site|features)/' },
    },
    {
      name: 'rule-knows-flow',
      comment: 'Accounts, sessions and grants do not know which endpoint or page asks.',
      severity: 'error',
      from: { path: rules },
      to: { path: '^services/idp/src/features/', pathNot: rules },
    },
    {
      name: 'protocol-knows-page',
      severity: 'error',
      from: { path: protocol },
      to: { path: '^services/idp/src/features/', pathNot: [rules, protocol] },
    },
    {
      name: 'routes-are-imported',
      comment: 'Only the list of endpoints does so: what two features share has a file of its own.',
      severity: 'error',
      from: { pathNot: ['^services/idp/src/endpoints\\.ts$', `${areas}[^/]+/endpoints\\.ts$`] },
      to: {
        path: [
          '/src/features/[^/]+/routes\\.ts$',
          `${areas}.*/routes\\.ts$`,
          '^services/idp/src/features/[^/]+/[a-z-]*pages\\.ts$',
        ],
      },
    },
    {
      name: 'service-knows-client',
      comment: 'The SDK, the command line and the console reach the platform by its API, as everybody does.',
      severity: 'error',
      from: { path: '^(services|testing|packages)/', pathNot: '^packages/(sdk|cli|console)/' },
      to: { path: '^packages/(sdk|cli|console)/' },
    },
    {
      name: 'command-line-stands-on-the-sdk',
      comment: 'By what programs can use too: what it needs beside is in the SDK, or missing there.',
      severity: 'error',
      from: { path: '^packages/cli/src/' },
      to: {
        path: '^packages/',
        pathNot: ['^packages/cli/src/', '^packages/sdk/src/(index|(dotenv|node|pack|sign-in|uploads)/index)\\.ts$'],
      },
    },
    {
      name: 'console-stands-on-the-sdk',
      comment:
        'By what runs in a browser; the lint rule of packages/console sees to it that nothing else asks the platform.',
      severity: 'error',
      from: { path: '^packages/console/src/' },
      to: {
        path: '^packages/',
        pathNot: [
          '^packages/console/src/',
          '^packages/look/src/(name|slabs)\\.ts$',
          '^packages/sdk/src/(index|(dotenv|pack|sign-in|uploads)/index)\\.ts$',
        ],
      },
    },
    {
      name: 'client-knows-platform',
      comment: 'What people install holds nothing of the platform.',
      severity: 'error',
      from: { path: '^packages/sdk/src/' },
      to: { path: '^packages/', pathNot: '^packages/sdk/src/' },
    },
    { name: 'unresolved', severity: 'error', from: {}, to: { couldNotResolve: true } },
  ],
  options: {
    tsPreCompilationDeps: true,
    doNotFollow: { path: 'node_modules' },
    exclude: { path: '\\.test\\.ts$|^(services|packages)/[^/]+/test/|/vitest\\.config\\.ts$|/drizzle\\.config\\.ts$' },
    enhancedResolveOptions: {
      extensions: ['.ts', '.tsx', '.mjs', '.js', '.json'],
      exportsFields: ['exports'],
      conditionNames: ['import', 'node', 'default', 'types'],
    },
  },
}
