import { useLocation } from 'preact-iso'
import { useId, useLayoutEffect, useRef, useState } from 'preact/hooks'
import { leaveBy } from '../platform/leaving.ts'
import { counted } from '../words.ts'
import { type Entry, matching, useEntries } from './entries.ts'
import { isPaletteOpen } from './keys.tsx'

/** Of more the list says how many. */
const SHOWN_MAX = 50

const moves: Record<string, (at: number, count: number) => number> = {
  ArrowDown: (at, count) => (at + 1) % count,
  ArrowUp: (at, count) => (at - 1 + count) % count,
  PageDown: (at, count) => Math.min(count - 1, at + 10),
  PageUp: (at) => Math.max(0, at - 10),
}

/** Goes to a page or does something by its name: a combobox with a list, after the ARIA Authoring Practices. */
export function Palette({ segments, signOut }: { segments: readonly string[]; signOut: () => void }) {
  const { route } = useLocation()
  const id = useId()
  const dialog = useRef<HTMLDialogElement>(null)
  const list = useRef<HTMLDivElement>(null)
  const [query, setQuery] = useState('')
  const [at, setAt] = useState(0)
  const found = matching(useEntries(segments, signOut), query)
  const shown = found.slice(0, SHOWN_MAX)
  const chosen = Math.min(at, shown.length - 1)
  // Before the next key is typed.
  useLayoutEffect(() => dialog.current?.showModal(), [])
  useLayoutEffect(() => list.current?.querySelector('[aria-selected=true]')?.scrollIntoView({ block: 'nearest' }))

  const take = ({ to }: Entry): void => {
    dialog.current?.close()
    if ('act' in to) to.act()
    else if (to.isElsewhere) location.assign(to.href)
    else leaveBy(() => route(to.href))
  }
  const onKey = (event: KeyboardEvent): void => {
    const move = moves[event.key]
    const entry = shown[chosen]
    if (event.key === 'Enter' && entry && !event.isComposing) take(entry)
    else if (move && shown.length > 0) setAt(move(chosen, shown.length))
    else return
    event.preventDefault()
  }
  return (
    <dialog
      ref={dialog}
      id="go-to"
      aria-label="Go to a page, or do something"
      onClose={() => dialog.current?.open || (isPaletteOpen.value = false)}
      onClick={({ target }) => target === dialog.current && dialog.current?.close()}
      class="mt-[10dvh] w-[min(36rem,calc(100vw-2rem))] rounded-dialog border border-line bg-surface p-0 text-ink shadow-float backdrop:bg-[oklch(0_0_0/0.4)]"
    >
      <input
        autofocus
        type="text"
        role="combobox"
        aria-label="Page or action"
        aria-expanded={shown.length > 0}
        aria-controls={`${id}-list`}
        aria-autocomplete="list"
        aria-activedescendant={shown.length > 0 ? `${id}-${chosen}` : undefined}
        autocomplete="off"
        spellcheck={false}
        placeholder="Go to a page, or do something"
        class="h-12 w-full border-b border-line bg-surface px-4 text-field text-ink placeholder:text-faint focus-visible:outline-none"
        value={query}
        onInput={({ currentTarget }) => {
          setQuery(currentTarget.value)
          setAt(0)
        }}
        onKeyDown={onKey}
      />
      <div
        ref={list}
        id={`${id}-list`}
        role="listbox"
        aria-label="Pages and actions"
        class="max-h-[60dvh] overflow-y-auto p-2"
      >
        {shown.map((entry, index) => (
          <div
            key={`${entry.word} ${entry.where} ${index}`}
            id={`${id}-${index}`}
            role="option"
            aria-selected={index === chosen}
            class={`flex min-h-9 cursor-pointer items-center justify-between gap-4 rounded-control px-3 py-1.5 pointer-coarse:min-h-11 ${index === chosen ? 'bg-accent-tint text-accent' : ''}`}
            onPointerMove={() => setAt(index)}
            onClick={() => take(entry)}
          >
            <span class="min-w-0 break-words">{entry.word}</span>
            {entry.where !== undefined && (
              <span class="min-w-0 truncate text-note text-soft">
                <bdi>{entry.where}</bdi>
              </span>
            )}
          </div>
        ))}
      </div>
      <p role="status" class="px-4 pb-3 text-note text-soft">
        {shown.length === 0
          ? 'Nothing has this name.'
          : found.length > shown.length
            ? `${counted(found.length - shown.length, 'more', 'more')}: type on to find them`
            : ''}
      </p>
    </dialog>
  )
}
