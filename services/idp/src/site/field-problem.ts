import { html } from 'hono/html'
import type { Markup } from './answer-page.ts'

/**
 * Why a form was refused. With 400 or 401 the field has to be corrected; with other statuses, such as a pause, the input was
 * not wrong.
 */
interface FieldProblem {
  status: number
}

/**
 * Attributes of a field for which a form was refused. The page shows the reason under the id `problem`.
 *
 * problem: undefined if there is none, or if it concerns another field.
 * hint: the id of the element that always describes the field.
 */
export function fieldProblem(problem: FieldProblem | undefined, hint?: string): Markup | '' {
  const describedBy = [...(problem ? ['problem'] : []), ...(hint === undefined ? [] : [hint])].join(' ')
  if (describedBy === '') return ''
  const isInvalid = problem !== undefined && [400, 401].includes(problem.status)
  return html`aria-describedby="${describedBy}" ${isInvalid ? html`aria-invalid="true"` : ''}`
}
