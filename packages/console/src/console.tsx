import { QueryClientProvider } from '@tanstack/preact-query'
import { ErrorBoundary, lazy, LocationProvider, Route, Router } from 'preact-iso'
import { useMemo } from 'preact/hooks'
import { type Config, ConfigContext } from './config.ts'
import { createApiCache, PlatformContext } from './platform/api.ts'
import { session, type SessionControl } from './session/session.ts'
import { OnTheWay, Stopped } from './session/stopped.tsx'
import { Nothing } from './screens/nothing.tsx'
import { isPageOnTheWay, Shell } from './shell/shell.tsx'

const Landing = lazy(() => import('./screens/start/landing.tsx'))
const Start = lazy(() => import('./screens/start/start.tsx'))
const Application = lazy(() => import('./screens/application/application.tsx'))
const Deployments = lazy(() => import('./screens/deployments/deployments.tsx'))
const Logs = lazy(() => import('./screens/logs/logs.tsx'))
const Variables = lazy(() => import('./screens/variables/variables.tsx'))
const Keys = lazy(() => import('./screens/keys/keys.tsx'))
const Organization = lazy(() => import('./screens/organization/organization.tsx'))
const OrganizationVariables = lazy(() => import('./screens/variables/organization-variables.tsx'))
const Deployment = lazy(() => import('./screens/deployment/deployment.tsx'))

export function Console({ config, control }: { config: Config; control: SessionControl }) {
  const { value } = session
  const cache = useMemo(() => createApiCache(control.refuse), [value.state === 'signed-in'])
  if (value.state === 'stopped')
    return <Stopped stop={value.stop} sentence={value.sentence} signIn={() => void control.signIn()} />
  if (value.state === 'on-the-way') return <OnTheWay />
  return (
    <ConfigContext.Provider value={config}>
      <QueryClientProvider client={cache}>
        <PlatformContext.Provider value={value.platform}>
          <LocationProvider>
            <Shell signOut={() => void control.signOut()}>
              <ErrorBoundary>
                <Router
                  onLoadStart={() => (isPageOnTheWay.value = true)}
                  onLoadEnd={() => (isPageOnTheWay.value = false)}
                >
                  <Route path="/" component={Landing} />
                  <Route path="/:organization" component={Start} />
                  {/* No slug is `~`. */}
                  <Route path="/:organization/~/organization" component={Organization} />
                  <Route path="/:organization/~/variables" component={OrganizationVariables} />
                  <Route path="/:organization/~/:part*" component={Nothing} />
                  <Route path="/:organization/:application" component={Application} />
                  <Route path="/:organization/:application/deployments" component={Deployments} />
                  <Route path="/:organization/:application/deployments/:deployment/:part?" component={Deployment} />
                  <Route path="/:organization/:application/logs" component={Logs} />
                  <Route path="/:organization/:application/variables" component={Variables} />
                  <Route path="/:organization/:application/keys" component={Keys} />
                  <Route default component={Nothing} />
                </Router>
              </ErrorBoundary>
            </Shell>
          </LocationProvider>
        </PlatformContext.Provider>
      </QueryClientProvider>
    </ConfigContext.Provider>
  )
}
