import { useLocation } from 'preact-iso'
import { buttonClass } from '../parts/button.tsx'
import { Page } from '../parts/page.tsx'

/** An address that names no page. */
export function Nothing() {
  const { path } = useLocation()
  return (
    <Page title="There is no such page">
      <p class="max-w-[60ch]">
        <code class="font-mono break-all">{path}</code> names nothing in the console: pages are{' '}
        <code class="font-mono">/organization</code>, <code class="font-mono">/organization/application</code> and its{' '}
        <code class="font-mono">deployments</code>.
      </p>
      <p>
        <a href="/" class={buttonClass('main')}>
          To your applications
        </a>
      </p>
    </Page>
  )
}
