import type { ApiKey } from '@platform/sdk'
import { useEffect, useLayoutEffect, useRef } from 'preact/hooks'
import { useConfig } from '../../config.ts'
import { Button } from '../../parts/button.tsx'
import { Copy } from '../../parts/copy.tsx'
import { configurationsOf } from './configuration.ts'
import { useHeadingAfter } from './heading-after.ts'
import { SECRET, type ShownSecret } from './shown-secret.ts'

/** A key that was just created. */
export interface MadeKey {
  key: ApiKey
  secret: ShownSecret
}

/** The one time that a secret is shown. onSaved: the person has it, and this page needs it no more. */
export function Secret({ made, onSaved }: { made: MadeKey; onSaved: () => void }) {
  const { apiUrl } = useConfig()
  const heading = useRef<HTMLHeadingElement>(null)
  useEffect(() => heading.current?.focus(), [])
  useHeadingAfter()
  const { key, secret } = made
  useLayoutEffect(() => () => secret.forget(), [secret])
  return (
    <section
      aria-labelledby="secret-title"
      class="flex min-w-0 flex-col gap-4 rounded-control border border-line border-s-4 border-s-ok bg-surface p-4 sm:p-6"
    >
      <div class="flex flex-col gap-1">
        <h2 id="secret-title" ref={heading} tabIndex={-1} class="text-heading font-semibold tracking-tight break-words">
          <bdi>{key.name}</bdi> is created
        </h2>
        <p>Save the secret now: it is shown this once, and the platform cannot show it again.</p>
      </div>
      <dl class="flex flex-col gap-3">
        {[
          { term: 'Key id', value: key.id, what: 'the key id' },
          { term: 'Secret', value: SECRET, what: 'the secret' },
        ].map(({ term, value, what }) => (
          <div key={term} class="min-w-0">
            <dt class="text-note text-soft">{term}</dt>
            <dd class="flex max-w-full items-start gap-2">
              <Filled secret={secret} text={value} />
              <Copy text={() => secret.fill(value)} what={what} />
            </dd>
          </div>
        ))}
      </dl>
      <div>
        <h3 class="mb-1 font-medium">Ready to use</h3>
        {configurationsOf(apiUrl, key).map((configuration, n) => (
          <details key={configuration.name} name="configuration" open={n === 0} class="border-t border-line">
            <summary class="py-2 font-medium">{configuration.name}</summary>
            <div class="flex flex-col gap-3 pb-4">
              {configuration.snippets.map(({ what, place, text }) => (
                <div key={what} class="flex min-w-0 flex-col gap-1">
                  <p class="text-note break-words text-soft">
                    <Coded text={place} />
                  </p>
                  <div class="flex items-start justify-between gap-2 rounded-control bg-sunken py-2 ps-3 pe-2">
                    <Filled secret={secret} text={text} />
                    <Copy text={() => secret.fill(text)} what={what} />
                  </div>
                </div>
              ))}
            </div>
          </details>
        ))}
      </div>
      <div>
        <Button kind="main" onClick={onSaved}>
          I have saved it
        </Button>
      </div>
    </section>
  )
}

/** A text with the secret in it, as long as it is on the page. */
function Filled({ secret, text }: { secret: ShownSecret; text: string }) {
  const element = useRef<HTMLPreElement>(null)
  useLayoutEffect(() => {
    const { current } = element
    if (!current) return
    current.textContent = secret.fill(text)
    return () => {
      current.textContent = ''
    }
  }, [secret, text])
  return <pre ref={element} class="min-w-0 font-mono text-table break-all whitespace-pre-wrap" />
}

/** A sentence with code between backticks. */
function Coded({ text }: { text: string }) {
  return (
    <>
      {text.split('`').map((part, n) =>
        n % 2 === 1 ? (
          <code key={n} class="font-mono">
            {part}
          </code>
        ) : (
          part
        ),
      )}
    </>
  )
}
