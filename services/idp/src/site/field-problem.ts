import { html } from 'hono/html'
import type { Markup } from './answer-page.ts'

/**
 * Why a form was refused. With 400 or 401 its field is to be filled in otherwise; someone who has to wait has typed nothing
 * wrong.
 */
interface FieldProblem {
  status: number
}

/**
 * Attributes of a field that a form was refused for. The page shows the reason under the id `problem`.
 *
 * problem: undefined where there is none, or it is another field's.
 * hint: the id of what describes the field in any case.
 */
export function fieldProblem(problem: FieldProblem | undefined, hint?: string): Markup | '' {
  const describedBy = [...(problem ? ['problem'] : []), ...(hint === undefined ? [] : [hint])].join(' ')
  if (describedBy === '') return ''
  const isInvalid = problem !== undefined && [400, 401].includes(problem.status)
  return html`aria-describedby="${describedBy}" ${isInvalid ? html`aria-invalid="true"` : ''}`
}
