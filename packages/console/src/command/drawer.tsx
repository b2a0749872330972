import { SquareTerminal, X } from 'lucide-preact'
import { signal } from '@preact/signals'
import { useConfig } from '../config.ts'
import { Button } from '../parts/button.tsx'
import { Command } from '../parts/copy.tsx'
import { doneLine, shownLine, type TerminalLine, textOf } from './terminal.ts'

const isOpen = signal(false)

export const toggleDrawer = (): void => {
  isOpen.value = !isOpen.value
}

/** Closes it, and leads back to what opened it. */
function close(): void {
  isOpen.value = false
  const openers = document.querySelectorAll<HTMLElement>('[aria-controls=as-a-command], [popovertarget=account]')
  ;[...openers].find((each) => each.checkVisibility())?.focus()
}

/** Opens and closes the drawer, from the head of every page; where that is narrow, the menu of the account does. */
export function DrawerButton() {
  return (
    <Button
      kind="plain"
      class="max-sm:!hidden"
      aria-expanded={isOpen.value}
      aria-controls="as-a-command"
      title="How a terminal does this"
      onClick={toggleDrawer}
    >
      <SquareTerminal size={16} strokeWidth={1.5} aria-hidden="true" />
      <span class="max-lg:sr-only">As a command</span>
    </Button>
  )
}

function Line({ heading, line }: { heading: string; line: TerminalLine }) {
  const { apiUrl } = useConfig()
  return (
    <div class="flex min-w-0 flex-col gap-1">
      <h3 class="text-note text-soft">{heading}</h3>
      <Command text={textOf(line, apiUrl)} />
    </div>
  )
}

/** How a terminal reads what the page shows, and does what was done on it last. */
export function Drawer() {
  if (!isOpen.value) return null
  const [shown, done] = [shownLine.value, doneLine.value]
  const lines = [shown, done].filter((line) => line !== undefined)
  return (
    <section
      id="as-a-command"
      aria-labelledby="as-a-command-title"
      onKeyDown={(event) => {
        if (event.key !== 'Escape') return
        event.preventDefault()
        close()
      }}
      class="sticky bottom-0 z-10 max-h-[50dvh] overflow-y-auto border-t border-line bg-surface px-4 py-3 shadow-float sm:px-6"
    >
      <div class="mx-auto flex max-w-[75rem] flex-col gap-3">
        <div class="flex items-center justify-between gap-4">
          <h2 id="as-a-command-title" class="font-semibold">
            As a command
          </h2>
          <Button kind="plain" onClick={close}>
            <X size={16} strokeWidth={1.5} aria-hidden="true" /> Close
          </Button>
        </div>
        {lines.length === 0 && <p class="text-soft">This page shows nothing of the platform.</p>}
        {done && <Line heading="What was done last" line={done} />}
        {shown && <Line heading="What this page shows" line={shown} />}
        {lines.some((line) => 'words' in line) && (
          <p class="text-note text-soft">
            <code class="font-mono">platform</code> is the command line; each application’s page says how to get it.
          </p>
        )}
        {lines.some((line) => 'method' in line) && (
          <p class="text-note text-soft">
            <code class="font-mono">$PLATFORM_TOKEN</code> is an access token: of an API key, or of a sign-in.
          </p>
        )}
        {lines.some((line) => 'words' in line && line.isValuePiped) && (
          <p class="text-note text-soft">
            <code class="font-mono">$VALUE</code> is the value, which this page does not show.
          </p>
        )}
      </div>
    </section>
  )
}
