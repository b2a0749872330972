import { slabs } from '@platform/look/slabs'

/** The platform's mark; its name stands beside it or in the label of its link. */
export function Mark({ class: more = 'size-4 text-ink', isPale = false }: { class?: string; isPale?: boolean }) {
  return (
    <svg class={`shrink-0 ${more}`} viewBox="0 0 16 16" aria-hidden="true">
      <path class={isPale ? 'fill-current' : 'fill-accent'} d={slabs.upper} />
      <path class="fill-current" d={slabs.lower} />
    </svg>
  )
}
