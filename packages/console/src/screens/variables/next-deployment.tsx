import { Rocket } from 'lucide-preact'
import { buttonClass } from '../../parts/button.tsx'

/** When a change takes effect, and the way there. isOfAll: of all applications of an organization. */
export function NextDeployment({
  isShown,
  href,
  verb,
  isOfAll = false,
}: {
  isShown: boolean
  href: string
  verb: string
  isOfAll?: boolean
}) {
  return (
    // An empty region takes no room between the parts of a page.
    <div role="status" class="empty:-mb-8">
      {isShown && (
        <div class="flex flex-wrap items-center justify-between gap-3 rounded-control border-s-4 border-accent bg-accent-tint p-3">
          <p>
            {isOfAll
              ? 'The change takes effect with the next deployment of each application.'
              : 'The change takes effect with the next deployment. What is live keeps the values that it was deployed with.'}
          </p>
          <a href={href} class={buttonClass('main')}>
            <Rocket size={16} strokeWidth={1.5} aria-hidden="true" /> {verb}
          </a>
        </div>
      )}
    </div>
  )
}
