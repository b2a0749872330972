import { QueryClientProvider } from '@tanstack/preact-query'
import { ErrorBoundary, lazy, LocationProvider, Route, Router } from 'preact-iso'
import { useMemo } from 'preact/hooks'
import { type Config, ConfigContext } from './config.ts'
import { createApiCache, PlatformContext } from './platform/api.ts'
import { session, type SessionControl } from './session/session.ts'
import { OnTheWay, Stopped } from './session/stopped.tsx'
import { Nothing } from './screens/nothing.tsx'
import { Shell } from './shell/shell.tsx'

const Landing = lazy(() => import('./screens/start/landing.tsx'))
const Start = lazy(() => import('./screens/start/start.tsx'))
const Application = lazy(() => import('./screens/application/application.tsx'))
const Deployments = lazy(() => import('./screens/deployments/deployments.tsx'))
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
                <Router>
                  <Route path="/" component={Landing} />
                  <Route path="/:organization" component={Start} />
                  <Route path="/:organization/:application" component={Application} />
                  <Route path="/:organization/:application/deployments" component={Deployments} />
                  <Route path="/:organization/:application/deployments/:deployment/:part?" component={Deployment} />
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
