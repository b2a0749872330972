import { useLocation } from 'preact-iso'
import { buttonClass } from '../parts/button.tsx'
import { Page } from '../parts/page.tsx'

/** An address that names no page. */
export function Nothing() {
  const { path } = useLocation()
  return (
    <Page title="There is no such page">
      <p class="max-w-[60ch]">
        <code class="font-mono break-all">{path}</code> names nothing in the console.
      </p>
      <p>
        <a href="/" class={buttonClass('main')}>
          To your applications
        </a>
      </p>
    </Page>
  )
}
