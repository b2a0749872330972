import { ArrowDownToLine, ChevronDown, ChevronUp, CircleAlert, FileText, Search } from 'lucide-preact'
import type { RefObject } from 'preact'
import { Button } from '../parts/button.tsx'
import type { LogLine } from './lines.ts'
import { saveText } from './save-text.ts'
import type { LogViewing } from './viewing.ts'

const icon = { size: 16, strokeWidth: 1.5, 'aria-hidden': 'true' } as const

function FindField<Line extends LogLine>({
  viewing,
  field,
}: {
  viewing: LogViewing<Line>
  field: RefObject<HTMLInputElement>
}) {
  const onKeyDown = (event: KeyboardEvent & { currentTarget: HTMLInputElement }): void => {
    if (event.key === 'Enter') {
      event.preventDefault()
      if (event.shiftKey) viewing.goToPreviousMatch()
      else viewing.goToNextMatch()
    } else if (event.key === 'Escape' && event.currentTarget.value !== '') {
      event.preventDefault()
      event.currentTarget.value = ''
      viewing.find('')
    }
  }
  const words = viewing.noun === 'line' ? 'Find in the log' : `Find in these ${viewing.noun}s`
  return (
    <label class="relative flex min-w-[min(12rem,100%)] grow basis-48 items-center sm:max-w-80">
      <span class="sr-only">{words}</span>
      <Search {...icon} class="pointer-events-none absolute start-2.5 text-soft" />
      <input
        ref={field}
        type="search"
        maxLength={200}
        placeholder={words}
        autocomplete="off"
        spellcheck={false}
        class="h-8 w-full rounded-control border border-edge bg-surface ps-8 pe-2 text-body text-ink placeholder:text-faint pointer-coarse:h-11 pointer-coarse:text-field"
        onInput={(event) => viewing.find(event.currentTarget.value)}
        onKeyDown={onKeyDown}
      />
    </label>
  )
}

/** Finding, following and saving, above the lines of a log. isLive: whether more lines may come. */
export function LogBar<Line extends LogLine>({
  viewing,
  field,
  isLive,
  fileName,
}: {
  viewing: LogViewing<Line>
  field: RefObject<HTMLInputElement>
  isLive: boolean
  fileName: string
}) {
  const { lines, place, search } = viewing
  const noMatch = search.rows.length > 0 ? undefined : `No ${viewing.noun} matches`
  const noError = lines.errorRows.length > 0 ? undefined : isLive ? 'No error so far' : 'The log has no errors'
  return (
    <div class="sticky top-0 z-10 flex flex-wrap items-center gap-2 rounded-t-control border-b border-line bg-surface p-2">
      <FindField viewing={viewing} field={field} />
      {search.pattern && (
        <>
          <span class="min-w-20 text-table text-soft tabular-nums">{viewing.matchesText}</span>
          <Button reason={noMatch} onClick={() => viewing.goToPreviousMatch()}>
            <ChevronUp {...icon} />
            Previous
          </Button>
          <Button reason={noMatch} onClick={() => viewing.goToNextMatch()}>
            <ChevronDown {...icon} />
            Next
          </Button>
        </>
      )}
      <div class="flex flex-wrap gap-2 sm:ms-auto">
        <Button reason={noError} onClick={() => viewing.goToNextError()}>
          <CircleAlert {...icon} />
          Next error
        </Button>
        {isLive && (
          <Button
            aria-pressed={place.isFollowing}
            class={place.isFollowing ? '!border-accent !bg-accent-tint !text-accent' : ''}
            onClick={() => viewing.follow(!place.isFollowing)}
          >
            <ArrowDownToLine {...icon} />
            Follow
          </Button>
        )}
        <Button
          reason={place.size > 0 ? undefined : `There are no ${viewing.noun}s to save`}
          onClick={() => void saveText(lines, fileName)}
        >
          <FileText {...icon} />
          As text
        </Button>
      </div>
    </div>
  )
}
