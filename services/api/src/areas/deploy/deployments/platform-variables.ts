import type { Deployment } from './transitions.ts'

interface About {
  deployment: Pick<Deployment, 'id' | 'label'>
  environment: string
  /** The first label of the application's own hostname; null if none is set. */
  productionLabel: string | null
  appsUrl: URL
}

/** Variables that describe where builds and Functions run, under the names that frameworks look for. */
export function platformVariables({
  deployment,
  environment,
  productionLabel,
  appsUrl,
}: About): Record<string, string> {
  const host = `${deployment.label}.${appsUrl.host}`
  return {
    VERCEL: '1',
    VERCEL_ENV: environment,
    VERCEL_URL: host,
    VERCEL_PROJECT_PRODUCTION_URL: productionLabel === null ? host : `${productionLabel}.${appsUrl.host}`,
    VERCEL_DEPLOYMENT_ID: deployment.id,
  }
}
